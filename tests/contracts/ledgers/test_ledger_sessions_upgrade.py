"""The contract of ledgers: a ledger at the second migration opens with all it holds, and has sessions and chains."""

from __future__ import annotations

import asyncio

from perdure.backends.ledgers.base import Ledger
from perdure.backends.ledgers.sql.tables import metadata
from perdure.backends.ledgers.sql.units import HEAD
from perdure.domain.access import ApiKey
from tests.contracts.ledgers.ledger_desk import ids_taken, job, numbers
from tests.contracts.ledgers.ledger_versions import back
from tests.contracts.ledgers.ledger_worker import USER, Place, add, at, awaited, settle
from tests.contracts.ledgers.test_ledger_chains import link
from tests.contracts.ledgers.test_ledger_desk_upgrade import _as_it_stands, at_version, old_ledger

SESSIONS = {"sessions", "session_turns", "response_links", "namings"}


def to_version(ledger: Ledger, version: str) -> None:
    """Leave a closed ledger as the code of an earlier version left it."""
    ledger._database.open()
    with ledger._database.writing(durable=True) as connection:
        back(connection, version)
    ledger._database.close()


@awaited
async def test_a_ledger_of_0002_is_upgraded_on_opening_and_loses_nothing(place: Place) -> None:
    ledger = old_ledger(place)
    await ledger.open()
    waits, change = job(), add()
    await settle(ledger, change)
    await ledger.jobs.add([waits])
    await ledger.keys.add(ApiKey(id="k", name="mine", digest="d", hint="pk_"))
    await ledger.sessions.open_turn("s", USER, [], at(1))
    await ledger.close()
    await asyncio.to_thread(to_version, ledger, "0002")
    version, tables = await asyncio.to_thread(_as_it_stands, ledger)
    assert (version, tables & SESSIONS) == ("0002", set()), "so it was left by the second migration's code"

    await ledger.open()
    assert await at_version(ledger) == (HEAD, {*metadata.tables, "alembic_version"})
    assert [each.event for each in await ledger.history(change.memory_id)] == ["ADD"]
    assert [each.name for each in await ledger.keys.list()] == ["mine"]
    assert await numbers(ledger) == (1, 0, 0)
    assert await ids_taken(ledger) == [waits.id]
    assert (await ledger.sessions.open_turn("s", USER, [], at(1))).number == 1
    await ledger.chains.put(link("a"))
    assert await ledger.check() == []
    await ledger.close()


@awaited
async def test_several_who_open_a_ledger_of_0001_at_once_count_in_one(place: Place) -> None:
    handles = [old_ledger(place), *(place.handle() for _ in range(3))]
    await asyncio.gather(*(handle.open() for handle in handles))
    opened = await asyncio.gather(*(handle.sessions.open_turn("s", USER, [], at(1)) for handle in handles))
    assert sorted(each.number for each in opened) == [1, 2, 3, 4]
    assert await handles[0].check() == []
    for handle in handles:
        await handle.close()
