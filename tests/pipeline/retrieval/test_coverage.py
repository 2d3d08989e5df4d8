"""Coverage: a number in [0, 1] that grows with what is held, falls with what is not, and hears no words of asking."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from perdure.pipeline.lexicon import words
from perdure.pipeline.retrieval.fusion import EVIDENCE, Coverage, cover
from perdure.pipeline.retrieval.question import Question, read_question
from perdure.pipeline.retrieval.time_window import Window

Likeness = NDArray[np.float32]
MARCH = datetime(2025, 3, 1, tzinfo=UTC)
DAY = 86_400.0
ASKING = sorted(words("recall_asking_words.txt"))


def question_of(text: str, *speakers: str) -> Question:
    return read_question(text, speakers, reference=datetime(2026, 1, 1, tzinfo=UTC))


def covered(
    question: Question,
    likeness: Sequence[Sequence[float]] | Likeness,
    best: Sequence[int] | None = None,
    days: Sequence[float] | None = None,
    speakers: Sequence[str | None] | None = None,
) -> Coverage:
    """The coverage by all units in their order, told in 1970 by nobody, where nothing else is said."""
    held = np.array(likeness, np.float32)
    order = list(range(held.shape[1])) if best is None else list(best)
    told = np.array([0.0] * len(order) if days is None else days)
    return cover(question, held, order, told, [None] * len(order) if speakers is None else speakers)


CELLO = question_of("Does she play the cello in Bergen?")


@st.composite
def questions_and_likeness(draw: st.DrawFn) -> tuple[Question, Likeness, list[int]]:
    """A question of one to four words, likenesses in [0, 1], and units that speak for memories, best first."""
    asked = draw(st.lists(st.sampled_from(["cello", "bergen", "harbour", "exactly", "zebra"]), min_size=1, max_size=4))
    question = question_of(" ".join(asked))
    units = draw(st.integers(1, 14))
    shares = st.floats(0, 1, width=32)
    size = len(question.words) * units
    likeness = np.array(draw(st.lists(shares, min_size=size, max_size=size)), np.float32)
    best = draw(st.lists(st.integers(0, units - 1), min_size=1, max_size=units, unique=True))
    return question, likeness.reshape(len(question.words), units), best


@given(drawn=questions_and_likeness())
def test_it_is_a_share(drawn: tuple[Question, Likeness, list[int]]) -> None:
    question, likeness, best = drawn
    found = covered(question, likeness, best)
    assert 0 <= found.value <= 1
    assert all(0 <= share <= 1 for share in found.facets["words"].values())
    assert set(found.facets["words"]) <= set(question.words)


@given(drawn=questions_and_likeness(), data=st.data())
def test_it_never_falls_where_a_word_is_held_better(
    drawn: tuple[Question, Likeness, list[int]], data: st.DataObject
) -> None:
    question, likeness, best = drawn
    more = likeness.copy()
    word = data.draw(st.integers(0, likeness.shape[0] - 1))
    unit = data.draw(st.integers(0, likeness.shape[1] - 1))
    more[word, unit] = 1.0
    assert covered(question, more, best).value >= covered(question, likeness, best).value - 1e-6


@given(drawn=questions_and_likeness())
def test_a_word_that_nothing_is_like_takes_all_of_it(drawn: tuple[Question, Likeness, list[int]]) -> None:
    question, likeness, best = drawn
    strange = question_of(f"{question.text} theremin")
    more = np.vstack([likeness, np.zeros((1, likeness.shape[1]), np.float32)])
    found = covered(strange, more, best)
    assert found.value == 0
    assert found.facets["words"]["theremin"] == 0


def test_a_missing_word_in_the_evidence_adds_to_it() -> None:
    assert CELLO.words == ("play", "cello", "bergen")
    without = covered(CELLO, [[1, 0.2], [1, 0.1], [0.3, 0.2]])
    beside = covered(CELLO, [[1, 0.2], [1, 0.1], [0.3, 1]])
    together = covered(CELLO, [[1, 0.2], [1, 0.1], [1, 0.2]])
    assert without.value < beside.value < together.value == pytest.approx(1)
    assert beside.facets["words"] == {"play": 1, "cello": 1, "bergen": 1}
    assert without.facets["words"]["bergen"] == pytest.approx(0.3)


def test_a_word_held_elsewhere_in_the_scope_is_no_evidence() -> None:
    units = [[1.0] * EVIDENCE + [1.0], [0.2] * EVIDENCE + [1.0], [1.0] * EVIDENCE + [0.0]]
    inside = covered(CELLO, units, best=[*range(EVIDENCE - 1), EVIDENCE])
    beyond = covered(CELLO, units)
    assert beyond.facets["words"]["cello"] == pytest.approx(0.2)
    assert inside.facets["words"]["cello"] == 1
    assert beyond.value < inside.value


def test_a_large_scope_is_judged_more_strictly() -> None:
    """Of many memories one has a word like nearly every other."""
    small = covered(CELLO, [[0.9] * 5] * 3)
    large = covered(CELLO, [[0.9] * 500] * 3)
    assert 0 < large.value < small.value < 1


@pytest.mark.parametrize("word", ASKING)
def test_words_of_asking_change_nothing(word: str) -> None:
    asked = question_of(f"{word} cello Bergen")
    plain = question_of("cello Bergen")
    held = {"cello": [1.0, 0.2], "bergen": [0.6, 0.4]}
    found = covered(asked, [held.get(each, [0.0, 0.0]) for each in asked.words])
    expected = covered(plain, [held[each] for each in plain.words])
    assert found == expected
    assert found.value > 0


def test_a_question_of_nothing_but_asking_is_taken_by_its_words() -> None:
    asked = question_of("any specific details?")
    assert asked.words and set(asked.words) <= set(ASKING)
    assert covered(asked, [[1.0]] * len(asked.words)).value == pytest.approx(1)
    assert covered(asked, [[0.0]] * len(asked.words)).value == 0


@pytest.mark.parametrize("units", [0, 3])
def test_no_evidence_is_no_coverage(units: int) -> None:
    found = covered(CELLO, np.ones((3, units), np.float32), best=[])
    assert found == Coverage(0.0, {"words": {"play": 0.0, "cello": 0.0, "bergen": 0.0}})


def test_an_unspaced_question_of_what_nobody_told_is_not_covered() -> None:
    asked = question_of("東京に住んでいますか")
    assert asked.words == () and asked.pairs
    assert covered(asked, np.zeros((len(asked.pairs), 1), np.float32), best=[0]).value == 0


@pytest.mark.parametrize("text", ["\N{SLIGHTLY SMILING FACE}", "...", "?!"])
def test_a_question_without_a_word_is_not_covered(text: str) -> None:
    asked = question_of(text)
    assert not asked.words and not asked.pairs
    assert covered(asked, np.zeros((0, 2), np.float32), best=[0, 1]) == Coverage(0.0, {})


def test_a_question_for_a_time_alone_is_covered_by_what_was_told_then() -> None:
    asked = read_question("?", window=Window(MARCH, datetime(2025, 4, 1, tzinfo=UTC), "span"))
    day = MARCH.timestamp() / DAY + 3
    assert covered(asked, np.zeros((0, 1), np.float32), best=[0], days=[day]).value == 1
    assert covered(asked, np.zeros((0, 1), np.float32), best=[0], days=[day - 4000]).value < 0.1


# ------------------------------------------------------------------ names and time


def test_names_say_who_speaks_in_the_evidence() -> None:
    asked = question_of("What did Ann and Bob say about the cello?", "ann", "bob", "user")
    assert asked.named == {"ann", "bob"}
    assert not {"ann", "bob"} & set(asked.words)
    likeness = [[1.0] * 11] * len(asked.words)
    found = covered(asked, likeness, speakers=["ann"] * EVIDENCE + ["bob"])
    assert found.facets["names"] == {"ann": True, "bob": False}
    assert found.value == covered(asked, likeness, speakers=[None] * 11).value, "names are told and not weighed"


def test_names_are_told_only_where_they_are_asked_about() -> None:
    assert "names" not in covered(question_of("the cello?", "ann"), [[1.0]], speakers=["ann"]).facets


def test_a_question_of_nothing_but_names_asks_for_their_words() -> None:
    asked = question_of("Ann?", "ann")
    assert asked.named == {"ann"} and asked.words == ("ann",)
    assert covered(asked, [[1.0]], speakers=["ann"]).value == pytest.approx(1)
    assert covered(asked, [[0.0]], speakers=["ann"]).facets == {"words": {"ann": 0.0}, "names": {"ann": True}}


@pytest.mark.parametrize(("away", "least", "most"), [(0, 1, 1), (400, 0, 0.5)])
def test_time_says_how_near_the_evidence_comes(away: int, least: float, most: float) -> None:
    asked = read_question("the cello?", window=Window(MARCH, datetime(2025, 4, 1, tzinfo=UTC), "span"))
    day = MARCH.timestamp() / DAY + 3
    found = covered(asked, [[1.0, 1.0]], days=[day + away, day - 4000])
    assert least <= found.facets["time"] <= most


def test_time_is_told_only_where_it_is_asked_about() -> None:
    assert "time" not in covered(question_of("the cello?"), [[1.0]]).facets


@given(st.floats(0.125, 1, width=32), st.floats(0.125, 1, width=32))
def test_what_another_said_covers_less_of_a_question_about_a_person(theirs: float, others: float) -> None:
    question = question_of("Which cello did Ann buy?", "ann", "bo")
    held = [[theirs, others]] * len(question.words)
    by_either = covered(question, held, speakers=["ann", "ann"]).value
    by_another = covered(question, held, speakers=["ann", "bo"]).value
    assert by_another < by_either if others > theirs else by_another == by_either
    by_none = covered(question, held, speakers=["bo", "bo"]).value
    assert 0 < by_none <= by_another and by_none < by_either
    assert covered(question, held, speakers=[None, None]).value == by_either
