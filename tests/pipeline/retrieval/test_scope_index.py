"""The index of one scope: whatever was put and removed on the way, it is the index of what is left."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from perdure.pipeline.retrieval import fusion
from perdure.pipeline.retrieval.features import Cues, Entry, key_of, read
from perdure.pipeline.retrieval.fusion import Ranked, rank
from perdure.pipeline.retrieval.names import proper_nouns
from perdure.pipeline.retrieval.question import Question, read_question
from perdure.pipeline.retrieval.scope_index import ScopeIndex
from perdure.pipeline.retrieval.time_window import temporal_words
from perdure.pipeline.retrieval.weights import Ranking

DIMENSION = 4
HOUR = 60
LONG = " ".join(f"word{number} tea." for number in range(60))
TEXTS = (
    "tea",
    "tea tea and coffee",
    "Did Ann like the tea?",
    "We walked to Lisbon yesterday",
    "the and of",
    "",
    "?!",
    "北京烤鸭",
    "🎈",
    LONG,
)
IDS = ("a", "b", "c", "ü", "北京", "🎈", "'; --")
QUESTION = replace(
    read_question("Can you show me what Ann said of tea and 北京?", ["Ann"]), named=frozenset({"ann"}), wants_doing=True
)
QUERY = np.array([0.6, 0.8, 0.0, 0.0], np.float32)

Vector = NDArray[np.float32]


def unit(*numbers: float) -> Vector:
    """A vector of length 1 in this direction; zeros where all numbers are."""
    vector = np.array([*numbers, *[0.0] * (DIMENSION - len(numbers))], np.float32)
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0 else vector


def word_vector(word: str) -> Vector:
    """Some vector of a word, the same whenever it is asked for."""
    seed = [ord(character) for character in word] or [0]
    return unit(*np.random.default_rng(seed).random(DIMENSION))


def entry(id: str, text: str = "tea", *, minute: float = 0, order: int = 0, **fields: Any) -> Entry:
    """A turn that Ann said so many minutes after the beginning of time."""
    values: dict[str, Any] = {
        "stamp": "1",
        "track": ("ann", None),
        "turn": True,
        "role": "user",
        "speaker": "Ann",
        "vector": unit(1.0),
        "passages": np.zeros((0, DIMENSION), np.float32),
    }
    place = (minute / (24 * HOUR), order, 0)
    marks = {name: fields.pop(name, False) for name in ("directive", "preference")}
    cues = Cues(temporal=temporal_words(text), proper=len(proper_nouns(text)), **marks)
    return Entry(id=id, place=place, features=read(text), cues=cues, **{**values, **fields})


def index_of(entries: Iterable[Entry]) -> ScopeIndex:
    """An index of these entries, with a vector for each word."""
    index = ScopeIndex(DIMENSION)
    for each in entries:
        index.put(each)
    give_words(index)
    return index


def give_words(index: ScopeIndex) -> None:
    index.words.give({word: word_vector(word) for word in index.unvectored})


def beside(index: ScopeIndex, id: str) -> list[str | None]:
    """The owners of the three units before and the three after a memory's first unit."""
    at = index._units[id][0]
    return [index.ids[int(index.owner[rows[at]])] or None for rows in index.neighbours()] or [None] * 6


def view(index: ScopeIndex) -> dict[str, Any]:
    """What an index says of the memories that it holds, in words that do not depend on where a unit stands in it."""
    places = {id: index._units[id][0] for id in index.stamps}
    spread: dict[str, Any] = {}
    starts = [*index.occurrences[1].tolist(), len(index.occurrences[0])]
    speakers = {number: name for name, number in index.speakers.items()}
    for id, first in places.items():
        units = [at for at in range(first, len(index.alive)) if index.ids[index.owner[at]] == id and index.alive[at]]
        assert units == list(range(first, first + len(units)))
        for number, at in enumerate(units):
            spread[f"{id}/{number}"] = {
                "beside": [index.ids[index.owner[rows[at]]] for rows in index.neighbours()] or [""] * 6,
                "norm": pytest.approx(float(index.norms[at]), abs=1e-5),
                "vector": index.vectors[at].tolist(),
                "length": float(index.lengths[at]),
                "days": float(index.days[at]),
                "cues": int(index.cues[at]),
                "counts": (int(index.temporal[at]), int(index.proper[at])),
                "speaker": speakers.get(int(index.speaker[at])),
                "words": [index.words.texts[word] for word in index.occurrences[0][starts[at] : starts[at + 1]]],
            }
    return spread


