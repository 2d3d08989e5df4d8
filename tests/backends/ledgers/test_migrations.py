"""The ledger's migrations make what its tables say."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine

from perdure.backends.ledgers import _migrations
from perdure.backends.ledgers._migrations import VERSIONS
from perdure.backends.ledgers.sql.units import HEAD
from perdure.domain.errors import LedgerError
from perdure.domain.memory import new_id
from tests.backends.ledgers.files import make, rows
from tests.contracts.ledgers.ledger_versions import back, up
from tests.contracts.ledgers.ledger_worker import STORE, add, awaited, entry, settle


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some" / "folder" / "history.db"


def schema(path: Path) -> list[tuple]:
    """Tables and indexes by what they are, not by how their SQL is spelled."""
    found: list[tuple] = []
    for kind, name, table in rows(path, "SELECT type, name, tbl_name FROM sqlite_master ORDER BY type, name"):
        found.append((kind, name, table))
        if kind == "table":
            found += rows(path, f"SELECT * FROM pragma_table_info('{name}')")
        else:
            found += rows(path, f"SELECT name, desc, coll, key FROM pragma_index_xinfo('{name}')")
            sql = rows(path, f"SELECT sql FROM sqlite_master WHERE name = '{name}'")[0][0] or ""
            found.append(("where", sql.partition(" WHERE ")[2], "UNIQUE" in sql))
    return found


def migrate(path: Path, way: Callable[[Connection, str], None], version: str) -> None:
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        way(connection, version)
    engine.dispose()


@awaited
async def test_the_migrations_make_what_the_tables_say(tmp_path: Path) -> None:
    made, migrated = tmp_path / "made.db", tmp_path / "migrated.db"
    ledger = make(made)
    await ledger.open()
    await ledger.close()
    migrate(migrated, up, HEAD)
    assert schema(migrated) == schema(made)
    for table in ("counters", "alembic_version"):
        assert sorted(rows(migrated, f"SELECT * FROM {table}")) == sorted(rows(made, f"SELECT * FROM {table}"))
    upgraded = make(migrated)
    await upgraded.open()
    await settle(upgraded, add())
    await upgraded.close()
    migrate(migrated, back, "base")
    assert rows(migrated, "SELECT name FROM sqlite_master WHERE type = 'table'") == [("alembic_version",)]
    await upgraded.open()
    await settle(upgraded, add())
    await upgraded.close()
    assert schema(migrated) == schema(made)


def test_the_newest_migration_is_what_a_ledger_must_be_at() -> None:
    assert list(VERSIONS)[-1] == HEAD
    assert sorted(VERSIONS) == list(VERSIONS)
    folder = Path(_migrations.__file__).parent
    assert {f"{name}.py" for name in VERSIONS.values()} == {file.name for file in folder.glob("v*.py")}


@awaited
async def test_a_ledger_of_a_newer_perdure_is_left_alone(path: Path) -> None:
    ledger = make(path)
    await ledger.open()
    await ledger.close()
    newer = sqlite3.connect(path)
    newer.execute("UPDATE alembic_version SET version_num = '9999'")
    newer.commit()
    newer.close()
    with pytest.raises(LedgerError, match=r"'9999'.*a newer perdure"):
        await ledger.open()
    assert rows(path, "SELECT version_num FROM alembic_version") == [("9999",)]


@awaited
async def test_pending_work_of_an_owner_without_a_file_is_found(path: Path) -> None:
    ledger = make(path)
    await ledger.open()
    await ledger.write([entry(add(), "b")])
    wrong = sqlite3.connect(path)
    wrong.execute("UPDATE journal SET owner = ?", (new_id(),))
    wrong.commit()
    wrong.close()
    assert len(await ledger.pending(STORE)) == 1
    await ledger.close()
