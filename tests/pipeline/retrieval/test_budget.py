"""The token budget of a read: what does not fit is skipped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.pipeline.prompting.quoting import fit


@pytest.mark.parametrize(
    ("costs", "budget", "kept"),
    [
        ([3, 4, 5], 12, [0, 1, 2]),
        ([3, 9, 4], 8, [0, 2]),
        ([9, 9], 8, []),
        ([0, 1], 0, [0]),
        ([1], -1, []),
        ([], 10, []),
    ],
)
def test_a_later_smaller_one_may_fit(costs: list[int], budget: int, kept: list[int]) -> None:
    assert fit(costs, budget) == kept


@given(st.lists(st.integers(0, 50), max_size=20), st.integers(0, 200))
def test_the_budget_holds_and_nothing_that_fits_is_left_out(costs: list[int], budget: int) -> None:
    kept = fit(costs, budget)
    assert kept == sorted(set(kept))
    assert sum(costs[place] for place in kept) <= budget
    for place in set(range(len(costs))) - set(kept):
        assert costs[place] > budget - sum(costs[before] for before in kept if before < place)
