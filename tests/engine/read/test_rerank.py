"""Reranking through the front door: what a reranker of one's own is asked, what its scores do, and how it may fail."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from perdure import Memory
from perdure.backends.rerankers.base import Reranker
from perdure.domain.errors import ConfigError, DependencyError, RerankerError
from perdure.engine.read.search import RERANKED
from perdure.pipeline.retrieval.rescoring import min_max
from tests.conftest import Open
from tests.engine.core.adversarial_memories import ANA, HASHED

PRESETS = ["best", "plain", "proxy"]
TEXTS = ["green tea", "tea and a longer tail of words", "sea"]


class Told(Reranker):
    """Answers as a test tells it, and remembers what it was asked."""

    name: ClassVar[str] = "told"
    asked: ClassVar[list[tuple[str, list[str]]]] = []
    closed: ClassVar[int] = 0

    class Settings(BaseModel):
        """What to answer: scores in turn, or the name of what goes wrong."""

        model_config = {"extra": "forbid"}

        scores: tuple[float, ...] = ()
        fails: str = ""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        self.asked.append((query, list(texts)))
        failures = {"weights": DependencyError("the weights are missing"), "model": RerankerError("it is not at home")}
        if self._settings.fails in failures:
            raise failures[self._settings.fails]
        if self._settings.fails == "short":
            return [1.0] * (len(texts) - 1)
        if self._settings.fails == "long":
            return [1.0] * (len(texts) + 1)
        if self._settings.fails:
            return [float(self._settings.fails), *(float(-place) for place in range(1, len(texts)))]
        return [float(len(text)) for text in texts] if not self._settings.scores else list(self._settings.scores)

    async def close(self) -> None:
        type(self).closed += 1


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    Told.asked.clear()


def with_reranker(open_memory: Open, **config: Any) -> Memory:
    """A memory with three texts and a reranker of the tests' own, given by its import path."""
    memory = open_memory(embedder=HASHED, reranker={"provider": f"{__name__}:Told", "config": config})
    for text in TEXTS:
        memory.add(text, infer=False, **ANA)
    return memory


def search(memory: Memory, preset: str, **more: Any) -> list[tuple[str, float]]:
    result = memory.search("green tea", preset=preset, rerank=True, **more, **ANA)
    return [(item.memory, item.score or 0.0) for item in result.results]


# ------------------------------------------------------------------ what it does


@pytest.mark.covers("K28")
@pytest.mark.parametrize("preset", PRESETS)
def test_it_reads_the_question_and_every_candidate_once(open_memory: Open, preset: str) -> None:
    memory = with_reranker(open_memory)
    search(memory, preset)
    ((query, texts),) = Told.asked
    assert (query, sorted(texts)) == ("green tea", sorted(TEXTS))


@pytest.mark.covers("K28")
def test_only_the_proxy_asks_it_unasked(open_memory: Open) -> None:
    memory = with_reranker(open_memory)
    for preset in ("best", "plain", "router"):
        memory.search("green tea", preset=preset, **ANA)
    assert Told.asked == []
    memory.search("green tea", preset="proxy", **ANA)
    assert len(Told.asked) == 1


@pytest.mark.covers("K29")
def test_plain_has_its_order_alone(open_memory: Open) -> None:
    found = search(with_reranker(open_memory), "plain")
    assert [text for text, _ in found] == sorted(TEXTS, key=len, reverse=True)
    assert [score for _, score in found] == min_max([float(len(text)) for text, _ in found])


def test_in_best_both_orders_count_alike(open_memory: Open) -> None:
    memory = with_reranker(open_memory)
    before = {item.memory: item.score or 0.0 for item in memory.search("green tea", **ANA).results}
    best = max(before.values())
    judged = dict(zip(TEXTS, min_max([float(len(text)) for text in TEXTS]), strict=True))
    expected = {text: (before[text] + best * judged[text]) / 2 for text in TEXTS}
    found = search(memory, "best")
    assert dict(found) == pytest.approx(expected)
    assert [score for _, score in found] == sorted(expected.values(), reverse=True)


