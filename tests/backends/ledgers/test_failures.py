"""How the SQLite ledger fails: locked, full, removed, damaged, foreign; never half way."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest
from sqlalchemy import event

from perdure.backends.blocking import _Unit
from perdure.domain.errors import LedgerError, LedgerLockedError
from tests.backends.ledgers.files import SPEC_TABLE, make, rows
from tests.contracts.ledgers.ledger_worker import USER, add, awaited, entry, episode, settle


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some" / "folder" / "history.db"


@awaited
async def test_a_writer_that_waits_too_long_changes_nothing(path: Path) -> None:
    ledger = make(path, busy_timeout=0.2)
    await ledger.open()
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    change = add()
    with pytest.raises(LedgerLockedError, match=r"history\.db was locked by another writer for more than 0\.2 s"):
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
    engine = ledger._database._opened()
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
async def test_a_cancelled_write_is_over_when_its_caller_knows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = make(path)
    await ledger.open()
    has_begun, run = threading.Event(), _Unit.__call__
    monkeypatch.setattr(_Unit, "__call__", lambda unit: (has_begun.set(), run(unit))[1])
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    task = asyncio.create_task(ledger.write([entry(add(), "b")]))
    assert await asyncio.to_thread(has_begun.wait, 60)
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
