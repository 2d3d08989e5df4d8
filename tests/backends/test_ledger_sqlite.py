"""What is SQLite's own in the ledger: the file, its bytes, its failures, its migrations."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from pydantic import ValidationError
from sqlalchemy import create_engine, event

from perdure.backends.ledgers import _erasure, _schema
from perdure.backends.ledgers._owners import FileOwners
from perdure.backends.ledgers._tables import HEAD, metadata
from perdure.backends.ledgers._unit import _Unit
from perdure.backends.ledgers.base import Remembered
from perdure.backends.ledgers.sqlite import SqliteLedger
from perdure.domain.clock import system_clock
from perdure.domain.errors import LedgerError
from perdure.domain.memory import new_id
from perdure.domain.scope import Scope
from tests.contracts.ledger_worker import STORE, USER, add, awaited, entry, episode, remove, settle, update

SPEC_TABLE = """
CREATE TABLE IF NOT EXISTS memory_history (
id TEXT PRIMARY KEY,
memory_id TEXT NOT NULL,
event TEXT NOT NULL,
old_value TEXT,
new_value TEXT,
timestamp TEXT NOT NULL,
is_deleted INTEGER DEFAULT 0,
user_id TEXT,
agent_id TEXT,
run_id TEXT
);
CREATE INDEX IF NOT EXISTS idx_history_memory_id ON memory_history(memory_id);
CREATE INDEX IF NOT EXISTS idx_history_timestamp ON memory_history(timestamp);
"""
"""Spec 000 §5.1, to the letter."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some" / "folder" / "history.db"


def make(path: Path, **settings: object) -> SqliteLedger:
    return SqliteLedger(SqliteLedger.Settings(path=path, **settings), system_clock)


def rows(path: Path, query: str) -> list[tuple]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


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
    engine = ledger._database._engine
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
        assert seen == [full, normal, normal]
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


@awaited
async def test_u4_erased_text_is_in_no_byte(path: Path) -> None:
    secret = "xylophone-secret-7731"
    ledger = make(path)
    await ledger.open()
    memories, episodes = await fill(ledger, secret)
    assert secret.encode() in bytes_of(path.parent)
    counts = await ledger.erase(memories, episodes, USER)
    assert counts == {"history": 120, "episodes": 40, "journal": 120, "cache": 80}
    assert await ledger.scrub()
    assert secret.encode() not in bytes_of(path.parent)
    assert b"innocent 39" in bytes_of(path.parent)
    await ledger.close()
    assert secret.encode() not in bytes_of(path.parent)


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
        ledger._run(ledger._durably, _erasure.erase, [], ["e1"], None)
        return done

    database.scrub = scrub_and_be_overtaken
    assert await ledger.scrub()
    assert len(rows(path, "SELECT * FROM marks")) == 1
    database.scrub = scrub
    await ledger.close()
    assert rows(path, "SELECT * FROM marks") == []


# ---------------------------------------------------------------------- failures
@awaited
async def test_a_writer_that_waits_too_long_changes_nothing(path: Path) -> None:
    ledger = make(path, busy_timeout=0.2)
    await ledger.open()
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    change = add()
    with pytest.raises(LedgerError, match=r"history\.db was locked by another writer for more than 0\.2 s"):
        await ledger.write([entry(change, "b")], [episode(id="e")])
    with pytest.raises(LedgerError, match="locked"):
        async with ledger.lock(USER):
            pass
    assert await ledger.history(change.memory_id) == [], "readers do not wait"
    blocker.execute("ROLLBACK")
    blocker.close()
    assert (await ledger.stats())["written"] == 0
    await settle(ledger, change)
    assert len(await ledger.history(change.memory_id)) == 1
    await ledger.close()


@awaited
async def test_a_writer_waits_for_another(path: Path) -> None:
    ledger = make(path)
    await ledger.open()
    blocker = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    blocker.execute("BEGIN IMMEDIATE")
    task = asyncio.create_task(ledger.write([entry(add(), "b")]))
    await asyncio.sleep(0.15)
    assert not task.done()
    blocker.execute("COMMIT")
    blocker.close()
    await asyncio.wait_for(task, 20)
    await ledger.close()


