"""The cached store: what is answered again, what never is, and life without the cache."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perdure import Memory
from perdure.backends import registry
from perdure.backends.caches.base import Cache, CacheError
from perdure.backends.caches.memory import MemoryCache
from perdure.backends.caches.redis import RedisCache
from perdure.backends.vector_stores.base import Hit
from perdure.backends.vector_stores.cached import CachedVectorStore, digest, dump, question, still_true
from perdure.domain.errors import ConfigError
from perdure.domain.filter import Condition, Filter, Moment, Not, all_of, eq
from tests.contracts.conftest import Sync, ids, moment, row, vector

pytestmark = pytest.mark.covers("B17", "V67")

ALICE = eq("user_id", "alice")


class Flaky(Cache):
    """A cache in process that can be away, and counts."""

    name = "flaky"

    def __init__(self) -> None:
        self.inner = MemoryCache(MemoryCache.Settings())
        self.away = False
        self.puts: list[str] = []

    def get(self, keys: Sequence[str]) -> list[bytes | None]:
        if self.away:
            raise CacheError("the cache is away")
        return self.inner.get(keys)

    def put(self, values: Mapping[str, bytes], seconds: float) -> None:
        if self.away:
            raise CacheError("the cache is away")
        self.puts += values
        self.inner.put(values, seconds)

    def close(self) -> None:
        self.inner.close()


class Cached:
    """A cached store over a counted one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        store = CachedVectorStore(CachedVectorStore.Settings.model_validate({"store": {"provider": "memory"}}))
        self.cache = Flaky()
        store._cache = store._answers._cache = self.cache
        self.asked = 0
        plain = store._store.search

        async def counted(*arguments: Any, **more: Any) -> Any:
            self.asked += 1
            return await plain(*arguments, **more)

        store._store.search = counted  # type: ignore[method-assign]
        self.store = Sync(store, loop)
        self.store.open()
        self.store.create_collection("c", 8)
        self.store.apply("c", [row("a"), row("b", [0, 1], user_id="bob"), row("t", [1, 1], user_id=..., agent_id="x")])

    def search(self, filters: Filter | None = ALICE, limit: int = 5, query: Any = None) -> list[str]:
        return ids(self.store.search("c", vector(1) if query is None else query, limit, filters))

    def times(self, *questions: dict[str, Any]) -> int:
        """How often the store behind was asked for these."""
        before = self.asked
        for one in questions:
            self.search(**one)
        return self.asked - before


@pytest.fixture
def cached() -> Iterator[Cached]:
    loop = asyncio.new_event_loop()
    yield Cached(loop)
    loop.close()


# ------------------------------------------------------------------ answers


def test_the_same_question_is_answered_once(cached: Cached) -> None:
    assert cached.times({}, {}, {}) == 1
    assert cached.search() == ["a"]


def test_counting_how_often_rows_were_recalled_loses_no_answer(cached: Cached) -> None:
    cached.search()
    counted = row("a", access_count=3)
    cached.store.recount("c", [counted])
    assert cached.times({}) == 0
    assert cached.store.get("c", "a").payload["access_count"] == 3


def test_empty_answers_are_kept_too(cached: Cached) -> None:
    assert cached.times({"filters": eq("user_id", "nobody")}, {"filters": eq("user_id", "nobody")}) == 1


def test_questions_that_differ_in_anything_are_different(cached: Cached) -> None:
    other = np.array([1, 0, 0, 0, 0, 0, 0, 1e-6], np.float32)
    questions: list[dict[str, Any]] = [
        {}, {"limit": 4}, {"query": vector(0, 1)}, {"query": other}, {"filters": None},
        {"filters": eq("agent_id", "alice")},
        {"filters": all_of(ALICE, eq("n", 1))}, {"filters": all_of(ALICE, eq("n", "1"))},
        {"filters": all_of(ALICE, eq("n", True))}, {"filters": all_of(ALICE, eq("n", 1.0))},
        {"filters": all_of(ALICE, Condition("n", "in", (1,)))}, {"filters": Not(ALICE)},
        {"filters": eq("user_id", "bob")},
        {"filters": all_of(ALICE, eq("due", Moment(moment(0))))}, {"filters": all_of(ALICE, eq("due", moment(0)))},
    ]  # fmt: skip
    assert cached.times(*questions) == len(questions)
    assert cached.times(*questions) == 0


def test_words_and_vectors_are_different_questions(cached: Cached) -> None:
    assert ids(cached.store.keyword_search("c", "text", 5, ALICE)) == ["a"]
    assert ids(cached.store.keyword_search("c", "text", 5, ALICE)) == ["a"]
    assert ids(cached.store.keyword_search("c", "texts of b", 5, eq("user_id", "bob"))) == ["b"]


def test_what_a_caller_does_with_an_answer_is_his(cached: Cached) -> None:
    for _ in range(3):
        (hit,) = cached.store.search("c", vector(1), 5, ALICE)
        assert hit.payload["memory"] == "text of a"
        hit.payload["memory"] = "mine"


