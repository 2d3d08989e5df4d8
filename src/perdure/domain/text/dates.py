"""Calendar arithmetic and names shared by all readers of dates."""

from __future__ import annotations

from datetime import datetime

SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""The months in which the seasons begin (northern hemisphere)."""


def months_on(moment: datetime, months: int) -> datetime:
    """Return the first of the month so many months later (or earlier), same time; ValueError out of range."""
    index = moment.year * 12 + moment.month - 1 + months
    return moment.replace(year=index // 12, month=index % 12 + 1, day=1)
