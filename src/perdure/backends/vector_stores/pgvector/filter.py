"""Filters as SQL's WHERE: the user's values are always parameters, the text holds our own words alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import LiteralString

from perdure.backends.vector_stores.common.filter_clauses import Grammar, Span
from perdure.backends.vector_stores.pgvector.text import escape, fits_a_scope
from perdure.domain.filter import RECORD_FIELDS, TIME_FIELDS
from perdure.domain.text.readable import is_unicode


@dataclass(frozen=True, slots=True)
class Clause:
    """A condition in SQL and the values of its placeholders, in order."""

    sql: LiteralString
    values: tuple[object, ...] = ()
    unindexed: LiteralString = ""
    """The same in words that no index answers, where an index could; for rows of a scope, which has its own."""
    scoped: bool = False
    """Whether only rows of one scope satisfy it."""


def _joined(word: LiteralString, clauses: Sequence[Clause]) -> Clause:
    return Clause(
        f"({word.join(clause.sql for clause in clauses)})",
        tuple(value for clause in clauses for value in clause.values),
        f"({word.join(clause.unindexed or clause.sql for clause in clauses)})",
    )


def every(clauses: Sequence[Clause]) -> Clause:
    """All of the clauses; where one is a scope, its index finds the rows and the others look at these."""
    if not any(clause.scoped for clause in clauses):
        return _joined(" AND ", clauses)
    inside = [Clause(clause.unindexed or clause.sql, clause.values) for clause in clauses]
    return replace(_joined(" AND ", inside), scoped=True)


def _scope_is(field: str, values: Sequence[str]) -> Clause | None:
    """The scope fields are indexed as `payload->>'field'`."""
    if not all(map(fits_a_scope, values)):
        return None
    if len(values) == 1:
        return Clause(f"payload->>'{field}' = %s", (values[0],), scoped=True)
    return Clause(f"payload->>'{field}' = ANY(%s::text[])", (list(values),), scoped=True)


def _scope_is_not(field: str, values: Sequence[str]) -> Clause | None:
    """A row without the field is none of them."""
    if not all(map(fits_a_scope, values)):
        return None
    return Clause(f"(payload->>'{field}' = ANY(%s::text[])) IS NOT TRUE", (list(values),))


def _between(span: Span) -> Clause:
    """Each row has its numbers and moments by path."""
    column: LiteralString = "numbers" if span.kind == "number" else "moments"
    if span.path in TIME_FIELDS:
        place, values = f"({column}->'{span.path}')::float8", []
    else:
        place, values = f"({column}->%s::text)::float8", [escape(span.path)]
    if span.high is None:
        return Clause(f"{place} >= %s", (*values, span.low))
    if span.low is None:
        return Clause(f"{place} <= %s", (*values, span.high))
    return Clause(f"{place} BETWEEN %s AND %s", (*values, span.low, span.high))


def _holds(field: str, text: str, ignore_case: bool) -> Clause | None:
    """Rows whose own field holds the text; lists, whose elements count one by one, are let through.

    Python folds case as Unicode says and PostgreSQL does not, so that a text beyond ASCII is let through as well.
    """
    if field not in RECORD_FIELDS or "\x00" in text or not is_unicode(text):
        return None
    held: LiteralString = f"payload->>'{field}'"
    listed: LiteralString = f"jsonb_typeof(payload->'{field}') = 'array'"
    if not ignore_case:
        return Clause(f"({listed} OR strpos({held}, %s) > 0)", (text,))
    beyond: LiteralString = f"octet_length({held}) <> char_length({held})"
    return Clause(f'({listed} OR {beyond} OR strpos(lower({held} COLLATE "C"), %s) > 0)', (text.casefold(),))


GRAMMAR = Grammar[Clause](
    # `&&` asks the GIN index, but inside a scope: there it would read everybody's rows (54 times as long).
    one_of=lambda tokens: Clause("tokens && %s::text[]", (list(tokens),), "(tokens && %s::text[]) IS TRUE"),
    none_of=lambda tokens: Clause("NOT tokens && %s::text[]", (list(tokens),)),  # every row has tokens: never NULL
    every=every,
    some=partial(_joined, " OR "),
    scope_is=_scope_is,
    scope_is_not=_scope_is_not,
    between=_between,
    holds=_holds,
    most_values=5000,
)
