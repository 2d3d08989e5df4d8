"""Budget: which memories fit into so many tokens, the best first."""

from __future__ import annotations

from collections.abc import Sequence


def fit(costs: Sequence[float], budget: float) -> list[int]:
    """The places of what is kept, in order: each whose cost fits into what is left of the budget.

    One that does not fit is skipped, and a later, smaller one may fit: one long memory must not shut out all that
    follow it. Costs and budget are in one unit (tokens); a budget of 0 keeps only what costs nothing.
    """
    kept: list[int] = []
    left = budget
    for place, cost in enumerate(costs):
        if cost <= left:
            kept.append(place)
            left -= cost
    return kept
