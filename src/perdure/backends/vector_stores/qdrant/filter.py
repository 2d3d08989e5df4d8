"""Filters in Qdrant's REST form: plain JSON, the same for a server and for the engine in this process."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from perdure.backends.vector_stores.common.documents import digest, readable
from perdure.backends.vector_stores.common.filter_clauses import Grammar, Span, cannot_write

Clause: TypeAlias = dict[str, Any]  # a condition, or a filter of `must`, `should` and `must_not`
SCOPES = ("user_id", "agent_id", "run_id")
"""Scope fields with an index of their own; the others are found by their tokens, which have one too."""
TOKENS = "tokens"
MEMORY = "memory"
NUMBERS = "numbers"
MOMENTS = "moments"
LARGEST = 1e300  # numbers beyond are kept as this one: the server's reader of JSON takes some of them for infinite
ERROR = 2.0**-50  # how far from the number that is written the server's reader may be, as a part of it
TINY = 1e-300  # the same where numbers are so small that floats lose digits
_PLAIN = re.compile(r"[A-Za-z0-9_]+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOWEST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_HIGHEST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


def steps_of(path: str) -> tuple[str, ...]:
    """Return the nested keys of a field's number or time; each is plain in a `key`."""
    head, dot, key = path.partition(".")
    return (head, _plain(key)) if dot else (head,)


def _plain(key: str) -> str:
    return key if _PLAIN.fullmatch(key) else f"-{digest(key, 10)}"


def date_of(moment: int) -> str:
    """Return a time in microseconds since 1970 as RFC 3339; Qdrant stores dates in whole microseconds."""
    return (_EPOCH + timedelta(microseconds=moment)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def kept_number(number: float) -> float:
    return max(-LARGEST, min(number, LARGEST))


def is_native(value: str) -> bool:
    """Whether a scope value can be sent unchanged: JSON on the wire is UTF-8."""
    return value.isascii() or readable(value) == value.replace("\x00", "")


def as_filter(clause: Clause | None) -> Clause | None:
    """Return the clause as a complete filter, which a single condition is not."""
    return {"must": [clause]} if clause is not None and "key" in clause else clause


def _scope_is(field: str, values: Sequence[str]) -> Clause | None:
    if field not in SCOPES or not all(map(is_native, values)):
        return None
    return {"key": field, "match": {"value": values[0]} if len(values) == 1 else {"any": list(values)}}


def _scope_is_not(field: str, values: Sequence[str]) -> Clause | None:
    inside = _scope_is(field, values)
    return None if inside is None else {"must_not": [inside]}


def _between(span: Span) -> Clause:
    """Match rows whose single number or time is in the range; of numbers a few at its ends too."""
    if span.kind == "number":
        bounds: dict[str, Any] = {}
        if span.low is not None:
            low = kept_number(span.low)
            bounds["gte"] = low - abs(low) * ERROR - TINY
        if span.high is not None:
            high = kept_number(span.high)
            bounds["lte"] = high + abs(high) * ERROR + TINY
        return {"key": ".".join((NUMBERS, *steps_of(span.path))), "range": bounds}
    # Spans reach out by one float beyond the first and the last date that there are.
    start = _LOWEST if span.low is None else max(int(span.low), _LOWEST)
    end = _HIGHEST if span.high is None else min(int(span.high), _HIGHEST)
    dates = {"gte": date_of(start), "lte": date_of(end)}
    return {"key": ".".join((MOMENTS, *steps_of(span.path))), "range": dates}


def _holds(field: str, text: str, ignore_case: bool) -> Clause | None:
    return None if field != MEMORY or ignore_case else {"key": MEMORY, "match": {"substring": readable(text)}}


GRAMMAR = Grammar[Clause](
    one_of=lambda tokens: {"key": TOKENS, "match": {"any": list(tokens)}},
    none_of=lambda tokens: {"must_not": [{"key": TOKENS, "match": {"any": list(tokens)}}]},
    every=lambda clauses: {"must": list(clauses)},
    some=lambda clauses: {"should": list(clauses)},
    scope_is=_scope_is,
    scope_is_not=_scope_is_not,
    between=_between,
    holds=_holds,
    exact_numbers=False,  # the server reads the fractions of JSON with an error in the last digit
)
WITHOUT_SUBSTRINGS = replace(GRAMMAR, holds=cannot_write)  # for servers that cannot look for a part of a text
