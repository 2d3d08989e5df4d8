"""Vectors that the SQLite store keeps in memory: never stale, never rebuilt for one change, never too many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.backends.vector_stores.base import Point
from perdure.backends.vector_stores.common.scoring import exact_scores, unit_rows
from perdure.backends.vector_stores.sqlite import read, search, write
from perdure.backends.vector_stores.sqlite.database import find_collection
from perdure.backends.vector_stores.sqlite.read import BlockCache, StaleSnapshot, find_home
from perdure.backends.vector_stores.sqlite.store import SqliteVectorStore
from perdure.domain.filter import Filter, all_of, eq

ALICE = eq("user_id", "alice")
QUERY = np.array([1, 0, 0, 0], np.float32)


def point(id: str, angle: float, user: str | None = "alice", **fields: Any) -> Point:
    vector = np.array([np.cos(angle), np.sin(angle), 0, 0], np.float32)
    payload = {"id": id, "memory": id, **({"user_id": user} if user else {}), **fields}
    return Point(id, vector, payload)


@pytest.fixture
def run() -> Iterator[Callable[[Any], Any]]:
    loop = asyncio.new_event_loop()
    yield loop.run_until_complete
    loop.close()


@pytest.fixture
def make(run: Callable[[Any], Any], tmp_path: Path) -> Iterator[Callable[..., SqliteVectorStore]]:
    opened = []

    def one(**kept: Any) -> SqliteVectorStore:
        store = SqliteVectorStore(SqliteVectorStore.Settings(path=tmp_path / "m.db", **kept))
        run(store.open())
        run(store.create_collection("c", 4))
        opened.append(store)
        return store

    yield one
    for store in opened:
        run(store.close())


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each whole reading of a home."""
    counted: list[int] = []
    real = read.load

    def load(*arguments: Any) -> Any:
        block = real(*arguments)
        counted.append(block.count)
        return block

    monkeypatch.setattr(read, "load", load)
    return counted


def found(store: SqliteVectorStore, run: Callable[[Any], Any], limit: int = 9999, filters: Filter = ALICE) -> list[str]:
    return [hit.id for hit in run(store.search("c", QUERY, limit, filters))]


def test_a_change_is_followed_without_reading_the_home_again(run: Any, make: Any, loads: list[int]) -> None:
    store, other = make(), make()
    run(store.apply("c", [point(str(n), n / 100) for n in range(100)]))
    assert len(found(store, run)) == 100
    run(store.apply("c", [point("new", 0)]))
    run(other.delete("c", "5"))
    run(other.update("c", "7", vector=point("7", 3.1).vector))
    run(store.update("c", "8", payload={"id": "8", "user_id": "alice", "memory": "changed"}))
    run(store.update("c", "9", payload={"id": "9", "user_id": "bob", "memory": "moved"}))
    after = found(store, run)
    assert len(after) == 99
    assert after[:2] == ["0", "new"]
    assert after[-1] == "7"
    assert loads == [100]
    assert found(store, run, filters=eq("user_id", "bob")) == ["9"]
    assert loads == [100, 1]


