"""What a session comes to: one memory that tells of it as an event (001 §6 step 5, V65)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

MOST_FACTS: Final = 6
"""Facts that a session without a model is told by."""
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def day_of(moment: datetime) -> str:
    """The day as the memory names it: "29 December 2024"."""
    day = moment.astimezone(UTC).date()
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def told(facts: Sequence[str], began: datetime) -> str | None:
    """The memory without a model: what the user told on that day; None where that was nothing."""
    if not facts:
        return None
    *others, last = [_inside(fact) for fact in facts[:MOST_FACTS]]
    listed = f"{'; '.join(others)}; and {last}" if others else last
    return f"On {day_of(began)}, user told: {listed}."


def _inside(fact: str) -> str:
    """A fact as a part of a sentence."""
    line = " ".join(fact.split()).rstrip(".")
    return f"u{line[1:]}" if line.startswith(("User ", "User's ", "User’s ")) else line
