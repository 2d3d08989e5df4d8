"""Does the gateway hold out: many users, faults of every kind, nothing lost, and no more memory at the end than before.

    python benchmarks/gateway_soak.py [--minutes 20] [--users 24] [--pause 0.5] [--seed 1] [--search] [--log FILE]

`perdure proxy` stands before a scripted model's server. Users chat, streaming and not. Meanwhile the model's server
answers with errors, refuses, hangs, and breaks off in the middle of answers; clients leave in the middle; the files of
the memory are locked for two seconds; the service that makes vectors fails for two seconds; and in the first third the
proxy is ended with SIGTERM and started again. At the end each message that was acknowledged is looked for in the
ledger: the user's words of each stream that began, and the answer too, as far as it came; each of them once.

Lost turns, requests that failed though the model's server answered them, and connections or tasks that are left over
make the status 1; so does memory that grows by more than one megabyte a minute, in the second half of what the process
lives after the last restart, over ten minutes and more. With --search messages are searched, not facts alone: then what
recall's indexes and SQLite's pages take is not judged: it grows with what is kept, up to bounds (256 and 130 MB) that a
run may not come to. Needs Linux and the extras `server` and `openai`.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.gateway.processes import Proxy, module
from benchmarks.gateway.talkers import Talkers, Tally
from benchmarks.gateway.upstream import ANSWERED, DIMENSIONS

EVERY = 20.0
"""Seconds between two faults of files and vectors, in a long run."""
OUTAGE = 2.0
"""Seconds that files are locked, and that vectors fail; a short run has shorter ones."""
GROWTH = 1.0
"""Megabytes a minute."""
SPARE = 3
"""Connections that pools may hold at the end and did not before; what leaks does so by the hundred."""
PATIENCE = 60.0
"""Seconds in which the process lets go of what its clients left behind."""
JUDGED = 600.0
"""Seconds from which on growth is told from what a process takes to warm up."""
WARM = 0.5
"""Share of a process's life in which it may still grow."""


@dataclass(frozen=True)
class Sample:
    """What the process takes at a moment."""

    at: float
    resident: float
    """Megabytes."""
    indexes: float
    """Megabytes of those that recall's indexes take."""
    pages: float
    """Megabytes of those that SQLite takes."""
    descriptors: int
    tasks: int

    @property
    def others(self) -> float:
        """Megabytes of all else."""
        return self.resident - self.indexes - self.pages


@dataclass
class Report:
    """What came of a run."""

    seconds: float
    tally: Tally
    failed: dict[str, str] = field(default_factory=dict)
    """Requests that failed though the model's server answered, or in another way than it did."""
    lost: list[str] = field(default_factory=list)
    """Acknowledged messages that the ledger does not have, or has twice."""
    samples: list[Sample] = field(default_factory=list)
    """Of the last life of the process."""
    idle: tuple[int, int] = (0, 0)
    """Sockets and tasks before the users came."""
    left: tuple[int, int] = (0, 0)
    """The same when they had gone."""
    restarts: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    status: int = 0
    """With which the process ended."""
    judges: str = "resident"
    """What of a sample may not grow."""

    @property
    def judged(self) -> list[Sample]:
        """The samples of when the process was warm."""
        return self.samples[int(len(self.samples) * WARM) :]

    def slope(self, of: str) -> float:
        """How much of something is taken more in a minute."""
        kept = self.judged
        if len(kept) < 3:
            return 0.0
        minutes = [sample.at / 60 for sample in kept]
        return float(np.polyfit(minutes, [getattr(sample, of) for sample in kept], 1)[0])


class WatchedProxy(Proxy):
    """A proxy that tells how many tasks it has."""

    def __init__(self, folder: Path, upstream: str, *, search: bool) -> None:
        self._tasks = folder / "tasks"
        self._program = [sys.executable, "-m", "benchmarks.gateway.watched", str(self._tasks)]
        settings = {
            "PERDURE_EMBEDDER__PROVIDER": "openai",
            "PERDURE_EMBEDDER__CONFIG__BASE_URL": f"{upstream}/v1",
            "PERDURE_EMBEDDER__CONFIG__API_KEY": "none",
            "PERDURE_EMBEDDER__CONFIG__MODEL": "scripted",
            "PERDURE_EMBEDDER__CONFIG__DIMENSIONS": str(DIMENSIONS),
        }
        if search:
            settings["PERDURE_EPISODES"] = "search"
        super().__init__(folder, upstream, settings)

    def program(self) -> list[str]:
        """The program, watched."""
        return self._program

    def tasks(self) -> int:
        """Tasks of its event loop now."""
        return self._told()[0]

    def _told(self) -> tuple[int, int]:
        """Tasks of its event loop, and bytes of SQLite."""
        self._tasks.unlink(missing_ok=True)
        self.process.send_signal(signal.SIGUSR1)
        until = time.monotonic() + 5
        while time.monotonic() < until:
            if self._tasks.exists():
                tasks, pages = self._tasks.read_text(encoding="ascii").split()
                return int(tasks), int(pages)
            time.sleep(0.01)
        raise SystemExit("the proxy does not tell its tasks")

    def sample(self) -> Sample:
        """What it takes now."""
        tasks, pages = self._told()
        return Sample(time.monotonic(), self.resident(), self.indexes(), pages / 2**20, self.descriptors(), tasks)

    def indexes(self) -> float:
        """Megabytes of recall's indexes, as /metrics tells them."""
        shown = httpx.get(f"{self.url}/metrics", timeout=30).text
        (told,) = re.findall(r"^llm_memory_index_bytes (\S+)$", shown, re.MULTILINE)
        return float(told) / 2**20


