"""The PostgreSQL ledger among processes: first opening, fork, many writers, owners who lose their connection."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import event

from perdure.backends.ledgers.base import Ledger
from perdure.backends.ledgers.sql.ledger import ScopeQueue
from perdure.domain.errors import LedgerError
from perdure.domain.scope import Scope
from tests.contracts.ledgers.ledger_postgres import Server, postgres_server  # noqa: F401 - a fixture
from tests.contracts.ledgers.ledger_worker import STORE, USER, Place, add, awaited, entry, episode, settle

ROOT = Path(__file__).parents[3]
BOB = Scope(user_id="bob")
SOON = 30.0


@pytest.fixture
def server(postgres_server: Server) -> Server:  # noqa: F811
    return postgres_server


@pytest.fixture
def place(server: Server, tmp_path: Path) -> Place:
    return Place("postgres", tmp_path)


def schema_of(ledger: Ledger) -> str:
    return ledger.identity.rpartition("/")[2]


def start(code: str, folder: Path) -> subprocess.Popen[str]:
    head = (
        "import asyncio, logging, os; from pathlib import Path; from tests.contracts.ledgers.ledger_worker import *\n"
        f"logging.disable(); place = Place('postgres', Path({str(folder)!r}))\n"
    )
    run = [sys.executable, "-c", head + code]
    return subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def end_connection_of(server: Server, ledger: Ledger) -> None:
    """End the connection that holds the ledger's locks, as a failing network does."""
    server.run("SELECT pg_terminate_backend(%s, 10000)", ledger._database.owners._claim.pid)


def as_in_another_process(ledger: Ledger) -> None:
    """Let a handle not stand in this process's queue, but in the database's alone."""
    ledger._queue = ScopeQueue()


