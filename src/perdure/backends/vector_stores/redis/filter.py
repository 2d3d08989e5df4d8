"""Filters for Redis: one small tree, written as a query for RediSearch or as a plan over sets for our scripts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from perdure.backends.vector_stores.common.filter_clauses import Grammar, Span
from perdure.domain.filter import TIME_FIELDS
from perdure.domain.scope import SCOPE_FIELDS

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+-]{0,127}")
"""Texts that a tag field keeps as they are: others it trims, or splits at its separator."""

_ESCAPED = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class Has:
    """Rows that have one of these tokens, or none of them."""

    tokens: tuple[str, ...]
    positive: bool = True


@dataclass(frozen=True, slots=True)
class ScopeIs:
    """Rows whose scope field is one of these plain texts, or none of them."""

    field: str
    values: tuple[str, ...]
    positive: bool = True


@dataclass(frozen=True, slots=True)
class Within:
    """Rows whose time field lies between two bounds, in microseconds since 1970, both included."""

    field: str
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Joined:
    """Rows that satisfy all of the parts, or one of them."""

    parts: tuple[Clause, ...]
    every: bool


Clause = Has | ScopeIs | Within | Joined
Plan = list[object]
"""A clause as our scripts read it: ["any" | "none", names], ["within", field, low, high], ["and" | "or", plans]."""


def _scope(field: str, values: Sequence[str], *, positive: bool = True) -> Clause | None:
    return ScopeIs(field, tuple(values), positive) if all(map(_PLAIN.fullmatch, values)) else None


def _between(span: Span) -> Clause | None:
    timed = span.kind == "moment" and span.path in TIME_FIELDS
    return Within(span.path, span.low, span.high) if timed else None


GRAMMAR = Grammar[Clause](
    one_of=lambda tokens: Has(tuple(tokens)),
    none_of=lambda tokens: Has(tuple(tokens), positive=False),
    every=lambda clauses: Joined(tuple(clauses), every=True),
    some=lambda clauses: Joined(tuple(clauses), every=False),
    scope_is=_scope,
    scope_is_not=partial(_scope, positive=False),
    between=_between,
)
"""Tokens answer for every field; scopes of plain text and time fields have indexes of their own."""


def plain_scopes(scope: Mapping[str, str]) -> dict[str, str]:
    """The scope fields that have an index of their own."""
    return {field: value for field, value in scope.items() if field in SCOPE_FIELDS and _PLAIN.fullmatch(value)}


def scope_set(field: str, value: str) -> str:
    """The name of the set of rows of this scope."""
    return f"{field}={value}"


def _number(value: float | None, missing: str) -> str:
    return missing if value is None else format(value, ".17g")


def to_query(clause: Clause | None) -> str:
    """The clause in RediSearch's query language, dialect 2."""
    if clause is None:
        return "*"
    if isinstance(clause, Has):
        return f"{_sign(clause.positive)}@tokens:{{{'|'.join(clause.tokens)}}}"
    if isinstance(clause, ScopeIs):
        values = "|".join(_ESCAPED.sub(r"\\\g<0>", value) for value in clause.values)
        return f"{_sign(clause.positive)}@{clause.field}:{{{values}}}"
    if isinstance(clause, Within):
        return f"@{clause.field}:[{_number(clause.low, '-inf')} {_number(clause.high, 'inf')}]"
    return "(" + (" " if clause.every else " | ").join(f"({to_query(part)})" for part in clause.parts) + ")"


def _sign(positive: bool) -> str:
    return "" if positive else "-"


def to_plan(clause: Clause | None) -> Plan | None:
    """The clause for our scripts."""
    if clause is None:
        return None
    if isinstance(clause, Has):
        return ["any" if clause.positive else "none", list(clause.tokens)]
    if isinstance(clause, ScopeIs):
        names = [scope_set(clause.field, value) for value in clause.values]
        return ["any" if clause.positive else "none", names]
    if isinstance(clause, Within):
        return ["within", clause.field, _number(clause.low, "-inf"), _number(clause.high, "inf")]
    return ["and" if clause.every else "or", [to_plan(part) for part in clause.parts]]
