"""Times as mem0's clients send them: seconds since 1970, ISO 8601 text, or a day that something lasts through."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

from perdure.domain.clock import iso, parse_moment, read_moment
from perdure.domain.errors import InvalidInputError
from perdure.domain.text.readable import shown

_MILLISECONDS_FROM = 100_000_000_000
"""Seconds that are the year 5138: a greater number counts milliseconds, as JavaScript's clock does."""
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,9})?")


def read_time(value: object, field: str) -> datetime:
    """The moment that a number of seconds or a text names; InvalidInputError where it names none."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return parse_moment(value, field)
    try:
        seconds = float(value)
        if not math.isfinite(seconds):
            raise ValueError(value)
        return datetime.fromtimestamp(seconds / 1000 if abs(seconds) >= _MILLISECONDS_FROM else seconds, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInputError(
            f"{field} must be seconds since 1970 or ISO 8601 text, not {shown(value)}", field=field, value=value
        ) from error


def is_day(value: object) -> bool:
    """Whether a value is a date without a time."""
    return isinstance(value, str) and _DAY.fullmatch(value) is not None


def day_end(value: object, field: str) -> datetime:
    """The moment at which something ends that lasts through a day: the next midnight; a full time is itself."""
    moment = read_time(value, field)
    if not is_day(value):
        return moment
    try:
        return moment + timedelta(days=1)
    except OverflowError as error:
        raise InvalidInputError(f"{field} must be a day before {shown(value)}", field=field, value=value) from error


def last_day(expires_at: str | None) -> str | None:
    """The last day of something that ends at a moment, as mem0 shows it; None for what does not end."""
    moment = None if expires_at is None else read_moment(expires_at)
    if moment is None:
        return None
    return iso(moment - timedelta(microseconds=1))[:10]
