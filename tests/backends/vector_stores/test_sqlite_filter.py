"""Filters as SQL: values are bound, scopes and hashes are found by an index, and each row is read as it stands."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.backends.vector_stores.base import Point
from perdure.backends.vector_stores.sqlite.database import (
    COLUMNS,
    SELECTED,
    STORED,
    _read,
    find_collection,
    read_payload,
    to_record,
    write,
)
from perdure.backends.vector_stores.sqlite.read import parts_of, translate
from perdure.backends.vector_stores.sqlite.store import SqliteVectorStore
from perdure.domain.filter import Filter, all_of, eq, parse_filter
from perdure.domain.memory import MemoryItem, Slots, text_hash
from perdure.domain.scope import SCOPE_FIELDS, Scope
from perdure.domain.text.terms import index_text, query_words, stem
from tests.contracts import strategies

TIME = "2026-01-01T00:00:00.000000+00:00"


def item(id: str = "a", **scope: str) -> MemoryItem:
    return MemoryItem(
        id=id, memory="User likes tea", hash=text_hash("x"), scope=Scope(**(scope or {"user_id": "alice"})),
        created_at=TIME, updated_at=TIME, told_at=TIME, valid_from=TIME, metadata={"tag": "x"}, sources=("s",),
        slots=Slots("user", "likes", "tea"),
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteVectorStore]:
    opened = SqliteVectorStore(SqliteVectorStore.Settings(path=tmp_path / "m.db"))
    asyncio.run(opened.open())
    asyncio.run(opened.create_collection("c", 2))
    yield opened
    asyncio.run(opened.close())


@given(filters=strategies.filters())
def test_nothing_of_a_value_gets_into_the_sql(filters: Filter) -> None:
    sql = translate(filters)
    assert set(re.findall(r"'[^']*'", sql.text)) <= {"''", "'text'", "'blob'", "'array'"}
    assert sql.text.count("?") == len(sql.values)
    assert sql.text.isascii()


@given(filters=strategies.filters())
def test_a_filter_travels_as_text_unchanged(filters: Filter) -> None:
    again = _read(write(filters))
    assert again == filters
    assert repr(again) == repr(filters), "1, 1.0 and True are equal but not the same"


@given(payload=strategies.payloads())
def test_a_payload_comes_back_from_its_columns(payload: dict[str, Any]) -> None:
    record = to_record(Point("a", None, payload), 2)
    columns = dict(zip(STORED, (0, 0, *record.columns), strict=True))
    row = [columns[name.strip().removeprefix("r.")] for name in SELECTED.split(",")]
    assert repr(read_payload(row)) != ""
    assert read_payload(row) == payload
    assert {name: type(value) for name, value in read_payload(row).items()} == {
        name: type(value) for name, value in payload.items()
    }


def test_what_the_engine_writes_is_even_and_kept_once() -> None:
    payload = item().to_payload()
    record = to_record(Point("a", np.ones(2, np.float32), payload), 2)
    columns = dict(zip(STORED, (0, 0, *record.columns), strict=True))
    assert columns["odd"] == 0
    for name in (*COLUMNS, "memory", "metadata", "id"):
        assert f'"{name}"' not in columns["payload"]


@pytest.mark.parametrize(
    "change",
    [
        {"id": "other"},
        {"created_at": "2026-01-01"},
        {"expires_at": 5},
        {"kind": ["facts"]},
        {"memory": None, "type": 1},
    ],
    ids=str,
)
def test_what_columns_cannot_say_is_odd(change: dict[str, Any]) -> None:
    record = to_record(Point("a", None, item().to_payload() | change), 2)
    assert dict(zip(STORED, (0, 0, *record.columns), strict=True))["odd"] == 1


# ------------------------------------------------------------------ the ways in


def plan(connection: sqlite3.Connection, store: SqliteVectorStore, filters: Filter, tail: str = "") -> str:
    """How SQLite would find the rows of each part."""
    collection = find_collection(connection, "c")
    steps = []
    for part in parts_of(connection, collection, filters):
        rows = connection.execute(
            f"EXPLAIN QUERY PLAN SELECT r.n FROM rows_1 r WHERE {part.where.text} {tail}", part.where.values
        )
        steps += [row[3] for row in rows]
    return "; ".join(steps)


def test_every_axis_of_scope_is_found_by_an_index(store: SqliteVectorStore) -> None:
    axes = {name: f"{name}-value" for name in SCOPE_FIELDS}
    asyncio.run(store.apply("c", [Point("all", None, {"id": "all", **axes})]))
    asyncio.run(store.apply("c", [Point(name, None, {"id": name, name: value}) for name, value in axes.items()]))
    with store._database().reading() as connection:
        for name, value in axes.items():
            steps = plan(connection, store, eq(name, value), "ORDER BY r.created_at, r.id")
            assert "SCAN" not in steps
            assert "TEMP B-TREE" not in steps
            assert f"rows_1_{'home' if name == 'user_id' else name}" in steps
    for name, value in axes.items():
        found = asyncio.run(store.list("c", eq(name, value)))
        assert {point.id for point in found.points} == {"all", name}


def test_the_finest_axis_finds_strangers(store: SqliteVectorStore) -> None:
    rows = [
        Point("a", None, {"id": "a", "user_id": "u", "agent_id": "bot", "run_id": "r"}),
        Point("b", None, {"id": "b", "agent_id": "bot", "run_id": "r"}),
        Point("c", None, {"id": "c", "run_id": "r"}),
        Point("d", None, {"id": "d", "user_id": "u", "agent_id": "bot"}),
    ]
    asyncio.run(store.apply("c", rows))
    both = all_of(eq("agent_id", "bot"), eq("run_id", "r"))
    with store._database().reading() as connection:
        steps = plan(connection, store, both)
    assert "rows_1_run_id" in steps
    assert "SCAN" not in steps
    assert [point.id for point in asyncio.run(store.list("c", both)).points] == ["a", "b"]
    assert asyncio.run(store.count("c", both)) == 2
    assert asyncio.run(store.count("c", eq("run_id", "r"))) == 3


def test_repeats_are_found_by_hash(store: SqliteVectorStore) -> None:
    asyncio.run(store.apply("c", [Point("a", None, item().to_payload())]))
    asked = all_of(eq("user_id", "alice"), parse_filter({"field": "hash", "operator": "in", "value": ["x", "y"]}))
    with store._database().reading() as connection:
        assert "rows_1_hash" in plan(connection, store, asked)


LETTERS = "abeginrsty ABEZ0129 -.'_&\"éàñüçßÉÜœ北京茶ねアяйёЁ한국กั่न" + "\u0301\u0308"


@given(text=st.text(alphabet=LETTERS, max_size=30))
def test_every_word_of_a_text_finds_it(text: str) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize='porter unicode61 remove_diacritics 2')")
    connection.execute("INSERT INTO t (rowid, x) VALUES (1, ?)", (index_text(text),))
    for word in query_words(text).values():
        rows = connection.execute("SELECT rowid FROM t WHERE t MATCH ?", (f'"{index_text(word)}"',)).fetchall()
        assert rows == [(1,)], (text, word)
    connection.close()


def test_one_tenants_words_do_not_move_anothers_scores(store: SqliteVectorStore) -> None:
    def scores() -> list[tuple[str, float]]:
        hits = asyncio.run(store.keyword_search("c", "tea or coffee", 9, eq("user_id", "alice")))
        return [(hit.id, hit.score) for hit in hits]

    texts = {"a": "likes tea", "b": "likes tea and coffee", "c": "has a dog"}
    rows = [Point(id, None, {"id": id, "memory": text, "user_id": "alice"}) for id, text in texts.items()]
    asyncio.run(store.apply("c", rows))
    before = scores()
    assert len(before) == 2
    rows = [Point(f"x{n}", None, {"memory": "coffee", "user_id": "bob"}) for n in range(50)]
    asyncio.run(store.apply("c", rows))
    assert scores() == before


WORDS = (
    "caresses ponies ties caress cats feed agreed plastered bled motoring sing conflated troubled sized hopping tanned "
    "falling hissing fizzed failing filing happy sky relational conditional rational valenci digitizer conformabli "
    "radically differently vileli analogousli vietnamization predication operator feudalism decisiveness hopefulness "
    "callousness formaliti sensitiviti sensibiliti triplicate formative formalize electriciti electrical hopeful "
    "goodness revival allowance inference airliner gyroscopic adjustable defensible irritant replacement adjustment "
    "dependent adoption homologou communism activate angulariti homologous effective bowdlerize probate rate cease "
    "controll roll is as by running runner ran analogy logistics yes say says toys dying"
)


def test_stems_are_those_of_the_index() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize='porter unicode61')")
    connection.execute("CREATE VIRTUAL TABLE v USING fts5vocab(t, 'instance')")
    words = WORDS.split()
    connection.executemany("INSERT INTO t (rowid, x) VALUES (?, ?)", enumerate(words, 1))
    terms = dict(connection.execute("SELECT doc, term FROM v"))
    assert [stem(word) for word in words] == [terms[number] for number in range(1, len(words) + 1)]
    connection.close()
