"""What the engines that tests start have in common: where programs are kept, and how their processes are signalled."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "perdure" / "engines"
"""Where engines are kept, outside the checkout; told on import, since tests are given another home."""

ENVIRONMENT = dict(os.environ)
"""The developer's own, likewise."""


class Unavailable(Exception):
    """An engine cannot be had on this machine; says why."""


def kept(path: Path, make: Callable[[Path], None], what: str) -> Path:
    """A path below CACHE, which is made if it is not there; parallel test processes make it once."""
    if path.exists():
        return path
    place = path.relative_to(CACHE).parts[0]
    try:
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / f"{place}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                make(path)
    except OSError as error:
        raise Unavailable(f"no place for {what}: {error}") from error
    return path


def signal_group(process: subprocess.Popen[Any], number: signal.Signals) -> None:
    """Signal the process group that a process was started with, which is its alone."""
    if process.poll() is None:
        os.killpg(process.pid, number)


def _stands_still(group: int) -> bool:
    """Whether every thread of a process group is stopped, as Linux tells it."""
    for status in Path("/proc").glob("[0-9]*/task/*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            state, _, of_group = status.read_text().rpartition(")")[2].split()[:3]
            if int(of_group) == group and state not in "TtZX":
                return False
    return True


class Pausing:
    """A server that can be made to stand still; `_process` leads a group of its own."""

    _process: subprocess.Popen[Any] | None

    def pause(self) -> None:
        """Let it answer nothing until `resume`; on return it stands still, which a signal alone does not promise."""
        assert self._process is not None
        signal_group(self._process, signal.SIGSTOP)
        end = time.monotonic() + 10
        while not _stands_still(self._process.pid) and time.monotonic() < end:
            time.sleep(0.01)

    def resume(self) -> None:
        """Let it answer again."""
        assert self._process is not None
        signal_group(self._process, signal.SIGCONT)
