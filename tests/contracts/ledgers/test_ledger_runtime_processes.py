"""The contract of ledgers: the runtime tables among several processes, one of which is killed."""

from __future__ import annotations

import asyncio
import time

import pytest

from perdure.backends.ledgers.base import Ledger
from perdure.domain.clock import system_clock
from perdure.domain.runtime import CacheEntry, LogEntry, Relationship, Task
from tests.contracts.ledgers.ledger_runtime import ROUNDS, everything, make, worker
from tests.contracts.ledgers.ledger_worker import Place, awaited
from tests.contracts.ledgers.test_ledgers_locks import line_of

pytestmark = pytest.mark.covers("C17", "Z41")

SOON = 20.0
"""Seconds after which something that should happen at once has failed; the machine may be busy."""


async def together(place: Place, action: str) -> list[list[str]]:
    """What two processes say that begin at once."""
    workers = [worker(place, action) for _ in range(2)]
    for each in workers:
        assert await asyncio.to_thread(line_of, each) == "ready"
    for each in workers:
        each.stdin.write("go\n")
        each.stdin.flush()
    said = []
    for each in workers:
        out, _ = await asyncio.to_thread(each.communicate)
        assert each.returncode == 0
        lines = out.split()
        assert lines.pop() == "idle"
        said.append(lines[1::2])
    return said


@pytest.mark.covers("C17")
@awaited
async def test_of_two_processes_that_keep_the_same_one_does(place: Place) -> None:
    async with place.opened() as ledger:
        said = await together(place, "write")
        assert sorted(int(number) for lines in said for number in lines) == list(range(ROUNDS))
        assert len(await everything(ledger, Relationship)) == ROUNDS
        assert len(await everything(ledger, LogEntry)) == 2 * ROUNDS
        (cached,) = await everything(ledger, CacheEntry)
        assert cached.value["again"] == [ROUNDS - 1] * 3
        assert await ledger.check() == []


@pytest.mark.covers("Z41")
@awaited
async def test_of_two_processes_one_does_each_task(place: Place) -> None:
    async with place.opened() as ledger:
        await ledger.runtime.add([make(Task, id=f"t{n}", due_at=n % 5) for n in range(30)])
        said = await together(place, "work")
        assert sorted(id for lines in said for id in lines) == sorted(f"t{n}" for n in range(30))
        assert {task.completed_at for task in await everything(ledger, Task)} == {11}


async def until_free(ledger: Ledger) -> Task | None:
    """The task, once the ledger has seen that the killed process is gone."""
    end = time.monotonic() + SOON
    while (task := await ledger.runtime.take("bot", "t1", 10)) is None and time.monotonic() < end:
        await asyncio.sleep(0.01)
    return task


@pytest.mark.covers("Z41")
@awaited
async def test_a_task_that_a_killed_process_had_is_done_by_another(place: Place) -> None:
    place.now = system_clock()
    async with place.opened() as ledger:
        await ledger.runtime.add([make(Task)])
        holder = worker(place, "hold")
        assert await asyncio.to_thread(line_of, holder) == "held"
        assert await ledger.runtime.take("bot", "t1", 10) is None
        holder.kill()
        holder.communicate()
        assert await until_free(ledger) == make(Task)