# ------------------------------------------------------------------ changes


def test_a_change_concerns_its_own_users_alone(cached: Cached) -> None:
    both: list[dict[str, Any]] = [{}, {"filters": eq("user_id", "bob")}]
    anybody: dict[str, Any] = {"filters": eq("agent_id", "x")}
    cached.times(*both, anybody)
    cached.store.apply("c", [row("c", [1, 0.5])])
    assert cached.search() == ["a", "c"]
    assert cached.times(*both) == 0
    assert cached.times(anybody) == 1, "a question that names no user may be about any"
    cached.store.delete("c", "b")
    assert cached.times({}) == 0
    assert cached.search(eq("user_id", "bob")) == []
    cached.store.update("c", "c", payload=row("c", user_id="bob").payload)
    assert cached.search() == ["a"]
    assert cached.search(eq("user_id", "bob")) == ["c"]
    cached.store.update("c", "c", vector(0, 1))
    assert cached.store.search("c", vector(1), 5, eq("user_id", "bob"))[0].score == pytest.approx(0)
    cached.store.reset()
    assert cached.search() == cached.search(None) == []
    cached.store.apply("c", [row("z")])
    assert cached.search() == ["z"]
    cached.store.delete_collection("c")
    cached.store.create_collection("c", 8)
    assert cached.search() == []


def test_an_answer_that_was_under_way_during_a_write_is_not_kept(cached: Cached) -> None:
    """The search has read before the write, and comes back after it."""
    inner = cached.store.store._store
    plain, begun, go_on = inner.search, threading.Event(), threading.Event()

    async def slow(*arguments: Any, **more: Any) -> Any:
        found = await plain(*arguments, **more)
        begun.set()
        await asyncio.to_thread(go_on.wait, 10)
        return found

    inner.search = slow
    seen: list[list[str]] = []

    def read() -> None:
        seen.append(ids(asyncio.run(cached.store.store.search("c", vector(1), 5, ALICE))))

    reader = threading.Thread(target=read)
    reader.start()
    assert begun.wait(10)
    inner.search = plain
    cached.store.apply("c", [row("new", [1, 0.1])])
    go_on.set()
    reader.join()
    assert seen == [["a"]]
    assert cached.search() == ["a", "new"]


# ------------------------------------------------------------------ what runs out


def live(second: int) -> Filter:
    now = Moment(moment(second))
    return all_of(ALICE, Not(Condition("valid_to", "lte", now)), Not(Condition("expires_at", "lte", now)))


@pytest.mark.covers("V68")
def test_what_has_run_out_vanishes_from_cached_answers(cached: Cached) -> None:
    cached.store.apply(
        "c", [row("short", [1, 0.1], expires_at=moment(10)), row("long", [1, 0.2], expires_at=moment(90))]
    )
    assert cached.search(live(1)) == ["a", "short", "long"]
    assert cached.times({"filters": live(2)}, {"filters": live(9)}) == 0
    assert cached.search(live(10)) == ["a", "long"]
    assert cached.asked == 1
    assert cached.search(live(1)) == ["a", "short", "long"]
    assert cached.asked == 1


def test_an_answer_that_has_become_too_short_is_asked_for_again(cached: Cached) -> None:
    cached.store.apply("c", [row("short", [1], expires_at=moment(10)), row("more", [1, 0.2]), row("most", [1, 0.4])])
    assert cached.search(live(1), limit=3) == ["a", "short", "more"]
    assert cached.search(live(10), limit=3) == ["a", "more", "most"]


def test_only_moments_that_run_out_are_left_out_of_the_question() -> None:
    one, two = question(live(1)), question(live(2))
    assert one.text == two.text
    assert one.user == "alice"
    told = [all_of(ALICE, Condition("told_at", "lte", Moment(moment(n)))) for n in (1, 2)]
    assert question(told[0]).text != question(told[1]).text
    assert question(Condition("expires_at", "lte", Moment(moment(1)))).moments == ()
    kept = dump([Hit("a", 1.0, {"user_id": "alice"})], one.moments)
    assert still_true(kept, two, 5, live(2)) is not None
    assert still_true(kept, question(ALICE), 5, ALICE) is None
    assert still_true(dump([], two.moments), one, 5, live(1)) is None


def test_digests_of_other_parts_are_others() -> None:
    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("ab", "c", "")}) == 4


# ------------------------------------------------------------------ without the cache


def test_without_the_cache_the_store_answers(cached: Cached, caplog: pytest.LogCaptureFixture) -> None:
    cached.cache.away = True
    with caplog.at_level(logging.WARNING, logger="perdure"):
        assert cached.times({}, {}, {}) == 3
        cached.store.apply("c", [row("c", [1, 0.5])])
    assert cached.search() == ["a", "c"]
    assert len([record for record in caplog.records if "until it is back" in record.message]) == 1


