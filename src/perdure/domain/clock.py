"""Time: aware UTC datetimes inside, fixed-width ISO 8601 text with microseconds and `+00:00` in records."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from perdure.domain.text.readable import invalid

Clock = Callable[[], datetime]  # a function that returns the current time as an aware UTC datetime
SKEW = timedelta(hours=1)  # the greatest difference between the clocks of several machines that counts as normal
EARLIEST = datetime.min.replace(tzinfo=UTC)  # the earliest time that perdure represents
LATEST = datetime.max.replace(tzinfo=UTC)  # the latest one
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?: ?(?:Z|z|[+-]\d{2}:?\d{2}))?)?")


def system_clock() -> datetime:
    """Return the current time of the machine's clock."""
    return datetime.now(UTC)


def iso(moment: datetime) -> str:
    """Return the time as fixed-width ISO 8601 UTC text; a naive datetime counts as UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def read_moment(value: str | date | datetime) -> datetime | None:
    """Return the aware UTC time of a datetime, a date (midnight) or ISO 8601 text (naive is UTC), else None."""
    if isinstance(value, str):
        return _parse(value) if _ISO.fullmatch(value) else None
    if isinstance(value, datetime):
        return _in_utc(value)
    return _in_utc(datetime(value.year, value.month, value.day)) if isinstance(value, date) else None


@lru_cache(maxsize=4096)
def _parse(text: str) -> datetime | None:
    """The moment of an ISO 8601 text; those of memories and messages are read again and again."""
    try:
        moment = datetime.fromisoformat(text.replace(",", ".").replace(" +", "+").replace(" -", "-").upper())
    except ValueError:
        return None
    return _in_utc(moment)


def _in_utc(moment: datetime) -> datetime | None:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except (OverflowError, ValueError):
        return None


def parse_moment(value: object, field: str = "timestamp") -> datetime:
    """Return the time that a caller's value names; InvalidInputError names the field if it names none."""
    moment = read_moment(value) if isinstance(value, (str, date, datetime)) else None
    if moment is None:
        raise invalid(field, "a datetime or ISO 8601 text such as 2026-03-01T09:30:00Z", value)
    return moment


class MonotonicClock:
    """A thread-safe clock whose ticks never repeat or go back: each is at least 1 µs after the last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: datetime | None = None
        self._guard = threading.Lock()

    def reset(self) -> None:
        """Make the clock usable in a forked process, even if another thread was taking a tick during the fork."""
        self._guard = threading.Lock()

    def now(self) -> datetime:
        """Return the current time without taking a tick."""
        return self._clock()

    def moment(self) -> datetime:
        """Return a unique time."""
        with self._guard:
            moment = self._clock()
            if self._last is not None and moment <= self._last:
                moment = self._last + timedelta(microseconds=1)
            self._last = moment
        return moment

    def tick(self) -> str:
        """Return a unique time for one record, as ISO 8601 text."""
        return iso(self.moment())
