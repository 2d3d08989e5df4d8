"""What the server bears: many clients at once, a scripted language model, and the server killed and started again.

    python benchmarks/service_load.py [--clients 500] [--seconds 60] [--workers 1] [--embedder minilm] [--restarts 2]

Two runs. First `perdure serve` on an empty folder, with a language model that answers after 50 ms; each client is a
user who tells something (one call of the model), searches for it, and so on. Then the same while the server is ended
with SIGTERM and killed with SIGKILL, in turn, and started again. After each, every acknowledged memory is looked for. A
route that does nothing, asked by as many clients in the same run, shows what HTTP costs on this machine. Needs the
extras `server` and `openai`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.service.clients import Tally, bare, drive, lost

DELAY = 0.05
"""Seconds that the model takes for an answer."""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if process.poll() is not None:
            raise SystemExit(f"the process for {url} ended with status {process.returncode}")
        try:
            if httpx.get(url, timeout=5).status_code < 500:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"nothing listens at {url}")


@contextmanager
def model(port: int) -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.service.model", str(port), str(DELAY)]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[1])
    try:
        wait_for(f"http://127.0.0.1:{port}/", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


class Server:
    """`perdure serve` as a process, which can be ended and started again on the same folder and port."""

    def __init__(self, folder: Path, model_url: str, arguments: argparse.Namespace) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = folder / "log.txt"
        serve = ["serve", "--port", str(self.port), "--workers", str(arguments.workers)]
        program = str(Path(sys.executable).with_name("perdure"))
        self._command = [program, "--path", str(folder / "memory"), *serve]
        self._environment = {
            **os.environ,
            "PERDURE_EMBEDDER__PROVIDER": arguments.embedder,
            "PERDURE_LLM__PROVIDER": "openai",
            "PERDURE_LLM__CONFIG__BASE_URL": f"{model_url}/v1",
            "PERDURE_LLM__CONFIG__API_KEY": "none",
        }
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, env=self._environment, stdout=log, stderr=log)
        wait_for(f"{self.url}/readyz", self.process)
        return self.process

    def end(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        self.process.wait(120)


async def restarted(server: Server, arguments: argparse.Namespace) -> Tally:
    """The load while the server goes and comes back."""
    load = asyncio.create_task(drive(server.url, arguments.clients, arguments.seconds, breaks=True))
    for number in range(arguments.restarts):
        await asyncio.sleep(arguments.seconds / (arguments.restarts + 1))
        await asyncio.to_thread(server.end, signal.SIGTERM if number % 2 == 0 else signal.SIGKILL)
        await asyncio.to_thread(server.start)
    return await load


def row(name: str, seconds: list[float], span: float) -> str:
    times = np.array(seconds or [0.0]) * 1000
    p50, p99 = np.percentile(times, [50, 99])
    return f"{name:<34}{len(seconds):>9,}{len(seconds) / span:>9.0f}{p50:>11,.0f}{p99:>11,.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--restarts", type=int, default=2)
    arguments = parser.parse_args()
    span = arguments.seconds
    with tempfile.TemporaryDirectory() as folder, model(free_port()) as model_url:
        plain = asyncio.run(bare(model_url, arguments.clients, min(span, 10)))
        (Path(folder) / "calm").mkdir()
        server = Server(Path(folder) / "calm", model_url, arguments)
        calm = asyncio.run(drive(server.url, arguments.clients, span, breaks=False))
        calm_lost = asyncio.run(lost(server.url, calm.told))
        server.end(signal.SIGTERM)
        status = server.process.returncode
        (Path(folder) / "broken").mkdir()
        server = Server(Path(folder) / "broken", model_url, arguments)
        broken = asyncio.run(restarted(server, arguments))
        broken_lost = asyncio.run(lost(server.url, broken.told))
        server.end(signal.SIGTERM)
    print(f"{arguments.clients} clients, {arguments.workers} workers, {arguments.embedder}, {span:.0f} s each")
    print(f"{'':<34}{'answers':>9}{'/s':>9}{'p50 ms':>11}{'p99 ms':>11}")
    print(row("a route that does nothing", plain, min(span, 10)))
    print(row("add, one call of a model of 50 ms", calm.writes, span))
    print(row("search", calm.reads, span))
    print(row(f"add, with {arguments.restarts} restarts", broken.writes, span))
    print(row(f"search, with {arguments.restarts} restarts", broken.reads, span))
    for name, tally, missing in (("calm", calm, calm_lost), ("restarted", broken, broken_lost)):
        told = sum(map(len, tally.told.values()))
        print(f"{name}: {told:,} acknowledged, {missing} lost, {len(tally.errors)} errors, {tally.refused} refused")
        for text in sorted({*tally.errors})[:10]:
            print(f"    {tally.errors.count(text)} times {text}")
    print(f"SIGTERM ended the server with status {status}")
    return 1 if calm_lost or broken_lost or calm.errors or broken.errors else 0


if __name__ == "__main__":
    sys.exit(main())
