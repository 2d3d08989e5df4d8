"""What recall keeps beside rows of the SQLite store: it goes where its row goes, and leaves when its row does."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

from perdure.backends.vector_stores.base import Kept, Point
from perdure.backends.vector_stores.sqlite.store import SqliteVectorStore
from perdure.domain.filter import eq
from perdure.domain.text.terms import key_of

DIMENSION = 4
FIRST, SECOND = "2026-01-01T00:00:00.000000+00:00", "2026-01-02T00:00:00.000000+00:00"
TEA = Kept(b"\x01tea", ("tea", "green"))


def vector(*numbers: float) -> Any:
    return np.array([*numbers, *[0.0] * (DIMENSION - len(numbers))], np.float32)


def row(id: str, memory: str = "green tea", *, kept: Kept | None = TEA, at: str = FIRST, **more: Any) -> Point:
    payload = {"id": id, "memory": memory, "user_id": "ana", "created_at": FIRST, "updated_at": at, **more}
    return Point(id, vector(1.0), payload, kept)


class Rig:
    """A store with one collection, driven from plain tests."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = SqliteVectorStore(SqliteVectorStore.Settings(path=path))
        self.run(self.store.open)
        self.run(self.store.create_collection, "c", DIMENSION)

    def run(self, work: Any, *arguments: Any) -> Any:
        return anyio.run(work, *arguments)

    def apply(self, *points: Point, deletes: tuple[str, ...] = ()) -> None:
        self.run(self.store.apply, "c", points, deletes)

    def kept(self) -> dict[str, bytes | None]:
        found = self.run(self.store.kept_rows, "c", eq("user_id", "ana"))
        return dict(zip(found.ids, found.data, strict=True))

    def words(self, *words: str) -> dict[str, Any]:
        found = self.run(self.store.words, "c", [key_of(word) for word in words])
        return {
            word: vector.tolist() if is_given else None
            for word, vector, is_given in zip(found.texts, found.vectors, found.given, strict=True)
        }


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path / "memories.db")
    yield rig
    rig.run(rig.store.close)