def test_best_has_its_fifty_best_reranked_and_gives_what_was_asked_for(open_memory: Open) -> None:
    memory = with_reranker(open_memory)
    memory.add([{"role": "user", "content": f"tea {number}"} for number in range(60)], infer=False, **ANA)
    assert len(search(memory, "best", limit=3)) == 3
    assert len(Told.asked[-1][1]) == RERANKED == 50
    assert len(search(memory, "best", limit=60)) == 60
    assert len(Told.asked[-1][1]) == 60, "who asks for more has more reranked"


@pytest.mark.parametrize("preset", PRESETS)
def test_nothing_found_is_nothing_asked(open_memory: Open, preset: str) -> None:
    memory = with_reranker(open_memory)
    result = memory.search("green tea", preset=preset, rerank=True, user_id="nobody")
    assert (result.results, result.warnings, Told.asked) == ([], [], [])


def test_a_threshold_cuts_what_it_scored(open_memory: Open) -> None:
    memory = with_reranker(open_memory)
    for preset in ("best", "plain"):
        everything = search(memory, preset)
        middle = everything[1][1]
        assert search(memory, preset, threshold=middle) == everything[:2]


def test_equal_scores_leave_the_order_of_best(open_memory: Open) -> None:
    memory = with_reranker(open_memory, scores=(1.0, 1.0, 1.0))
    plain = [item.memory for item in memory.search("green tea", **ANA).results]
    assert [text for text, _ in search(memory, "best")] == plain


def test_it_is_closed_with_the_memory(open_memory: Open) -> None:
    memory = with_reranker(open_memory)
    search(memory, "best")
    before = Told.closed
    memory.close()
    assert Told.closed == before + 1


# ------------------------------------------------------------------ how it fails


@pytest.mark.covers("U21")
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("fails", ["model", "weights"])
def test_where_it_fails_the_order_stands_and_a_warning_says_so(open_memory: Open, preset: str, fails: str) -> None:
    memory = with_reranker(open_memory, fails=fails)
    result = memory.search("green tea", preset=preset, rerank=True, **ANA)
    assert result.results[0].memory == "green tea"
    (warning,) = result.warnings
    assert warning.startswith("the memories found are not reranked: ")
    assert all(0 <= (item.score or 0.0) <= 1 for item in result.results)


@pytest.mark.covers("U21")
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("fails", ["short", "long", "nan", "inf", "-inf"])
def test_an_answer_that_is_none_leaves_the_order_too(open_memory: Open, preset: str, fails: str) -> None:
    memory = with_reranker(open_memory, fails=fails)
    result = memory.search("green tea", preset=preset, rerank=True, **ANA)
    assert all(math.isfinite(item.score or 0.0) for item in result.results)
    assert result.results[0].memory == "green tea"
    assert len(result.warnings) == 1


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        ("tests.engine.read.test_rerank:Tould", "did you mean"),
        ("tests.engine.no_such_module:Told", "no module"),
        ("tests.engine.read.test_rerank:TEXTS", "is no subclass"),
        ("cross_encodr", "did you mean"),
    ],
)
def test_a_path_that_leads_nowhere_is_told_at_construction(open_memory: Open, provider: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        open_memory(embedder=HASHED, reranker={"provider": provider})
    assert caught.value.field == "reranker.provider"


def test_a_setting_that_it_does_not_have_is_named(open_memory: Open) -> None:
    with pytest.raises(ConfigError, match="scroes") as caught:
        with_reranker(open_memory, scroes=(1.0,))
    assert caught.value.field == "reranker.config.scroes"


@pytest.mark.covers("K29")
@given(scores=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_spread_scores_keep_their_order(scores: list[float]) -> None:
    spread = min_max(scores)
    assert max(spread) == 1 and all(0 <= share <= 1 for share in spread)
    assert all(
        spread[one] <= spread[other]
        for one in range(len(scores))
        for other in range(len(scores))
        if scores[one] <= scores[other]
    )
