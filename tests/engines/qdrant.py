"""A Qdrant server for tests: `qdrant_rest` as a process of its own, with its data in a folder."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

STARTING = 120
"""Seconds in which a server must have started."""


class Server:
    """One server on a loopback port; what it answered outlives a kill."""

    def __init__(self, folder: Path, *, key: str | None = None, version: str | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = 0
        self._environment = dict(os.environ)
        if key is not None:
            self._environment["PERDURE_TEST_QDRANT_KEY"] = key
        if version is not None:
            self._environment["PERDURE_TEST_QDRANT_VERSION"] = version
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start and wait until it listens; a server that ran before gets its port again."""
        self._process = process = subprocess.Popen(
            [sys.executable, "-m", "tests.engines.qdrant_rest", str(self.folder), str(self.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            env=self._environment,
        )
        assert process.stdout
        ready, _, _ = select.select([process.stdout], [], [], STARTING)
        line = process.stdout.readline() if ready else ""
        if not line:
            self.kill()
            raise RuntimeError("Qdrant's test server did not start")
        self.port = int(line)

    def stop(self) -> None:
        """End it; does nothing if it does not run."""
        self._end(kill=False)

    def kill(self) -> None:
        """End it at once."""
        self._end(kill=True)

    def _end(self, *, kill: bool) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if kill:
            process.kill()
        assert process.stdin
        assert process.stdout
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
