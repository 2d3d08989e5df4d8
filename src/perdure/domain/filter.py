"""Filters: one small tree, and `matches`, which defines the meaning that every store must agree with.

A name means the item's own field first, else a key of its metadata; `metadata.x` always means the metadata key `x`. A
missing field (or null) satisfies `ne` and `nin` only. Values are never coerced between types: text, numbers and
booleans are different, and 1 equals 1.0. Two values compare as dates if the field is one of `TIME_FIELDS`, if the
operand is a date or datetime, or, for the four ordering operators, if both are ISO 8601 texts. A list satisfies `eq`,
`in`, `contains` and `icontains` if one of its elements does, and no ordering operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from perdure.domain.clock import iso, read_moment
from perdure.domain.errors import FilterError
from perdure.domain.scope import SCOPE_FIELDS, Scope
from perdure.domain.text.readable import is_unicode, shown

OPERATORS = ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "contains", "icontains")
ORDERINGS = ("gt", "gte", "lt", "lte")
TIME_FIELDS = frozenset(
    {
        "created_at", "updated_at", "last_accessed_at", "valid_from", "valid_to", "expires_at",
        "told_at", "untold_at", "deleted_at",
    }
)  # fmt: skip
"""Own fields that contain a time, stored as fixed-width ISO 8601 UTC text."""

RECORD_FIELDS = TIME_FIELDS | frozenset(SCOPE_FIELDS) | frozenset(
    {
        "id", "memory", "hash", "kind", "role", "speaker", "type", "meta_type", "state", "version", "version_of",
        "lineage_id", "replaced_by", "unique", "importance", "access_count", "sources", "source", "subject",
        "attribute", "value", "polarity", "confidence", "visibility", "truth_level", "validation_status", "position",
        "document_id", "written_by", "derived_from", "quarantined", "first_told_at",
    }
)  # fmt: skip
"""The item's own fields: a filter on one of these names never looks into the metadata."""

MAX_DEPTH = 32
"""Levels of AND, OR and NOT: far above any query that a person writes, far below Python's recursion limit."""


@dataclass(frozen=True, slots=True)
class Moment:
    """An operand that is a date: fixed-width ISO 8601 UTC text."""

    text: str


Scalar = str | int | float | bool | Moment
Operand = Scalar | tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison of a field with a value."""

    field: str
    operator: str
    value: Operand


@dataclass(frozen=True, slots=True)
class And:
    """True if every part is true; without parts always true."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True if some part is true; without parts never true."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """True if its part is false."""

    part: Filter


Filter = Condition | And | Or | Not


def all_of(*parts: Filter | None) -> And:
    """Return the conjunction of the parts, with nested conjunctions flattened."""
    flat: list[Filter] = []
    for part in parts:
        if isinstance(part, And):
            flat.extend(part.parts)
        elif part is not None:
            flat.append(part)
    return And(tuple(flat))


def eq(field: str, value: Scalar) -> Condition:
    """Return the condition that a field equals a value."""
    return Condition(field, "eq", value)


def scope_filter(scope: Scope) -> And:
    """Return the filter for items whose scope fields equal those given; fields that are None are not filtered."""
    return And(tuple(eq(name, value) for name, value in scope.given().items()))


def parse_filter(expression: Filter | Mapping[str, Any] | None) -> Filter | None:
    """Parse a caller's expression: a full condition, `{"tag": "work"}` for an eq, or `{"n": {"gte": 3}}`.

    Several keys in one object are joined by AND. FilterError names a part that has no meaning.
    """
    if expression is None or isinstance(expression, (Condition, And, Or, Not)):
        return expression
    return _parse(expression, 0)


def dump_filter(filter: Filter) -> dict[str, Any]:
    """Return the filter as JSON, from which `load_filter` makes an equal one."""
    if isinstance(filter, Condition):
        value = [_dumped(each) for each in filter.value] if isinstance(filter.value, tuple) else _dumped(filter.value)
        return {"field": filter.field, "operator": filter.operator, "value": value}
    if isinstance(filter, Not):
        return {"NOT": dump_filter(filter.part)}
    return {"AND" if isinstance(filter, And) else "OR": [dump_filter(part) for part in filter.parts]}


def _dumped(scalar: Scalar) -> Any:
    return {"moment": scalar.text} if isinstance(scalar, Moment) else scalar


def load_filter(value: object) -> Filter:
    """Return the filter of what `dump_filter` returned; FilterError for anything else."""
    return _loaded(value, 0)


