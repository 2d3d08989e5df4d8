"""Filters in Weaviate's terms: the messages of its gRPC API, so that no value is ever part of a query's text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from weaviate.proto.v1 import base_pb2

from perdure.backends.vector_stores.common.filter_clauses import Grammar, Span
from perdure.backends.vector_stores.weaviate.objects import RANGED, SLOT, TOKENS, fits_keyword

Clause = base_pb2.Filters

_Operator = base_pb2.Filters
IDS = "_id"
"""Weaviate's own name for an object's uuid in filters."""
SLOTS = 2**48
"""Every row has a number below this in its property `slot`, evenly spread."""


def texts(name: str, operator: Any, values: Sequence[str]) -> Clause:
    """A condition on a property (or on IDS) with a list of texts."""
    target = base_pb2.FilterTarget(property=name)
    return Clause(operator=operator, target=target, value_text_array=base_pb2.TextArray(values=values))


def number(name: str, operator: Any, value: float) -> Clause:
    """A condition on a property of numbers."""
    return Clause(operator=operator, target=base_pb2.FilterTarget(property=name), value_number=value)


def both(*clauses: Clause | None) -> Clause | None:
    """All of the clauses that there are."""
    given = [clause for clause in clauses if clause is not None]
    return Clause(operator=_Operator.OPERATOR_AND, filters=given) if len(given) > 1 else next(iter(given), None)


def with_ids(ids: Sequence[str]) -> Clause:
    """Objects that have one of these uuids."""
    return texts(IDS, _Operator.OPERATOR_CONTAINS_ANY, ids)


def in_slots(low: int, high: int) -> Clause:
    """Objects whose slot is from `low` on and below `high`."""
    return Clause(
        operator=_Operator.OPERATOR_AND,
        filters=[
            number(SLOT, _Operator.OPERATOR_GREATER_THAN_EQUAL, low),
            number(SLOT, _Operator.OPERATOR_LESS_THAN, high),
        ],
    )


def everything() -> Clause:
    """Every row, said as a filter."""
    return number(SLOT, _Operator.OPERATOR_GREATER_THAN_EQUAL, 0)


def _scope(operator: Any, field: str, values: Sequence[str]) -> Clause | None:
    return texts(field, operator, values) if all(map(fits_keyword, values)) else None


def _between(span: Span) -> Clause | None:
    """The span of a field whose numbers or moments are indexed."""
    if RANGED.get(span.path) != span.kind:
        return None
    low = None if span.low is None else number(span.path, _Operator.OPERATOR_GREATER_THAN_EQUAL, span.low)
    high = None if span.high is None else number(span.path, _Operator.OPERATOR_LESS_THAN_EQUAL, span.high)
    return both(low, high)


GRAMMAR = Grammar[Clause](
    one_of=partial(texts, TOKENS, _Operator.OPERATOR_CONTAINS_ANY),
    none_of=partial(texts, TOKENS, _Operator.OPERATOR_CONTAINS_NONE),
    every=lambda clauses: Clause(operator=_Operator.OPERATOR_AND, filters=clauses),
    some=lambda clauses: Clause(operator=_Operator.OPERATOR_OR, filters=clauses),
    scope_is=partial(_scope, _Operator.OPERATOR_CONTAINS_ANY),
    scope_is_not=partial(_scope, _Operator.OPERATOR_CONTAINS_NONE),
    between=_between,
)
