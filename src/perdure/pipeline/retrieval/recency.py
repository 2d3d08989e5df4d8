"""Newer before older, where a memory is known to have possibly replaced another (soft link, DESIGN §4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from perdure.domain.errors import InvalidInputError
from perdure.domain.memory import MemoryItem

# What age does to a score, in the two formulas of the specs: both say 30 days and mean different things (U12).
#
# 001's is a half-life that multiplies the score (B11), 002's an e-fold whose value is blended with it (K31, K32).
# After 30 days 001 leaves .5 of a score, while 002's recency is .368 and moves the score by its weight alone.

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


ABOUT_EQUAL = 0.75
"""Share of another's score from which a memory answers a question about as well; what scores less answers another."""

SameMatter = Callable[[MemoryItem, MemoryItem], bool]
"""Whether a newer memory and an older one speak of one attribute of one subject."""


def newer_first(items: Sequence[MemoryItem], same_matter: SameMatter) -> list[MemoryItem]:
    """The same items, best first, a newer one before the one that it may have replaced where both answer as well.

    An item moves up, past such as score about as much as it does, and in front of nothing that replaced it. Every item
    keeps its own score, so that the scores of such a pair may rise. A link holds only between two of one matter of
    which the newer was not told first; links that run in a circle tell nothing.
    """
    older = _links(items, same_matter)
    if not older:
        return list(items)
    ordered: list[MemoryItem] = []
    for item in items:
        ordered.insert(_place(item, ordered, older), item)
    return ordered


def _links(items: Sequence[MemoryItem], same_matter: SameMatter) -> dict[str, frozenset[str]]:
    """The ids that each item stands before, itself linked or by way of others, without circles."""
    here = {item.id: item for item in items}
    direct: dict[str, set[str]] = {}
    for item in items:
        for id in item.older:
            other = here.get(id)
            if other is None or other is item or item.told_at < other.told_at or not same_matter(item, other):
                continue
            direct.setdefault(item.id, set()).add(id)
    reached = {id: _reached(id, direct) for id in direct}
    return {
        id: frozenset(each for each in ids if id not in reached.get(each, ())) - {id} for id, ids in reached.items()
    }


def _reached(start: str, direct: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(direct[start])
    while waiting:
        id = waiting.pop()
        if id not in found:
            found.add(id)
            waiting += direct.get(id, ())
    return found


def _place(item: MemoryItem, ordered: Sequence[MemoryItem], older: Mapping[str, frozenset[str]]) -> int:
    """Where the item goes in what stands already: at the end, or before the first that it may have replaced."""
    mine = older.get(item.id, frozenset())
    score = item.score or 0.0
    place = len(ordered)
    for position in range(len(ordered) - 1, -1, -1):
        other = ordered[position]
        if score < ABOUT_EQUAL * (other.score or 0.0) or item.id in older.get(other.id, ()):
            break
        if other.id in mine:
            place = position
    return place
