"""The contract of ledgers: jobs and keys among several processes, some of which are killed."""

from __future__ import annotations

import asyncio
import time

import pytest

from perdure.backends.ledgers.base import Ledger
from perdure.domain.clock import system_clock
from perdure.domain.errors import LedgerError
from perdure.domain.scope import Scope
from tests.contracts.ledgers.ledger_desk import KINDS, ids_taken, job, numbers
from tests.contracts.ledgers.ledger_postgres import Server
from tests.contracts.ledgers.ledger_worker import STORE, Place, awaited
from tests.contracts.ledgers.test_ledgers_locks import line_of

pytestmark = pytest.mark.covers("X62")

SOON = 20.0
"""Seconds after which something that should happen at once has failed; the machine may be busy."""


async def set_to_work(place: Place, action: str, *arguments: str) -> list[list[str]]:
    """What two processes say that begin at once, line by line."""
    workers = [place.worker(action, *arguments) for _ in range(2)]
    for worker in workers:
        assert await asyncio.to_thread(line_of, worker) == "ready"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    said = []
    for worker in workers:
        out, _ = await asyncio.to_thread(worker.communicate)
        assert worker.returncode == 0
        lines = [line for line in out.split("\n") if line]
        assert lines.pop() == "idle"
        said.append(lines)
    return said


async def until_dead(ledger: Ledger, before: tuple[int, int, int]) -> None:
    """Wait until the ledger has seen that the killed process is gone, by which a server may be a little late."""
    end = time.monotonic() + SOON
    while await numbers(ledger) == before and time.monotonic() < end:
        await asyncio.sleep(0.01)


@awaited
async def test_two_processes_do_each_job_once_and_one_of_a_memory_at_a_time(place: Place) -> None:
    async with place.opened() as ledger:
        jobs = [job(f"m{n % 7}", KINDS[n % 2]) for n in range(150)]
        await ledger.jobs.add(jobs)
        said = await set_to_work(place, "work", "4")
        done = [id for lines in said for line in lines for id in line.split()[1:]]
        assert sorted(done) == sorted(each.id for each in jobs)
        assert (await ledger.stats())["jobs"] == 0


@awaited
async def test_of_two_who_ask_for_a_name_at_once_one_gets_it(place: Place) -> None:
    async with place.opened() as ledger:
        said = await set_to_work(place, "name", "pk_")
        had = [line.split()[1] for lines in said for line in lines]
        assert sorted(had) == sorted(f"n{number}" for number in range(50))
        assert len(await ledger.keys.list()) == 50


@pytest.mark.covers("X62")
@pytest.mark.parametrize("ending", ["applied", "abandoned"])
@awaited
async def test_what_a_killed_process_had_and_had_written_is_neither_lost_nor_early(place: Place, ending: str) -> None:
    place.now = system_clock()
    async with place.opened() as ledger:
        worker = place.worker("interrupt", "b")
        assert await asyncio.to_thread(line_of, worker) == "interrupted"
        place.now = system_clock()
        assert await ids_taken(ledger) == []
        assert await numbers(ledger) == (0, 1, 0)
        worker.kill()
        worker.communicate()
        await until_dead(ledger, (0, 1, 0))
        assert await ids_taken(ledger) == ["taken"], "what follows the batch waits for it still"
        async with ledger.lock(Scope(), STORE) as held:
            assert held.stranded
            (left,) = await ledger.pending(STORE)
            assert left.batch_id == "b"
            await (ledger.applied("b") if ending == "applied" else ledger.abandon("b"))
        assert await ids_taken(ledger) == (["follows"] if ending == "applied" else [])
        assert await ledger.check() == []


@awaited
async def test_a_taker_who_is_cancelled_takes_nothing_along(place: Place) -> None:
    async with place.opened() as ledger:
        jobs = [job(f"m{n}") for n in range(3)]
        await ledger.jobs.add(jobs)
        for delay in (0.0, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032):
            taking = asyncio.create_task(ids_taken(ledger))
            await asyncio.sleep(delay)
            taking.cancel()
            (ended,) = await asyncio.gather(taking, return_exceptions=True)
            if not isinstance(ended, BaseException):
                await ledger.jobs.give_back(ended, not_before=jobs[0].not_before or "2026-03-01")
            assert await numbers(ledger) == (3, 0, 0)


@awaited
async def test_jobs_of_a_lost_connection_are_the_next_owners(postgres_server: Server, tmp_path) -> None:
    place = Place("postgres", tmp_path)
    async with place.opened() as ledger:
        mine, next_one = job("m1"), job("m2")
        await ledger.jobs.add([mine])
        assert await ids_taken(ledger) == [mine.id]
        before = ledger.owner
        postgres_server.run("SELECT pg_terminate_backend(%s, 10000)", ledger._database.owners._claim.pid)
        await ledger.jobs.add([next_one])
        assert ledger.owner != before
        await ledger.jobs.done([mine.id])
        assert await numbers(ledger) == (2, 0, 0), "others could have taken it meanwhile, so that it is not done"
        assert await ids_taken(ledger) == [mine.id, next_one.id]


@awaited
async def test_a_taker_whose_commit_is_cut_off_takes_nothing_along(postgres_server: Server, tmp_path) -> None:
    from sqlalchemy import event

    place = Place("postgres", tmp_path)
    async with place.opened() as ledger:
        await ledger.jobs.add([job("m1")])
        cuts = ["once"]

        @event.listens_for(ledger._database._engine, "commit")
        def cut(connection) -> None:
            if cuts and not connection.connection.driver_connection.read_only:
                cuts.pop()
                pid = connection.connection.driver_connection.info.backend_pid
                postgres_server.run("SELECT pg_terminate_backend(%s, 10000)", pid)

        with pytest.raises(LedgerError, match="lost"):
            await ids_taken(ledger)
        assert cuts == []
        assert await numbers(ledger) == (1, 0, 0)
