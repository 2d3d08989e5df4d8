"""Numbers in a text, by which it is seen that a model invented one."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.domain.pattern import Pattern

_NUMBER = Pattern(r"\d+(?:[.,]\d+)*")


def numbers(text: str) -> frozenset[str]:
    """Every number of the text in one form: "10,000", "10000" and "10,000.00" are equal."""
    return frozenset(_plain(found[0]) for found in _NUMBER.finditer(text))


def invented(text: str, sources: Iterable[str]) -> frozenset[str]:
    """The numbers of the text that none of its sources has."""
    return numbers(text) - frozenset[str]().union(*(numbers(source) for source in sources))


def _plain(number: str) -> str:
    whole, point, cents = number.replace(",", "").partition(".")
    cents = cents.rstrip("0")
    return f"{whole.lstrip('0') or '0'}.{cents}" if point and cents else whole.lstrip("0") or "0"