# ---------------------------------------------------------------------- opening
def test_many_processes_may_open_a_new_ledger_at_once(server: Server, place: Place) -> None:
    code = (
        "async def main():\n    async with place.opened() as ledger: await settle(ledger, add())\nasyncio.run(main())"
    )
    workers = [start(code, place.folder) for _ in range(3)]
    for worker in workers:
        _, errors = worker.communicate(timeout=120)
        assert (worker.returncode, errors) == (0, "")
    schema = schema_of(place.handle())
    assert server.run(f"SELECT count(*), max(seq) FROM {schema}.memory_history") == [(3, 3)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_leaves_the_ledger_to_its_parent(place: Place) -> None:
    code = (
        "import gc, warnings; from perdure.domain.errors import LedgerError; warnings.simplefilter('ignore')\n"
        "ledger = place.handle(); runner = asyncio.Runner(); runner.run(ledger.open())\n"
        "lock = ledger.lock(USER); runner.run(lock.__aenter__())\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try: asyncio.new_event_loop().run_until_complete(ledger.history('x'))\n"
        "    except LedgerError as error: print(str(error)[-11:], flush=True)\n"
        "    asyncio.new_event_loop().run_until_complete(ledger.open())\n"
        "    print(asyncio.new_event_loop().run_until_complete(ledger.stats())['locks'], flush=True)\n"
        "    asyncio.new_event_loop().run_until_complete(ledger.close())\n"
        "    del ledger, lock; gc.collect(); os._exit(0)\n"
        "os.waitpid(child, 0); runner.run(ledger.write([entry(add(), 'b')]))\n"
        "runner.run(lock.__aexit__(None, None, None)); runner.run(ledger.applied('b'))\n"
        "print(runner.run(ledger.stats())['history']); runner.run(ledger.close())"
    )
    worker = start(code, place.folder)
    said, errors = worker.communicate(timeout=60)
    assert (worker.returncode, said.split("\n"), errors) == (0, ["is not open", "1", "1", ""], "")


@awaited
async def test_a_ledger_that_was_dropped_unclosed_is_dead(place: Place) -> None:
    dropped = place.handle()
    await dropped.open()
    await dropped.write([entry(add(), "b")])
    dropped._database.close()  # the pool; the owner is left to the garbage collector
    del dropped
    gc.collect()
    async with place.opened() as ledger:
        assert len(await ledger.pending(STORE)) == 1


# ---------------------------------------------------------------------- many writers
def line_of(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    return worker.stdout.readline().strip()


@awaited
async def test_four_processes_write_at_once_and_one_is_killed_in_the_middle(place: Place) -> None:
    async with place.opened() as ledger:
        workers = [place.worker("churn", f"w{number}") for number in range(4)]
        acknowledged = [(await asyncio.to_thread(line_of, worker)).split()[1] for worker in workers]
        await asyncio.sleep(0.5)
        workers[0].kill()
        rest, _ = await asyncio.to_thread(workers[0].communicate)
        told = {0: rest}
        await asyncio.sleep(0.5)
        for number in (1, 2, 3):
            assert workers[number].poll() is None, "the others go on"
            workers[number].kill()
            told[number], _ = await asyncio.to_thread(workers[number].communicate)
        for text in told.values():
            # The last line may have been cut off by the kill.
            acknowledged += [line.split()[1] for line in text.split("\n")[:-1] if line.startswith("written ")]
        assert await ledger.check() == []
        async with ledger.lock(Scope(), STORE):
            left = await ledger.pending(STORE)
            for batch in {item.batch_id: None for item in left}:
                await ledger.applied(batch)
        records = await ledger.events_of_scope(USER, limit=100_000)
        said: dict[str, int] = {}
        for record in records:
            said[record.new_value] = said.get(record.new_value, 0) + 1
        assert set(said.values()) == {3}, "a batch is whole"
        assert {f"User said {batch}" for batch in acknowledged} <= set(said)
        assert [record.sequence for record in records] == sorted({record.sequence for record in records})
        kept = await ledger.get_episodes([f"episode-{batch}" for batch in acknowledged])
        assert [item.content for item in kept] == acknowledged
        assert await ledger.check() == []


def test_a_reader_that_follows_the_sequence_misses_nothing(place: Place) -> None:
    """Numbers become visible in their order, though several connections commit at once."""
    code = (
        "import sys\n"
        "async def main():\n"
        "    async with place.opened() as ledger:\n"
        "        for number in range(40): await ledger.record([add(f'{number}') for _ in range(number % 3 + 1)])\n"
        "asyncio.run(main())"
    )

    async def follow() -> tuple[list[int], list[int]]:
        async with place.opened() as ledger:
            workers = [start(code, place.folder) for _ in range(2)]
            seen: list[int] = []
            running = True
            while running:
                running = any(worker.poll() is None for worker in workers)
                while page := await ledger.events_of_scope(Scope(), 500, seen[-1] if seen else 0):
                    seen += [record.sequence for record in page]
            for worker in workers:
                _, errors = worker.communicate()
                assert (worker.returncode, errors) == (0, "")
            return seen, [record.sequence for record in await ledger.events_of_scope(Scope(), 10_000)]

    seen, all_there_are = asyncio.run(follow())
    assert seen == all_there_are == list(range(1, 159))


# ---------------------------------------------------------------------- a lost connection
@awaited
async def test_a_lock_that_was_lost_is_noticed_before_its_holder_writes(server: Server, place: Place) -> None:
    async with place.opened() as ledger, place.opened() as other:
        as_in_another_process(other)
        first = ledger.owner
        change = add()
        async with ledger.lock(USER):
            await ledger.write([entry(add("acknowledged before"), "before")])
            await asyncio.to_thread(end_connection_of, server, ledger)
            async with asyncio.timeout(SOON), other.lock(USER, STORE) as held:
                assert held.stranded, "its holder counts as dead"
            for attempt in (1, 2):
                with pytest.raises(LedgerError, match="lost, and with it the lock of this call"):
                    await ledger.write([entry(change, "b")], [episode(id=f"e{attempt}")])
            with pytest.raises(LedgerError, match="the lock of this call"):
                await ledger.erase([change.memory_id], [])
            # Another scope's calls go on, as a fresh owner.
            async with ledger.lock(BOB):
                await settle(ledger, add("User is Bob", BOB))
            assert ledger.owner != first
        assert (await other.stats())["written"] == 1
        async with ledger.lock(USER, STORE) as held:
            assert held.stranded
        async with ledger.lock(Scope()):
            assert [item.batch_id for item in await ledger.pending(STORE)] == ["before"]
            await ledger.applied("before")
        async with ledger.lock(USER, STORE) as held:
            assert not held.stranded
            await settle(ledger, change)
        assert (await other.stats())["locks"] == 0


@awaited
async def test_a_lock_is_held_until_the_transaction_of_its_lost_holder_is_over(server: Server, place: Place) -> None:
    """Between the look at the owner's life and the commit nobody takes the owner for dead."""
    async with place.opened() as ledger, place.opened() as other:
        lock = ledger.lock(USER)
        await lock.__aenter__()
        inside, go_on = threading.Event(), threading.Event()

        def slowly(*_given: object) -> None:
            inside.set()
            assert go_on.wait(SOON)

        writing = asyncio.create_task(asyncio.to_thread(ledger._change, ledger._durably, slowly, [USER]))
        assert await asyncio.to_thread(inside.wait, SOON)
        await asyncio.to_thread(end_connection_of, server, ledger)
        with other._database.reading() as connection:
            assert other._database.owners.alive(ledger.owner, connection)
        go_on.set()
        await writing
        with other._database.reading() as connection:
            assert not other._database.owners.alive(ledger.owner, connection)
        await lock.__aexit__(None, None, None)


@awaited
async def test_one_who_waits_for_a_lock_and_loses_the_connection_is_told(server: Server, place: Place) -> None:
    async with place.opened() as holder, place.opened() as ledger:
        as_in_another_process(ledger)
        async with holder.lock(USER):
            waiting = asyncio.create_task(ledger.lock(USER).__aenter__())
            until = time.monotonic() + SOON
            while (await holder.stats())["locks"] < 2:
                assert time.monotonic() < until
                await asyncio.sleep(0.01)
            await asyncio.to_thread(end_connection_of, server, ledger)
            with pytest.raises(LedgerError, match="lost"):
                await asyncio.wait_for(waiting, SOON)
        async with asyncio.timeout(SOON), ledger.lock(USER):
            await settle(ledger, add())
        assert (await holder.stats())["locks"] == 0


@awaited
async def test_every_pooled_connection_may_be_lost(server: Server, place: Place) -> None:
    async with place.opened() as ledger:
        async with ledger.lock(USER):
            server.run(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                "WHERE application_name = 'perdure' AND pid <> %s",
                ledger._database.owners._claim.pid,
            )
            await settle(ledger, add())
        assert (await ledger.stats())["history"] == 1


@awaited
async def test_a_ticket_is_neither_lost_nor_left_behind_when_its_commit_is_cut_off(
    server: Server, place: Place
) -> None:
    async with place.opened() as ledger:
        cuts: list[str] = []

        @event.listens_for(ledger._database._engine, "commit")
        def cut(connection) -> None:
            if cuts:
                cuts.pop()
                server.run(
                    "SELECT pg_terminate_backend(%s, 10000)", connection.connection.driver_connection.info.backend_pid
                )

        cuts.append("while the ticket is drawn")
        async with ledger.lock(USER):
            assert cuts == []
            assert (await ledger.stats())["locks"] == 1
            await settle(ledger, add())
            cuts.append("while the ticket is given back")
        assert cuts == []
        assert (await ledger.stats())["locks"] == 0
        async with asyncio.timeout(SOON), ledger.lock(Scope()):
            await settle(ledger, add())
