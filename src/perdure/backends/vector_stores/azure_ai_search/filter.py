"""Filters as Azure AI Search writes them: OData expressions."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.backends.vector_stores.common.filter_clauses import Grammar, Span
from perdure.domain.filter import TIME_FIELDS

Clause = str

TOKENS = "tokens"
_LONGEST_TEXT = 32_766
"""Bytes of a text that can be filtered by."""


def is_plain(text: str) -> bool:
    """Whether the text can be sent and indexed as it is; others are found by their tokens."""
    if "\x00" in text or any("\ud800" <= c <= "\udfff" for c in text):
        return False
    return len(text.encode()) <= _LONGEST_TEXT


def quoted(text: str) -> str:
    """The text as an OData constant."""
    return "'" + text.replace("'", "''") + "'"


class AzureGrammar(Grammar[Clause]):
    """Tokens, one value of a scope field, and moments."""

    most_clauses = 100
    """Azure refuses filters of many clauses, and does not say how many."""

    def one_of(self, tokens: Sequence[str]) -> Clause:
        """Rows with at least one of the tokens."""
        return f"{TOKENS}/any(t: search.in(t, '{','.join(tokens)}', ','))"

    def none_of(self, tokens: Sequence[str]) -> Clause:
        """Rows with none of the tokens."""
        return f"{TOKENS}/all(t: not search.in(t, '{','.join(tokens)}', ','))"

    def every(self, clauses: Sequence[Clause]) -> Clause:
        """Rows that meet all clauses."""
        return "(" + " and ".join(clauses) + ")"

    def some(self, clauses: Sequence[Clause]) -> Clause:
        """Rows that meet at least one clause."""
        return "(" + " or ".join(clauses) + ")"

    def scope_is(self, field: str, values: Sequence[str]) -> Clause | None:
        """Rows whose scope field is one of the values; None where the store cannot say it."""
        return f"{field} eq {quoted(values[0])}" if len(values) == 1 and is_plain(values[0]) else None

    def between(self, span: Span) -> Clause | None:
        """Rows whose moment lies in the span; None where the store cannot say it."""
        if span.kind != "moment" or span.path not in TIME_FIELDS:
            return None
        parts = [f"{span.path} ne null"]  # what an order says of no value is not documented
        if span.low is not None:
            parts.append(f"{span.path} ge {int(span.low)}")
        if span.high is not None:
            parts.append(f"{span.path} le {int(span.high)}")
        return self.every(parts)
