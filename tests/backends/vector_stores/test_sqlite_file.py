"""The file of the SQLite vector store: how it is made, what is said when it cannot be used, what deletion leaves."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from perdure.backends.vector_stores.base import Point
from perdure.backends.vector_stores.sqlite.database import Database
from perdure.backends.vector_stores.sqlite.store import SqliteVectorStore
from perdure.domain.errors import VectorStoreError
from perdure.domain.filter import eq

SECRET = "zyzzyva-marzipan"


def build(path: Path, **settings: Any) -> SqliteVectorStore:
    return SqliteVectorStore(SqliteVectorStore.Settings(path=path, **settings))


def point(id: str, text: str = "User likes tea", user: str = "alice") -> Point:
    vector = np.array([1, 2, 3, 4], np.float32)
    return Point(id, vector, {"id": id, "memory": text, "user_id": user, "metadata": {"note": text}})


@pytest.fixture
def run() -> Iterator[Any]:
    loop = asyncio.new_event_loop()
    yield loop.run_until_complete
    loop.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "folder" / "memories.db"


@pytest.fixture
def store(run: Any, path: Path) -> Iterator[SqliteVectorStore]:
    opened = build(path, busy_timeout=0.3)
    run(opened.open())
    run(opened.create_collection("c", 4))
    yield opened
    run(opened.close())


def database(store: SqliteVectorStore) -> Database:
    return store._database()


def files(path: Path) -> list[Path]:
    return sorted(path.parent.iterdir())


# ------------------------------------------------------------------ making and opening


def test_settings() -> None:
    assert SqliteVectorStore.Settings().path == Path("~/.memory/memories.db").expanduser()
    assert SqliteVectorStore.Settings(path="~/x.db").path == Path.home() / "x.db"
    with pytest.raises(ValidationError):
        SqliteVectorStore.Settings(pathh="x.db")
    with pytest.raises(ValidationError):
        SqliteVectorStore.Settings(busy_timeout=-1)


def test_files_are_private_and_the_log_goes_with_the_last_close(run: Any, path: Path) -> None:
    one, two = build(path), build(path)
    for each in (one, two):
        run(each.open())
    run(one.create_collection("c", 4))
    run(two.apply("c", [point("a")]))
    assert [file.name for file in files(path)] == ["memories.db", "memories.db-shm", "memories.db-wal"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files(path)} == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    run(one.close())
    assert len(files(path)) == 3
    run(two.close())
    assert files(path) == [path]


def test_an_existing_empty_file_is_taken(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    store = build(path)
    run(store.open())
    assert run(store.identity())
    run(store.close())


@pytest.mark.parametrize("name", [":memory:", "file:x?mode=memory", "a b#c%20.db", "ünï'quote\".db", "-wal"])
def test_paths_of_every_kind_are_files(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    store = build(Path(name))
    run(store.open())
    monkeypatch.chdir("/")
    run(store.create_collection("c", 4))
    run(store.apply("c", [point("a")]))
    assert run(store.count("c")) == 1
    run(store.close())
    assert [file.name for file in tmp_path.iterdir()] == [name]
    monkeypatch.chdir(tmp_path)
    assert build(Path(name)).stored_dimension("c") == 4
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_unusable_paths_say_what_to_do(run: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    cases = {
        tmp_path: "folder",
        tmp_path / "file" / "memories.db": "folder that this user can write to",
        Path("/proc/perdure/memories.db"): "folder that this user can write to",
    }
    for path, words in cases.items():
        with pytest.raises(VectorStoreError, match=words) as caught:
            run(build(path).open())
        assert str(path) in str(caught.value)


def test_other_files_are_refused_and_left_alone(run: Any, tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("no database " * 100)
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE things (x)")
    connection.close()
    before = text.read_bytes()
    with pytest.raises(VectorStoreError, match="not an SQLite database"):
        run(build(text).open())
    assert text.read_bytes() == before
    with pytest.raises(VectorStoreError, match="another program"):
        run(build(other).open())
    connection = sqlite3.connect(other)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("things",)]
    connection.close()


def test_a_newer_schema_is_refused(run: Any, store: SqliteVectorStore, path: Path) -> None:
    with database(store).writing() as connection:
        connection.execute("UPDATE meta SET value = 99 WHERE key = 'schema'")
    with pytest.raises(VectorStoreError, match="newer perdure"):
        run(build(path).open())


def test_a_damaged_file_says_so(run: Any, path: Path) -> None:
    store = build(path)
    run(store.open())
    run(store.create_collection("c", 4))
    run(store.apply("c", [point(str(number), "x" * 500) for number in range(500)]))
    run(store.close())
    data = bytearray(path.read_bytes())
    for page in range(2, len(data) // 8192):
        data[page * 8192 : page * 8192 + 400] = os.urandom(400)
    path.write_bytes(data)
    with pytest.raises(VectorStoreError, match=r"damaged: .*doctor --repair"):
        run(store.open())
        run(store.list("c"))
    run(store.close())


def test_two_processes_may_make_the_file_at_once(path: Path) -> None:
    code = (
        "import asyncio, sys; from perdure.backends.vector_stores.sqlite.store import SqliteVectorStore as S\n"
        "async def main():\n"
        "    s = S(S.Settings(path=sys.argv[1])); await s.open(); await s.create_collection('c', 4)\n"
        "    print(await s.identity()); await s.close()\n"
        "asyncio.run(main())"
    )
    workers = [
        subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    names = {worker.communicate()[0] for worker in workers}
    assert [worker.returncode for worker in workers] == [0] * 4
    assert len(names) == 1


# ------------------------------------------------------------------ failing and going on


def test_another_process_that_holds_the_file(run: Any, store: SqliteVectorStore, path: Path) -> None:
    run(store.apply("c", [point("a")]))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    started = time.monotonic()
    with pytest.raises(VectorStoreError, match=r"0\.3 s.*busy_timeout"):
        run(store.apply("c", [point("b")]))
    assert time.monotonic() - started >= 0.25
    assert len(run(store.list("c")).points) == 1, "reading goes on"
    other.execute("ROLLBACK")
    other.close()
    run(store.apply("c", [point("b")]))
    assert run(store.count("c")) == 2


def test_a_full_disk_changes_nothing_and_is_recovered_from(run: Any, store: SqliteVectorStore) -> None:
    run(store.apply("c", [point("a")]))
    with database(store).alone() as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
    batch = [point(str(number), "x" * 2000) for number in range(200)]
    with pytest.raises(VectorStoreError, match="disk is full"):
        run(store.apply("c", batch, ["a"]))
    assert [each.id for each in run(store.list("c")).points] == ["a"]
    assert run(store.check("c")) == []
    with database(store).alone() as connection:
        connection.execute("PRAGMA max_page_count = 1000000")
    run(store.apply("c", batch, ["a"]))
    assert run(store.count("c")) == 200


def test_sync_reaches_the_disk_before_it_returns(
    run: Any, store: SqliteVectorStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    other = build(path.parent / "new" / "memories.db")
    run(other.open())
    run(other.close())
    assert synced == ["new", "folder"], "what lists the new file, and what lists its new folder"
    synced.clear()
    run(store.apply("c", [point("a")]))
    assert synced == []
    run(store.sync())
    assert synced == ["memories.db-wal", "folder"]


def test_nothing_drops_the_locks_of_an_open_store(run: Any, store: SqliteVectorStore, path: Path) -> None:
    """POSIX drops a process's locks on a file when any of its handles on it is closed; other processes would see it."""
    run(store.apply("c", [point("a")]))
    with database(store).alone() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert store.stored_dimension("c") == 4
    run(store.sync())
    other = build(path)
    run(other.open())
    run(other.close())
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=0.1)\n"
        "try: c.execute('PRAGMA journal_mode = DELETE').fetchone(); print('took it away')\n"
        "except sqlite3.OperationalError as e: print(e)"
    )
    said = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "database is locked"


