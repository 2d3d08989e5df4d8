"""The `faiss` store beyond the contract: its index file, its SQL, what it says of a folder that it cannot use."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from perdure.backends import registry
from perdure.backends.vector_stores.common.filter_clauses import narrow
from perdure.backends.vector_stores.faiss import rows
from perdure.backends.vector_stores.faiss import store as index
from perdure.backends.vector_stores.faiss.rows import GRAMMAR
from perdure.backends.vector_stores.faiss.store import FaissVectorStore
from perdure.backends.vector_stores.sqlite.store import SqliteVectorStore
from perdure.domain.errors import VectorStoreError
from perdure.domain.filter import all_of, eq, parse_filter
from tests.contracts.conftest import DIMENSION, Sync, ids, moment, row, vector

SECRET = "zyzzyva-marzipan"
ALICE = eq("user_id", "alice")


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    found = asyncio.new_event_loop()
    yield found
    found.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "memories"


@pytest.fixture
def store(loop: asyncio.AbstractEventLoop, folder: Path) -> Iterator[Sync]:
    opened = build(loop, folder)
    opened.open()
    opened.create_collection("c", DIMENSION)
    yield opened
    opened.close()


def build(loop: asyncio.AbstractEventLoop, folder: Path, **settings: Any) -> Sync:
    return Sync(FaissVectorStore(FaissVectorStore.Settings(path=folder, **settings)), loop)


def bytes_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.iterdir()) if file.is_file())


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many vectors each search read from the rows."""
    counts: list[int] = []
    real = rows.vectors_after

    def counted(*arguments: Any) -> Any:
        found = real(*arguments)
        counts.append(len(found[0]))
        return found

    monkeypatch.setattr(rows, "vectors_after", counted)
    return counts


# ------------------------------------------------------------------ the index file


def test_a_closed_store_takes_its_index_from_the_file(store: Sync, folder: Path, read: list[int]) -> None:
    store.apply("c", [row(f"r{n}", [1, n]) for n in range(30)])
    store.apply("c", [row("r0", [0, 1])], ["r1"])
    before = store.search("c", vector(1), 99)
    store.close()
    assert [file.name for file in folder.iterdir() if file.suffix == ".faiss"] == ["index-1.faiss"]
    read.clear()
    store.open()
    assert store.search("c", vector(1), 99) == before
    assert read == []
    store.apply("c", [row("new", [2])])
    assert ids(store.search("c", vector(1), 1)) == ["new"]
    assert read == [1], "only what is new is read"


