"""The contract of ledgers: a ledger at the third migration opens with all it holds, and has the runtime tables."""

from __future__ import annotations

import asyncio

from perdure.backends.ledgers.sql.records import TABLES
from perdure.backends.ledgers.sql.tables import metadata
from perdure.backends.ledgers.sql.units import HEAD
from perdure.domain.access import ApiKey
from perdure.domain.runtime import Room
from tests.contracts.ledgers.ledger_desk import ids_taken, job
from tests.contracts.ledgers.ledger_runtime import everything, make
from tests.contracts.ledgers.ledger_worker import USER, Place, add, at, awaited, settle
from tests.contracts.ledgers.test_ledger_desk_upgrade import _as_it_stands, at_version, old_ledger
from tests.contracts.ledgers.test_ledger_sessions_upgrade import to_version

RUNTIME = {table.name for table in TABLES.values()}


@awaited
async def test_a_ledger_of_0003_is_upgraded_on_opening_and_loses_nothing(place: Place) -> None:
    ledger = old_ledger(place)
    await ledger.open()
    waits, change = job(), add()
    await settle(ledger, change)
    await ledger.jobs.add([waits])
    await ledger.keys.add(ApiKey(id="k", name="mine", digest="d", hint="pk_"))
    opened = await ledger.sessions.open_turn("s", USER, [], at(1))
    await ledger.runtime.add([make(Room)])
    await ledger.close()
    await asyncio.to_thread(to_version, ledger, "0003")
    version, tables = await asyncio.to_thread(_as_it_stands, ledger)
    assert (version, tables & RUNTIME) == ("0003", set()), "so it was left by the third migration's code"

    await ledger.open()
    assert await at_version(ledger) == (HEAD, {*metadata.tables, "alembic_version"})
    assert [each.event for each in await ledger.history(change.memory_id)] == ["ADD"]
    assert [each.name for each in await ledger.keys.list()] == ["mine"]
    assert await ids_taken(ledger) == [waits.id]
    assert await ledger.sessions.turns(opened.session_id) == [opened]
    assert await everything(ledger, Room) == []
    assert await ledger.runtime.add([make(Room)]) == [True]
    assert await ledger.check() == []
    await ledger.close()


@awaited
async def test_several_who_open_a_ledger_of_0001_at_once_keep_one_record_of_a_key(place: Place) -> None:
    handles = [old_ledger(place), *(place.handle() for _ in range(3))]
    await asyncio.gather(*(handle.open() for handle in handles))
    told = await asyncio.gather(*(handle.runtime.add([make(Room)]) for handle in handles))
    assert sorted(told) == [[False], [False], [False], [True]]
    assert await everything(handles[0], Room) == [make(Room)]
    for handle in handles:
        await handle.close()