def postings(index: ScopeIndex) -> dict[str, list[tuple[str, int, float]]]:
    """The living units of each stem: their memory, which unit of it, and how often."""
    found: dict[str, list[tuple[str, int, float]]] = {}
    for stem in {stem for text in (*TEXTS, "word") for each in read(text).units for stem in each.stems}:
        rows, counts = index.postings(stem)
        living = []
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            if index.alive[row]:
                id = index.ids[index.owner[row]]
                living.append((id, row - index._units[id][0], count))
        found[stem] = sorted(living)
    return found


def by_id(index: ScopeIndex, found: Ranked) -> dict[str, tuple[float, float, dict[str, float]]]:
    """Score, similarity and shares of each ranked memory."""
    return {
        id: (
            float(found.fused[place]),
            float(found.similarity[place]),
            {name: float(values[found.units[place]]) for name, values in found.shares.items()},
        )
        for place, id in enumerate(found.ids)
    }


def ranked(index: ScopeIndex, question: Question = QUESTION, query: Vector | None = QUERY) -> Ranked:
    asked = {word: word_vector(word) for word in question.words}
    return rank(index, question, query, asked, Ranking())


def assert_same_ranking(one: ScopeIndex, other: ScopeIndex) -> None:
    left, right = ranked(one), ranked(other)
    expected = by_id(other, right)
    assert set(left.ids) == set(expected)
    for id, (fused, similarity, shares) in by_id(one, left).items():
        assert fused == pytest.approx(expected[id][0], abs=1e-4)
        assert similarity == pytest.approx(expected[id][1], abs=1e-4)
        assert shares == pytest.approx(expected[id][2], abs=1e-4)
    for better, worse in zip(left.ids, left.ids[1:], strict=False):
        assert expected[better][0] >= expected[worse][0] - 2e-4, "the order differs by more than rounding"


# ------------------------------------------------------------------ whatever happened on the way

Operation = Entry | str
"""An entry to be put, or the id of one to be removed."""


