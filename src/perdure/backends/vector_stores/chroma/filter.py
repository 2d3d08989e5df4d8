"""Filters as Chroma's `where`: scopes as fields, everything else as a list of tokens, ranges as integers.

Chroma loses the last bit of JSON floats, so a number is stored as an integer with the same order; times are
microseconds since 1970. Chroma merges metadata, so that an older version's number could remain: ranges are therefore
combined with their token, and tokens are always written completely.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

from perdure.backends.vector_stores.common.documents import digest
from perdure.backends.vector_stores.common.filter_clauses import Grammar, Span, moment_mark, number_mark, scope_writer
from perdure.domain.text.readable import is_unicode

Where: TypeAlias = dict[str, Any]
TOKENS = "tokens"  # the metadata key of a row's tokens
RECORD = "#document"  # what `where` calls a row's document, in which the record is kept
_LONGEST_PATH = 200


def _joined(operator: str, clauses: Sequence[Where]) -> Where:
    """Join clauses; Chroma refuses to join fewer than two."""
    return clauses[0] if len(clauses) == 1 else {operator: list(clauses)}


def _between(span: Span) -> Where:
    mark, whole = (number_mark, sortable) if span.kind == "number" else (moment_mark, int)
    bounds = [(operator, bound) for operator, bound in (("$gte", span.low), ("$lte", span.high)) if bound is not None]
    key = span_key(span.kind, span.path)
    parts: list[Where] = [{TOKENS: {"$contains": mark(span.path)}}]
    return _joined("$and", parts + [{key: {operator: whole(bound)}} for operator, bound in bounds])


def _holds(field: str, text: str, ignore_case: bool) -> Where | None:
    """Match rows whose record contains the text, as JSON writes it."""
    return None if ignore_case or not text else {RECORD: {"$contains": json.dumps(text)[1:-1]}}


def is_plain(text: str) -> bool:
    """Whether Chroma can store and compare the text: valid Unicode without NUL."""
    return "\x00" not in text and is_unicode(text)


GRAMMAR = Grammar[Where](
    one_of=lambda tokens: _joined("$or", [{TOKENS: {"$contains": token}} for token in tokens]),
    none_of=lambda tokens: _joined("$and", [{TOKENS: {"$not_contains": token}} for token in tokens]),
    every=partial(_joined, "$and"),
    some=partial(_joined, "$or"),
    scope_is=scope_writer(is_plain, "$eq", "$in"),
    scope_is_not=scope_writer(is_plain, "$ne", "$nin"),
    between=_between,
    holds=_holds,
    most_values=150,  # few enough for one statement of the SQLite that Chroma keeps metadata in
    most_clauses=50,
)


def span_key(kind: Literal["number", "moment"], path: str) -> str:
    """Return the metadata key of a number or time; an unusual or long path becomes a digest."""
    if path.isascii() and path.isprintable() and len(path) <= _LONGEST_PATH:
        return f"{kind}:{path}"
    return f"{kind}#{digest(json.dumps(path), 16)}"


def sortable(number: float) -> int:
    """Return a 64-bit integer that sorts as the float does."""
    (bits,) = struct.unpack(">q", struct.pack(">d", number + 0.0))  # -0.0 becomes 0.0
    return int(bits) if bits >= 0 else -(2**63) - int(bits)
