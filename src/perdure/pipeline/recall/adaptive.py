"""Adaptive threshold: cut where the scores of one query fall off, instead of at one value for all (001, B10)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

MIN_GAP: Final = 0.05
"""The least fall between neighbours in the ranking that counts as an edge (checklist B10)."""
_ROUNDING: Final = 1e-9
"""What floating point may add to a gap: .50 - .45 is an edge, and of equal gaps the first one counts."""


def adaptive_threshold(scores: Sequence[float], floor: float) -> float:
    """The middle of the greatest gap between adjacent scores, best first, but never below `floor` (B10).

    The order of `scores` is of no matter. Fewer than two, or no gap of `MIN_GAP`, give the floor.
    """
    ranked = sorted(scores, reverse=True)
    gaps = [higher - lower for higher, lower in pairwise(ranked)]
    greatest = max(gaps, default=0.0)
    if greatest < MIN_GAP - _ROUNDING:
        return floor
    edge = next(place for place, gap in enumerate(gaps) if gap >= greatest - _ROUNDING)
    return max(floor, ranked[edge] - gaps[edge] / 2)
