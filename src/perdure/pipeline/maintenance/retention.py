"""Retention: how much of a memory's worth age has left, by Ebbinghaus' curve.

    R = e^(-t / S)        t: days since the memory was last recalled, written or corrected
    S = (S0 + n) * w      S0: 30 days; n: how often it was recalled; w = 4^(importance - 1/2), from 1/2 to 2

The simpler S = S0 + n is what an importance of .5, everybody's at first, comes to. Feedback moves the importance, and
so how long a memory lasts without being asked for: a good one twice as long, a very bad one half as long.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Final

from perdure.domain.clock import read_moment
from perdure.domain.memory import MemoryItem

INITIAL_DAYS: Final = 30.0  # S0, the strength of a memory that was never recalled
THRESHOLD: Final = 0.15  # R below which a memory is pruned: after 57 days for one that was never recalled
GRACE_DAYS: Final = 7.0  # days for which a fact is new, and stays whatever its R
_DAY = 86_400.0
FEEDBACK: Final = {"positive": 0.25, "negative": -0.25, "very_negative": -0.5}
"""The change of the importance for a verdict; the importance stays within [0, 1]."""


def strength(access_count: int, importance: float = 0.5, initial_days: float = INITIAL_DAYS) -> float:
    """Return S in days, above 0: it grows with each recall and with the importance."""
    return (initial_days + max(access_count, 0)) * float(4.0 ** (min(max(importance, 0.0), 1.0) - 0.5))


def retention(idle_days: float, strength_days: float) -> float:
    """Return R = e^(-t / S) in [0, 1]; a negative t, from clocks that disagree, counts as 0."""
    return math.exp(-max(idle_days, 0.0) / strength_days)


def retained(item: MemoryItem, now: datetime, initial_days: float = INITIAL_DAYS) -> float:
    """Return R of a memory at a time, for comparison with others."""
    idle = _days_since(now, item.created_at, item.updated_at, item.last_accessed_at)
    return retention(idle, strength(item.access_count, item.importance, initial_days))


def is_new(item: MemoryItem, now: datetime, grace_days: float = GRACE_DAYS) -> bool:
    """Whether it was created, said, or became true only lately, or will become true."""
    return _days_since(now, item.created_at, item.updated_at, item.told_at, item.valid_from) < grace_days


def weighed(importance: float, before: float | None, verdict: str | None) -> tuple[float, float | None]:
    """Return the importance after a verdict, and the one without any; None withdraws the verdict.

    `before` is the importance without the current verdict, or None if there is none. A verdict replaces the one before
    it, so that the same one twice is the same as once.
    """
    plain = importance if before is None else before
    if verdict is None:
        return plain, None
    return min(max(plain + FEEDBACK[verdict], 0.0), 1.0), plain


def _days_since(now: datetime, *moments: str | None) -> float:
    """Return the days since the latest of the times; below 0 if it is in the future."""
    known = [found for moment in moments if moment is not None and (found := read_moment(moment)) is not None]
    return (now - max(known)).total_seconds() / _DAY if known else 0.0
