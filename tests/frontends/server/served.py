"""The real program, serving: started, asked, and told to stop or killed."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.frontends.cli.runs import PROGRAM


@dataclass(frozen=True)
class Served:
    """One running `perdure serve`."""

    process: subprocess.Popen[str]
    told: dict[str, Any]
    """What it printed of itself."""
    client: httpx.Client
    log: Path
    """Where its standard error goes."""

    def stop(self) -> int:
        """Tell it to stop; its status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The lines of its log; what people are told stands there too, and is no JSON."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]


@contextmanager
def served(folder: Path, *options: str, env: dict[str, str] | None = None) -> Iterator[Served]:
    """Run `perdure serve` over a folder on a free port, until it answers; what is left of it at the end is killed."""
    log = folder.parent / f"{folder.name}.{time.monotonic_ns()}.log"
    command = [*PROGRAM, "serve", "--port", "0", "--json", "--path", str(folder), *options]
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env)
    assert process.stdout is not None
    try:
        text = _object(process.stdout)
        assert text, log.read_text()
        told = json.loads(text)
        address = told["url"].replace("0.0.0.0", "127.0.0.1")
        with httpx.Client(base_url=address, timeout=60, verify=False) as client:
            _wait(process, client, log)
            yield Served(process, told, client, log)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        process.stdout.close()


def _object(stream: Any) -> str:
    """The lines of the one object that it prints."""
    lines = []
    for line in stream:
        lines.append(line)
        if line == "}\n":
            break
    return "".join(lines)


def _wait(process: subprocess.Popen[str], client: httpx.Client, log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None, log.read_text()
        try:
            if client.get("/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
