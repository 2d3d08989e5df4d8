"""The contract of ledgers: a ledger that the first migration's code wrote opens with all it holds, and has a desk."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import Connection, MetaData, create_engine, insert, inspect, select, text

from perdure.backends.ledgers.base import Ledger
from perdure.backends.ledgers.sql.tables import metadata
from perdure.backends.ledgers.sql.units import HEAD
from perdure.domain.errors import LedgerError
from tests.contracts.ledgers.ledger_desk import KINDS, ids_taken, job, numbers
from tests.contracts.ledgers.ledger_versions import back, up
from tests.contracts.ledgers.ledger_worker import STORE, USER, Place, add, awaited, entry, settle, update

WRITTEN = Path(__file__).with_name("ledger_0001.sql")
MEMORY = "00000000-0000-4000-8000-000000000001"
DESK = {"jobs", "api_keys", "promotions", "audit"}


def as_it_was(file: Path) -> None:
    """Make the SQLite file that the first migration's code had made."""
    made = sqlite3.connect(file)
    made.executescript(WRITTEN.read_text(encoding="utf-8"))
    made.close()


def carry_over(file: Path, there: Connection) -> None:
    """Bring the rows of a SQLite file into tables that the first migration has made."""
    engine = create_engine(f"sqlite:///{file}")
    known = MetaData()
    known.reflect(there)
    with engine.connect() as here:
        found = MetaData()
        found.reflect(here)
        assert set(found.tables) == set(known.tables)
        for name, table in found.tables.items():
            if name != "alembic_version":
                there.execute(known.tables[name].delete())
                rows = [dict(row) for row in here.execute(select(table)).mappings()]
                if rows:
                    there.execute(insert(known.tables[name]), rows)
    engine.dispose()


def old_ledger(place: Place) -> Ledger:
    """A handle, not yet open, of a ledger that stands at the first migration."""
    ledger = place.handle()
    if place.provider == "sqlite":
        as_it_was(place.folder / "history.db")
        return ledger
    as_it_was(place.folder / "old.db")
    database = ledger._database
    database.open()
    with database.writing(durable=True) as connection:
        up(connection, "0001")
        carry_over(place.folder / "old.db", connection)
    database.close()
    return ledger


async def at_version(ledger: Ledger) -> tuple[str, set[str]]:
    def look() -> tuple[str, set[str]]:
        with ledger._database.reading() as connection:
            version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
            return version, set(inspect(connection).get_table_names())

    return await asyncio.to_thread(look)


@awaited
async def test_a_ledger_of_0001_is_upgraded_on_opening_and_loses_nothing(place: Place) -> None:
    ledger = old_ledger(place)
    await ledger.open()
    assert await at_version(ledger) == (HEAD, {*metadata.tables, "alembic_version"})
    records = await ledger.history(MEMORY)
    assert [(each.event, each.old_value, each.new_value, each.sequence) for each in records] == [
        ("ADD", None, "User likes tea", 1),
        ("UPDATE", "User likes tea", "User likes coffee", 2),
    ]
    assert [each.id for each in await ledger.get_episodes(["e1", "e3"])] == ["e1", "e3"]
    assert await ledger.remembered("key", USER) == "answer"
    assert await ledger.cached("model", USER) == "value"
    assert await ledger.known_fingerprints(USER, ["f1"]) == {"f1"}
    left = await ledger.pending(STORE)
    assert [(each.batch_id, each.state) for each in left] == [("batch-2", "applied"), ("batch-3", "written")]
    await ledger.applied("batch-3")
    assert (await ledger.stats())["history"] == 3
    assert await ledger.check() == []

    change = update(add(), "User likes cocoa")
    follows = job(change.memory_id)
    await ledger.write([entry(change, "new")], jobs=[follows])
    await ledger.applied("new")
    assert await ids_taken(ledger) == [follows.id]
    assert (await ledger.history_record(change.id)).sequence == 4, "numbers go on"
    assert not await ledger.keys.any()
    await ledger.close()
    await ledger.open()
    assert await numbers(ledger) == (1, 0, 0)
    assert await ledger.check() == []
    await ledger.close()


@awaited
async def test_several_who_open_an_old_ledger_at_once_upgrade_it_once(place: Place) -> None:
    handles = [old_ledger(place), *(place.handle() for _ in range(3))]
    await asyncio.gather(*(handle.open() for handle in handles))
    for handle in handles:
        assert len(await handle.history(MEMORY)) == 2
        await handle.jobs.add([job()])
    assert await numbers(handles[0]) == (4, 0, 0)
    assert await handles[0].check() == []
    for handle in handles:
        await handle.close()


@awaited
async def test_an_upgrade_that_fails_leaves_the_old_ledger_as_it_was(place: Place) -> None:
    ledger = old_ledger(place)
    await asyncio.to_thread(_in_its_way, ledger, "CREATE TABLE audit (what TEXT)")
    with pytest.raises(LedgerError):
        await ledger.open()
    version, tables = await asyncio.to_thread(_as_it_stands, ledger)
    assert (version, tables & DESK) == ("0001", {"audit"})
    await asyncio.to_thread(_in_its_way, ledger, "DROP TABLE audit")
    await ledger.open()
    assert len(await ledger.history(MEMORY)) == 2
    assert await ledger.jobs.take(KINDS, 1) == []
    await ledger.close()


def _in_its_way(ledger: Ledger, statement: str) -> None:
    ledger._database.open()
    with ledger._database.writing(durable=True) as connection:
        connection.execute(text(statement))
    ledger._database.close()


def _as_it_stands(ledger: Ledger) -> tuple[str, set[str]]:
    ledger._database.open()
    with ledger._database.reading() as connection:
        version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
        tables = set(inspect(connection).get_table_names())
    ledger._database.close()
    return version, tables


@awaited
async def test_a_ledger_brought_back_to_0001_is_upgraded_again(place: Place) -> None:
    ledger = place.handle()
    await ledger.open()
    kept = add()
    await settle(ledger, kept)
    await ledger.jobs.add([job()])
    await ledger.close()

    def go_back() -> None:
        ledger._database.open()
        with ledger._database.writing(durable=True) as connection:
            back(connection, "0001")
        ledger._database.close()

    await asyncio.to_thread(go_back)
    version, tables = await asyncio.to_thread(_as_it_stands, ledger)
    assert (version, tables & DESK) == ("0001", set())
    await ledger.open()
    assert len(await ledger.history(kept.memory_id)) == 1
    assert await numbers(ledger) == (0, 0, 0)
    assert await ledger.check() == []
    await ledger.close()
