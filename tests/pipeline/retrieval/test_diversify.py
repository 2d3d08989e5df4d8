"""Maximal marginal relevance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from perdure.domain.errors import InvalidInputError
from perdure.pipeline.retrieval.rescoring import mmr

pytestmark = pytest.mark.covers("A13", "K33", "K34")

Drawn = tuple[list[float], list[NDArray[np.float32] | None]]
APPLES = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


@st.composite
def candidates(draw: st.DrawFn) -> Drawn:
    """Relevance and vectors of up to ten candidates: small whole numbers, so that ties and repeats are common."""
    count = draw(st.integers(0, 10))
    relevance = [draw(st.integers(0, 10)) / 10 for _ in range(count)]
    row = st.lists(st.integers(-2, 2), min_size=3, max_size=3).map(lambda numbers: np.array(numbers, dtype=np.float32))
    return relevance, [draw(st.none() | row) for _ in range(count)]


def worth(place: int, selected: list[int], drawn: Drawn, trade: float) -> float:
    """What a candidate is worth beside those selected, by the definition."""
    relevance, vectors = drawn
    if not selected:
        return relevance[place]
    near = max(cosine(vectors[place], vectors[other]) for other in selected)
    return trade * relevance[place] - (1 - trade) * near


def cosine(left: NDArray[np.float32] | None, right: NDArray[np.float32] | None) -> float:
    if left is None or right is None or not left.any() or not right.any():
        return 0.0
    return round(float(left @ right) / math.sqrt(float(left @ left) * float(right @ right)), 9)


@pytest.mark.covers("K33")
def test_another_matter_comes_before_the_same_one_again() -> None:
    assert mmr([1.0, 0.95, 0.9, 0.6], APPLES, 2) == [0, 3]
    assert mmr([1.0, 0.95, 0.9, 0.6], APPLES, 4) == [0, 3, 1, 2]


@pytest.mark.covers("K33")
def test_only_what_was_selected_counts() -> None:
    """Two alike that are not selected must not drag each other down."""
    vectors = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert mmr([1.0, 0.9, 0.9, 0.8], vectors, 2) == [0, 1]


@pytest.mark.covers("K33")
@given(candidates(), st.integers(0, 12))
def test_trade_1_is_the_ranking(drawn: Drawn, limit: int) -> None:
    relevance, vectors = drawn
    ranking = sorted(range(len(relevance)), key=lambda place: -relevance[place])
    assert mmr(relevance, vectors, limit, trade=1.0) == ranking[:limit]


@pytest.mark.covers("K33")
@given(candidates(), st.integers(0, 12), st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0]))
def test_it_is_the_definition(drawn: Drawn, limit: int, trade: float) -> None:
    relevance, vectors = drawn
    found = mmr(relevance, vectors, limit, trade)
    assert len(found) == len(set(found)) == min(limit, len(relevance)), "K34: no fewer than there are, none twice"
    for at, place in enumerate(found):
        left = set(range(len(relevance))) - set(found[:at])
        best = max(worth(other, found[:at], drawn, trade) for other in left)
        assert worth(place, found[:at], drawn, trade) == pytest.approx(best, abs=1e-6)


@pytest.mark.covers("K33")
def test_the_first_is_the_most_relevant_at_any_trade() -> None:
    assert mmr([0.2, 0.9, 0.5], [None, None, None], 1, trade=0.0) == [1]


@pytest.mark.covers("K33")
def test_ties_go_by_place() -> None:
    same = np.tile(np.array([0.3, 0.1, 0.7], dtype=np.float32), (37, 1))
    assert mmr([0.5] * 37, same, 37) == list(range(37))


@pytest.mark.covers("A13")
def test_no_vector_no_likeness() -> None:
    one = np.array([1.0, 0.0])
    for nothing in (None, np.zeros(2), np.array([1.0]), np.array([1.0, 0.0, 0.0])):
        assert mmr([1.0, 0.9, 0.5, 0.5], [one, one, nothing, nothing], 4) == [0, 2, 3, 1]


@pytest.mark.covers("K34")
def test_length_is_of_no_matter_to_likeness() -> None:
    assert mmr([1.0, 0.95, 0.6], np.array([[1.0, 0.0], [9.0, 0.0], [0.0, 0.1]]), 2) == [0, 2]


@pytest.mark.parametrize(
    ("field", "vectors", "limit", "trade"),
    [("trade", [None], 1, 1.5), ("limit", [None], -1, 0.7), ("vectors", [], 1, 0.7), ("trade", [None], 1, math.nan)],
)
def test_bad_input_is_named(field: str, vectors: list[None], limit: int, trade: float) -> None:
    with pytest.raises(InvalidInputError) as caught:
        mmr([1.0], vectors, limit, trade)
    assert caught.value.field == field