def test_what_changed_while_the_cache_was_away_is_not_answered_from_it(
    cached: Cached, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.backends.vector_stores.cached.AWAY", 0.0)
    assert cached.search() == ["a"]
    cached.cache.away = True
    cached.store.apply("c", [row("c", [1, 0.5])])
    cached.cache.away = False
    assert cached.search() == ["a", "c"]
    assert cached.times({}) == 0


def test_a_cache_that_is_away_is_not_asked_at_every_search(cached: Cached) -> None:
    cached.cache.away = True
    cached.search()
    cached.cache.away = False
    puts = len(cached.cache.puts)
    cached.search()
    assert len(cached.cache.puts) == puts


# ------------------------------------------------------------------ caches


def test_values_run_out_and_the_unused_go_first() -> None:
    now = 0.0
    cache = MemoryCache(MemoryCache.Settings(megabytes=0.001), clock=lambda: now)
    cache.put({"a": b"1", "b": b"2"}, 10)
    now = 9.9
    assert cache.get(["a", "b", "c"]) == [b"1", b"2", None]
    now = 10.0
    assert cache.get(["a", "b"]) == [None, None]
    for n in range(10):
        cache.put({f"k{n}": b"x" * 200}, 10)
        cache.get(["k0"])
    assert cache.get(["k0", "k1", "k9"]) == [b"x" * 200, None, b"x" * 200]
    cache.put({"large": b"x" * 5000}, 10)
    assert cache.get(["large"]) == [None]


def test_a_redis_that_is_not_there_is_a_cache_error_without_secrets() -> None:
    cache = RedisCache(RedisCache.Settings.model_validate({"url": "redis://:hidden-word@127.0.0.1:1/0"}))
    for call in (lambda: cache.get(["a"]), lambda: cache.put({"a": b"1"}, 5)):
        with pytest.raises(CacheError, match=r"127\.0\.0\.1:1") as caught:
            call()
        assert "hidden-word" not in str(caught.value)
    cache.close()
    assert "hidden-word" not in repr(cache._settings)


def test_redis_url_is_the_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://elsewhere:6380/2")
    assert RedisCache.Settings().url.get_secret_value() == "redis://elsewhere:6380/2"


# ------------------------------------------------------------------ in a memory


@pytest.mark.covers("V67")
def test_a_memory_over_a_cached_store(tmp_path: Path) -> None:
    config = {
        "path": tmp_path,
        "embedder": {"provider": "hashed"},
        "vector_store": {"provider": "cached", "config": {"store": {"provider": "sqlite"}}},
    }
    with Memory(config) as memory:
        memory.add("I live in Lisbon.", user_id="ana")
        first = memory.search("where does she live", user_id="ana").results
        assert [item.memory for item in first] == ["User lives in Lisbon"]
        assert memory.search("where does she live", user_id="ana").results == first
        memory.add("I moved to Porto.", user_id="ana")
        assert [item.memory for item in memory.search("where does she live", user_id="ana").results] == [
            "User moved to Porto"
        ]
        report = memory.forget(user_id="ana", erase=True)
        assert "at most 300 seconds" in next(place.note for place in report.places if place.place == "store")
    assert (tmp_path / "memories.db").exists()
    assert json.loads(json.dumps(first[0].model_dump()))["memory"] == "User lives in Lisbon"


def test_a_wrong_setting_of_the_store_behind_is_named() -> None:
    for settings, named in (
        ({"store": {"provider": "sqlit"}}, "sqlit"),
        ({"store": {"provider": "sqlite", "config": {"pth": "x"}}}, "path"),
        ({"store": {"provider": "memory"}, "cache": {"provider": "redi"}}, "redis"),
        ({}, "store"),
    ):
        with pytest.raises(ConfigError, match=named):
            registry.build("vector_stores", "cached", settings)


def test_memories_in_files_do_not_lie_behind_a_cache_but_a_cache_may_be_their_index(tmp_path: Path) -> None:
    files = {"provider": "markdown", "config": {"git": False}}
    with pytest.raises(ConfigError, match="make markdown the vector_store") as refused:
        Memory({"path": str(tmp_path), "vector_store": {"provider": "cached", "config": {"store": files}}})
    assert refused.value.field == "vector_store.config.store.provider"
    assert not (tmp_path / "entries").exists()
    cached = {"provider": "cached", "config": {"store": {"provider": "sqlite"}}}
    store = {"provider": "markdown", "config": {"git": False, "store": cached}}
    with Memory({"path": str(tmp_path), "vector_store": store, "embedder": {"provider": "hashed"}}) as memory:
        memory.add("I live in Lisbon", user_id="ana")
        first = memory.search("Lisbon", user_id="ana").results
        assert memory.search("Lisbon", user_id="ana").results == first != []
        (file,) = tmp_path.glob("entries/*/facts/*.md")
        file.write_text(file.read_text().replace("Lisbon", "Porto"))
    assert (tmp_path / "index" / "memories.db").exists()
    assert not (tmp_path / "memories.db").exists()
    with Memory({"path": str(tmp_path), "vector_store": store, "embedder": {"provider": "hashed"}}) as memory:
        assert [item.memory for item in memory.search("Porto", user_id="ana").results] == ["User lives in Porto"]
