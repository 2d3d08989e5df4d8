"""Filters as Pinecone writes them: an object of conditions on metadata, joined by $and and $or."""

from __future__ import annotations

from typing import Any

from perdure.backends.vector_stores.common.filter_clauses import Grammar, Span, scope_writer
from perdure.domain.filter import TIME_FIELDS
from perdure.domain.scope import SCOPE_FIELDS
from perdure.domain.text.readable import is_unicode

Clause = dict[str, Any]

TOKENS = "tokens"
ROW = "row"
"""The token of every row, and of nothing else that lies in a namespace."""

# Pinecone does not say what a condition on a missing field means, and it has changed its mind: every field that can be
# asked for is in every row, and these stand for none.
NO_TEXT = ""
NO_MOMENT = -1e18
_FIRST_MOMENT = -1e17
"""Microseconds: before the year 1, and after NO_MOMENT."""

INDEXED = (*SCOPE_FIELDS, *sorted(TIME_FIELDS), TOKENS)
"""The fields of metadata that can be filtered by; user_id is first among them."""


def is_plain(text: str) -> bool:
    """Whether the text can be sent and stands for itself; others are found by their tokens."""
    return bool(text) and "\x00" not in text and is_unicode(text)


def rows_of(clause: Clause | None) -> Clause:
    """The rows that satisfy a clause, and no other record."""
    every_row: Clause = {TOKENS: {"$in": [ROW]}}
    return every_row if clause is None else {"$and": [every_row, clause]}


def _between(span: Span) -> Clause | None:
    if span.kind != "moment" or span.path not in TIME_FIELDS:
        return None
    bounds = {"$gte": _FIRST_MOMENT if span.low is None else span.low}
    if span.high is not None:
        bounds["$lte"] = span.high
    return {span.path: bounds}


GRAMMAR = Grammar[Clause](
    one_of=lambda tokens: {TOKENS: {"$in": list(tokens)}},
    none_of=lambda tokens: {TOKENS: {"$nin": list(tokens)}},
    every=lambda clauses: {"$and": list(clauses)},
    some=lambda clauses: {"$or": list(clauses)},
    scope_is=scope_writer(is_plain, "$eq", "$in"),
    scope_is_not=scope_writer(is_plain, "$ne", "$nin"),
    between=_between,
)
