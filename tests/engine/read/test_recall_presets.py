"""Presets through the front door, and what a search is without its helpers: reranker, ledger, vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from perdure import Memory
from perdure.backends.rerankers.base import Reranker
from perdure.backends.vector_stores.base import Hit, Point
from perdure.domain.errors import ConfigError, EmbeddingError, InvalidInputError, RerankerError
from perdure.frontends.library.portal import PORTAL
from tests.conftest import Open
from tests.engine.core.adversarial_memories import ANA, HASHED
from tests.engine.read.test_recall_index import CAT, HOME, TEA, found, kernel_of

GREETING = "Hi, what's my budget?"
KINDS = [f"tea of kind {number}" for number in range(12)]


class Longest(Reranker):
    """Prefers long texts, and remembers what it was asked."""

    name: ClassVar[str] = "longest"
    asked: ClassVar[list[tuple[str, list[str]]]] = []

    class Settings(BaseModel):
        """None."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        self.asked.append((query, list(texts)))
        return [float(len(text)) for text in texts]


class Failing(Longest):
    """Never answers."""

    name: ClassVar[str] = "failing"

    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        raise RerankerError("the model is not at home")


LONGEST: dict[str, Any] = {"reranker": {"provider": f"{__name__}:Longest"}}
FAILING: dict[str, Any] = {"reranker": {"provider": f"{__name__}:Failing"}}


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    Longest.asked.clear()


@pytest.fixture
def told(quick: Memory) -> Memory:
    quick.add_facts([TEA, HOME, CAT], **ANA)
    return quick


def say(memory: Memory, *texts: str, **more: Any) -> None:
    for text in texts:
        memory.add(text, infer=False, **{**ANA, **more})


