"""Renewals: which questions ask how things stand now, and what moves before what."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from perdure import Memory
from perdure.pipeline.retrieval.question import (
    ALIKE,
    WORTH,
    asks_how_things_stand,
    marks_of,
    read_question,
    renewed_first,
)

OF_NOW = [
    "What is my budget?", "what's my phone number", "What are my working hours?", "  What is the deadline?",
    "How many books do I own?", "How much do I pay for rent?", "How long is my commute?", "How often do I swim?",
    "How old is my dog?", "How far do I run?", "How big is my flat?", "How high is my dose?", "How fast do I type?",
    "When is my appointment?", "Where do I live?", "Which bank am I with?", "Who is my dentist?", "who's my manager?",
    "WHAT IS MY SALARY?", "Is my budget 500?", "Do I have a dog?", "On which day do I swim?", "my budget",
]  # fmt: skip
OF_ANOTHER_TIME = [
    "What was my budget?", "How many books did I own in March?", "Where were my keys?", "What had I planned?",
    "What is the difference between my two flats?", "What is my budget before tax?", "What is due after Monday?",
    "Which flat is the first that I rented?", "What do I earn compared to earlier?", "Where have I previously lived?",
    "Where do I originally come from?", "What car used to be mine?", "How does my budget change?",
    "How has my plan changed?", "How long is it since I moved?", "Wo wohne ich?", "¿Dónde está la fiesta?", "",
]  # fmt: skip


@pytest.mark.parametrize("question", OF_NOW)
def test_a_question_of_how_things_stand(question: str) -> None:
    assert asks_how_things_stand(question)


@pytest.mark.parametrize("question", OF_ANOTHER_TIME)
def test_a_question_of_another_time_or_none(question: str) -> None:
    assert not asks_how_things_stand(question)


@pytest.mark.parametrize("question", ["What is my budget for last week?", "What would you recommend?"])
def test_a_question_with_a_date_or_for_something_to_be_done_is_not_of_now(question: str) -> None:
    assert asks_how_things_stand(question)
    now = datetime(2026, 3, 1, tzinfo=UTC)
    assert not read_question(question, reference=now).of_now
    assert read_question("What is my budget?", reference=now).of_now


# ------------------------------------------------------------------ what is told of two

OF_NUMBERS = [
    ("Locker {mark} code is {value}", "What is the code of locker {mark}?"),
    ("In room {mark} the lamp costs {value} euros.", "How much is the lamp in room {mark}?"),
    ("Bus {mark} leaves at {value}", "When does bus {mark} leave?"),
]
OF_NAMES = [
    ("I met {mark}, she owns {value} goats", "How many goats does {mark} own?"),
    ("On stop 4 I saw {mark} who takes {value} mg of statins.", "What does {mark} take?"),
    ("My friend {mark} collects stamps since {value}.", "Since when does {mark} collect stamps?"),
]
VALUES = st.integers(11, 28)
NUMBERED = st.tuples(
    st.sampled_from(OF_NUMBERS), st.lists(st.integers(30, 99).map(str), min_size=2, max_size=3, unique=True)
)
NAMED = st.tuples(
    st.sampled_from(OF_NAMES),
    st.lists(st.sampled_from(["Rosa", "Clara", "Mrs Patel", "Keiko", "Elif"]), min_size=2, max_size=3, unique=True),
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=NUMBERED | NAMED, value=VALUES)
def test_a_search_finds_first_what_has_the_name_or_number_of_the_question(
    drawn: tuple[tuple[str, str], list[str]], value: int
) -> None:
    (told, asked), marks = drawn
    with Memory({"vector_store": {"provider": "memory"}}) as memory:
        for place, mark in enumerate(marks):
            memory.add(told.format(mark=mark, value=value + place), user_id="ana")
        for mark in marks:
            first = memory.search(asked.format(mark=mark), user_id="ana").results[0].memory
            assert mark in first, (asked.format(mark=mark), first)


# ------------------------------------------------------------------ what moves

Order = list[int]
NO_NOTES = [False] * 10


def pair_of(cosine: float) -> NDArray[np.float32]:
    """Two vectors of length 1 with this cosine."""
    return np.array([[1, 0], [cosine, (1 - cosine**2) ** 0.5]], np.float32)


def ordered(
    cosine: float = 0.9,
    moments: tuple[float, float] = (1, 2),
    scores: tuple[float, float] = (1.0, 0.9),
    told: tuple[bool, bool] = (True, True),
    noted: tuple[bool, bool] = (False, False),
) -> Order:
    return renewed_first(pair_of(cosine), [(moments[0], 0), (moments[1], 1)], scores, told, noted)


def test_the_newer_of_two_that_are_alike_comes_first() -> None:
    assert ordered() == [1, 0]
    assert ordered(moments=(2, 1)) == [0, 1], "where the newer one stands first already"
    assert ordered(moments=(1, 1)) == [1, 0], "of one moment, what follows is the newer one"


@pytest.mark.parametrize(("cosine", "moved"), [(ALIKE - 0.01, False), (ALIKE + 0.01, True), (-0.9, False)])
def test_only_where_both_speak_of_one_matter(cosine: float, moved: bool) -> None:
    assert (ordered(cosine=cosine) == [1, 0]) is moved


@pytest.mark.parametrize(("share", "moved"), [(WORTH - 0.01, False), (WORTH, True), (0.0, False)])
def test_only_where_the_newer_answers_nearly_as_well(share: float, moved: bool) -> None:
    assert (ordered(scores=(1.0, share)) == [1, 0]) is moved


@pytest.mark.parametrize("told", [(True, False), (False, True), (False, False)])
def test_of_messages_only_the_users_own(told: tuple[bool, bool]) -> None:
    assert ordered(told=told) == [0, 1]


@pytest.mark.parametrize("noted", [(True, False), (False, True), (True, True)])
def test_a_note_and_what_is_newer_or_older_change_places(noted: tuple[bool, bool]) -> None:
    assert ordered(told=(False, False), noted=noted) == [1, 0]
    assert ordered(told=(False, False), noted=noted, cosine=ALIKE - 0.01) == [0, 1], "another matter"


@pytest.mark.parametrize("held", [((True,), (False,)), ((False,), (True,)), ((True, False), (True, True))])
def test_what_has_another_name_or_number_of_the_question_is_about_another_one(
    held: tuple[tuple[bool, ...], tuple[bool, ...]],
) -> None:
    moments, scores, own, none = [(1.0, 0), (2.0, 1)], [1.0, 0.9], [True, True], [False, False]
    assert renewed_first(pair_of(0.99), moments, scores, own, none, marked=np.array(held)) == [0, 1]
    assert renewed_first(pair_of(0.99), moments, scores, own, none, marked=np.array((held[0], held[0]))) == [1, 0]


@pytest.mark.parametrize(
    ("question", "marks"),
    [
        ("What is the code of locker 9?", {"9"}),
        ("What does Mrs Patel take?", {"patel"}),
        ("how much does anna pay?", {"anna"}),
        ("How many goats does Rosa Berg own?", {"rosa", "berg"}),
        ("What is my budget?", set()),
        ("what's my rent", set()),
        ("", set()),
    ],
)
def test_names_and_numbers_are_the_marks_of_a_question(question: str, marks: set[str]) -> None:
    assert marks_of(question) == marks


def test_speakers_are_no_marks_because_they_tell_of_themselves_without_their_names() -> None:
    assert read_question("What is Ann's budget for Rome?", ["Ann", "Bo"]).marks == {"rome"}


def test_the_order_of_all_others_is_kept() -> None:
    vectors = np.eye(5, dtype=np.float32)
    vectors[3] = vectors[1]
    moments = [(float(moment), place) for place, moment in enumerate([5, 1, 4, 2, 3])]
    assert renewed_first(vectors, moments, [1.0, 0.95, 0.9, 0.85, 0.8], [True] * 5, NO_NOTES) == [0, 3, 1, 2, 4]


def test_three_of_one_matter_stand_by_time() -> None:
    moments = [(1.0, 0), (2.0, 1), (3.0, 2)]
    assert renewed_first(np.ones((3, 1), np.float32), moments, [1.0, 0.9, 0.8], [True] * 3, NO_NOTES) == [2, 1, 0]


def test_nothing_and_one() -> None:
    assert renewed_first(np.zeros((0, 4), np.float32), [], [], [], []) == []
    assert renewed_first(np.ones((1, 1), np.float32), [(1.0, 0)], [0.0], [True], NO_NOTES) == [0]


@st.composite
def rankings(
    draw: st.DrawFn,
) -> tuple[NDArray[np.float32], list[tuple[float, int]], list[float], list[bool]]:
    """Up to ten memories, best first: directions, moments, falling scores, and which the user told."""
    count = draw(st.integers(0, 10))

    def drawn(values: st.SearchStrategy[float]) -> list[float]:
        return draw(st.lists(values, min_size=count, max_size=count))

    angles = np.array(drawn(st.floats(0, 6.28)))
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    moments = [(float(moment), place) for place, moment in enumerate(drawn(st.sampled_from([1.0, 2.0, 3.0, 4.0])))]
    scores = sorted(drawn(st.floats(0, 1)), reverse=True)
    told = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    return vectors, moments, scores, told


Ranking = tuple[NDArray[np.float32], list[tuple[float, int]], list[float], list[bool]]


@given(ranking=rankings())
def test_it_is_a_permutation_in_which_nothing_older_moves_up(ranking: Ranking) -> None:
    _, moments, _, told = ranking
    order = renewed_first(*ranking, NO_NOTES)
    assert sorted(order) == list(range(len(moments)))
    place = {number: position for position, number in enumerate(order)}
    for better in range(len(order)):
        for worse in range(better + 1, len(order)):
            if place[worse] < place[better]:
                assert told[worse], "only what the user told overtakes anything"
                assert any(
                    told[older] and moments[worse] > moments[older] and place[worse] < place[older]
                    for older in range(worse)
                )
    others = [number for number in order if not told[number]]
    assert others == sorted(others)


@given(ranking=rankings())
def test_what_is_newest_first_already_stays(ranking: Ranking) -> None:
    vectors, _, scores, told = ranking
    falling = [(float(-place), place) for place in range(len(scores))]
    order = renewed_first(vectors, falling, scores, told, NO_NOTES)
    assert order == list(range(len(scores)))
