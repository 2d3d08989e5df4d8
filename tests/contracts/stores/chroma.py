"""The `chroma` store in the contract suite: on a server that is started here, and in the process on a folder."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from tests.contracts.stores import Provider

_MEMORY = "/dev/shm"
"""Chroma forces every write to the disk, which these need not survive: twice as fast in memory."""
_START = 60.0
"""Seconds that the server may take to start."""


class ChromaServer:
    """A `chroma run` of the tests' own; `stop` and `start` may be called again."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.folder = tempfile.mkdtemp(prefix="chroma", dir=_MEMORY if Path(_MEMORY).is_dir() else None)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Return once the server answers."""
        program = Path(sys.executable).with_name("chroma")
        self._process = subprocess.Popen(
            [program, "run", "--path", self.folder, "--host", "127.0.0.1", "--port", str(self.port)],
            env={**os.environ, "ANONYMIZED_TELEMETRY": "False"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + _START
        while True:
            try:
                with urlopen(f"http://127.0.0.1:{self.port}/api/v2/heartbeat", timeout=5):
                    return
            except (URLError, OSError):
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the Chroma server did not start") from None
                time.sleep(0.05)

    def stop(self) -> None:
        """End the server; what was written stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        """End the server and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


@cache
def server() -> ChromaServer:
    """The server of this test process."""
    started = ChromaServer()
    atexit.register(started.remove)
    started.start()
    return started


def served(folder: Path) -> dict[str, Any]:
    """A database of the folder's own on the server."""
    name = blake2b(str(folder).encode(), digest_size=10).hexdigest()
    return {"host": "127.0.0.1", "port": server().port, "database": f"test-{name}"}


PROVIDERS = {
    "chroma": Provider(
        "chroma", served, engine="the Chroma 1.5.9 server", server=True, shared=True, atomic=False, examples=12
    ),
    "chroma-path": Provider(
        "chroma", lambda folder: {"path": str(folder / "chroma")}, engine="Chroma 1.5.9", atomic=False, examples=12
    ),
}