@pytest.mark.parametrize("damage", ["missing", "torn", "other bytes", "nothing", "another version of FAISS"])
def test_an_index_file_that_is_no_good_is_made_anew(store: Sync, folder: Path, read: list[int], damage: str) -> None:
    store.apply("c", [row(f"r{n}", [1, n]) for n in range(30)])
    before = store.search("c", vector(1), 99)
    store.close()
    file = folder / "index-1.faiss"
    whole = file.read_bytes()
    if damage == "missing":
        file.unlink()
    elif damage == "torn":
        file.write_bytes(whole[: len(whole) // 2])
    elif damage == "other bytes":
        file.write_bytes(whole[:-9] + b"\x00" * 9)
    elif damage == "nothing":
        file.write_bytes(b"")
    else:
        head = whole.partition(b"\n")[0].decode()
        old = head.split('"')[-2]
        file.write_bytes(head.replace(old, index._digest(b"what?")).encode() + b"\nwhat?")
    read.clear()
    store.open()
    assert store.search("c", vector(1), 99) == before
    assert read == [30]
    assert store.check("c") == []


def test_an_index_is_made_in_pieces(store: Sync, monkeypatch: pytest.MonkeyPatch, read: list[int]) -> None:
    monkeypatch.setattr(index, "_CHUNK", 10)
    store.apply("c", [row(f"r{n}", [1, n]) for n in range(30)])
    assert len(store.search("c", vector(1), 99)) == 30
    assert read == [10, 10, 10, 0]


def test_an_index_of_other_rows_is_not_believed(store: Sync, folder: Path, tmp_path: Path) -> None:
    """A backup that is put back and goes another way has the same version numbers, and other vectors."""
    store.apply("c", [row("a", [1])])
    store.close()
    shutil.copytree(folder, tmp_path / "backup")
    store.open()
    store.apply("c", [row("b", [1, 0.1])])
    store.search("c", vector(1), 9)
    store.close()
    newer = (folder / "index-1.faiss").read_bytes()
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "backup", folder)
    store.open()
    store.apply("c", [row("c", [1, 0.2])])
    store.search("c", vector(1), 9)
    store.close()
    (folder / "index-1.faiss").write_bytes(newer)
    store.open()
    assert ids(store.search("c", vector(1), 9)) == ["a", "c"]
    assert store.check("c") == []


def test_a_deleted_collection_takes_its_index_file(store: Sync, folder: Path) -> None:
    store.apply("c", [row("a")])
    store.search("c", vector(1), 1)
    store.close()
    store.open()
    assert list(folder.glob("index-*"))
    store.delete_collection("c")
    assert list(folder.glob("index-*")) == []


# ------------------------------------------------------------------ following others


def test_an_index_follows_what_others_take_away(
    store: Sync, loop: asyncio.AbstractEventLoop, folder: Path, monkeypatch: pytest.MonkeyPatch, read: list[int]
) -> None:
    monkeypatch.setattr(index, "_MOST_DEAD", 5)
    other = build(loop, folder)
    other.open()
    store.apply("c", [row(f"r{n:02}", [1, n]) for n in range(40)])
    assert len(other.search("c", vector(1), 99)) == 40
    for n in range(20):
        store.apply("c", [row(f"r{n + 20}", [1, -n]), row("passing", [n])], [f"r{n:02}"])
        store.delete("c", "passing")
        if n % 3 == 0:
            assert sorted(ids(other.search("c", vector(1), 99))) == sorted(ids(store.list("c")))
    assert other.check("c") == store.check("c") == []
    assert sum(read) < 400, "an index reads what is new, not everything again"
    other.close()


def test_an_index_that_missed_too_much_is_made_anew(
    store: Sync, loop: asyncio.AbstractEventLoop, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "_MOST_GONE", 3)
    other = build(loop, folder)
    other.open()
    store.apply("c", [row(f"r{n}", [1, n]) for n in range(9)])
    assert len(other.search("c", vector(1), 99)) == 9
    store.apply("c", [], [f"r{n}" for n in range(6)])
    store.search("c", vector(1), 1)
    store.close()  # forgets which vectors are gone
    with sqlite3.connect(folder / "rows.db") as connection:
        assert connection.execute("SELECT count(*) FROM gone_1").fetchone() == (0,)
    connection.close()
    assert ids(other.search("c", vector(1), 99)) == ["r6", "r7", "r8"]
    other.close()
    store.open()


# ------------------------------------------------------------------ clauses

CLAUSES = {
    "scope": ({"user_id": "alice"}, "r.user_id IN (?)", (b"alice",)),
    "two scopes": (
        {"AND": [{"user_id": "alice"}, {"agent_id": "bot"}]},
        "(r.user_id IN (?) AND r.agent_id IN (?))",
        (b"alice", b"bot"),
    ),
    "another scope": (
        {"field": "user_id", "operator": "nin", "value": ["alice", "bob"]},
        "(r.user_id IS NULL OR r.user_id NOT IN (?, ?))",
        (b"alice", b"bob"),
    ),
    "number": (
        {"field": "n", "operator": "gte", "value": 5},
        "r.n IN (SELECT n FROM spans_7 WHERE path = ? AND value >= ?)",
        (b"number:metadata.n", 5.0),
    ),
    "text": (
        {"field": "memory", "operator": "contains", "value": 'a"%'},
        "instr(r.record, ?) > 0",
        ('a\\"%',),
    ),
}


@pytest.mark.parametrize(("expression", "text", "values"), CLAUSES.values(), ids=CLAUSES)
def test_clauses(expression: dict[str, Any], text: str, values: tuple[object, ...]) -> None:
    clause = narrow(parse_filter(expression), GRAMMAR).clause
    assert clause is not None
    assert (clause.text(7), clause.values) == (text, values)


def test_a_token_is_probed_inside_a_scope_and_looked_up_without_one() -> None:
    inside = narrow(all_of(ALICE, eq("tag", "work")), GRAMMAR).clause
    anywhere = narrow(eq("tag", "work"), GRAMMAR).clause
    either = narrow(parse_filter({"OR": [{"user_id": "alice"}, {"tag": "work"}]}), GRAMMAR).clause
    assert inside and anywhere and either
    assert "EXISTS" in inside.text(1)
    assert "EXISTS" not in anywhere.text(1)
    assert "EXISTS" not in either.text(1)
    assert inside.values == (b"alice", *anywhere.values)


@pytest.mark.parametrize("field", ["user_id", "agent_id", "run_id"])
def test_a_scope_is_read_by_its_index(store: Sync, folder: Path, field: str) -> None:
    clause = narrow(all_of(eq(field, "x"), eq("state", "live")), GRAMMAR).clause
    assert clause is not None
    connection = sqlite3.connect(folder / "rows.db")
    query = f"EXPLAIN QUERY PLAN SELECT r.n FROM rows_1 r WHERE r.bare = 0 AND {clause.text(1)}"
    plan = [line[3] for line in connection.execute(query, clause.values)]
    connection.close()
    assert any(f"rows_1_{field}" in step for step in plan), plan
    assert not any(step.startswith("SCAN") for step in plan), plan


# ------------------------------------------------------------------ folders


def test_a_path_that_is_no_folder(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(VectorStoreError, match="file"):
        build(loop, tmp_path / "file").open()


def test_the_file_of_another_store(loop: asyncio.AbstractEventLoop, folder: Path) -> None:
    other = Sync(SqliteVectorStore(SqliteVectorStore.Settings(path=folder / "rows.db")), loop)
    other.open()
    other.create_collection("c", 3)
    other.close()
    with pytest.raises(VectorStoreError, match="another vector store"):
        build(loop, folder).open()


def test_another_process_that_holds_the_file(store: Sync, loop: asyncio.AbstractEventLoop, folder: Path) -> None:
    hasty = build(loop, folder, timeout=0.1)
    hasty.open()
    holder = sqlite3.connect(folder / "rows.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(VectorStoreError, match="another process.* timeout"):
        hasty.apply("c", [row("a")])
    assert hasty.count("c") == 0, "reading goes on"
    holder.close()
    hasty.apply("c", [row("a")])
    hasty.close()


def test_settings() -> None:
    assert FaissVectorStore.Settings().path == Path("~/.memory/faiss").expanduser()
    with pytest.raises(ValidationError):
        FaissVectorStore.Settings(path=Path("x"), folder="y")  # type: ignore[call-arg]  # wrong on purpose
    assert registry.load("vector_stores", "faiss") is FaissVectorStore


# ------------------------------------------------------------------ care


def test_a_scrub_leaves_nothing_of_what_was_deleted(store: Sync, folder: Path) -> None:
    numbers = np.array([0.123, 0.456, 0.789, 0.1, 0.2, 0.3, 0.4, 0.5], np.float32)
    unit = (numbers / np.linalg.norm(numbers)).astype(np.float32).tobytes()[:8]
    store.apply("c", [row("a", numbers.tolist(), memory=SECRET, user_id=SECRET), row("b")])
    store.search("c", vector(1), 5)
    store.close()
    store.open()
    assert SECRET.encode() in bytes_in(folder)
    assert unit in (folder / "index-1.faiss").read_bytes()
    store.delete("c", "a")
    assert store.scrub() is True
    assert SECRET.encode() not in bytes_in(folder)
    assert unit not in bytes_in(folder)
    store.close()
    assert unit not in bytes_in(folder)
    store.open()
    assert ids(store.search("c", vector(1), 5)) == ["b"]


def test_a_scrub_that_must_wait_is_done_at_close(loop: asyncio.AbstractEventLoop, folder: Path) -> None:
    store = build(loop, folder, scrub_mb=0)
    store.open()
    store.create_collection("c", DIMENSION)
    store.apply("c", [row("a", memory=SECRET), row("b")])
    store.delete("c", "a")
    assert store.scrub() is False
    store.close()
    assert SECRET.encode() not in bytes_in(folder)


DAMAGES = {
    "vectors have no row": "DELETE FROM rows_1 WHERE n = 1",
    "wrongly taken": "UPDATE rows_1 SET bare = 1 WHERE n = 1",
    "not of dimension": "UPDATE vectors_1 SET vector = x'00' WHERE n = 1",
    "tokens have no row": "INSERT INTO tokens_1 VALUES (x'00', 99)",
    "moments have no row": "INSERT INTO spans_1 VALUES (x'00', 1, 99)",
    "of the index are not": "UPDATE vectors_1 SET vector = zeroblob(32) WHERE n = 1",
    "alone": "INSERT INTO vectors_1 SELECT 99, vector FROM vectors_1; INSERT INTO rows_1 "
    "SELECT 99, x'99', created_at, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, record FROM rows_1",
}


@pytest.mark.parametrize(("sentence", "damage"), DAMAGES.items(), ids=DAMAGES)
def test_check_tells_what_disagrees(store: Sync, folder: Path, sentence: str, damage: str) -> None:
    store.apply("c", [row("a", [1], expires_at=moment(9))])
    store.search("c", vector(1), 1)
    assert store.check("c") == []
    with sqlite3.connect(folder / "rows.db") as connection:
        connection.executescript(damage)
    connection.close()
    assert any(sentence in told for told in store.check("c")), store.check("c")