def iso(seconds: float) -> str:
    """A moment of the clock as text."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def scores(memory: Memory, query: str, **more: Any) -> dict[str, float]:
    return {item.memory: item.score or 0.0 for item in memory.search(query, **{**ANA, **more}).results}


# ------------------------------------------------------------------ which one


@pytest.mark.covers("U12")
def test_the_call_names_a_preset_over_the_configuration(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED, preset="plain")
    memory.add_facts([TEA], **ANA)

    def used(**more: Any) -> str:
        return str((memory.search("tea", explain=True, **more, **ANA).results[0].explanation or {})["preset"])

    assert used() == "plain"
    assert used(preset="best") == "best"
    assert used(preset=None) == "plain"
    with pytest.raises(InvalidInputError, match="plain, router, proxy, best"):
        used(preset="bets")
    with pytest.raises(ConfigError, match="preset"):
        open_memory(embedder=HASHED, preset="bets")


@pytest.mark.covers("U12")
def test_plain_is_the_stores_cosine(told: Memory) -> None:
    results = told.search("green tea", preset="plain", explain=True, **ANA).results
    asked, *rows = told.embedder.embed_batch(["green tea", *(item.memory for item in results)])
    assert [item.similarity for item in results] == pytest.approx([float(asked @ row) for row in rows], abs=1e-5)
    assert [item.score for item in results] == [item.similarity for item in results]
    assert len(results) == 3, "what is like nothing comes last"
    assert [item.memory for item in told.search("green tea", preset="plain", threshold=0.1, **ANA).results] == [TEA]
    assert (results[0].explanation or {})["matched_by"] == "meaning"


@pytest.mark.parametrize("preset", ["plain", "router", "proxy", "best"])
def test_every_preset_keeps_walls_filters_types_and_times(told: Memory, preset: str) -> None:
    say(told, "tea", user_id="ben")
    say(told, "tea", expires_at="2020-01-01")
    say(told, "tea", metadata={"n": 1}, type="procedural")
    more: dict[str, Any] = {"preset": preset, "threshold": 0}
    assert len(found(told, "tea", **more, filters={"field": "n", "operator": "eq", "value": 1})) == 1
    assert len(found(told, "tea", **more, types=["procedural"])) == 1
    assert found(told, "tea", **more).count("tea") == 1
    past = found(told, "tea", **more, include_past=True).count("tea")
    assert past == (1 if preset == "router" else 2), "the router lets no text in twice"
    assert len(found(told, "tea", **more, limit=1)) == 1
    assert told.search("tea", preset=preset, as_of="2000-01-01", **ANA).results == []


# ------------------------------------------------------------------ router (001)


@pytest.mark.covers("V14", "V15")
def test_router_searches_nothing_for_a_greeting(told: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    say(told, "hi budget")
    assert found(told, GREETING, preset="router", threshold=0) != []
    monkeypatch.setattr(kernel_of(told).embedding.embedder, "embed", None)
    for greeting in ("hi", "Hello!", "thanks", "ok."):
        assert told.search(greeting, preset="router", threshold=0, **ANA).results == []


@pytest.mark.covers("V25")
def test_router_keeps_what_scores_six_tenths_unless_told_otherwise(told: Memory) -> None:
    say(told, "green tea", "green doors", "tea at sea in winter")
    everything = scores(told, "green tea", preset="router", threshold=0, limit=9)
    assert len(everything) == 6
    for more, floor in (({}, 0.6), ({"threshold": 0.5}, 0.5), ({"threshold": 0.8}, 0.8)):
        kept = scores(told, "green tea", preset="router", limit=9, **more)
        assert set(kept) == {text for text, score in everything.items() if score >= floor}
    assert set(scores(told, "green tea", preset="router")) == {"green tea", TEA}


@pytest.mark.covers("V25")
def test_the_router_brings_no_more_than_its_limit(told: Memory) -> None:
    say(told, *KINDS)
    assert len(scores(told, "tea of kind", preset="router", limit=5)) == 5


@pytest.mark.covers("V26")
def test_router_keeps_types(told: Memory) -> None:
    say(told, "tea steeps", type="procedural")
    assert found(told, "tea", preset="router", threshold=0, types=["procedural"]) == ["tea steeps"]


@pytest.mark.covers("V27")
def test_router_sorts_by_score(told: Memory) -> None:
    say(told, "green tea", "tea")
    results = told.search("green tea", preset="router", threshold=0, **ANA).results
    assert [item.score for item in results] == sorted((item.score or 0.0 for item in results), reverse=True)
    assert results[0].memory == "green tea"


@pytest.mark.covers("V74")
def test_router_looks_at_procedures_first_for_a_how_to(told: Memory) -> None:
    say(told, "how do I make green tea", type="semantic")
    say(told, "to make tea steep it", type="procedural")
    asked = {"preset": "router", "threshold": 0}
    assert found(told, "how do I make green tea?", **asked)[0] == "to make tea steep it"
    assert found(told, "did I make green tea?", **asked)[0] == "how do I make green tea"
    assert found(told, "how do I make green tea?", preset="plain")[0] == "how do I make green tea"


@pytest.mark.covers("B11")
def test_router_lets_age_halve_a_score_and_no_text_in_twice(told: Memory) -> None:
    now = kernel_of(told).clock.now().timestamp()
    told.add("green tea", infer=False, timestamp=iso(now - 30 * 86_400), **ANA)
    say(told, "green tea", "tea")
    found = told.search("green tea", preset="router", threshold=0, **ANA).results
    assert [item.memory for item in found].count("green tea") == 1
    assert found[0].score == pytest.approx(1, abs=0.01)
    old = told.search("green tea", preset="router", threshold=0, as_of=iso(now - 600), **ANA).results  # clocks step
    assert old[0].score == pytest.approx(0.5, abs=0.01)


# ------------------------------------------------------------------ proxy (002)


@pytest.mark.covers("K26")
def test_proxy_fetches_three_times_what_is_asked_for(told: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    store = kernel_of(told).store
    search, limits = store.search, []

    async def counted(collection: str, vector: Any, limit: int, *rest: Any) -> list[Hit]:
        limits.append(limit)
        return await search(collection, vector, limit, *rest)

    monkeypatch.setattr(store, "search", counted)
    for preset, expected in (("proxy", 15), ("router", 10), ("plain", 5)):
        limits.clear()
        told.search("tea", preset=preset, limit=5, **ANA)
        assert limits == [expected], preset


@pytest.mark.covers("K27")
@pytest.mark.parametrize("preset", ["plain", "router", "proxy", "best"])
def test_what_is_neither_fact_nor_message_is_no_candidate(told: Memory, preset: str) -> None:
    kernel = kernel_of(told)
    row = PORTAL.call(kernel.store.get_many(kernel.collection, [told.search("tea", **ANA).results[0].id]))[0]
    payload = {**row.payload, "id": "s", "kind": "summaries", "memory": "tea in short"}
    PORTAL.call(kernel.store.apply(kernel.collection, [Point("s", row.vector, payload)]))
    assert "tea in short" not in found(told, "tea", preset=preset, threshold=0)


@pytest.mark.covers("K28", "K29")
def test_proxy_has_candidates_reranked_and_spread_from_none_to_all(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED, **LONGEST)
    say(memory, "tea", "tea and more", "tea and even more")
    asked = {"preset": "proxy", "limit": 3, "as_of": iso(kernel_of(memory).clock.now().timestamp() + 60)}
    found = scores(memory, "tea?", **asked)
    assert [query for query, _ in Longest.asked] == ["tea?"]
    assert sorted(Longest.asked[0][1]) == ["tea", "tea and even more", "tea and more"]
    relevance = {text: (score - 0.2) / 0.8 for text, score in found.items()}
    assert relevance == pytest.approx({"tea and even more": 1, "tea and more": 9 / 14, "tea": 0}, abs=1e-3)
    assert list(found) == ["tea and even more", "tea and more", "tea"]


@pytest.mark.covers("K29")
def test_without_a_reranker_cosines_are_spread(told: Memory) -> None:
    say(told, "green tea")
    found = scores(told, "green tea", preset="proxy", limit=4)
    assert found["green tea"] == pytest.approx(1, abs=1e-3)
    assert min(found.values()) == pytest.approx(0.2, abs=1e-3), "no relevance, all of the recency"


@pytest.mark.covers("K30")
def test_proxy_keeps_all_without_a_threshold_and_drops_below_one(told: Memory) -> None:
    say(told, "green tea")
    everything = scores(told, "green tea", preset="proxy", limit=5)
    assert len(everything) == 4
    kept = scores(told, "green tea", preset="proxy", limit=5, threshold=0.4)
    assert set(kept) == {text for text, score in everything.items() if (score - 0.2) / 0.8 >= 0.4}
    assert set(scores(told, "green tea", preset="proxy", limit=5, threshold=1)) == {"green tea"}


@pytest.mark.covers("K31", "K32")
def test_proxy_blends_relevance_with_recency(told: Memory) -> None:
    now = kernel_of(told).clock.now().timestamp()
    for days in (0, 30, 300):
        told.add(f"tea {days}", infer=False, timestamp=iso(now - days * 86_400), **ANA)
    found = scores(told, "tea", preset="proxy", limit=6)
    assert list(found)[:3] == ["tea 0", "tea 30", "tea 300"], "equally like the question"
    for days in (0, 30, 300):
        assert found[f"tea {days}"] == pytest.approx(0.8 + 0.2 * math.exp(-days / 30), abs=1e-3)


@pytest.mark.covers("K33")
def test_proxy_does_not_fill_its_places_with_one_thing(told: Memory) -> None:
    say(told, *["green tea today"] * 4, "green doors", "tea at sea")
    assert set(found(told, "green tea", preset="plain", limit=3)) == {"green tea today"}
    chosen = found(told, "green tea", preset="proxy", limit=3)
    assert chosen[0] == "green tea today"
    assert len(set(chosen)) > 1


@pytest.mark.covers("K34")
@pytest.mark.parametrize(("limit", "expected"), [(5, 5), (1, 1), (12, 12), (40, 12)])
def test_proxy_gives_exactly_what_is_asked_for_or_all(quick: Memory, limit: int, expected: int) -> None:
    say(quick, *KINDS)
    result = quick.search("tea", preset="proxy", limit=limit, **ANA).results
    assert len(result) == len({item.id for item in result}) == expected
    assert [item.score for item in result] == sorted((item.score or 0.0 for item in result), reverse=True)


# ------------------------------------------------------------------ rerankers


def test_rerank_without_a_reranker_is_refused(told: Memory) -> None:
    with pytest.raises(InvalidInputError, match="no reranker is configured") as caught:
        told.search("tea", rerank=True, **ANA)
    assert (caught.value.field, caught.value.value) == ("rerank", True)
    assert found(told, "tea", rerank=False)[0] == TEA


@pytest.mark.parametrize("preset", ["plain", "router", "proxy"])
def test_a_reranker_orders_what_was_found(open_memory: Open, preset: str) -> None:
    memory = open_memory(embedder=HASHED, **LONGEST)
    say(memory, "tea", "tea and a longer tail of words")
    asked = {"preset": preset, "threshold": 0}
    assert found(memory, "tea", rerank=True, **asked)[0] == "tea and a longer tail of words"
    Longest.asked.clear()
    found(memory, "tea", **asked)
    assert bool(Longest.asked) is (preset == "proxy"), "it is asked for, but by the proxy"


def test_a_reranker_orders_what_was_found_by_best_too(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED, **LONGEST)
    say(memory, "tea", "tea and a longer tail of words")
    assert found(memory, "tea")[0] == "tea"
    assert found(memory, "tea", rerank=True)[0] == "tea and a longer tail of words"


@pytest.mark.covers("U21")
@pytest.mark.parametrize("preset", ["plain", "proxy", "best"])
def test_a_reranker_that_fails_leaves_the_order_and_says_so(open_memory: Open, preset: str) -> None:
    memory = open_memory(embedder=HASHED, **FAILING)
    say(memory, "green tea", "tea and a longer tail of words", "sea")
    plain = found(memory, "green tea", preset="plain", threshold=0.1)
    result = memory.search("green tea", preset=preset, rerank=True, **ANA)
    assert [item.memory for item in result.results][:2] == plain[:2]
    assert ["not reranked" in warning and "not at home" in warning for warning in result.warnings] == [True]
    assert memory.search("green tea", preset="plain", **ANA).warnings == []


# ------------------------------------------------------------------ without its helpers


def test_without_a_ledger_it_searches_all_the_same(open_memory: Open, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    memory = open_memory(embedder=HASHED, history={"db_path": str(tmp_path / "file" / "history.db")})
    memory.add_facts([TEA, HOME, CAT], **ANA)
    memory.add_facts(["User keeps bees"], user_id="ben")
    result = memory.search("green tea", hydrate=True, explain=True, **ANA)
    assert result.results[0].memory == TEA
    assert found(memory, "cat", limit=1) == [CAT]
    assert found(memory, "bees") == []
    id = result.results[0].id
    memory.update(id, "User likes espresso")
    assert found(memory, "espresso") == ["User likes espresso"]
    memory.delete(id)
    assert found(memory, "espresso") == []


@pytest.mark.covers("U21")
def test_without_vectors_words_find(told: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    embedding = kernel_of(told).embedding
    monkeypatch.setattr(embedding, "_found", False)
    monkeypatch.setattr(embedding.embedder, "unavailable", lambda: "weights are missing")
    result = told.search("green tea", explain=True, **ANA).results[0]
    assert result.memory == TEA
    assert (result.explanation or {})["matched_by"] == "lexical"
    assert result.score == pytest.approx(1.0)


def test_where_words_cannot_be_embedded_the_search_goes_on(told: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(texts: Any) -> Any:
        raise EmbeddingError("no words today")

    embedder = kernel_of(told).embedding.embedder
    embed = embedder.embed_batch

    async def whole(text: str) -> Any:
        return (await embed([text]))[0]

    monkeypatch.setattr(embedder, "embed", whole)
    monkeypatch.setattr(embedder, "embed_batch", failing)
    assert found(told, "green tea")[0] == TEA


@pytest.mark.parametrize("query", ["Ann?", "the and of", "?!", "🎈", "北京", "x" * 10_000, "tea " * 2_500])
def test_any_question_is_answered_in_some_way(told: Memory, query: str) -> None:
    told.add("我喜欢北京烤鸭", infer=False, **ANA)
    result = told.search(query, **ANA)
    assert all(0 <= (item.score or 0.0) <= 1 for item in result.results)
    assert 0 <= result.coverage <= 1
    if query == "北京":
        assert result.results[0].memory == "我喜欢北京烤鸭"
    if query.startswith("tea"):
        assert result.results[0].memory == TEA
