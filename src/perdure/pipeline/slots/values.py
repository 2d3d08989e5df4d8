"""Typed values: money, measures, clock times, dates, weekdays and numbers in one canonical form each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ValueKind = Literal[
    "money", "measure", "percent", "clock", "date", "weekday", "part", "frequency", "ordinal", "number", "code"
]

_HALF_DAY = 720.0
_PART_HOURS = 8
"""Hours for which a part of the day lasts at the most: a morning from 4, an evening from 16."""
_CLOSE = 1e-6
_NUMERIC = frozenset({"number", "money"})


@dataclass(frozen=True, slots=True)
class Value:
    """One typed value.

    `amount`: the number in the unit's base (minutes after midnight for a clock, the day's number for a weekday, the
    hour at which a part of the day begins, times a year for a frequency).
    `unit`: currency, dimension, or what is counted; "" if not said. `date`: year, month, day, each None if not said.
    """

    kind: ValueKind
    amount: float = 0.0
    unit: str = ""
    date: tuple[int | None, int | None, int | None] = (None, None, None)
    code: str = ""

    @property
    def vague_clock(self) -> bool:
        """Whether a clock time leaves open which half of the day is meant."""
        return self.kind == "clock" and self.unit == "?"


def fits(new: Value, old: Value) -> bool:
    """Whether the new value says nothing that the old one does not say: equal, or less precise."""
    if new.kind == "date" and old.kind == "date":
        return all(mine is None or mine == theirs for mine, theirs in zip(new.date, old.date, strict=True))
    if new.kind == "ordinal" and old.kind == "date":
        return new.amount == old.date[2]
    if new.kind == "part" and old.kind == "clock":
        return old.vague_clock or 0 <= (old.amount / 60 - new.amount) % 24 < _PART_HOURS
    if "clock" in (new.kind, old.kind):
        return _same_clock(new, old)
    if new.kind in _NUMERIC and old.kind in _NUMERIC:
        return _close(new.amount, old.amount) and (new.unit == old.unit or "" in (new.unit, old.unit))
    if new.kind != old.kind:
        return "ordinal" in (new.kind, old.kind) and "number" in (new.kind, old.kind) and new.amount == old.amount
    if new.kind == "code":
        return new.code == old.code
    return _close(new.amount, old.amount) and new.unit == old.unit


def comparable(left: Value, right: Value) -> bool:
    """Whether two values answer the same question, so that at most one of them can hold."""
    if left.kind == right.kind:
        return left.kind != "measure" or left.unit == right.unit
    kinds = {left.kind, right.kind}
    return (
        kinds <= {"number", "money"}
        or kinds <= {"number", "clock"}
        or kinds <= {"date", "ordinal"}
        or kinds <= {"date", "weekday"}
        or kinds <= {"number", "code"}
    )


def _same_clock(new: Value, old: Value) -> bool:
    moments = []
    for value in (new, old):
        if value.kind == "clock":
            moments.append((value.amount, value.vague_clock))
        elif value.kind == "number" and 0 <= value.amount <= 24 and float(value.amount).is_integer():
            moments.append((value.amount * 60, value.amount <= 12))
        else:
            return False
    (one, one_vague), (two, two_vague) = moments
    gap = abs(one - two)
    return _close(gap, 0) or ((one_vague or two_vague) and _close(gap, _HALF_DAY))


def _close(left: float, right: float) -> bool:
    return abs(left - right) <= _CLOSE + 0.005 * max(abs(left), abs(right)) * (abs(left - right) < 0.01)
