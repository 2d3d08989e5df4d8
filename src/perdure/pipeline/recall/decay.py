"""What age does to a score, in the two formulas of the specs: both say 30 days and mean different things (U12).

001's is a half-life that multiplies the score (B11), 002's an e-fold whose value is blended with it (K31, K32). After
30 days 001 leaves .5 of a score, while 002's recency is .368 and moves the score by its weight alone.
"""

from __future__ import annotations

import math
from typing import Final

from perdure.domain.errors import InvalidInputError

E_FOLD_DAYS: Final = 30.0
"""Days in which recency falls to 1/e (002 §3)."""
HALF_LIFE_DAYS: Final = 30.0
"""Days in which a score falls to its half (001, checklist B11)."""
RECENCY_WEIGHT: Final = 0.2
"""Share of recency in a blended score (002 §3)."""


def recency(age_days: float, e_fold: float = E_FOLD_DAYS) -> float:
    """exp(-age / e_fold) in [0, 1]: 1 for what is new, .3679 after one e-fold (K31).

    A negative age, which clocks that disagree make, counts as 0. An e-fold that is not above 0 is InvalidInputError.
    """
    _check_days(e_fold, "e_fold")
    return math.exp(-max(age_days, 0.0) / e_fold)


def blend(relevance: float, recency_score: float, weight: float = RECENCY_WEIGHT) -> float:
    """(1 - weight) * relevance + weight * recency: 0 is pure relevance, 1 pure recency (K32).

    A weight outside [0, 1] is InvalidInputError.
    """
    if not 0 <= weight <= 1:
        raise InvalidInputError(f"recency weight must be in [0, 1], not {weight!r}", field="weight", value=weight)
    return (1 - weight) * relevance + weight * recency_score


def half_life_decay(score: float, age_days: float, half_life: float = HALF_LIFE_DAYS) -> float:
    """score * exp(-ln 2 * age / half_life): the half of it after one half-life (B11).

    A negative age counts as 0. A half-life that is not above 0 is InvalidInputError.
    """
    _check_days(half_life, "half_life")
    return score * math.exp(-math.log(2) * max(age_days, 0.0) / half_life)


def _check_days(days: float, field: str) -> None:
    if not days > 0:  # so written, it refuses NaN too
        raise InvalidInputError(f"{field} must be above 0 days, not {days!r}", field=field, value=days)