@awaited
async def test_a_full_disk_changes_nothing(path: Path) -> None:
    ledger = make(path)
    await ledger.open()
    await settle(ledger, add("kept"))
    engine = ledger._database._engine
    pages = rows(path, "PRAGMA page_count")[0][0]

    @event.listens_for(engine, "begin")
    def limit(connection) -> None:
        connection.connection.driver_connection.execute(f"PRAGMA max_page_count = {room[0]}")

    room = [pages]
    big = [entry(add("x" * 5000), "big") for _ in range(50)]
    with pytest.raises(LedgerError, match="the disk is full; nothing was changed"):
        await ledger.write(big, [episode(id="e")])
    assert (await ledger.stats())["written"] == 0
    assert await ledger.get_episodes(["e"]) == []
    room[0] = pages * 100
    await ledger.write(big, [episode(id="e")])
    room[0] = rows(path, "PRAGMA page_count")[0][0]
    with pytest.raises(LedgerError, match="disk is full"):
        await ledger.applied("big")
    assert (await ledger.stats())["history"] == 1
    assert await ledger.check() == []
    room[0] *= 100
    await ledger.applied("big")
    assert (await ledger.stats())["history"] == 51
    await ledger.close()


@awaited
async def test_a_lock_that_cannot_be_given_back_is_given_back_later(path: Path, caplog) -> None:
    ledger = make(path, busy_timeout=0.1)
    await ledger.open()
    blocker = sqlite3.connect(path, isolation_level=None)
    async with ledger.lock(USER):
        blocker.execute("BEGIN IMMEDIATE")
    assert "given back late" in caplog.text
    blocker.execute("ROLLBACK")
    blocker.close()
    async with ledger.lock(USER):
        assert (await ledger.stats())["locks"] == 1
    assert (await ledger.stats())["locks"] == 0
    await ledger.close()


@awaited
async def test_a_cancelled_write_is_over_when_its_caller_knows(path: Path) -> None:
    ledger = make(path)
    await ledger.open()
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    task = asyncio.create_task(ledger.write([entry(add(), "b")]))
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.sleep(0.05)
    assert not task.done(), "what has begun cannot be stopped, so its caller waits for it"
    blocker.execute("ROLLBACK")
    blocker.close()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await ledger.stats())["written"] == 1
    await ledger.close()


def test_what_has_not_begun_when_its_caller_is_cancelled_never_begins() -> None:
    done: list[str] = []
    unit = _Unit(lambda: done.append("done"))
    assert unit.is_over()
    with pytest.raises(asyncio.CancelledError):
        unit()
    assert done == []


