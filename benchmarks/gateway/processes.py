"""The processes of a benchmark of the gateway: the model's server, what stands before it, and what they take."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

_ROOT = Path(__file__).parents[2]
_PATIENCE = 120.0
"""Seconds that a process may take to start, or to end."""


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    """Return once something answers there."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SystemExit(f"the process for {url} ended with status {process.returncode}")
        try:
            if httpx.get(url, timeout=5).status_code < 500:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise SystemExit(f"nothing listens at {url}")


@contextmanager
def module(name: str, *arguments: str) -> Iterator[str]:
    """Run a module of this folder that listens at the port told first; its address."""
    port = free_port()
    command = [sys.executable, "-m", f"benchmarks.gateway.{name}", str(port), *arguments]
    process = subprocess.Popen(command, cwd=_ROOT)
    try:
        wait_for(f"http://127.0.0.1:{port}/v1/models", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


class Proxy:
    """`perdure proxy` as a process, which can be ended and started again on the same folder and port."""

    def __init__(self, folder: Path, upstream: str, environment: dict[str, str]) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "log.txt"
        where = ["--port", str(self.port), "--openai-base-url", f"{upstream}/v1", "--log-level", "warning"]
        self._command = [*self.program(), "--path", str(folder / "memory"), "proxy", *where]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "PERDURE_"))}
        self._environment = {**kept, **environment}
        self.process = self.start()

    def program(self) -> list[str]:
        """How perdure is called."""
        return [str(Path(sys.executable).with_name("perdure"))]

    def start(self) -> subprocess.Popen[bytes]:
        """Start it, and wait until it is ready."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, cwd=_ROOT, env=self._environment, stdout=log, stderr=log)
        wait_for(f"{self.url}/readyz", self.process)
        return self.process

    def end(self) -> int:
        """SIGTERM; the status that it ended with."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_PATIENCE)

    def kill(self) -> None:
        """Be sure that nothing is left of it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    # ------------------------------------------------------------------ what it takes (Linux)
    def resident(self) -> float:
        """Megabytes of memory in use."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def descriptors(self) -> int:
        """Files and connections that are open."""
        return len(self._open())

    def _open(self) -> list[Path]:
        return list(Path(f"/proc/{self.process.pid}/fd").iterdir())

    def sockets(self) -> int:
        """Connections that are open, and what it listens at."""
        return sum(str(each.readlink()).startswith("socket:") for each in self._open())

    def worked(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def settle(self, seconds: float = 30.0) -> None:
        """Return once it has nothing to do, or after so many seconds."""
        until, before = time.monotonic() + seconds, self.worked()
        while time.monotonic() < until:
            time.sleep(0.25)
            now = self.worked()
            if now - before < 0.02:
                return
            before = now