@dataclass(frozen=True, kw_only=True)
class Talk:
    """What a run is made of."""

    seconds: float
    users: int
    pause: float
    """Seconds between two requests of a user, on average."""
    seed: int = 1
    search: bool = False
    """Messages are searched, not facts alone."""
    least: int = 0
    """It lasts longer where by then fewer answers have come whole, or none has broken off."""


class Soak:
    """One run."""

    def __init__(self, folder: Path, upstream: str, talk: Talk) -> None:
        self._folder, self._upstream = folder, upstream
        self._seconds, self._is_short = talk.seconds, talk.seconds < 60
        self._proxy = WatchedProxy(folder, upstream, search=talk.search)
        self._talkers = Talkers(self._proxy.url, talk.users, seed=talk.seed, pause=talk.pause, least=talk.least)
        self.report = Report(talk.seconds, self._talkers.tally, judges="others" if talk.search else "resident")

    async def run(self) -> Report:
        """Let users talk and faults happen, then look at what is left; the process is gone afterwards."""
        report = self.report
        try:
            await Talkers(self._proxy.url, 1, seed=0, pause=0.0).talk(1.0)
            report.idle = await self._idle()
            talking = asyncio.create_task(self._talkers.talk(self._seconds))
            await asyncio.gather(talking, self._restarts(), self._faults(), self._watch(talking))
            report.left = await self._left()
            report.status = await asyncio.to_thread(self._proxy.end)
        finally:
            self._proxy.kill()
        self._compare()
        return report

    # ------------------------------------------------------------------ faults
    async def _restarts(self) -> None:
        count = 1 if self._is_short else 3
        for _ in range(count):
            await asyncio.sleep(self._seconds / 3 / count)
            gone = time.monotonic()
            self._talkers.is_away = True
            status = await asyncio.to_thread(self._proxy.end)
            assert status == 0, f"SIGTERM ended it with {status}"
            self.report.samples.clear()
            await asyncio.to_thread(self._proxy.start)
            self._talkers.is_away = False
            self._talkers.until += time.monotonic() - gone
            self.report.restarts += 1

    async def _faults(self) -> None:
        every, outage = (self._seconds / 4, 0.5) if self._is_short else (EVERY, OUTAGE)
        until = time.monotonic() + self._seconds - every
        kinds = (self._locked, self._unembedded)
        while (count := self.report.faults.total()) < len(kinds) or time.monotonic() < until:
            kind = kinds[count % len(kinds)]
            await asyncio.sleep(max(0.0, every - outage))
            await kind(outage)
            self.report.faults[kind.__name__.strip("_")] += 1

    async def _locked(self, outage: float) -> None:
        """No one can write into the memory's files."""

        def hold() -> None:
            files = [self._folder / "memory" / name for name in ("memories.db", "history.db")]
            with closing(sqlite3.connect(files[0], 30)) as first, closing(sqlite3.connect(files[1], 30)) as second:
                first.execute("BEGIN IMMEDIATE")
                second.execute("BEGIN IMMEDIATE")
                time.sleep(outage)

        await asyncio.to_thread(hold)

    async def _unembedded(self, outage: float) -> None:
        """The service that makes vectors fails."""
        async with httpx.AsyncClient() as http:
            await http.post(f"{self._upstream}/failing", json={"seconds": outage})
        await asyncio.sleep(outage)

    # ------------------------------------------------------------------ looks
    async def _idle(self) -> tuple[int, int]:
        """Sockets and tasks when nothing is asked, without connections that are kept for the next request.

        A last request lets pools of connections find out which of theirs have been closed.
        """
        for seed in (-1, -2):
            await asyncio.to_thread(self._proxy.settle)
            async with httpx.AsyncClient() as http:
                await http.get(f"{self._upstream}/drop")
            if seed == -1:
                await Talkers(self._proxy.url, 1, seed=seed, pause=0.1).talk(0.1)
        await asyncio.sleep(0.3)
        return self._proxy.sockets(), self._proxy.tasks()

    async def _left(self) -> tuple[int, int]:
        """The same at the end: what a busy machine has not come to yet is waited for, and what leaks never goes."""
        until = time.monotonic() + PATIENCE
        while True:
            left = await self._idle()
            if time.monotonic() > until or all(
                now <= before + SPARE for now, before in zip(left, self.report.idle, strict=True)
            ):
                return left

    async def _watch(self, talking: asyncio.Task[None]) -> None:
        while not talking.done():
            if not self._talkers.is_away:
                with suppress(httpx.TransportError):  # it is being ended
                    self.report.samples.append(await asyncio.to_thread(self._proxy.sample))
            await asyncio.wait({talking}, timeout=max(0.5, self._seconds / 300))

    def _compare(self) -> None:
        """What was acknowledged, with what the ledger and the model's server say."""
        report, tally = self.report, self._talkers.tally
        with closing(sqlite3.connect(self._folder / "memory" / "history.db")) as ledger:
            kept = Counter((role, text) for role, text in ledger.execute("SELECT role, content FROM episodes"))
        answers = Counter(
            text.partition(" ")[0] for (role, text), n in kept.items() if role == "assistant" for _ in range(n)
        )
        for name, said in {**tally.whole, **tally.begun}.items():
            if kept["user", said] != 1:
                report.lost.append(f"{name}: the user's words are kept {kept['user', said]} times")
            if answers[name] != 1:
                report.lost.append(f"{name}: the answer is kept {answers[name]} times")
        told: dict[str, str] = httpx.get(f"{self._upstream}/told").json()
        report.failed = dict(tally.failed)
        for name in tally.refused:
            if told.get(name) == ANSWERED:
                report.failed[name] = "answered, and the client got nothing"