def _loaded(value: object, depth: int) -> Filter:
    # A level of an expression makes up to three here: its keys' AND, that of the list of a NOT, and each NOT.
    if depth > 3 * (MAX_DEPTH + 1) or not isinstance(value, Mapping):
        raise FilterError(f"a stored filter must be an object, not {shown(value)}", field="filters", value=None)
    if "NOT" in value:
        return Not(_loaded(value["NOT"], depth + 1))
    for word in ("AND", "OR"):
        if isinstance(parts := value.get(word), list):
            loaded = tuple(_loaded(part, depth + 1) for part in parts)
            return And(loaded) if word == "AND" else Or(loaded)
    operand = value.get("value")
    operand = [_moment_or(each) for each in operand] if isinstance(operand, list) else _moment_or(operand)
    return _condition(value.get("field"), value.get("operator"), operand)


def _moment_or(operand: object) -> object:
    text = operand.get("moment") if isinstance(operand, Mapping) else None
    moment = read_moment(text) if isinstance(text, str) else None
    return operand if moment is None else Moment(iso(moment))


def _parse(expression: object, depth: int) -> Filter:
    if depth > MAX_DEPTH:
        raise FilterError(f"filters may be nested {MAX_DEPTH} levels deep", field="filters", value=None)
    if isinstance(expression, (Condition, And, Or, Not)):
        return expression
    if not isinstance(expression, Mapping):
        raise FilterError(f"a filter must be an object, not {shown(expression)}", field="filters", value=expression)
    if "field" in expression and "operator" in expression:
        return _parse_condition(expression)
    parts = [_parse_key(key, value, depth) for key, value in expression.items()]
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _parse_condition(expression: Mapping[Any, Any]) -> Condition:
    extra = [str(key) for key in expression if key not in ("field", "operator", "value")]
    if extra:
        raise FilterError(
            f"a condition has field, operator and value, not {', '.join(extra)}",
            field="filters",
            value=dict(expression),
        )
    if "value" not in expression:
        raise FilterError("a condition needs a value", field="filters", value=dict(expression))
    return _condition(expression["field"], expression["operator"], expression["value"])


def _parse_key(key: object, value: object, depth: int) -> Filter:
    if not isinstance(key, str) or not key:
        raise FilterError(f"a field's name must be text, not {shown(key)}", field="filters", value=key)
    word = key.removeprefix("$").upper() if key.startswith("$") or key.upper() == key else key
    if word in ("AND", "OR"):
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
            raise FilterError(f"{key} takes a list of filters, not {shown(value)}", field="filters", value=value)
        parts = tuple(_parse(part, depth + 1) for part in value)
        return And(parts) if word == "AND" else Or(parts)
    if word == "NOT":
        if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
            return And(tuple(Not(_parse(part, depth + 1)) for part in value))
        return Not(_parse(value, depth + 1))
    if key.startswith("$"):
        raise FilterError(f"unknown operator {key!r}: use $and, $or or $not", field="filters", value=key)
    if isinstance(value, Mapping):
        return _parse_operators(key, value)
    return _condition(key, "eq", value)


def _parse_operators(field: str, operators: Mapping[Any, Any]) -> Filter:
    if not operators:
        raise FilterError(f"the filter on {field!r} is empty", field=field, value={})
    parts = tuple(_condition(field, str(name).removeprefix("$"), value) for name, value in operators.items())
    return parts[0] if len(parts) == 1 else And(parts)


def _condition(field: object, operator: object, value: object) -> Condition:
    nameless = not isinstance(field, str) or not field or "\x00" in field or field in {"metadata.", "metadata"}
    if nameless or not is_unicode(str(field)):
        raise FilterError(f"a field's name must be text, not {shown(field)}", field="filters", value=field)
    assert isinstance(field, str)
    if operator not in OPERATORS:
        raise FilterError(
            f"unknown operator {shown(operator)} on {field!r}: use one of {', '.join(OPERATORS)}",
            field=field,
            value=operator,
        )
    assert isinstance(operator, str)
    if operator in ("in", "nin"):
        if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, set, frozenset)):
            raise _mismatch(field, operator, "a list", value)
        return Condition(field, operator, tuple(_scalar(field, operator, element) for element in value))
    scalar = _scalar(field, operator, value)
    if operator in ("contains", "icontains") and not isinstance(scalar, str):
        raise _mismatch(field, operator, "text", value)
    if operator in ORDERINGS and isinstance(scalar, bool):
        raise _mismatch(field, operator, "a number, a date or text", value)
    return Condition(field, operator, scalar)