@dataclass(frozen=True)
class Run:
    """Operations in order, and how the survivors are shuffled for another index."""

    operations: list[Operation]
    shuffle: int


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Puts, puts in place of what is there, and removals; times are unequal, as the clock of a ledger makes them."""
    operations: list[Operation] = []
    for order in range(draw(st.integers(0, 14))):
        id = draw(st.sampled_from(IDS))
        if not draw(st.integers(0, 3)):
            operations.append(id)
            continue
        text = draw(st.sampled_from(TEXTS))
        units = len(read(text).units)
        rows = draw(st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=units, max_size=units))
        numbers = draw(st.none() | st.lists(st.integers(0, 2), min_size=3, max_size=3))
        made = entry(
            id,
            text,
            minute=draw(st.sampled_from([0, 10, 20, 30, 85, 95, 200])),
            order=order,
            stamp=str(order),
            track=(draw(st.sampled_from(["ann", "bob"])), None),
            turn=draw(st.integers(0, 4)) > 0,
            role=draw(st.sampled_from(["user", "assistant", "memory"])),
            speaker=draw(st.sampled_from(["Ann", "BOB", None])),
            directive=draw(st.booleans()),
            preference=draw(st.booleans()),
            vector=None if numbers is None else unit(*numbers),
            passages=np.stack([unit(*row) for row in rows]) if draw(st.booleans()) and units > 1 else np.zeros((0, 4)),
        )
        operations.append(made)
    return Run(operations, draw(st.integers(0, 99)))


@given(runs())
def test_whatever_was_put_and_removed_it_is_the_index_of_what_is_left(run: Run) -> None:
    index = ScopeIndex(DIMENSION)
    left: dict[str, Entry] = {}
    for number, value in enumerate(run.operations):
        if isinstance(value, Entry):
            index.put(value)
            left[value.id] = value
        else:
            index.remove(value)
            left.pop(value, None)
        if number % 3 == 0:
            give_words(index)
    give_words(index)
    survivors = list(left.values())
    np.random.default_rng(run.shuffle).shuffle(survivors)
    fresh = index_of(survivors)

    assert set(index.stamps) == set(left)
    assert index.stamps == {id: each.stamp for id, each in left.items()}
    assert index.alive_entries == len(left)
    assert len(index.alive) - 1 - index.dead_units == sum(len(each.features.units) for each in survivors)
    assert view(index) == view(fresh)
    assert postings(index) == postings(fresh)
    assert wholes(index) == wholes(fresh)
    assert_same_ranking(index, fresh)


def wholes(index: ScopeIndex) -> Mapping[str, float]:
    cosines, rows = fusion.whole_signal(index, QUERY)
    return {
        index.ids[index.owner[row]]: round(float(value), 5) for value, row in zip(cosines, rows.tolist(), strict=True)
    }


@given(runs())
def test_a_memory_that_was_removed_never_ranks(run: Run) -> None:
    index = index_of(value for value in run.operations if isinstance(value, Entry))
    for id in IDS[:4]:
        index.remove(id)
    found = ranked(index)
    assert set(found.ids).isdisjoint(IDS[:4])
    assert len(found.ids) == len(set(found.ids))
    for id in IDS:
        index.remove(id)
        index.remove(id)
    assert (ranked(index).ids, index.alive_entries, list(index.stamps)) == ([], 0, [])


# ------------------------------------------------------------------ neighbours


def test_a_turn_knows_the_three_before_and_the_three_after() -> None:
    index = index_of(entry(str(number), minute=number, order=number) for number in range(9))
    assert beside(index, "4") == ["3", "2", "1", "5", "6", "7"]
    assert beside(index, "0") == [None, None, None, "1", "2", "3"]
    assert beside(index, "8") == ["7", "6", "5", None, None, None]


def test_a_turn_that_comes_late_is_linked_where_it_was_told() -> None:
    index = index_of(entry(id, minute=minute) for id, minute in (("first", 0), ("last", 20)))
    assert beside(index, "last")[0] == "first"
    index.put(entry("late", minute=10, order=99))
    assert beside(index, "late") == ["first", None, None, "last", None, None]
    assert beside(index, "last")[:2] == ["late", "first"]
    assert beside(index, "first")[3:5] == ["late", "last"]
    index.remove("late")
    assert (beside(index, "last")[0], beside(index, "first")[3]) == ("first", "last")


def test_turns_of_one_moment_stand_in_the_order_of_their_making() -> None:
    late_first = [entry("second", minute=5, order=2), entry("first", minute=5, order=1)]
    assert beside(index_of(late_first), "second")[0] == "first"
    same_call = replace(late_first[1], id="third", place=(late_first[1].place[0], 2, 1))
    assert beside(index_of([same_call, *late_first]), "third")[:2] == ["second", "first"]


@pytest.mark.parametrize(("minutes", "near"), [(HOUR, True), (HOUR + 1, False)])
def test_an_hour_between_turns_ends_their_talk(minutes: float, near: bool) -> None:
    index = index_of([entry("a"), entry("b", minute=minutes)])
    assert (beside(index, "b")[0] == "a") is near
    assert (beside(index, "a")[3] == "b") is near


def test_turns_of_another_track_are_no_neighbours() -> None:
    index = index_of([entry("a", minute=0), entry("other", minute=1, track=("ann", "agent")), entry("b", minute=2)])
    assert beside(index, "b")[0] == "a"
    assert beside(index, "other") == [None] * 6


@pytest.mark.parametrize("between", [{"text": LONG}, {"text": "tea", "turn": False, "role": "memory"}])
def test_a_long_message_parts_its_neighbours_and_a_fact_does_not(between: dict[str, Any]) -> None:
    index = index_of([entry("a", minute=0), entry("x", minute=1, order=1, **between), entry("b", minute=2)])
    assert beside(index, "x") == [None] * 6
    assert beside(index, "b")[0] == (None if between["text"] == LONG else "a")
    index.remove("x")
    assert beside(index, "b")[0] == "a"


def test_a_turn_told_anew_at_another_time_moves() -> None:
    index = index_of(entry(id, minute=minute) for id, minute in (("a", 0), ("b", 1), ("c", 2)))
    index.put(entry("a", minute=3, stamp="2"))
    assert beside(index, "b") == [None, None, None, "c", "a", None]
    assert (beside(index, "a")[:2], index.stamps["a"]) == (["c", "b"], "2")


def test_the_window_norm_is_of_the_weighted_sum_of_vectors() -> None:
    vectors = [unit(1), unit(0, 1), unit(0, 0, 1), unit(1, 1)]
    index = index_of(entry(str(number), minute=number, vector=each) for number, each in enumerate(vectors))
    window = vectors[1] + 0.5 * vectors[0] + 0.3 * vectors[2] + 0.2 * vectors[3]
    assert float(index.norms[index._units["1"][0]]) == pytest.approx(float(np.linalg.norm(window)), abs=1e-6)
    index.remove("2")
    window = vectors[1] + 0.5 * vectors[0] + 0.3 * vectors[3]
    assert float(index.norms[index._units["1"][0]]) == pytest.approx(float(np.linalg.norm(window)), abs=1e-6)


def test_a_late_turn_changes_the_windows_of_three_on_each_side() -> None:
    turns = [entry(str(n), minute=n, order=n, vector=unit(1, n, n * n)) for n in range(9)]
    index = index_of(turn for turn in turns if turn.id != "4")
    index.put(turns[4])
    assert view(index) == view(index_of(turns))
    index.remove("4")
    assert view(index) == view(index_of(turn for turn in turns if turn.id != "4"))


# ------------------------------------------------------------------ what it is made of


def test_a_long_memory_has_a_unit_for_each_passage() -> None:
    features = read(LONG)
    passages = np.stack([unit(0, 1), *[unit(0, 0, 1)] * (len(features.units) - 1)])
    index = index_of([entry("long", LONG, vector=unit(1), passages=passages), entry("short", minute=500)])
    first = index._units["long"][0]
    assert len(features.units) == 2
    assert index.owner.tolist() == [0, 1, 1, 2]
    assert index.vectors[first : first + 2].tolist() == passages.tolist()
    assert [cosine.tolist() for cosine in index.wholes] == [[unit(1).tolist()], [first]]


def test_passages_that_were_not_embedded_have_no_vector() -> None:
    index = index_of([entry("long", LONG, passages=np.stack([unit(0, 1)]))])
    assert index.vectors.tolist() == [[0] * 4, unit(0, 1).tolist(), [0] * 4]


@pytest.mark.parametrize("text", ["", "?!", "the and of", "\n\n"])
def test_text_without_words_is_held_and_found_by_its_vector_alone(text: str) -> None:
    index = index_of([entry("empty", text, turn=False, vector=unit(3, 4)), entry("tea", turn=False, vector=unit(0, 1))])
    found = by_id(index, ranked(index))
    assert found["empty"][1] == pytest.approx(1.0)
    assert (found["empty"][2]["lexical"], found["empty"][2]["likeness"]) == (0, 0)
    assert "empty" not in ranked(index, query=None).ids


def test_without_vectors_words_alone_rank() -> None:
    index = index_of(entry(id, text, turn=False, vector=None) for id, text in (("a", "tea"), ("b", "coffee")))
    found = by_id(index, ranked(index))
    assert (list(found), found["a"][1]) == (["a", "b"], 0), "b is like tea a little, by its word"
    assert found["a"][2]["dense"] == found["b"][2]["dense"] == 0
    assert not math.isnan(found["b"][0])


def test_ids_are_any_text() -> None:
    index = index_of(entry(id, minute=number) for number, id in enumerate(IDS))
    assert set(ranked(index).ids) == set(IDS)
    assert "🎈" in index
    index.remove("🎈")
    assert "🎈" not in index
    assert set(ranked(index).ids) == set(IDS) - {"🎈"}


def test_a_word_is_given_its_vector_once() -> None:
    index = ScopeIndex(DIMENSION)
    index.put(entry("a", "tea and coffee"))
    assert set(index.unvectored) == {"tea", "coffee"}
    index.words.give({"tea": unit(0, 1), "unknown": unit(1)})
    assert index.unvectored == ["coffee"]
    index.words.give({"tea": unit(1)})
    assert index.words.number(key_of("unknown")) is None
    assert index.words.vector("coffee") is None
    found = index.words.vector("tea")
    assert found is not None and found.tolist() == unit(0, 1).tolist()