def faults_of(report: Report) -> list[str]:
    """What must not be, in sentences."""
    found = [f"failed: {name}: {why}" for name, why in sorted(report.failed.items())]
    found += [f"lost: {each}" for each in report.lost]
    for name, before, after in zip(("sockets", "tasks"), report.idle, report.left, strict=True):
        if after > before + SPARE:
            found.append(f"left over: {after} {name} instead of {before}")
    if report.seconds >= JUDGED and report.slope(report.judges) > GROWTH:
        found.append(f"memory grows by {report.slope(report.judges):.2f} MB a minute ({report.judges})")
    if report.status != 0:
        found.append(f"SIGTERM ended it with {report.status}")
    return found


def show(report: Report) -> None:
    """Print what a run came to."""
    tally, samples = report.tally, report.judged
    print(f"{report.seconds / 60:.1f} minutes, {tally.asked:,} requests, {tally.asked / report.seconds:.0f} a second")
    print(f"  whole answers {len(tally.whole):,}, broken off {len(tally.begun):,}, refused {len(tally.refused):,}")
    outages = ", ".join(f"{count} times {name}" for name, count in sorted(report.faults.items()))
    print(f"  restarts {report.restarts}, {outages}")
    print("  memory " + ", ".join(f"{name} {count:,}" for name, count in sorted(tally.statuses.items())))
    p50, p99 = np.percentile(tally.times, [50, 99]) * 1000
    print(f"  head of an answer after {p50:.0f} ms at p50, {p99:.0f} at p99 (the model takes 20)")
    print(f"{'':<14}{'first':>9}{'last':>9}{'most':>9}{'a minute':>10}")
    for name in ("resident", "indexes", "pages", "others", "descriptors", "tasks"):
        values = [getattr(sample, name) for sample in samples]
        print(f"{name:<14}{values[0]:>9.0f}{values[-1]:>9.0f}{max(values):>9.0f}{report.slope(name):>+10.2f}")
    print(
        f"idle: {report.idle[0]} sockets and {report.idle[1]} tasks before, {report.left[0]} and {report.left[1]} after"
    )
    print(f"failed though answered {len(report.failed)}, lost {len(report.lost)}")


def run(talk: Talk, log: Path | None = None) -> Report:
    """One run in a folder of its own; `log` is where the proxy's log is left."""
    with tempfile.TemporaryDirectory() as folder, module("upstream") as upstream:
        soak = Soak(Path(folder), upstream, talk)
        try:
            return asyncio.run(soak.run())
        finally:
            if log is not None:
                log.write_bytes((Path(folder) / "log.txt").read_bytes())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--users", type=int, default=24)
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between two requests of a user, on average")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--search", action="store_true", help="search the messages too, not the facts alone")
    parser.add_argument("--log", type=Path, metavar="FILE", help="where the proxy's log is left")
    given = parser.parse_args()
    talk = Talk(seconds=given.minutes * 60, users=given.users, pause=given.pause, seed=given.seed, search=given.search)
    report = run(talk, given.log)
    show(report)
    faults = faults_of(report)
    for each in faults[:20]:
        print(each)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