# ------------------------------------------------------------------ scrubbing


def traces(path: Path, *needles: bytes) -> list[str]:
    """The files beside the store, itself included, that hold one of these bytes."""
    return [file.name for file in files(path) if any(needle in file.read_bytes() for needle in needles)]


def secret_point(id: str = "s") -> Point:
    vector = np.array([0.123456, 7.654321, -3.3, 9.87], np.float32)
    payload = {
        "id": id,
        "memory": f"User's word is {SECRET}",
        "user_id": f"user-{SECRET}",
        "metadata": {SECRET: SECRET},
    }
    return Point(id, vector, payload)


NEEDLES = (SECRET.encode(), b"zyzzyva", b"marzipan", bytes(secret_point().vector.tobytes()))  # type: ignore[union-attr]


@pytest.mark.parametrize("way", ["delete", "overwrite", "reset", "delete collection"])
def test_a_scrub_leaves_no_byte_of_what_was_deleted(run: Any, store: SqliteVectorStore, path: Path, way: str) -> None:
    run(store.apply("c", [point(str(number), f"User likes tea {number}") for number in range(300)]))
    run(store.apply("c", [secret_point()]))
    run(store.apply("c", [point(str(number), f"User likes cocoa {number}") for number in range(200, 500)]))
    assert traces(path, *NEEDLES)
    if way == "delete":
        run(store.delete("c", "s"))
    elif way == "overwrite":
        run(store.apply("c", [point("s")]))
    elif way == "reset":
        run(store.reset())
    else:
        run(store.delete_collection("c"))
    assert run(store.scrub()) is True
    assert traces(path, *NEEDLES) == []
    run(store.close())
    assert traces(path, *NEEDLES) == []
    run(store.open())
    with database(store).reading() as connection:
        assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)
    if way in ("delete", "overwrite"):
        assert run(store.count("c", eq("user_id", "alice"))) == 500 + (way == "overwrite")
        assert len(run(store.keyword_search("c", "cocoa", 999))) == 300
        assert run(store.keyword_search("c", SECRET, 9)) == []
        assert len(run(store.search("c", np.ones(4, np.float32), 999, eq("user_id", "alice")))) == 500 + (
            way == "overwrite"
        )
        assert run(store.check("c")) == []


