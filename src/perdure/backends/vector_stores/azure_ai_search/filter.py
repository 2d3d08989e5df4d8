"""Filters as Azure AI Search writes them: OData expressions."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.backends.vector_stores.common.filter_clauses import Grammar, Span
from perdure.domain.filter import TIME_FIELDS
from perdure.domain.text.readable import is_unicode

Clause = str

TOKENS = "tokens"
_LONGEST_TEXT = 32_766
"""Bytes of a text that can be filtered by."""


def is_plain(text: str) -> bool:
    """Whether the text can be sent and indexed as it is; others are found by their tokens."""
    return "\x00" not in text and is_unicode(text) and len(text.encode()) <= _LONGEST_TEXT


def quoted(text: str) -> str:
    """The text as an OData constant."""
    return "'" + text.replace("'", "''") + "'"


def _between(span: Span) -> Clause | None:
    if span.kind != "moment" or span.path not in TIME_FIELDS:
        return None
    parts = [f"{span.path} ne null"]  # what an order says of no value is not documented
    if span.low is not None:
        parts.append(f"{span.path} ge {int(span.low)}")
    if span.high is not None:
        parts.append(f"{span.path} le {int(span.high)}")
    return f"({' and '.join(parts)})"


def _scope_is(field: str, values: Sequence[str]) -> Clause | None:
    return f"{field} eq {quoted(values[0])}" if len(values) == 1 and is_plain(values[0]) else None


GRAMMAR = Grammar[Clause](
    one_of=lambda tokens: f"{TOKENS}/any(t: search.in(t, '{','.join(tokens)}', ','))",
    none_of=lambda tokens: f"{TOKENS}/all(t: not search.in(t, '{','.join(tokens)}', ','))",
    every=lambda clauses: f"({' and '.join(clauses)})",
    some=lambda clauses: f"({' or '.join(clauses)})",
    scope_is=_scope_is,
    between=_between,
    most_clauses=100,  # Azure refuses filters of many clauses, and does not say how many
)
