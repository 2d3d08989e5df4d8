"""Filters as Elasticsearch's own queries; every one is a plain dict, so no value can become syntax."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from perdure.backends.vector_stores.common.filter_clauses import Grammar, Span
from perdure.backends.vector_stores.common.names import digest
from perdure.domain.filter import TIME_FIELDS
from perdure.domain.text.readable import is_unicode

Clause = dict[str, Any]
"""A query of the query DSL."""

LONGEST_KEYWORD = 8191
"""Characters of a keyword: Lucene takes 32,766 bytes of UTF-8, which are four for a character at most."""

_FORMAT = struct.Struct(">d")
_SIGN = 1 << 63
_ALL = (1 << 64) - 1
_FIRST, _LAST = "0" * 16, "f" * 16


def as_keyword(text: str) -> bool:
    """Whether a keyword field keeps the text as it is."""
    return len(text) <= LONGEST_KEYWORD and is_unicode(text)


def places(numbers: Mapping[str, float], moments: Mapping[str, int]) -> list[str]:
    """Keywords that stand for the numbers and moments of a row, in an order of their own for each field.

    A field for each name that a caller comes up with would soon be more than an index may have. The record's own
    moments have such fields, since every search asks for them.
    """
    found = [_place(path, "number", value) for path, value in numbers.items()]
    return found + [_place(path, "moment", float(value)) for path, value in moments.items() if path not in TIME_FIELDS]


def _place(path: str, kind: Literal["number", "moment"], value: float) -> str:
    return _family(path, kind) + _ordered(value)


def _family(path: str, kind: str) -> str:
    return digest(f"{kind} {path}", 10)


def _ordered(value: float) -> str:
    """Sixteen digits that sort as the numbers do."""
    bits = int.from_bytes(_FORMAT.pack(value + 0.0), "big")  # -0.0 is 0
    return f"{bits ^ _ALL if bits & _SIGN else bits | _SIGN:016x}"


def _not(clause: Clause) -> Clause:
    return {"bool": {"must_not": [clause]}}


def _scope_is(field: str, values: Sequence[str]) -> Clause | None:
    return {"terms": {field: list(values)}} if all(map(as_keyword, values)) else None


def _scope_is_not(field: str, values: Sequence[str]) -> Clause | None:
    clause = _scope_is(field, values)
    return None if clause is None else _not(clause)


def _between(span: Span) -> Clause:
    if span.kind == "moment" and span.path in TIME_FIELDS:
        bounds: dict[str, int | str] = {}
        if span.low is not None:
            bounds["gte"] = math.ceil(span.low)
        if span.high is not None:
            bounds["lte"] = math.floor(span.high)
        return {"range": {f"moments.{span.path}": bounds}}
    family = _family(span.path, span.kind)
    low = _FIRST if span.low is None else _ordered(span.low)
    high = _LAST if span.high is None else _ordered(span.high)
    return {"range": {"places": {"gte": family + low, "lte": family + high}}}


GRAMMAR = Grammar[Clause](
    one_of=lambda tokens: {"terms": {"tokens": list(tokens)}},
    none_of=lambda tokens: _not({"terms": {"tokens": list(tokens)}}),
    every=lambda clauses: {"bool": {"filter": list(clauses)}},
    some=lambda clauses: {"bool": {"should": list(clauses), "minimum_should_match": 1}},
    scope_is=_scope_is,
    scope_is_not=_scope_is_not,
    between=_between,
    most_values=10_000,
)
