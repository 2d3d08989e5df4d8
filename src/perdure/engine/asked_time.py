"""Asked time: what a question that names a time gone by means for presets that rank by similarity (V77)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from perdure.domain.clock import iso, read_moment
from perdure.domain.filter import Condition, Filter, Moment, all_of
from perdure.domain.memory import MemoryItem
from perdure.engine.queries import Query
from perdure.pipeline.recall.time_window import Window, closeness, parse

SHARE: Final = 0.5
"""Share of what a score lacks that is made good by having been told in the time asked about.

With it .2 reaches 001's threshold of .6. MiniLM gives "What did I do last week?" .25 to .38 against what somebody did,
and .03 against what they like or own (measured)."""
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True, slots=True)
class AskedTime:
    """A stretch of time that is over, and that a question asks about."""

    window: Window

    @property
    def within(self) -> Filter:
        """What was told inside of it."""
        start, end = self.window.start, self.window.end
        return all_of(
            None if start is None else Condition("told_at", "gte", Moment(iso(start))),
            None if end is None else Condition("told_at", "lt", Moment(iso(end))),
        )

    def near(self, items: Sequence[MemoryItem]) -> dict[str, float]:
        """How close each one's telling is to it, by id: 1 inside, 0 far off."""
        days = [_day(item) for item in items]
        found = closeness(self.window, np.array(days, np.float64))
        return {item.id: float(value) for item, value in zip(items, found, strict=True)}


def asked_time(query: Query, now: datetime) -> AskedTime | None:
    """The time that the call or its question names, where it is over: "today" is no reason to tell all of today."""
    window = query.time_window or parse(query.text, query.reference_time or now)
    if window is None or window.end is None or window.end > now:
        return None
    return AskedTime(window)


def raised(score: float, nearness: float) -> float:
    """A score in [0, 1] with what the time asked about adds to it."""
    return score + (1 - score) * SHARE * nearness


def _day(item: MemoryItem) -> float:
    told = read_moment(item.told_at)
    return float("nan") if told is None else (told - _EPOCH) / timedelta(days=1)
