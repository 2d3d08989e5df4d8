"""Recency of 002 and the half-life of 001, which are two formulas."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.errors import InvalidInputError
from perdure.pipeline.retrieval.rescoring import blend, half_life_decay, recency

pytestmark = pytest.mark.covers("B11", "K31", "K32", "U12")

SHARES = st.floats(0, 1)
AGES = st.floats(-1e4, 1e4)


@pytest.mark.covers("K31")
@pytest.mark.parametrize(("days", "expected"), [(0, 1.0), (30, 0.3679), (60, 0.1353), (15, 0.6065)])
def test_recency(days: float, expected: float) -> None:
    assert recency(days) == pytest.approx(expected, abs=5e-5)


@pytest.mark.covers("B11")
@pytest.mark.parametrize(("days", "expected"), [(0, 0.8), (30, 0.4), (60, 0.2), (90, 0.1)])
def test_half_life(days: float, expected: float) -> None:
    assert half_life_decay(0.8, days) == pytest.approx(expected)


@pytest.mark.covers("U12")
def test_the_two_30_days_are_not_one() -> None:
    assert half_life_decay(1.0, 30) == pytest.approx(0.5)
    assert recency(30) == pytest.approx(1 / math.e)


@pytest.mark.covers("K32")
def test_default_weight() -> None:
    assert blend(0.5, 1.0) == pytest.approx(0.6)


@pytest.mark.covers("K32")
@given(SHARES, SHARES)
def test_weight_0_is_relevance_and_weight_1_recency(relevance: float, recent: float) -> None:
    assert blend(relevance, recent, 0) == relevance
    assert blend(relevance, recent, 1) == recent


@pytest.mark.covers("K32")
@given(SHARES, SHARES, SHARES)
def test_a_blend_lies_between_its_parts(relevance: float, recent: float, weight: float) -> None:
    low, high = sorted((relevance, recent))
    assert low - 1e-12 <= blend(relevance, recent, weight) <= high + 1e-12


@pytest.mark.covers("B11", "K31")
@given(AGES, AGES, SHARES)
def test_older_is_never_worth_more(age: float, other: float, score: float) -> None:
    newer, older = sorted((age, other))
    assert 0 <= recency(older) <= recency(newer) <= 1
    assert 0 <= half_life_decay(score, older) <= half_life_decay(score, newer) <= score


@pytest.mark.covers("A12")
@given(st.floats(max_value=0, allow_infinity=False, allow_nan=False), SHARES)
def test_a_time_ahead_of_the_clock_counts_as_now(age: float, score: float) -> None:
    assert recency(age) == 1.0
    assert half_life_decay(score, age) == score


@pytest.mark.parametrize(
    ("broken", "field"),
    [
        (lambda: recency(1, 0), "e_fold"),
        (lambda: recency(1, math.nan), "e_fold"),
        (lambda: half_life_decay(1, 1, -30), "half_life"),
        (lambda: blend(1, 1, 1.1), "weight"),
        (lambda: blend(1, 1, math.nan), "weight"),
    ],
)
def test_bad_settings_are_named(broken: Callable[[], float], field: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        broken()
    assert caught.value.field == field
