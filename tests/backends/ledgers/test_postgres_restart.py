"""The PostgreSQL ledger when its server goes away: the call fails, nothing is half done, and it works again after."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from perdure.backends.ledgers.postgres.store import PostgresLedger
from perdure.domain.errors import LedgerError
from perdure.domain.scope import Scope
from tests.contracts.ledgers.ledger_postgres import Server, new_server
from tests.contracts.ledgers.ledger_worker import STORE, USER, add, awaited, entry, episode, settle

psycopg = pytest.importorskip("psycopg")

SOON = 30.0


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = new_server()
    yield server
    server.remove()


def make(server: Server, schema: str) -> PostgresLedger:
    return PostgresLedger(PostgresLedger.Settings(url=server.url(), schema_name=schema, connect_timeout=2))


@awaited
async def test_a_restart_between_calls_is_not_seen(server: Server) -> None:
    ledger = make(server, "between")
    await ledger.open()
    change = add()
    await settle(ledger, change)
    owner = ledger.owner
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(server.start)
    assert len(await ledger.history(change.memory_id)) == 1
    async with ledger.lock(USER, STORE) as held:
        assert not held.stranded
        await settle(ledger, add())
    assert ledger.owner != owner
    await ledger.close()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
@awaited
async def test_a_server_that_goes_away_during_a_call(server: Server, mode: str) -> None:
    ledger = make(server, f"during_{mode}")
    await ledger.open()
    async with ledger.lock(USER):
        await ledger.write([entry(add("User was heard"), "acknowledged")], [episode(id="kept")])
        blocker = psycopg.connect(server.url())
        blocker.execute("SELECT pg_advisory_xact_lock(%s)", [ledger._database._writers])
        under_way = asyncio.create_task(ledger.write([entry(add(), "lost")], [episode(id="lost")]))
        await asyncio.sleep(0.3)
        assert not under_way.done()
        await asyncio.to_thread(server.stop, mode)
        with pytest.raises(LedgerError, match="was undone"):
            await asyncio.wait_for(under_way, SOON)
        blocker.close()
        # While it is away every call says so, and none hangs.
        for call in (ledger.write([entry(add(), "lost")]), ledger.history("m"), ledger.stats(), ledger.scrub()):
            with pytest.raises(LedgerError, match="cannot be reached"):
                await asyncio.wait_for(call, SOON)
        with pytest.raises(LedgerError, match="cannot be reached"):
            await make(server, "new").open()
        await asyncio.to_thread(server.start)
        with pytest.raises(LedgerError, match="the lock of this call"):
            await ledger.write([entry(add(), "lost")])
    async with ledger.lock(USER, STORE) as held:
        assert held.stranded
    async with ledger.lock(Scope()):
        left = await ledger.pending(STORE)
        assert [item.batch_id for item in left] == ["acknowledged"]
        await ledger.applied("acknowledged")
    async with ledger.lock(USER, STORE) as held:
        assert not held.stranded
        await settle(ledger, add("User was heard again"))
    assert [record.new_value for record in await ledger.events_of_scope(USER)] == [
        "User was heard",
        "User was heard again",
    ]
    assert [item.id for item in await ledger.get_episodes(["kept", "lost"])] == ["kept"]
    assert (await ledger.stats())["locks"] == 0
    assert await ledger.check() == []
    await ledger.close()


@awaited
async def test_a_ledger_can_be_closed_and_opened_again_whatever_became_of_its_server(server: Server) -> None:
    ledger = make(server, "closing")
    await ledger.open()
    lock = ledger.lock(USER)
    await lock.__aenter__()
    await asyncio.to_thread(server.stop)
    await asyncio.wait_for(ledger.close(), SOON)
    await lock.__aexit__(None, None, None)
    await asyncio.to_thread(server.start)
    await ledger.open()
    async with asyncio.timeout(SOON), ledger.lock(USER):
        await settle(ledger, add())
    await ledger.close()


@awaited
async def test_a_commit_whose_outcome_nobody_heard_is_told_as_such_and_found_whole(server: Server) -> None:
    ledger = make(server, "doubt")
    await ledger.open()
    # A commit waits for a replica that is not there; it is on this server's disk by then.
    server.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    server.run("SELECT pg_reload_conf()")
    while server.run("SHOW synchronous_standby_names") != [("nobody",)]:
        await asyncio.sleep(0.02)
    async with ledger.lock(USER):
        under_way = asyncio.create_task(ledger.write([entry(add(), "doubtful"), entry(add(), "doubtful")]))
        waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        while not (found := server.run(waiting)):
            assert not under_way.done()
            await asyncio.sleep(0.02)
        server.run("SELECT pg_terminate_backend(%s, 10000)", found[0][0])
        with pytest.raises(LedgerError, match="made whole, or not at all"):
            await asyncio.wait_for(under_way, SOON)
        server.run("ALTER SYSTEM RESET synchronous_standby_names")
        server.run("SELECT pg_reload_conf()")
        while server.run("SHOW synchronous_standby_names") != [("",)]:
            await asyncio.sleep(0.02)
    async with ledger.lock(USER, STORE) as held:
        assert held.stranded
    async with ledger.lock(Scope()):
        assert [item.batch_id for item in await ledger.pending(STORE)] == ["doubtful", "doubtful"]
    await ledger.close()
