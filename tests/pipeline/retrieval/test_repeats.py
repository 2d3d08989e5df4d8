"""Which memories repeat a better one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.memory import Slots
from perdure.pipeline.retrieval.rescoring import without_repeats

pytestmark = pytest.mark.covers("K4")

COFFEE = ["User likes coffee", "User loves coffee", "User enjoys coffee", "User is fond of coffee"]
APART = [
    "User likes tea",
    "User does not like coffee",
    "User visited Rome in 2021",
    "User visited Rome in 2023",
    "User has a meeting with Anna on Monday",
    "User has a meeting with Anna on Tuesday",
    "Anne likes coffee",
    "zebra number 1 is at the zoo",
    "zebra number 2 is at the zoo",
    "User's budget for Hawaii is $10,000",
    "User's budget for Hawaii is $15,000",
    "coffee",
]


def kept(texts: list[str]) -> list[str]:
    return [texts[place] for place in without_repeats([(text, None) for text in texts])]


@pytest.mark.covers("K4")
def test_of_wordings_of_one_fact_the_best_is_kept() -> None:
    assert kept([*COFFEE, "User has a cat"]) == [COFFEE[0], "User has a cat"]
    assert kept(["User has a cat", *reversed(COFFEE)]) == ["User has a cat", COFFEE[-1]]


def test_what_differs_in_anything_is_kept_u8() -> None:
    assert kept([*APART, COFFEE[1]]) == [*APART, COFFEE[1]]


def test_slots_that_are_known_go_before_the_words() -> None:
    one = Slots("user", "lik", "Coffee")
    known = [("a", one), ("b", Slots("user", "lik", " coffee ")), ("c", Slots("user", "lik", "tea"))]
    assert without_repeats(known) == [0, 2]


@given(st.lists(st.one_of(st.sampled_from(COFFEE + APART), st.text(max_size=30)), max_size=12))
def test_the_order_stays_and_the_first_is_always_kept(texts: list[str]) -> None:
    places = without_repeats([(text, None) for text in texts])
    assert places == sorted(set(places)) and places[:1] == [0] * bool(texts)
    left = [texts[place] for place in places]
    assert kept(left) == left
