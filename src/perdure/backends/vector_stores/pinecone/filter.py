"""Filters as Pinecone writes them: an object of conditions on metadata, joined by $and and $or."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.backends.vector_stores.common.filter_clauses import Grammar, Span
from perdure.domain.filter import TIME_FIELDS
from perdure.domain.scope import SCOPE_FIELDS

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
"""The fields of metadata that can be filtered by; user_id is first among them (V81)."""


def is_plain(text: str) -> bool:
    """Whether the text can be sent and stands for itself; others are found by their tokens."""
    return bool(text) and "\x00" not in text and (text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text))


def rows_of(clause: Clause | None) -> Clause:
    """The rows that satisfy a clause, and no other record."""
    every_row: Clause = {TOKENS: {"$in": [ROW]}}
    return every_row if clause is None else {"$and": [every_row, clause]}


class PineconeGrammar(Grammar[Clause]):
    """Tokens, scope fields and moments."""

    def one_of(self, tokens: Sequence[str]) -> Clause:
        """Rows with at least one of the tokens."""
        return {TOKENS: {"$in": list(tokens)}}

    def none_of(self, tokens: Sequence[str]) -> Clause:
        """Rows with none of the tokens."""
        return {TOKENS: {"$nin": list(tokens)}}

    def every(self, clauses: Sequence[Clause]) -> Clause:
        """Rows that meet all clauses."""
        return {"$and": list(clauses)}

    def some(self, clauses: Sequence[Clause]) -> Clause:
        """Rows that meet at least one clause."""
        return {"$or": list(clauses)}

    def scope_is(self, field: str, values: Sequence[str]) -> Clause | None:
        """Rows whose scope field is one of the values; None where the store cannot say it."""
        if not all(map(is_plain, values)):
            return None
        return {field: {"$eq": values[0]}} if len(values) == 1 else {field: {"$in": list(values)}}

    def scope_is_not(self, field: str, values: Sequence[str]) -> Clause | None:
        """Rows whose scope field is none of the values; None where the store cannot say it."""
        if not all(map(is_plain, values)):
            return None
        return {field: {"$ne": values[0]}} if len(values) == 1 else {field: {"$nin": list(values)}}

    def between(self, span: Span) -> Clause | None:
        """Rows whose moment lies in the span; None where the store cannot say it."""
        if span.kind != "moment" or span.path not in TIME_FIELDS:
            return None
        bounds = {"$gte": _FIRST_MOMENT if span.low is None else span.low}
        if span.high is not None:
            bounds["$lte"] = span.high
        return {span.path: bounds}