def _mismatch(field: str, operator: str, wanted: str, value: object) -> FilterError:
    return FilterError(f"{operator} on {field!r} takes {wanted}, not {shown(value)}", field=field, value=value)


def _scalar(field: str, operator: str, value: object) -> Scalar:
    if isinstance(value, Moment):
        return value
    if isinstance(value, str) and not is_unicode(value):
        raise _mismatch(field, operator, "Unicode text", value)
    if isinstance(value, (date, datetime)):
        moment = read_moment(value)
        if moment is not None:
            return Moment(iso(moment))
    if isinstance(value, float) and not math.isfinite(value):
        raise _mismatch(field, operator, "a finite number", value)
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        raise _mismatch(field, operator, "a 64-bit number", value)
    if isinstance(value, (str, bool, int, float)):
        if field in TIME_FIELDS and operator not in ("contains", "icontains"):
            moment = read_moment(value) if isinstance(value, str) else None
            if moment is None:
                raise FilterError(
                    f"{field} is compared with a date such as 2026-03-01, not {shown(value)}", field=field, value=value
                )
            return Moment(iso(moment))
        return value
    without = f'{{"NOT": [{{"{field}": {{"gte": ""}}}}]}}'
    hint = f" (to find items that have no text in this field: {without})" if value is None else ""
    raise FilterError(
        f"{operator} on {field!r} takes text, a number, a boolean or a date, not {shown(value)}{hint}",
        field=field,
        value=value,
    )


def field_value(payload: Mapping[str, Any], field: str) -> Any:
    """Return the value that a filter's field name refers to in this payload, or None."""
    if field in RECORD_FIELDS:
        return payload.get(field)
    metadata = payload.get("metadata")
    if not isinstance(metadata, Mapping):
        return None
    return metadata.get(field.removeprefix("metadata."))


def matches(filter: Filter | None, payload: Mapping[str, Any]) -> bool:
    """Whether the payload of an item satisfies the filter; this function defines the meaning of every filter."""
    if filter is None:
        return True
    if isinstance(filter, Condition):
        return compare(field_value(payload, filter.field), filter.operator, filter.value)
    if isinstance(filter, And):
        return all(matches(part, payload) for part in filter.parts)
    if isinstance(filter, Or):
        return any(matches(part, payload) for part in filter.parts)
    return not matches(filter.part, payload)


def compare(value: Any, operator: str, operand: Operand) -> bool:
    """Whether a stored value satisfies the operator with the operand."""
    if operator == "eq" and isinstance(value, str) and isinstance(operand, str):
        return value == operand  # what nearly every condition on a row asks
    if operator == "ne":
        return not compare(value, "eq", operand)
    if operator == "nin":
        return not compare(value, "in", operand)
    if value is None:
        return False
    if isinstance(operand, tuple):
        return any(compare(value, "eq", element) for element in operand)
    if isinstance(value, list):
        return operator not in ORDERINGS and any(compare_scalar(element, operator, operand) for element in value)
    return compare_scalar(value, operator, operand)


def compare_scalar(value: Any, operator: str, operand: Scalar) -> bool:
    """Whether two single values satisfy the operator; false if their types differ."""
    if operator == "contains":
        return isinstance(value, str) and isinstance(operand, str) and operand in value
    if operator == "icontains":
        return isinstance(value, str) and isinstance(operand, str) and operand.casefold() in value.casefold()
    pair = _comparable(value, operator, operand)
    return pair is not None and _RELATIONS[operator](*pair)


def _comparable(value: Any, operator: str, operand: Scalar) -> tuple[Any, Any] | None:
    if isinstance(operand, Moment):
        moment = read_moment(value) if isinstance(value, str) else None
        return None if moment is None else (iso(moment), operand.text)
    if isinstance(value, bool) or isinstance(operand, bool):
        return (value, operand) if isinstance(value, bool) and isinstance(operand, bool) else None
    if isinstance(value, (int, float)) and isinstance(operand, (int, float)):
        return value, operand
    if not isinstance(value, str) or not isinstance(operand, str):
        return None
    if operator not in ORDERINGS:
        return value, operand
    left, right = read_moment(value), read_moment(operand)
    if left is not None and right is not None:
        return left, right
    return (value, operand) if left is None and right is None else None


_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: bool(a == b),
    "gt": lambda a, b: bool(a > b),
    "gte": lambda a, b: bool(a >= b),
    "lt": lambda a, b: bool(a < b),
    "lte": lambda a, b: bool(a <= b),
}
