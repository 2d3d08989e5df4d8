"""Filters as an engine's clauses: every matching row satisfies the clause, and few others do.

What an engine cannot express is left out of the clause; `matches` filters the returned rows. NOT is pushed down to
single conditions first, so that leaving one out only lets more rows in.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Generic, Literal, TypeVar

from perdure.domain.clock import read_moment
from perdure.domain.filter import ORDERINGS, RECORD_FIELDS, And, Condition, Filter, Moment, Not, Or, Scalar
from perdure.domain.scope import SCOPE_FIELDS

# What a row looks like to an engine that filters by keywords: one token for each value of each of its fields.
#
# A token is a digest of field, kind and value, so it is 20 hexadecimal digits whatever a caller wrote: no quote,
# wildcard or operator of any query language can be in it. An engine needs one list of keywords with an index to
# answer `eq`, `in`, `ne` and `nin` on every field, with the kinds told apart and lists and missing fields as
# `perdure.domain.filter` means them. Two values share a token with a chance of 2**-80; where it lets a row in,
# `matches` throws it out again.

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Facets:
    """The tokens of a row, and its single numbers and times by path."""

    tokens: list[str]
    numbers: dict[str, float] = field(default_factory=dict)
    moments: dict[str, int] = field(default_factory=dict)  # microseconds since 1970 (UTC)


def path_of(name: str) -> str:
    """Return the path of a filter's field name: an own field's name, or `metadata.` and a key."""
    return name if name in RECORD_FIELDS else f"metadata.{name.removeprefix('metadata.')}"


def facets(payload: Mapping[str, Any], marks: Iterable[str] = ()) -> Facets:
    """Return the facets of a payload; `marks` are additional tokens of ours."""
    found: dict[str, None] = dict.fromkeys(marks)
    numbers: dict[str, float] = {}
    moments: dict[str, int] = {}
    for path, value in _fields(payload):
        if isinstance(value, list):
            for element in value:
                found.update(dict.fromkeys(_tokens(path, element)))
            continue
        found.update(dict.fromkeys(_tokens(path, value)))
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            numbers[path] = float(value)
            found[number_mark(path)] = None
        elif isinstance(value, str) and (moment := read_moment(value)) is not None:
            moments[path] = microseconds(moment)
            found[moment_mark(path)] = None
    return Facets(list(found), numbers, moments)


def _fields(payload: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in payload.items():
        if name in RECORD_FIELDS:
            yield name, value
    metadata = payload.get("metadata")
    if isinstance(metadata, Mapping):
        for key, value in metadata.items():
            yield f"metadata.{key}", value


def _tokens(path: str, value: Any) -> Iterator[str]:
    """Return the tokens of a stored value that is not a list; none for null and objects, which equal nothing."""
    if isinstance(value, bool):
        yield _token(path, "truth", value)
    elif isinstance(value, (int, float)):
        yield _token(path, "number", _number(value))
    elif isinstance(value, str):
        yield _token(path, "text", value)
        moment = read_moment(value)
        if moment is not None:
            yield _token(path, "moment", microseconds(moment))


def token(path: str, value: Scalar) -> str:
    """Return the token of rows whose field equals this operand."""
    if isinstance(value, Moment):
        moment = read_moment(value.text)
        assert moment is not None, "a Moment is fixed-width ISO 8601"
        return _token(path, "moment", microseconds(moment))
    if isinstance(value, bool):
        return _token(path, "truth", value)
    if isinstance(value, str):
        return _token(path, "text", value)
    return _token(path, "number", _number(value))


def number_mark(path: str) -> str:
    """Return the token of rows whose field is one number."""
    return _token(path, "mark", "number")


def moment_mark(path: str) -> str:
    """Return the token of rows whose field is one text that is a time."""
    return _token(path, "mark", "moment")


def word_token(word: str) -> str:
    """Return the token of rows whose memory has this word, as stemmed by `terms`."""
    return _token("", "word", word)


def microseconds(moment: datetime) -> int:
    """Return the microseconds from 1970 (UTC) to an aware datetime."""
    return (moment - _EPOCH) // _MICROSECOND


def _number(value: float) -> int | str:
    """Return one form for all equal numbers: 1 and 1.0, 0 and -0.0."""
    if isinstance(value, int):
        return value
    return int(value) if value.is_integer() else repr(value)


@lru_cache(maxsize=16384)
def _token(path: str, kind: str, value: object) -> str:
    return blake2b(json.dumps([path, kind, value]).encode(), digest_size=10).hexdigest()


BARE = _token("", "mark", "no vector")  # the token of rows that have no vector yet
C = TypeVar("C")
EXACT = 2.0**53  # below this every whole number is a float of its own


@dataclass(frozen=True, slots=True)
class Span:
    """A field whose single number, or time in microseconds since 1970, lies between two inclusive bounds."""

    path: str
    kind: Literal["number", "moment"]
    low: float | None
    high: float | None  # none where that side is open; one of the two is given


def cannot_write(*_: object) -> None:
    """Leave a condition out of the clause, which then lets every row through."""


@dataclass(frozen=True, kw_only=True)
class Grammar(Generic[C]):
    """How an engine writes clauses, one function for each kind; None for an inexpressible condition."""

    one_of: Callable[[Sequence[str]], C]  # rows that have one of these tokens
    none_of: Callable[[Sequence[str]], C]  # rows that have none of these tokens
    every: Callable[[Sequence[C]], C]  # rows that satisfy all of at least two clauses
    some: Callable[[Sequence[C]], C]  # rows that satisfy one of at least two clauses
    scope_is: Callable[[str, Sequence[str]], C | None] = cannot_write
    """Rows whose scope field is one of these texts; None to use tokens."""
    scope_is_not: Callable[[str, Sequence[str]], C | None] = cannot_write
    """Rows whose scope field is none of these texts, or missing; None to use tokens."""
    between: Callable[[Span], C | None] = cannot_write  # rows inside the span
    holds: Callable[[str, str, bool], C | None] = cannot_write
    """Rows whose own text field holds this text (maybe more rows); given the field, the text and "ignore case"."""
    most_values: int = 500  # tokens or texts in one clause
    most_clauses: int = 200  # clauses in one filter
    most_levels: int = 8  # levels of AND and OR in one filter
    exact_numbers: bool = True
    """Whether the engine compares numbers to the last digit; if not, `between` reaches out a little."""


def scope_writer(
    fits: Callable[[str], object], one: str, many: str
) -> Callable[[str, Sequence[str]], dict[str, Any] | None]:
    """Write `{field: {operator: operand}}`: the operator `one` for a single text, `many` for several."""

    def write(field: str, values: Sequence[str]) -> dict[str, Any] | None:
        if not all(map(fits, values)):
            return None
        return {field: {one: values[0]} if len(values) == 1 else {many: list(values)}}

    return write


@dataclass(frozen=True, slots=True)
class Narrowed(Generic[C]):
    """A narrowed filter: a clause, or all rows (None), or no row."""

    clause: C | None
    exact: bool  # whether the clause is true of the matching rows only
    nothing: bool = False  # whether no row can match
    size: int = 1
    levels: int = 1


def narrow(filter: Filter | None, grammar: Grammar[C]) -> Narrowed[C]:
    """Return the clause of a filter; unless it is exact, `matches` must check its rows."""
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


def _condition(condition: Condition, grammar: Grammar[C], *, positive: bool) -> Narrowed[C]:
    if condition.operator in ("eq", "in"):
        return _membership(condition, grammar, positive=positive)
    if condition.operator in ORDERINGS:
        return _ordering(condition, grammar, positive=positive)
    if positive and isinstance(condition.value, str):
        clause = grammar.holds(path_of(condition.field), condition.value, condition.operator == "icontains")
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
    """Return rows inside the range; infinity is left out, because no value lies beyond it."""
    bounds = [bound for bound in (span.low, span.high) if bound is not None]
    if any(map(math.isinf, bounds)):
        return grammar.one_of([_mark(span.path, span.kind)])
    return grammar.between(span)


def _mark(path: str, kind: Literal["number", "moment"]) -> str:
    """Return the token of rows whose field is one value of the kind."""
    return number_mark(path) if kind == "number" else moment_mark(path)


@dataclass(frozen=True, slots=True)
class _Edge:
    """The first value of an ordering. Beyond 2**53 floats are rounded, so ranges reach out by one more float."""

    path: str
    kind: Literal["number", "moment"]
    value: float

    @property
    def exact(self) -> bool:
        return abs(self.value) < EXACT

    def step(self, *, upward: bool) -> _Edge:
        """Return the next value on that side."""
        if not self.exact:
            return self
        if self.kind == "moment":
            return _Edge(self.path, self.kind, self.value + (1 if upward else -1))
        return _Edge(self.path, self.kind, math.nextafter(self.value, math.inf if upward else -math.inf))

    def side(self, *, upward: bool) -> Span:
        """Return this value and all beyond it on that side."""
        value = self.value if self.exact else math.nextafter(self.value, -math.inf if upward else math.inf)
        return Span(self.path, self.kind, value, None) if upward else Span(self.path, self.kind, None, value)


def _edge(condition: Condition) -> _Edge | None:
    """Return the first value that satisfies an ordering; None if texts are compared that are not times."""
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


def filter_plain(filter: Filter) -> list[Any]:
    """Return the filter as JSON values, different for different filters."""
    if isinstance(filter, Condition):
        value = filter.value
        operand = [_plain_scalar(one) for one in value] if isinstance(value, tuple) else _plain_scalar(value)
        return ["is", filter.field, filter.operator, operand]
    if isinstance(filter, Not):
        return ["not", filter_plain(filter.part)]
    return ["and" if isinstance(filter, And) else "or", *(filter_plain(part) for part in filter.parts)]


def _plain_scalar(value: Any) -> Any:
    return {"moment": value.text} if isinstance(value, Moment) else value


def plain_filter(plain: list[Any]) -> Filter:
    """Return the filter of `filter_plain`'s result."""
    word, *parts = plain
    if word == "is":
        field, operator, value = parts
        operand = tuple(_scalar(one) for one in value) if isinstance(value, list) else _scalar(value)
        return Condition(field, operator, operand)
    if word == "not":
        return Not(plain_filter(parts[0]))
    trees = tuple(plain_filter(part) for part in parts)
    return And(trees) if word == "and" else Or(trees)


def _scalar(value: Any) -> Any:
    return Moment(value["moment"]) if isinstance(value, dict) else value
