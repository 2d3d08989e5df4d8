"""Filters as Chroma's `where`: scopes as their own fields, all else by the list of tokens, spans by whole numbers.

Chroma reads floats from JSON without keeping their last bit, so a number is kept as a whole number that sorts as the
float does; moments are microseconds since 1970. Chroma merges metadata, so that the number of an older version of a row
could stand there: a span is therefore asked for together with its token, and tokens are always written whole.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from perdure.backends.vector_stores.common.filter_clauses import Grammar, Span, moment_mark, number_mark
from perdure.backends.vector_stores.common.names import digest

Where: TypeAlias = dict[str, Any]

TOKENS = "tokens"
"""The metadata key of a row's tokens."""
RECORD = "#document"
"""What `where` calls a row's document, in which the record is kept."""

_LONGEST_PATH = 200


class ChromaGrammar(Grammar[Where]):
    """Clauses with few enough values for one statement of the SQLite that Chroma keeps metadata in."""

    most_values = 150
    most_clauses = 50

    def one_of(self, tokens: Sequence[str]) -> Where:
        """Rows that have one of these tokens."""
        return _joined("$or", [{TOKENS: {"$contains": token}} for token in tokens])

    def none_of(self, tokens: Sequence[str]) -> Where:
        """Rows that have none of these tokens."""
        return _joined("$and", [{TOKENS: {"$not_contains": token}} for token in tokens])

    def every(self, clauses: Sequence[Where]) -> Where:
        """Rows that satisfy all clauses."""
        return _joined("$and", clauses)

    def some(self, clauses: Sequence[Where]) -> Where:
        """Rows that satisfy one of the clauses."""
        return _joined("$or", clauses)

    def scope_is(self, field: str, values: Sequence[str]) -> Where | None:
        """Rows whose scope field is one of these texts."""
        if not all(is_plain(value) for value in values):
            return None
        return {field: {"$eq": values[0]} if len(values) == 1 else {"$in": list(values)}}

    def scope_is_not(self, field: str, values: Sequence[str]) -> Where | None:
        """Rows whose scope field is none of these texts, or missing."""
        if not all(is_plain(value) for value in values):
            return None
        return {field: {"$ne": values[0]} if len(values) == 1 else {"$nin": list(values)}}

    def between(self, span: Span) -> Where:
        """Rows inside the span."""
        mark, whole = (number_mark, sortable) if span.kind == "number" else (moment_mark, int)
        key = span_key(span.kind, span.path)
        parts: list[Where] = [{TOKENS: {"$contains": mark(span.path)}}]
        if span.low is not None:
            parts.append({key: {"$gte": whole(span.low)}})
        if span.high is not None:
            parts.append({key: {"$lte": whole(span.high)}})
        return _joined("$and", parts)

    def holds(self, field: str, text: str, *, ignore_case: bool) -> Where | None:
        """Rows whose record has the text somewhere, as JSON writes it."""
        if ignore_case or not text:
            return None
        return {RECORD: {"$contains": json.dumps(text)[1:-1]}}


def _joined(operator: str, clauses: Sequence[Where]) -> Where:
    """Chroma refuses to join fewer than two."""
    return clauses[0] if len(clauses) == 1 else {operator: list(clauses)}


def is_plain(text: str) -> bool:
    """Whether Chroma can keep and compare the text: valid Unicode without NUL."""
    if text.isascii():
        return "\x00" not in text
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


def span_key(kind: Literal["number", "moment"], path: str) -> str:
    """The metadata key of a number or moment; a path that is odd or long is named by a digest."""
    if path.isascii() and path.isprintable() and len(path) <= _LONGEST_PATH:
        return f"{kind}:{path}"
    return f"{kind}#{digest(json.dumps(path), 16)}"


def sortable(number: float) -> int:
    """A 64-bit whole number that stands among others as the float does among floats."""
    (bits,) = struct.unpack(">q", struct.pack(">d", number + 0.0))  # -0.0 becomes 0.0
    return int(bits) if bits >= 0 else -(2**63) - int(bits)