def test_a_scrub_that_another_process_prevents_is_done_by_a_close(
    run: Any, store: SqliteVectorStore, path: Path
) -> None:
    run(store.apply("c", [point("a"), secret_point()]))
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM rows_1").fetchone()
    run(store.delete("c", "s"))
    assert run(store.scrub()) is False
    assert traces(path, *NEEDLES)
    run(store.close())
    assert traces(path, *NEEDLES), "the other process still reads"
    reader.close()
    later = build(path)
    run(later.open())
    assert [each.id for each in run(later.list("c")).points] == ["a"]
    run(later.close())
    assert traces(path, *NEEDLES) == []


def test_a_scrub_that_a_writer_prevents(run: Any, store: SqliteVectorStore, path: Path) -> None:
    run(store.apply("c", [secret_point()]))
    run(store.delete("c", "s"))
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    assert run(store.scrub()) is False
    writer.close()
    run(store.close())
    assert traces(path, *NEEDLES) == []


def scrub_is_begun(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT count(*) FROM meta WHERE key = 'scrub'").fetchone()[0] > 0


def test_a_kill_in_the_middle_of_a_scrub(run: Any, store: SqliteVectorStore, path: Path) -> None:
    run(store.apply("c", [point(str(number), f"User likes tea {number} " * 20) for number in range(2000)]))
    run(store.apply("c", [secret_point()]))
    run(store.delete("c", "s"))
    code = (
        "import asyncio, sys; from perdure.backends.vector_stores.sqlite.store import SqliteVectorStore as S\n"
        "async def main():\n"
        "    s = S(S.Settings(path=sys.argv[1])); await s.open(); print('ready', flush=True)\n"
        "    while True: await s.scrub()\n"
        "asyncio.run(main())"
    )
    delay = 0.01
    # A kill before a scrub has begun leaves nothing to finish, however slow the machine is.
    while delay < 0.2 or (traces(path, *NEEDLES) and not scrub_is_begun(path)):
        worker = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
        assert worker.stdout
        worker.stdout.readline()
        time.sleep(delay)
        delay *= 2
        worker.kill()
        worker.communicate()
        assert run(store.check("c")) == []
        assert run(store.count("c")) == 2000
        assert len(run(store.keyword_search("c", "tea", 9999))) == 2000
    run(store.close())
    assert traces(path, *NEEDLES) == []


# ------------------------------------------------------------------ checking

TAMPERINGS = {
    "no entry in the full-text index": "DELETE FROM text_1_docsize WHERE id = (SELECT min(id) FROM text_1_docsize)",
    "full-text index have no row": "INSERT INTO text_1 (rowid, memory) VALUES (7, 'ghost')",
    "vectors have no row": "INSERT INTO vectors_1 (n, vector) VALUES (7, x'00')",
    "wrongly taken to have a vector": "UPDATE rows_1 SET bare = 1 - bare",
    "vectors are not of dimension": "UPDATE vectors_1 SET vector = x'0000'",
    "under a home that does not exist": "UPDATE rows_1 SET home = 99 WHERE id = 'a'",
    "home of another scope": "UPDATE homes_1 SET value = 'mallory' WHERE value = 'alice'",
    "give a number twice": "UPDATE homes_1 SET next = 0",
    "count their rows wrongly": "UPDATE homes_1 SET count = count + 1",
    "sequence number below": "INSERT INTO gone_1 (home, seq, n) SELECT home, seq + 1, 0 FROM homes_1",
}


@pytest.mark.parametrize(("words", "statement"), TAMPERINGS.items(), ids=TAMPERINGS)
def test_check_tells_what_disagrees(run: Any, store: SqliteVectorStore, words: str, statement: str) -> None:
    run(store.apply("c", [point("a"), point("b", user="bob"), Point("n", None, {"memory": "no scope"})]))
    assert run(store.check("c")) == []
    with database(store).alone() as connection:
        connection.execute(statement)
    found = run(store.check("c"))
    assert any(words in sentence for sentence in found), found
    assert all("'c'" in sentence for sentence in found)
    assert run(store.check("c")) == found, "check only reads"
