"""The ledger's migrations make what its tables say."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

from perdure.backends.ledgers.sql import upkeep as _schema
from perdure.backends.ledgers.sql.tables import metadata
from perdure.backends.ledgers.sql.units import HEAD
from perdure.domain.errors import LedgerError
from perdure.domain.memory import new_id
from tests.backends.ledgers.files import make, rows
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


def alembic_config(path: Path) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_schema.MIGRATIONS))
    config.cmd_opts = None
    return config


def migrate(path: Path, way: str, revision: str) -> None:
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config = alembic_config(path)
        config.attributes["connection"] = connection
        getattr(command, way)(config, revision)
    engine.dispose()


@awaited
async def test_the_migrations_make_what_the_tables_say(tmp_path: Path) -> None:
    made, migrated = tmp_path / "made.db", tmp_path / "migrated.db"
    ledger = make(made)
    await ledger.open()
    await ledger.close()
    migrate(migrated, "upgrade", "head")
    assert schema(migrated) == schema(made)
    for table in ("counters", "alembic_version"):
        assert sorted(rows(migrated, f"SELECT * FROM {table}")) == sorted(rows(made, f"SELECT * FROM {table}"))
    upgraded = make(migrated)
    await upgraded.open()
    await settle(upgraded, add())
    await upgraded.close()
    migrate(migrated, "downgrade", "base")
    assert rows(migrated, "SELECT name FROM sqlite_master WHERE type = 'table'") == [("alembic_version",)]
    await upgraded.open()
    await settle(upgraded, add())
    await upgraded.close()
    assert schema(migrated) == schema(made)


def test_nothing_is_left_to_migrate(tmp_path: Path) -> None:
    migrate(tmp_path / "h.db", "upgrade", "head")
    engine = create_engine(f"sqlite:///{tmp_path / 'h.db'}")
    with engine.begin() as connection:
        config = alembic_config(tmp_path / "h.db")
        config.attributes["connection"] = connection
        command.check(config)
        assert _schema.stored_version(connection) == HEAD
    engine.dispose()
    assert "memory_history" in metadata.tables


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