def test_payload_updates_leave_the_block_alone(run: Any, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make()
    run(store.apply("c", [point("a", 0)]))
    found(store, run)
    monkeypatch.setattr(read, "follow", None)
    run(store.update("c", "a", payload={"id": "a", "user_id": "alice", "memory": "new words", "access_count": 1}))
    run(store.apply("c", [Point("bare", None, {"id": "bare", "user_id": "alice"})]))
    (hit,) = run(store.search("c", QUERY, 5, ALICE))
    assert hit.payload["memory"] == "new words"


def test_a_log_that_was_trimmed_past_makes_it_read_whole(
    run: Any, make: Any, loads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "GONE_KEPT", 4)
    store, other = make(), make()
    run(store.apply("c", [point(str(n), n / 100) for n in range(60)]))
    assert len(found(store, run)) == 60
    for n in range(30):
        run(other.delete("c", str(n)))
    assert found(store, run) == [str(n) for n in range(30, 60)]
    assert loads == [60, 30]
    with store._database().reading() as connection:
        (kept,) = connection.execute("SELECT count(*) FROM gone_1").fetchone()
    assert kept <= 9
    run(other.delete("c", "30"))
    assert found(store, run, 1) == ["31"]
    assert loads == [60, 30]
    run(other.apply("c", [], [str(n) for n in range(60)]))
    assert found(store, run) == []


def test_a_block_drops_its_dead_when_they_are_most(run: Any, make: Any, loads: list[int]) -> None:
    store = make()
    run(store.apply("c", [point(str(n), n / 100) for n in range(200)]))
    found(store, run)
    for start in range(0, 190, 10):
        run(store.apply("c", [point(f"x{start}", 1)], [str(n) for n in range(start, start + 10)]))
        assert len(found(store, run)) == 200 - (start + 10) + start // 10 + 1
    (block,) = store._blocks()._blocks.values()
    assert block.count < 100
    assert loads == [200]


def test_memory_stays_within_its_bounds(run: Any, make: Any) -> None:
    store = make(cache_mb=1)
    limit = 1024 * 1024
    for user in range(8):
        rows = [point(f"{user}-{n}", n / 1e4, user=f"u{user}") for n in range(10_000)]
        run(store.apply("c", rows))
        assert len(found(store, run, 3, eq("user_id", f"u{user}"))) == 3
        held = store._blocks()
        assert sum(block.nbytes for block in held._blocks.values()) == held._size <= limit
    assert len(held._blocks) >= 3
    assert len(held._loading) <= len(held._blocks) + 1


@pytest.mark.parametrize("cache_mb", [0, 1])
def test_homes_too_wide_for_memory_are_searched_in_the_file(run: Any, make: Any, cache_mb: int) -> None:
    store = make(cache_mb=cache_mb)
    count = 70_000 if cache_mb else 3000
    angles = np.random.default_rng(5).uniform(0, 3, count)
    run(store.apply("c", [point(f"{n:05}", angle, flag=None, kind="ab"[n % 2]) for n, angle in enumerate(angles)]))
    best = sorted(range(1, count, 2), key=lambda n: (angles[n], n))[:25]
    hits = run(store.search("c", QUERY, 25, all_of(ALICE, eq("kind", "b"))))
    assert {hit.id for hit in hits} == {f"{n:05}" for n in best}
    assert len(store._blocks()._blocks) == 0


@pytest.mark.parametrize("share", [1, 2, 3, 50])
def test_a_rough_product_never_costs_the_right_row(
    run: Any, make: Any, monkeypatch: pytest.MonkeyPatch, share: int
) -> None:
    """The float32 product only orders the testing: with as much noise as it may have, results stay what they are."""
    store = make()
    angles = 1 + np.arange(2000) // 3 * 2e-7  # threes of equal vectors, all nearly as good as each other
    order = np.random.default_rng(share).permutation(2000).tolist()
    run(store.apply("c", [point(f"{n:04}", angles[n], kind="ab"[n % share == 0]) for n in order]))
    filters = all_of(ALICE, eq("kind", "b"))
    expected = found(store, run, 2000, filters)
    real = read.Block.rank
    noise = np.random.default_rng(share + 1).uniform(-1.9e-6, 1.9e-6, 2000).astype(np.float32)
    monkeypatch.setattr(read.Block, "rank", lambda block, query: real(block, query) + noise)
    for limit in (1, 2, 10, 39, 100):
        assert found(store, run, limit, filters) == expected[:limit]


def test_an_older_moment_is_read_again(run: Any, make: Any) -> None:
    store = make()
    run(store.apply("c", [point("a", 0)]))
    database, cache = store._database(), BlockCache(10**6)
    with database.reading() as old:
        collection = find_collection(old, "c")
        before = find_home(old, collection, 0, "alice")
        assert before is not None
        run(store.update("c", "a", vector=point("a", 1).vector))
        with database.reading() as new:
            after = find_home(new, collection, 0, "alice")
            assert after is not None
            cache.get(new, collection, after)
        with pytest.raises(StaleSnapshot):
            cache.get(old, collection, before)


def test_a_search_meets_a_later_moment_and_starts_again(run: Any, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make()
    run(store.apply("c", [point("a", 0), point("b", 1)]))
    found(store, run)
    real = search.parts_of
    calls: list[int] = []

    def parts_of(*arguments: Any) -> Any:
        parts = real(*arguments)
        calls.append(len(calls))
        if len(calls) == 1:  # after this search has fixed its moment, another changes the row and searches
            with store._database().writing() as connection:
                moved = point("a", 2)
                write.apply(connection, find_collection(connection, "c"), [moved], ())
            with store._database().reading() as connection:
                collection = find_collection(connection, "c")
                home = find_home(connection, collection, 0, "alice")
                assert home is not None
                store._blocks().get(connection, collection, home)
        return parts

    monkeypatch.setattr(search, "parts_of", parts_of)
    assert found(store, run) == ["b", "a"]
    assert len(calls) == 2


@given(
    rows=st.lists(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=3, max_size=3), min_size=1, max_size=6)
)
def test_unit_rows_are_unit_rows(rows: list[list[float]]) -> None:
    raw = np.array(rows, np.float32)
    units = unit_rows(raw)
    exact = raw.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    expected = np.divide(exact, lengths, out=np.zeros_like(exact), where=lengths > 0)
    assert units.dtype == np.float32
    np.testing.assert_allclose(units, expected, atol=2e-7)
    assert np.all(np.abs(exact_scores(units, units[0])) <= 1)
