"""What is SQLite's own in the ledger: the file, the table of spec 000 §5, the bytes that erasing leaves."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest
from pydantic import ValidationError
from sqlalchemy import event

from perdure.backends.ledgers.base import Remembered
from perdure.backends.ledgers.sql import upkeep
from perdure.backends.ledgers.sql.units import Transaction
from perdure.backends.ledgers.sqlite import SqliteLedger
from perdure.domain.scope import Scope
from tests.backends.ledgers.files import SPEC_TABLE, make, rows
from tests.contracts.ledgers.ledger_worker import USER, add, awaited, entry, episode, remove, settle, update


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some" / "folder" / "history.db"


# ---------------------------------------------------------------------- the file
@awaited
async def test_file_and_folder_are_their_owners_alone(path: Path) -> None:
    ledger = make(path)
    await ledger.open()
    await settle(ledger, add())
    for file in (path, path.with_name("history.db-wal")):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    await ledger.close()
    assert {file.name for file in path.parent.iterdir()} == {"history.db", "history.db.owners"}
    assert list(path.with_name("history.db.owners").iterdir()) == []


def test_settings_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert SqliteLedger.Settings().path == tmp_path / ".memory" / "history.db"
    assert SqliteLedger.Settings().busy_timeout == 10.0
    for wrong in ({"path": ":memory:"}, {"path": ""}, {"busy_timeout": 0}, {"pth": "x"}):
        with pytest.raises(ValidationError):
            SqliteLedger.Settings(**wrong)


@awaited
async def test_a_symbolic_link_is_the_same_ledger(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real").mkdir()
    one, two = make(tmp_path / "real" / "h.db"), make(tmp_path / "link" / "h.db")
    assert one.identity == two.identity
    await one.open()
    await two.open()
    await one.close()
    await two.close()


@awaited
async def test_acknowledged_writes_are_synchronous_full_and_marks_are_normal(path: Path) -> None:
    ledger = make(path)
    await ledger.open()
    seen: list[str] = []
    engine = ledger._database._opened()
    event.listen(
        engine,
        "commit",
        lambda connection: seen.append(
            connection.connection.driver_connection.execute("PRAGMA synchronous").fetchone()[0]
        ),
    )
    full, normal = 2, 1
    await ledger.write([entry(add(), "b")])
    assert seen == [full]
    await ledger.applied("b")
    assert seen == [full, normal]
    async with ledger.lock(USER):
        assert seen == [full, normal], "tickets have a connection of their own"
        assert ledger._database._plain_writer.execute("PRAGMA synchronous").fetchone() == (normal,)
    await ledger.erase(["m"], [])
    assert seen[-1] == full
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA secure_delete").scalar() == 1
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 10_000
    await ledger.close()


# ---------------------------------------------------------------------- spec 000 §5
@awaited
async def test_memory_history_begins_as_spec_000_has_it(path: Path) -> None:
    ledger = make(path)
    await ledger.open()
    await settle(ledger, add())
    spec = sqlite3.connect(":memory:")
    spec.executescript(SPEC_TABLE)
    wanted = spec.execute("SELECT name, type, dflt_value, pk FROM pragma_table_info('memory_history')").fetchall()
    found = rows(path, "SELECT name, type, dflt_value, pk FROM pragma_table_info('memory_history')")
    assert found[: len(wanted)] == wanted
    for index in ("idx_history_memory_id", "idx_history_timestamp"):
        query = f"SELECT name FROM pragma_index_info('{index}')"
        assert rows(path, query) == spec.execute(query).fetchall()
    spec.close()
    assert rows(path, "SELECT event, new_value, is_deleted, user_id FROM memory_history") == [
        ("ADD", "User likes tea", 0, "ann")
    ]
    await ledger.close()


@pytest.mark.parametrize("name", ["history", "episodes"])
@awaited
async def test_a_scope_is_found_by_an_index(path: Path, name: str) -> None:
    ledger = make(path)
    await ledger.open()
    table = {"history": "memory_history", "episodes": "episodes"}[name]
    for axis in ("user_id", "agent_id", "run_id", "project_id", "team_id", "room_id", "world_id"):
        plan = rows(path, f"EXPLAIN QUERY PLAN SELECT * FROM {table} WHERE {axis} = 'x'")
        assert f"USING INDEX idx_{name}_{axis}" in plan[0][3], plan
    await ledger.close()


# ---------------------------------------------------------------------- bytes
def bytes_of(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


async def fill(ledger: SqliteLedger, secret: str) -> tuple[list[str], list[str]]:
    """Write a secret into every place of the ledger, between other things; the ids of memories and episodes."""
    memories, episodes = [], []
    for number in range(40):
        text = f"{secret} {number} " + "filler " * (number * 40)
        first = add(text, metadata={"note": text})
        second = update(first, f"{text} changed")
        await ledger.write(
            [entry(first, f"b{number}")], [episode(text, id=f"e{number}")], Remembered(f"k{number}", USER, text)
        )
        await ledger.applied(f"b{number}")
        await settle(ledger, second, remove(second))
        await ledger.cache(f"k{number}", Scope(user_id="ann", run_id="r"), text)
        await settle(ledger, add(f"innocent {number} " + "words " * number))
        memories.append(first.memory_id)
        episodes.append(f"e{number}")
    return memories, episodes


@pytest.mark.covers("U4")
@awaited
async def test_erased_text_is_in_no_byte(path: Path) -> None:
    secret = "xylophone-secret-7731"
    ledger = make(path)
    await ledger.open()
    memories, episodes = await fill(ledger, secret)
    assert secret.encode() in bytes_of(path.parent)
    counts = await ledger.erase(memories, episodes, USER)
    told = {"history": 120, "episodes": 40, "journal": 120, "cache": 80}
    assert counts == {**told, **dict.fromkeys(("jobs", "promotions", "sessions", "chains"), 0)}
    assert await ledger.scrub()
    assert secret.encode() not in bytes_of(path.parent)
    assert b"innocent 39" in bytes_of(path.parent)
    await ledger.close()
    assert secret.encode() not in bytes_of(path.parent)


@awaited
async def test_a_scrub_cleans_up_after_others_who_deleted_carelessly(path: Path) -> None:
    secret = "xylophone-secret-7731"
    ledger = make(path)
    await ledger.open()
    await ledger.insert_episodes([episode(f"{secret} {n} " + "words " * 500, id=f"e{n}") for n in range(50)])
    careless = sqlite3.connect(path)
    careless.execute("PRAGMA secure_delete = OFF")
    careless.execute("DELETE FROM episodes")
    careless.commit()
    careless.close()
    assert secret.encode() in bytes_of(path.parent)
    assert await ledger.scrub()
    assert secret.encode() not in bytes_of(path.parent)
    await ledger.close()


@awaited
async def test_a_scrub_that_is_prevented_is_finished_by_the_last_to_close(path: Path) -> None:
    secret = "xylophone-secret-7731"
    ledger, other = make(path), make(path)
    await ledger.open()
    await other.open()
    memories, episodes = await fill(ledger, secret)
    reader = sqlite3.connect(path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM episodes").fetchone()
    await ledger.erase(memories, episodes, USER)
    assert not await ledger.scrub()
    assert secret.encode() in bytes_of(path.parent), "an older state is still being read"
    await ledger.close()
    reader.close()
    await other.close()
    assert secret.encode() not in bytes_of(path.parent)
    assert rows(path, "SELECT * FROM marks") == []


@awaited
async def test_what_is_erased_while_a_scrub_runs_is_scrubbed_again(path: Path) -> None:
    ledger = make(path)
    await ledger.open()
    for number in range(2):
        await ledger.insert_episodes([episode(id=f"e{number}")])
    await ledger.erase([], ["e0"])
    database = ledger._database
    scrub = database.scrub

    def scrub_and_be_overtaken() -> bool:
        done = scrub()
        ledger._change(ledger._durably, lambda on, writer, now: upkeep.erase(Transaction(on, writer, now), [], ["e1"]))
        return done

    database.scrub = scrub_and_be_overtaken
    assert await ledger.scrub()
    assert len(rows(path, "SELECT * FROM marks")) == 1
    database.scrub = scrub
    await ledger.close()
    assert rows(path, "SELECT * FROM marks") == []
