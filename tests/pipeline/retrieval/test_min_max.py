"""Min-max scaling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.pipeline.retrieval.rescoring import min_max

pytestmark = pytest.mark.covers("K29")

SCORES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)


@pytest.mark.covers("K29")
def test_best_is_1_and_worst_0() -> None:
    assert min_max([-4.0, 6.0, 1.0]) == [0.0, 1.0, 0.5]


@pytest.mark.covers("K29")
@pytest.mark.parametrize("scores", [[-11.2], [0.0], [0.3, 0.3, 0.3]])
def test_a_lone_candidate_and_equals_are_the_best(scores: list[float]) -> None:
    assert min_max(scores) == [1.0] * len(scores)


@pytest.mark.covers("K29")
def test_nothing_is_scaled_to_nothing() -> None:
    assert min_max([]) == []


@pytest.mark.covers("K29")
@given(SCORES)
def test_scaled_scores_are_shares_in_the_same_order(scores: list[float]) -> None:
    scaled = min_max(scores)
    assert len(scaled) == len(scores)
    assert max(scaled) == 1.0
    assert min(scaled) == (0.0 if min(scores) < max(scores) else 1.0)
    for left, right in zip(range(len(scores)), range(1, len(scores)), strict=False):
        if scores[left] <= scores[right]:
            assert scaled[left] <= scaled[right]


@pytest.mark.covers("K29")
@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=20), st.integers(-50, 50), st.sampled_from([0.5, 2, 8]))
def test_the_unit_is_of_no_matter(scores: list[int], shift: int, factor: float) -> None:
    assert min_max([factor * score + shift for score in scores]) == pytest.approx(min_max(scores))
