"""Adaptive threshold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.pipeline.retrieval.fusion import adaptive_threshold

pytestmark = pytest.mark.covers("B10")

SCORES = st.lists(st.integers(0, 100).map(lambda percent: percent / 100), max_size=20)


@pytest.mark.covers("B10")
@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.85, 0.80, 0.75, 0.40, 0.35], 0.575),
        ([0.50, 0.48, 0.46, 0.44], 0.3),
        ([0.30, 0.28, 0.10, 0.05], 0.3),
        ([0.90, 0.50, 0.48, 0.46], 0.70),
        ([0.80, 0.30], 0.55),
        ([0.80], 0.3),
        ([], 0.3),
        ([0.50, 0.45], 0.475),
        ([0.9, 0.8, 0.7], 0.85),
    ],
)
def test_cases(scores: list[float], expected: float) -> None:
    assert adaptive_threshold(scores, 0.3) == pytest.approx(expected)


@pytest.mark.covers("B10")
@given(SCORES, st.floats(0, 1))
def test_never_below_the_floor_and_never_above_all(scores: list[float], floor: float) -> None:
    threshold = adaptive_threshold(scores, floor)
    assert threshold >= floor
    if threshold > floor:
        above = [score for score in scores if score >= threshold]
        below = [score for score in scores if score < threshold]
        assert above and below
        assert min(above) - max(below) >= 0.05 - 1e-9, "the cut lies in a gap"


@pytest.mark.covers("B10")
@given(SCORES.flatmap(lambda scores: st.tuples(st.just(scores), st.permutations(scores))))
def test_order_is_of_no_matter(drawn: tuple[list[float], list[float]]) -> None:
    assert adaptive_threshold(drawn[0], 0.2) == adaptive_threshold(drawn[1], 0.2)
