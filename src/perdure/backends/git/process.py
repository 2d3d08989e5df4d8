"""Run the git binary outside the event loop, confined to its folder, without prompts, with a time limit."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from perdure.domain.errors import VectorStoreError

NO_GIT, FAILED = "no_git", "git_failed"
"""Codes of the errors: there is no git to run; it refuses, breaks or hangs."""
PATIENCE = 60.0
"""Seconds that a command may take; those that speak with a remote may take more."""
GRACE = 2.0
"""Seconds that a command has to clean up after itself when it is ended."""
LEFT_OVER = 600.0
"""Seconds after which a lock may be taken for one of a process that died."""

_KEPT = re.compile(
    r"GIT_(SSH|SSH_COMMAND|SSH_VARIANT|CONFIG_GLOBAL|CONFIG_SYSTEM|CONFIG_NOSYSTEM|CEILING_DIRECTORIES"
    r"|(AUTHOR|COMMITTER)_(NAME|EMAIL)|(SSL|HTTP|PROXY)_\w+)"
)
"""What a user has set for every repository. All else would point to the repository, index or date of somebody else:
whoever runs inside a hook of git has such variables in the environment."""
_ALWAYS = (
    # No hook runs: one may ask, hang, or change what is being committed.
    ("core.hooksPath", os.devnull),
    ("commit.gpgSign", "false"),
    ("core.fsmonitor", "false"),
    ("core.quotePath", "false"),
    ("core.autocrlf", "false"),
    ("core.safecrlf", "false"),
    ("core.fileMode", "false"),
    ("log.showSignature", "false"),
    ("advice.detachedHead", "false"),
)  # fmt: skip
_LOCK = re.compile(r"Unable to create '([^'\n]+\.lock)'")


class Git:
    """Runs git in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def is_there() -> bool:
        """Whether there is a git to run."""
        return shutil.which("git") is not None

    async def __call__(
        self,
        *arguments: str,
        input: bytes = b"",
        env: Mapping[str, str] | None = None,
        settings: Sequence[tuple[str, str]] = (),
        patience: float = PATIENCE,
    ) -> bytes:
        """What a command prints; VectorStoreError where it fails, with its first words, or takes longer than it may.

        Locks that a dead process left over are removed, and the command run again.
        """
        status, out, err = await self.run(*arguments, input=input, env=env, settings=settings, patience=patience)
        while status and self._unlocked(err):
            status, out, err = await self.run(*arguments, input=input, env=env, settings=settings, patience=patience)
        if status:
            raise VectorStoreError(f"git {arguments[0]} failed: {reason(err) or f'status {status}'}", code=FAILED)
        return out

    async def text(self, *arguments: str, input: bytes = b"", env: Mapping[str, str] | None = None) -> str:
        """The same as text, without white space around it."""
        return (await self(*arguments, input=input, env=env)).decode("utf-8", "replace").strip()

    async def run(
        self,
        *arguments: str,
        input: bytes = b"",
        env: Mapping[str, str] | None = None,
        settings: Sequence[tuple[str, str]] = (),
        patience: float = PATIENCE,
    ) -> tuple[int, bytes, str]:
        """Status, output and errors of a command; VectorStoreError where it cannot be run, or takes too long."""
        options = [part for name, value in (*_ALWAYS, *settings) for part in ("-c", f"{name}={value}")]
        literal = () if arguments[0] == "check-ignore" else ("--literal-pathspecs",)  # which it does not know
        try:
            process = await _started(asyncio.create_subprocess_exec(
                "git", "--no-pager", *literal, *options, *arguments,
                cwd=self.folder,
                stdin=asyncio.subprocess.PIPE if input else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**_environment(), **(env or {})},
                start_new_session=True,  # it has no terminal to ask at, and is ended with all that it started
            ))  # fmt: skip
        except (OSError, ValueError) as error:
            missing = isinstance(error, FileNotFoundError) and self.folder.is_dir()
            told = "git is not installed" if missing else f"git could not be run: {type(error).__name__}"
            raise VectorStoreError(told, code=NO_GIT if missing else FAILED) from error
        try:
            async with asyncio.timeout(patience):
                out, err = await process.communicate(input or None)
        except TimeoutError:
            raise VectorStoreError(f"git {arguments[0]} did not end within {patience:g} seconds", code=FAILED) from None
        finally:
            await _end(process)
        return process.returncode or 0, out, err.decode("utf-8", "replace")

    def _unlocked(self, err: str) -> bool:
        """Whether a command failed by a lock that a dead process left over, which is gone now."""
        found = _LOCK.search(err)
        if found is None or "exists" not in err:
            return False
        lock = Path(found[1])
        if not is_left_over(lock, self.folder):
            return False
        try:
            lock.unlink(missing_ok=True)
        except OSError:  # whoever may not remove it must not run the command for ever
            return False
        return True


def is_left_over(lock: Path, folder: Path) -> bool:
    """Whether a lock is old and no git works in its repository; where processes cannot be seen, a day old."""
    try:
        age = time.time() - lock.stat().st_mtime
    except OSError:
        return False
    processes = Path("/proc")
    if not (processes / "self").exists():
        return age > 86_400
    return age > LEFT_OVER and not works_in(folder)


def works_in(folder: Path) -> bool:
    """Whether some git is seen to work in a folder, or around or below it; False where processes cannot be seen."""
    return any(_works_in(process, folder) for process in Path("/proc").glob("[0-9]*"))


def _works_in(process: Path, folder: Path) -> bool:
    """Whether a process is a git that works in a folder, or around or below it, or one that cannot be looked at."""
    try:
        if not (process / "comm").read_text().startswith("git"):
            return False
        place = (process / "cwd").resolve(strict=True)
    except FileNotFoundError:
        return False  # it has ended
    except OSError:
        return True
    return place.is_relative_to(folder) or folder.is_relative_to(place)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or _KEPT.fullmatch(name)}
    ssh = kept.get("GIT_SSH_COMMAND", "ssh -oBatchMode=yes") if "GIT_SSH" not in kept else None
    asking = {"GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS_REQUIRE": "never", "GIT_ASKPASS": "true", "GIT_EDITOR": "true"}
    return {**kept, **asking, "LC_ALL": "C", "GIT_PAGER": "cat"} | ({"GIT_SSH_COMMAND": ssh} if ssh else {})


async def _started(starting: Coroutine[Any, Any, asyncio.subprocess.Process]) -> asyncio.subprocess.Process:
    """The command once it runs; who is cancelled meanwhile ends it.

    asyncio that is cancelled while it starts a command reaps it behind its own watcher's back, which then warns of an
    unknown child.
    """
    task = asyncio.ensure_future(starting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(OSError, ValueError):
            await _end(await task)
        raise


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a command that still runs, with all that it started; politely first, so that it removes its locks."""
    for signal_ in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is not None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal_)
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await process.wait()


def reason(err: str) -> str:
    """The first line of git's errors that says what went wrong, without folders of this machine or secrets."""
    lines = [line.strip() for line in err.splitlines() if line.strip()]
    chosen = next((line for line in lines if line.startswith(("fatal:", "error:", " ! "))), lines[0] if lines else "")
    told = re.sub(r"://[^\s/@']*@", "://", chosen.removeprefix("fatal: ").removeprefix("error: "))
    return re.sub(r"(?<![\w.])/[^\s':]+", "<path>", told)[:300]