@pytest.mark.parametrize("what", ["file", "owners"])
@awaited
async def test_a_ledger_that_is_removed_while_it_is_open_says_so(path: Path, what: str) -> None:
    ledger = make(path)
    await ledger.open()
    gone = path if what == "file" else path.with_name("history.db.owners") / ledger.owner
    await asyncio.to_thread(gone.unlink)
    with pytest.raises(LedgerError, match="removed or replaced"):
        await ledger.write([entry(add(), "b")])
    await ledger.close()
    await ledger.open()
    await settle(ledger, add())
    await ledger.close()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"this is no database" * 400, "damaged or no SQLite file"),
        (None, "cannot be used"),
    ],
)
@awaited
async def test_what_cannot_be_opened_is_a_ledger_error(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "history.db"
    if content is None:
        (tmp_path / "file").write_text("")
        path = tmp_path / "file" / "history.db"
    else:
        path.write_bytes(content)
    ledger = make(path)
    with pytest.raises(LedgerError, match=message):
        await ledger.open()
    with pytest.raises(LedgerError, match="not open"):
        await ledger.history("x")
    await ledger.close()


@awaited
async def test_a_foreign_history_table_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    foreign = sqlite3.connect(path)
    foreign.executescript(SPEC_TABLE)
    foreign.close()
    with pytest.raises(LedgerError, match="did not make"):
        await make(path).open()
    assert rows(path, "SELECT count(*) FROM pragma_table_info('memory_history')") == [(10,)]


@awaited
async def test_check_finds_what_disagrees(path: Path) -> None:
    ledger = make(path)
    await ledger.open()
    change = add()
    await settle(ledger, change, batch="b")
    await ledger.write([entry(add(), "c"), entry(add(), "c")])
    wrong = sqlite3.connect(path)
    wrong.execute("UPDATE memory_history SET erased = 1, change = '{'")
    wrong.execute("UPDATE journal SET state = 'applied' WHERE sequence = 3")
    wrong.execute("UPDATE counters SET value = 1 WHERE name = 'change'")
    wrong.execute("DELETE FROM counters WHERE name = 'episode'")
    wrong.commit()
    wrong.close()
    assert await ledger.check() == [
        "1 erased history records still hold text",
        "batch c is applied in part: some of its journal entries are only written",
        "1 applied changes have no history record",
        "the counter 'change' stands at 1, but 3 has been given already",
        "the counter 'episode' is missing",
        f"the change of history record {change.id} is not JSON",
    ]
    await ledger.close()


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    pages = len(data) // 4096
    for page in range(pages - 20, pages):
        data[page * 4096 : page * 4096 + 8] = b"\xff" * 8
    path.write_bytes(data)


@awaited
async def test_check_finds_a_damaged_file(path: Path) -> None:
    ledger = make(path)
    await ledger.open()
    await settle(ledger, *(add(f"text {n}" * 50) for n in range(300)))
    await ledger.close()
    damage(path)
    await ledger.open()
    assert any("damaged" in sentence for sentence in await ledger.check())
    await ledger.close()


# ---------------------------------------------------------------------- processes
ROOT = Path(__file__).parents[2]


def run_python(code: str) -> str:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_alembic_is_not_imported_where_the_ledger_is_up_to_date(path: Path) -> None:
    code = (
        "import asyncio, sys; from pathlib import Path; from perdure.backends.ledgers.sqlite import SqliteLedger;"
        "print('sqlalchemy' in sys.modules, end=' ');"
        f"ledger = SqliteLedger(SqliteLedger.Settings(path=Path({str(path)!r})));"
        "asyncio.run(ledger.open()); print('sqlalchemy' in sys.modules, 'alembic' in sys.modules);"
        "asyncio.run(ledger.close())"
    )
    for _ in range(2):
        assert run_python(code) == "False True False"
    behind = sqlite3.connect(path)
    for (name,) in behind.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        behind.execute(f"DELETE FROM {name}" if name == "alembic_version" else f"DROP TABLE {name}")
    behind.commit()
    behind.close()
    assert run_python(code) == "False True True"
    assert run_python(code) == "False True False"


def test_many_processes_may_open_a_new_ledger_at_once(path: Path) -> None:
    code = (
        "import asyncio; from pathlib import Path; from tests.contracts.ledger_worker import *;"
        f"place = Place('sqlite', Path({str(path.parent)!r}));\n"
        "async def main():\n"
        "    async with place.opened() as ledger: await settle(ledger, add())\n"
        "asyncio.run(main())"
    )
    run = [sys.executable, "-c", code]
    workers = [subprocess.Popen(run, stderr=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(6)]
    for worker in workers:
        _, errors = worker.communicate(timeout=120)
        assert (worker.returncode, errors) == (0, "")
    assert rows(path, "SELECT count(*), max(seq) FROM memory_history") == [(6, 6)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_leaves_the_ledger_to_its_parent(path: Path) -> None:
    code = (
        "import asyncio, os, warnings; from pathlib import Path; from tests.contracts.ledger_worker import *;"
        "from perdure.domain.errors import LedgerError; warnings.simplefilter('ignore');\n"
        f"place = Place('sqlite', Path({str(path.parent)!r})); ledger = place.handle()\n"
        "runner = asyncio.Runner(); runner.run(ledger.open())\n"
        "lock = ledger.lock(USER); runner.run(lock.__aenter__())\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try: asyncio.new_event_loop().run_until_complete(ledger.history('x'))\n"
        "    except LedgerError as error: print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0); other = place.handle(); runner.run(other.open())\n"
        "print(runner.run(other.stats())['locks']); runner.run(lock.__aexit__(None, None, None))\n"
        "runner.run(settle(ledger, add())); runner.run(ledger.close()); print(runner.run(other.stats())['history'])\n"
        "runner.run(other.close())"
    )
    lines = run_python(code).split("\n")
    assert re.fullmatch(r"the ledger sqlite:.*history\.db is not open", lines[0])
    assert lines[1:] == ["1", "1"]


@awaited
async def test_a_ledger_that_was_dropped_unclosed_is_dead(path: Path) -> None:
    dropped = make(path)
    await dropped.open()
    await dropped.write([entry(add(), "b")])
    dropped._database.close()  # the file; the owner is left to the garbage collector
    owner = dropped.owner
    del dropped
    gc.collect()
    ledger = make(path)
    await ledger.open()
    assert not ledger._database.owners.alive(owner)
    assert len(await ledger.pending(STORE)) == 1
    await ledger.close()


def test_owners_know_the_living_from_the_dead(tmp_path: Path) -> None:
    one, two, asking = (FileOwners(tmp_path / "owners") for _ in range(3))
    first, second = one.claim(), two.claim()
    (tmp_path / "owners" / "not-an-owner").write_text("")
    assert first != second
    assert asking.alive(first)
    assert one.alive(first)
    assert asking.intact()
    one.release()
    one.release()
    asking.sweep()
    assert not asking.alive(first)
    assert asking.alive(second)
    assert sorted(file.name for file in (tmp_path / "owners").iterdir()) == sorted([second, "not-an-owner"])
    (tmp_path / "owners" / second).unlink()
    assert not two.intact()
    assert not asking.alive(second)
    two.release()


# ---------------------------------------------------------------------- migrations
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
