"""`order="time"`: the results of a search, oldest first."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Memory
from perdure.domain.errors import InvalidInputError
from perdure.domain.event import SearchResult
from perdure.domain.memory import MemoryItem, oldest_first
from perdure.domain.scope import Scope
from tests.conftest import Open
from tests.engine.core.adversarial_memories import ANA, HASHED

START = datetime(2026, 1, 1, tzinfo=UTC)
MOMENTS = st.integers(0, 3).map(lambda days: (START + timedelta(days=days)).isoformat())
ITEMS = st.lists(
    st.builds(
        lambda told, begun, created, position, score: {
            "told_at": told, "valid_from": begun, "created_at": created, "position": position, "score": score,
        },
        MOMENTS | st.just("some day"), MOMENTS | st.none() | st.just("?"), MOMENTS, st.none() | st.integers(0, 2),
        st.floats(0, 1),
    ),
    max_size=8,
)  # fmt: skip


def item(number: int, **fields: Any) -> MemoryItem:
    return MemoryItem.new(str(number), f"memory {number}", Scope(**ANA), START.isoformat(), **fields)


def texts(result: SearchResult) -> list[str]:
    return [item.memory for item in result.results]


def tell(memory: Memory, day: str, *contents: str, **more: Any) -> None:
    memory.add([{"role": "user", "content": each, "timestamp": day} for each in contents], **{**ANA, **more})


@pytest.fixture
def trips(quick: Memory) -> Memory:
    """Three tellings that match a question the better, the later they are stored, told in another order."""
    tell(quick, "2026-03-05", "the ferry", infer=False)
    tell(quick, "2026-03-01", "the ferry to Hvar", infer=False)
    tell(quick, "2026-03-03", "the ferry to Hvar was late", infer=False)
    return quick


ASKED = "the ferry to Hvar was late"
OLDEST_FIRST = ["the ferry to Hvar", "the ferry to Hvar was late", "the ferry"]


# ------------------------------------------------------------------ the order of items


@given(ITEMS)
def test_items_are_ordered_by_time_and_nothing_else_is_changed(drawn: list[dict[str, Any]]) -> None:
    items = [item(number, **fields) for number, fields in enumerate(drawn)]
    ordered = oldest_first(items)
    assert sorted(ordered, key=lambda each: each.id) == items, "the same items, with their own scores"
    times = [moment for each in ordered if (moment := time_of(each)) is not None]
    assert times == sorted(times)
    dated = [time_of(each) is not None for each in ordered]
    assert dated == sorted(dated, reverse=True), "what has no time comes last"
    assert oldest_first(ordered) == ordered


def time_of(item: MemoryItem) -> str | None:
    return next((time for time in (item.valid_from, item.told_at) if time is not None and time[0] == "2"), None)


def test_equal_times_go_by_telling_then_storing_then_place_then_relevance() -> None:
    begun, later = START.isoformat(), (START + timedelta(hours=1)).isoformat()
    told_later = item(0, valid_from=begun, told_at=later)
    stored_later = item(1, created_at=later)
    second = item(2, position=1)
    first, equal = item(3, position=0), item(4, position=0)
    assert oldest_first([told_later, stored_later, second, first, equal]) == [
        first, equal, second, stored_later, told_later,
    ]  # fmt: skip


def test_times_in_other_zones_are_compared_as_moments() -> None:
    early, late = item(0, valid_from="2026-03-01T23:30:00+03:00"), item(1, valid_from="2026-03-01T21:00:00+00:00")
    assert oldest_first([late, early]) == [early, late]


# ------------------------------------------------------------------ search


@pytest.mark.parametrize("preset", ["best", "plain", "router", "proxy"])
def test_the_same_results_oldest_first_with_their_own_scores(trips: Memory, preset: str) -> None:
    ask: dict[str, Any] = {"preset": preset, "threshold": 0.0, **ANA}
    best = trips.search(ASKED, **ask)
    timeline = trips.search(ASKED, order="time", **ask)
    assert texts(timeline) == OLDEST_FIRST != texts(best)
    scores = {each.id: each.score for each in best.results}
    assert {each.id: each.score for each in timeline.results} == pytest.approx(scores)  # recency moves by the clock
    assert timeline.coverage == pytest.approx(best.coverage) and timeline.held_back == best.held_back
    assert texts(trips.search(ASKED, order="score", **ask)) == texts(best)


def test_relevance_chooses_and_time_orders(trips: Memory) -> None:
    assert texts(trips.search(ASKED, limit=2, order="time", **ANA)) == OLDEST_FIRST[:2]
    assert texts(trips.search(ASKED, limit=1, order="time", **ANA)) == [ASKED]
    scores = sorted(each.score or 0.0 for each in trips.search(ASKED, threshold=0.0, **ANA).results)
    assert texts(trips.search(ASKED, threshold=scores[1], order="time", **ANA)) == OLDEST_FIRST[:2]


def test_a_prompts_block_holds_the_same_memories_oldest_first(trips: Memory) -> None:
    best, timeline = trips.context(ASKED, **ANA), trips.context(ASKED, order="time", **ANA)
    lines = [sorted(line for line in block.split("\n") if line.startswith("- ")) for block in (best, timeline)]
    assert best != timeline and lines[0] == lines[1]
    dates = re.findall(r"\((\d{4}-\d\d-\d\d)\)$", timeline, re.MULTILINE)
    assert len(dates) > 1 and dates == sorted(dates)
    with pytest.raises(InvalidInputError, match="order"):
        trips.context(ASKED, order="age", **ANA)


def test_a_fact_stands_at_the_time_that_it_is_about(quick: Memory) -> None:
    tell(quick, "2026-03-01", "I ordered a telescope.")
    tell(quick, "2026-03-08", "I sold my old telescope on 2 February 2026.")
    results = quick.search("telescope", order="time", filters={"kind": "facts"}, **ANA).results
    assert [(each.valid_from or "")[:10] for each in results] == ["2026-02-02", "2026-03-01"]


def test_facts_notes_and_messages_come_in_one_order_each_once(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED, episodes="words")
    tell(memory, "2026-03-09", "I adopted a cat called Miso.")
    tell(memory, "2026-03-02", "Meine Katze heißt Miso und schläft den ganzen Tag auf dem Sofa.")
    memory.add(
        [
            {"role": "user", "content": "Tell me about cats.", "timestamp": "2026-03-05"},
            {"role": "assistant", "content": "A cat such as Miso sleeps for half the day.", "timestamp": "2026-03-05"},
        ],
        **ANA,
    )
    best = memory.search("Miso the cat", threshold=0.0, **ANA)
    timeline = memory.search("Miso the cat", threshold=0.0, order="time", **ANA)
    kinds = [(each.kind, each.told_at[8:10]) for each in timeline.results]
    assert list(dict.fromkeys(kinds)) == [("notes", "02"), ("messages", "05"), ("facts", "09")]
    assert len({each.id for each in timeline.results}) == len(timeline.results)
    assert {each.id for each in timeline.results} == {each.id for each in best.results}


def test_what_was_known_then_is_ordered_too(trips: Memory) -> None:
    assert texts(trips.search(ASKED, as_of="2026-03-04", order="time", **ANA)) == OLDEST_FIRST[:2]


@pytest.mark.parametrize("order", ["Time", "oldest", "", None, 1, ["time"]])
def test_an_unknown_order_is_refused(quick: Memory, order: Any) -> None:
    with pytest.raises(InvalidInputError, match="order must be one of score, time") as refused:
        quick.search("tea", order=order, **ANA)
    assert refused.value.field == "order"
