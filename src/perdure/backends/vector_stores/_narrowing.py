"""Filters in an engine's own terms: a clause that every matching row satisfies, and as few others as it can tell.

What an engine cannot express is left out of the clause, never guessed: the rows that come back are finished by
`matches`. NOT is pushed down to the single conditions first, so that leaving something out only ever lets more in.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from perdure.backends.vector_stores._facets import microseconds, moment_mark, number_mark, path_of, token
from perdure.domain.clock import read_moment
from perdure.domain.filter import ORDERINGS, And, Condition, Filter, Moment, Not, Scalar
from perdure.domain.scope import SCOPE_FIELDS

C = TypeVar("C")

EXACT = 2.0**53
"""Below this every whole number is a float of its own."""


@dataclass(frozen=True, slots=True)
class Span:
    """A field whose single number, or moment in microseconds since 1970, lies between two bounds, both included."""

    path: str
    kind: Literal["number", "moment"]
    low: float | None
    high: float | None
    """None where that side is open; one of the two is given."""


class Grammar(ABC, Generic[C]):
    """How one engine writes clauses. What it cannot write is None, which stands for every row."""

    most_values: int = 500
    """Tokens or texts in one clause."""
    most_clauses: int = 200
    """Clauses in one filter."""
    most_levels: int = 8
    """Levels of AND and OR in one filter."""
    exact_numbers: bool = True
    """Whether the engine compares numbers to the last digit; if not, `between` reaches out a little."""

    @abstractmethod
    def one_of(self, tokens: Sequence[str]) -> C:
        """Rows that have one of these tokens."""

    @abstractmethod
    def none_of(self, tokens: Sequence[str]) -> C:
        """Rows that have none of these tokens."""

    @abstractmethod
    def every(self, clauses: Sequence[C]) -> C:
        """Rows that satisfy all of at least two clauses."""

    @abstractmethod
    def some(self, clauses: Sequence[C]) -> C:
        """Rows that satisfy one of at least two clauses."""

    def scope_is(self, field: str, values: Sequence[str]) -> C | None:
        """Rows whose scope field is one of these texts; None to use tokens."""
        return None

    def scope_is_not(self, field: str, values: Sequence[str]) -> C | None:
        """Rows whose scope field is none of these texts, or missing; None to use tokens."""
        return None

    def between(self, span: Span) -> C | None:
        """Rows inside the span."""
        return None

    def holds(self, field: str, text: str, *, ignore_case: bool) -> C | None:
        """Rows whose own text field holds this text, and maybe more rows."""
        return None


@dataclass(frozen=True, slots=True)
class Narrowed(Generic[C]):
    """What is left of a filter: a clause, or all rows (None), or no row."""

    clause: C | None
    exact: bool
    """Whether the clause is true of the matching rows only."""
    nothing: bool = False
    """Whether no row can match."""
    size: int = 1
    levels: int = 1


def narrow(filter: Filter | None, grammar: Grammar[C]) -> Narrowed[C]:
    """The clause of a filter; rows that it lets through must still be held against `matches` unless it is exact."""
    if filter is None:
        return _everything(exact=True)
    return _narrow(filter, grammar, positive=True)


def _everything(*, exact: bool) -> Narrowed[C]:
    return Narrowed(None, exact)


def _nothing() -> Narrowed[C]:
    return Narrowed(None, exact=True, nothing=True)


def _narrow(filter: Filter, grammar: Grammar[C], *, positive: bool) -> Narrowed[C]:
    if isinstance(filter, Not):
        return _narrow(filter.part, grammar, positive=not positive)
    if isinstance(filter, Condition):
        if filter.operator in ("ne", "nin"):
            flipped = Condition(filter.field, "eq" if filter.operator == "ne" else "in", filter.value)
            return _condition(flipped, grammar, positive=not positive)
        return _condition(filter, grammar, positive=positive)
    parts = [_narrow(part, grammar, positive=positive) for part in filter.parts]
    return _all(parts, grammar) if isinstance(filter, And) == positive else _any(parts, grammar)


def _all(parts: Sequence[Narrowed[C]], grammar: Grammar[C]) -> Narrowed[C]:
    if any(part.nothing for part in parts):
        return _nothing()
    exact = all(part.exact for part in parts)
    kept: list[Narrowed[C]] = []
    size = 0
    for part in sorted((part for part in parts if part.clause is not None), key=lambda part: part.size):
        if size + part.size > grammar.most_clauses or part.levels >= grammar.most_levels:
            exact = False  # the smallest parts stay: a scope is always among them
            continue
        kept.append(part)
        size += part.size
    if not kept:
        return _everything(exact=exact)
    clauses = [part.clause for part in kept if part.clause is not None]
    levels = max(part.levels for part in kept) + (len(kept) > 1)
    return Narrowed(clauses[0] if len(clauses) == 1 else grammar.every(clauses), exact, size=size, levels=levels)


def _any(parts: Sequence[Narrowed[C]], grammar: Grammar[C]) -> Narrowed[C]:
    possible = [part for part in parts if not part.nothing]
    if not possible:
        return _nothing()
    if any(part.clause is None for part in possible):
        return _everything(exact=any(part.clause is None and part.exact for part in possible))
    size = sum(part.size for part in possible)
    levels = max(part.levels for part in possible) + (len(possible) > 1)
    if size > grammar.most_clauses or levels > grammar.most_levels:
        return _everything(exact=False)
    clauses = [part.clause for part in possible if part.clause is not None]
    exact = all(part.exact for part in possible)
    return Narrowed(clauses[0] if len(clauses) == 1 else grammar.some(clauses), exact, size=size, levels=levels)


# ------------------------------------------------------------------ single conditions


def _condition(condition: Condition, grammar: Grammar[C], *, positive: bool) -> Narrowed[C]:
    if condition.operator in ("eq", "in"):
        return _membership(condition, grammar, positive=positive)
    if condition.operator in ORDERINGS:
        return _ordering(condition, grammar, positive=positive)
    if positive and isinstance(condition.value, str):
        clause = grammar.holds(path_of(condition.field), condition.value, ignore_case=condition.operator == "icontains")
        return Narrowed(clause, exact=False)
    return _everything(exact=False)


def _membership(condition: Condition, grammar: Grammar[C], *, positive: bool) -> Narrowed[C]:
    values: tuple[Scalar, ...] = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    if not values:
        return _nothing() if positive else _everything(exact=True)
    if len(values) > grammar.most_values:
        return _everything(exact=False)
    if condition.field in SCOPE_FIELDS:
        texts = [value for value in values if isinstance(value, str)]
        if not any(isinstance(value, Moment) for value in values):  # a moment equals texts of several forms
            if not texts:
                return _nothing() if positive else _everything(exact=True)
            native = (grammar.scope_is if positive else grammar.scope_is_not)(condition.field, texts)
            if native is not None:
                return Narrowed(native, exact=True)
    path = path_of(condition.field)
    tokens = list(dict.fromkeys(token(path, value) for value in values))
    return Narrowed(grammar.one_of(tokens) if positive else grammar.none_of(tokens), exact=True)


def _ordering(condition: Condition, grammar: Grammar[C], *, positive: bool) -> Narrowed[C]:
    edge = _edge(condition)
    if edge is None:
        return _everything(exact=False)
    exact = edge.exact and (edge.kind == "moment" or grammar.exact_numbers)
    upward = condition.operator in ("gt", "gte")
    if positive:
        clause = _between(grammar, edge.side(upward=upward))
        return Narrowed(clause, exact=exact and clause is not None)
    # Not on that side: it is no such value at all, or one on the other side.
    outside = _between(grammar, edge.step(upward=not upward).side(upward=not upward))
    if outside is None:
        return _everything(exact=False)
    mark = _mark(edge.path, edge.kind)
    return Narrowed(grammar.some([grammar.none_of([mark]), outside]), exact, size=2, levels=2)


def _between(grammar: Grammar[C], span: Span) -> C | None:
    """Rows inside the span; no engine is asked about infinity, beyond which all values of the kind lie."""
    bounds = [bound for bound in (span.low, span.high) if bound is not None]
    if any(map(math.isinf, bounds)):
        return grammar.one_of([_mark(span.path, span.kind)])
    return grammar.between(span)


def _mark(path: str, kind: Literal["number", "moment"]) -> str:
    """The token of rows whose field is one value of the kind."""
    return number_mark(path) if kind == "number" else moment_mark(path)


@dataclass(frozen=True, slots=True)
class _Edge:
    """Where an ordering begins to hold. Beyond 2**53 floats are rounded: there spans reach out by one more float."""

    path: str
    kind: Literal["number", "moment"]
    value: float

    @property
    def exact(self) -> bool:
        return abs(self.value) < EXACT

    def step(self, *, upward: bool) -> _Edge:
        """The next value on that side."""
        if not self.exact:
            return self
        if self.kind == "moment":
            return _Edge(self.path, self.kind, self.value + (1 if upward else -1))
        return _Edge(self.path, self.kind, math.nextafter(self.value, math.inf if upward else -math.inf))

    def side(self, *, upward: bool) -> Span:
        """This value and all beyond it on that side."""
        value = self.value if self.exact else math.nextafter(self.value, -math.inf if upward else math.inf)
        return Span(self.path, self.kind, value, None) if upward else Span(self.path, self.kind, None, value)


def _edge(condition: Condition) -> _Edge | None:
    """The first value that satisfies an ordering; None where texts are compared that are no moments."""
    value, path = condition.value, path_of(condition.field)
    if isinstance(value, (Moment, str)):
        moment = read_moment(value.text if isinstance(value, Moment) else value)
        if moment is None:
            return None
        edge = _Edge(path, "moment", float(microseconds(moment)))
    elif isinstance(value, (int, float)):
        edge = _Edge(path, "number", float(value))
    else:
        return None
    strict = condition.operator in ("gt", "lt")
    return edge.step(upward=condition.operator == "gt") if strict else edge