def test_it_is_read_with_its_row_and_the_row_s_vector(rig: Rig) -> None:
    rig.apply(row("a"), row("b", kept=None), Point("c", None, row("c").payload, TEA))
    found = rig.run(rig.store.kept_rows, "c", eq("user_id", "ana"))
    assert (found.ids, found.data) == (["a", "b", "c"], [TEA.data, None, TEA.data])
    assert found.words == [TEA.keys, b"", TEA.keys]
    assert found.vectors.tolist() == [[1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert rig.run(rig.store.kept_rows, "c", eq("user_id", "ben")).ids == []


def test_a_row_that_says_something_else_loses_it(rig: Rig) -> None:
    rig.apply(row("a"))
    rig.apply(row("a", "black tea", kept=None, at=SECOND))
    assert rig.kept() == {"a": None}
    rig.apply(row("a", "black tea", kept=Kept(b"\x01black", ("black", "tea")), at=SECOND))
    assert rig.kept() == {"a": b"\x01black"}


@pytest.mark.parametrize("way", ["recount", "vector", "home"])
def test_a_row_that_says_the_same_keeps_it(rig: Rig, way: str) -> None:
    rig.apply(row("a"))
    if way == "recount":
        rig.run(rig.store.recount, "c", [row("a", kept=None, access_count=3)])
    elif way == "vector":
        rig.run(rig.store.update, "c", "a", vector(0.0, 1.0))
    else:
        rig.apply(row("a", kept=None, agent_id="helper"))
    assert rig.kept() == {"a": TEA.data}


def test_it_goes_with_its_row(rig: Rig) -> None:
    rig.apply(row("a"), row("b"))
    rig.apply(deletes=("a",))
    assert rig.kept() == {"b": TEA.data}
    rig.run(rig.store.reset)
    assert rig.kept() == {}
    assert rig.words("tea") == {}


def test_what_was_made_of_a_row_is_kept_while_the_row_is_the_same(rig: Rig) -> None:
    rig.apply(row("a", kept=None), row("b", kept=None, at=SECOND))
    rig.run(rig.store.keep, "c", {"a": (FIRST, TEA), "b": (FIRST, TEA), "gone": (FIRST, TEA)})
    assert rig.kept() == {"a": TEA.data, "b": None}


def test_a_word_is_there_once_and_gets_its_vector(rig: Rig) -> None:
    rig.apply(row("a"), row("b"))
    assert rig.words("tea", "green", "coffee") == {"tea": None, "green": None}
    rig.run(rig.store.give_words, "c", {"tea": vector(0.0, 1.0), "coffee": vector(1.0)})
    assert rig.words("tea", "green", "coffee") == {"tea": [0, 1, 0, 0], "green": None}


def test_words_that_no_row_has_any_longer_are_scrubbed_out_of_the_bytes(rig: Rig) -> None:
    rig.apply(row("a", kept=Kept(b"\x01", ("tea", "zanzibarite"))), row("b"))
    rig.run(rig.store.give_words, "c", {"zanzibarite": vector(0.25, 0.5, 0.125, 7.0), "tea": vector(1.0)})
    secret = vector(0.25, 0.5, 0.125, 7.0).tobytes()
    rig.apply(deletes=("a",))
    assert rig.run(rig.store.scrub)
    assert rig.words("zanzibarite", "tea", "green") == {"tea": [1, 0, 0, 0], "green": None}
    for file in rig.path.parent.iterdir():
        data = file.read_bytes()
        assert b"zanzibarite" not in data and secret not in data, file


def test_a_check_finds_what_has_no_row_and_words_that_are_missing(rig: Rig) -> None:
    rig.apply(row("a"))
    assert rig.run(rig.store.check, "c") == []
    connection = sqlite3.connect(rig.path)
    connection.execute("INSERT INTO recall_1 VALUES (77, x'01', x'')")
    connection.execute("DELETE FROM words_1 WHERE text = 'green'")
    connection.commit()
    connection.close()
    found = "\n".join(rig.run(rig.store.check, "c"))
    assert "1 entries of the recall index have no row" in found
    assert "1 words of the recall index are not in its table" in found
    assert rig.run(rig.store.scrub), "which is what a repair asks for"
    assert rig.run(rig.store.check, "c") == []
    assert rig.kept() == {"a": None}


def test_a_file_of_the_layout_before_gets_the_tables(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "memories.db")
    rig.apply(row("a", kept=None))
    rig.run(rig.store.close)
    connection = sqlite3.connect(rig.path)
    connection.executescript(
        "DROP TABLE recall_1; DROP TABLE words_1; DROP TABLE word_vectors_1; "
        "UPDATE meta SET value = 1 WHERE key = 'schema'"
    )
    connection.close()
    again = Rig(rig.path)
    assert again.kept() == {"a": None}
    again.run(again.store.keep, "c", {"a": (FIRST, TEA)})
    assert again.kept() == {"a": TEA.data}
    again.run(again.store.close)


def test_a_file_whose_words_had_their_vectors_beside_them_keeps_both(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "memories.db")
    rig.apply(row("a"))
    rig.run(rig.store.close)
    tea = vector(0.0, 1.0)
    connection = sqlite3.connect(rig.path)
    connection.executescript(
        "DROP TABLE word_vectors_1; CREATE TABLE old (word INTEGER PRIMARY KEY, text NOT NULL, vector BLOB); "
        "INSERT INTO old SELECT word, text, NULL FROM words_1; DROP TABLE words_1; ALTER TABLE old RENAME TO words_1; "
        "UPDATE meta SET value = 2 WHERE key = 'schema'"
    )
    connection.execute("UPDATE words_1 SET vector = ? WHERE text = 'tea'", (tea.tobytes(),))
    connection.commit()
    connection.close()
    again = Rig(rig.path)
    assert again.words("tea", "green") == {"tea": [0, 1, 0, 0], "green": None}
    again.run(again.store.give_words, "c", {"tea": vector(1.0), "green": vector(0.0, 0.0, 1.0)})
    assert again.words("tea", "green") == {"tea": [1, 0, 0, 0], "green": [0, 0, 1, 0]}
    assert again.run(again.store.check, "c") == []
    again.run(again.store.close)


def test_a_vector_without_a_word_is_found_and_scrubbed_out(rig: Rig) -> None:
    rig.apply(row("a"))
    rig.run(rig.store.give_words, "c", {"tea": vector(1.0)})
    connection = sqlite3.connect(rig.path)
    connection.execute("INSERT INTO word_vectors_1 VALUES (99, ?)", (vector(1.0).tobytes(),))
    connection.commit()
    connection.close()
    assert any("1 vectors of words have no word" in each for each in rig.run(rig.store.check, "c"))
    assert rig.run(rig.store.scrub)
    assert rig.run(rig.store.check, "c") == []
    assert rig.words("tea") == {"tea": [1, 0, 0, 0]}


def test_surrogates_in_words_are_kept(rig: Rig) -> None:
    rig.apply(row("a", kept=Kept(b"\x01", ("\ud800x",))))
    assert rig.words("\ud800x") == {"\ud800x": None}
