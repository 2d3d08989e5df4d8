"""Pinecone's metadata and its filters, as https://docs.pinecone.io/guides/search/filter-by-metadata has them; strict.

What a condition on a missing field means is not documented and has changed: here no condition but $exists is true of
it, and an $or is true only where every field named in it is there, which is the harshest that has been seen
(https://github.com/deepset-ai/haystack-core-integrations/issues/590).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

MOST_METADATA = 40_960
"""Bytes of metadata of one record: 40 KB."""
MOST_VALUES = 10_000
"""Values in one $in or $nin."""

Metadata = dict[str, Any]
Test = Callable[[Metadata], bool]


class BadRequest(Exception):
    """What the service refuses, in its words."""


def check_metadata(metadata: Any) -> Metadata:
    if not isinstance(metadata, dict):
        raise BadRequest("metadata: invalid value, expected an object")
    for key, value in metadata.items():
        if key.startswith("$"):
            raise BadRequest(f"Metadata key '{key}' must not start with a $")
        lists = isinstance(value, list) and all(isinstance(element, str) for element in value)
        if not lists and not isinstance(value, (str, bool, int, float)):
            shown = json.dumps(value)[:60]
            raise BadRequest(
                f"Metadata value must be a string, number, boolean or list of strings, got '{shown}' for field '{key}'"
            )
    size = len(json.dumps(metadata, separators=(",", ":"), ensure_ascii=False).encode())
    if size > MOST_METADATA:
        raise BadRequest(f"Metadata size is {size} bytes, which exceeds the limit of {MOST_METADATA} bytes per vector")
    return metadata


def read_filter(value: Any, fields: Collection[str] | None) -> Test:
    """The test that a filter means; `fields` are those that are indexed, None for all."""
    if not isinstance(value, dict) or not value:
        raise BadRequest("Invalid filter: expected an object with at least one condition")
    tests = [_clause(key, operand, fields) for key, operand in value.items()]
    return lambda metadata: all(test(metadata) for test in tests)


def _clause(key: str, operand: Any, fields: Collection[str] | None) -> Test:
    if key in ("$and", "$or"):
        if not isinstance(operand, list) or not operand:
            raise BadRequest(f"the {key} operator must be followed by a non-empty list of filters")
        parts = [read_filter(part, fields) for part in operand]
        if key == "$and":
            return lambda metadata: all(part(metadata) for part in parts)
        named = set(_named(operand))
        return lambda metadata: named <= metadata.keys() and any(part(metadata) for part in parts)
    if key.startswith("$"):
        raise BadRequest(f"{key} is not a valid operator")
    if fields is not None and key not in fields:
        raise BadRequest(f"the field '{key}' is not filterable in this namespace")
    if not isinstance(operand, dict):
        return _condition(key, "$eq", operand)
    if not operand:
        raise BadRequest(f"the filter on '{key}' is empty")
    tests = [_condition(key, name, value) for name, value in operand.items()]
    return lambda metadata: all(test(metadata) for test in tests)


def _named(value: Any) -> Iterator[str]:
    for part in value if isinstance(value, list) else [value]:
        for key, operand in part.items():
            if key in ("$and", "$or"):
                yield from _named(operand)
            else:
                yield key


def _condition(key: str, operator: str, operand: Any) -> Test:
    if operator in ("$in", "$nin"):
        if not isinstance(operand, list) or not operand or not all(map(_is_scalar, operand)):
            raise BadRequest(f"the {operator} operator must be followed by a list of strings, numbers or booleans")
        if len(operand) > MOST_VALUES:
            raise BadRequest(f"the {operator} operator accepts at most {MOST_VALUES} values")
        found = _one_of({_kinded(value) for value in operand})
        return lambda metadata: key in metadata and found(metadata[key]) == (operator == "$in")
    if operator in ("$eq", "$ne"):
        if not _is_scalar(operand):
            raise BadRequest(f"the {operator} operator must be followed by a string, number or boolean")
        found = _one_of({_kinded(operand)})
        return lambda metadata: key in metadata and found(metadata[key]) == (operator == "$eq")
    if operator == "$exists":
        if not isinstance(operand, bool):
            raise BadRequest("the $exists operator must be followed by a boolean")
        return lambda metadata: (key in metadata) == operand
    if operator not in _ORDER:
        raise BadRequest(f"{operator} is not a valid operator")
    if isinstance(operand, bool) or not isinstance(operand, (int, float)):
        raise BadRequest(f"the {operator} operator must be followed by a number")
    relation, bound = _ORDER[operator], float(operand)

    def ordered(metadata: Metadata) -> bool:
        value = metadata.get(key)
        return isinstance(value, (int, float)) and not isinstance(value, bool) and relation(float(value), bound)

    return ordered


_ORDER: Mapping[str, Callable[[float, float], bool]] = {
    "$gt": lambda a, b: a > b,
    "$gte": lambda a, b: a >= b,
    "$lt": lambda a, b: a < b,
    "$lte": lambda a, b: a <= b,
}


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (str, bool, int, float))


def _kinded(value: Any) -> tuple[str, Any]:
    """So that true is not 1; numbers are 64-bit floats."""
    if isinstance(value, bool):
        return ("truth", value)
    return ("text", value) if isinstance(value, str) else ("number", float(value))


def _one_of(wanted: set[tuple[str, Any]]) -> Callable[[Any], bool]:
    def found(value: Any) -> bool:
        if isinstance(value, list):
            return any(("text", element) in wanted for element in value)
        return _kinded(value) in wanted

    return found
