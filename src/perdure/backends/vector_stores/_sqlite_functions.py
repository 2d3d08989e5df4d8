"""What SQL cannot say of a filter, as functions of the connection: each gives 0 or 1, and the same for the same input.

A filter travels to them as JSON text, so that it is a bound parameter like every other value.
"""

from __future__ import annotations

import json
import sqlite3
from functools import lru_cache
from typing import Any

from perdure.backends.vector_stores._sqlite_records import read_payload
from perdure.backends.vector_stores._sqlite_schema import key_text
from perdure.domain.filter import And, Condition, Filter, Moment, Not, Or, compare, matches


def register(connection: sqlite3.Connection) -> None:
    """Give the connection the functions that `_sqlite_filter` writes into its SQL."""
    connection.create_function("perdure_text", 2, _text, deterministic=True)
    connection.create_function("perdure_json", 2, _json, deterministic=True)
    connection.create_function("perdure_key", 3, _key, deterministic=True)
    connection.create_function("perdure_row", -1, _row, deterministic=True)


def _text(value: str | bytes | None, spec: str) -> bool:
    """Whether a text column satisfies the condition."""
    condition = _condition(spec)
    return compare(None if value is None else key_text(value), condition.operator, condition.value)


def _json(value: str | None, spec: str) -> bool:
    """Whether a JSON value satisfies the condition."""
    condition = _condition(spec)
    return compare(None if value is None else json.loads(value), condition.operator, condition.value)


def _key(value: str | None, key: str, spec: str) -> bool:
    """Whether a key of a JSON object satisfies the condition; the key comes as JSON, as it may be any text."""
    condition = _condition(spec)
    found = None if value is None else json.loads(value).get(json.loads(key))
    return compare(found, condition.operator, condition.value)


def _row(spec: str, *columns: Any) -> bool:
    """Whether a row, given by its SELECTED columns, satisfies the filter."""
    return matches(_read(spec), read_payload(columns))


# ------------------------------------------------------------------ filters as text


def write(filter: Filter) -> str:
    """The filter as text that the functions read."""
    return json.dumps(_plain(filter))


@lru_cache(maxsize=256)
def _read(spec: str) -> Filter:
    return _tree(json.loads(spec))


@lru_cache(maxsize=1024)
def _condition(spec: str) -> Condition:
    tree = _tree(json.loads(spec))
    assert isinstance(tree, Condition)
    return tree


def _plain(filter: Filter) -> list[Any]:
    if isinstance(filter, Condition):
        value = filter.value
        operand = [_plain_scalar(one) for one in value] if isinstance(value, tuple) else _plain_scalar(value)
        return ["is", filter.field, filter.operator, operand]
    if isinstance(filter, Not):
        return ["not", _plain(filter.part)]
    return ["and" if isinstance(filter, And) else "or", *(_plain(part) for part in filter.parts)]


def _plain_scalar(value: Any) -> Any:
    return {"moment": value.text} if isinstance(value, Moment) else value


def _tree(plain: list[Any]) -> Filter:
    word, *parts = plain
    if word == "is":
        field, operator, value = parts
        operand = tuple(_scalar(one) for one in value) if isinstance(value, list) else _scalar(value)
        return Condition(field, operator, operand)
    if word == "not":
        return Not(_tree(parts[0]))
    trees = tuple(_tree(part) for part in parts)
    return And(trees) if word == "and" else Or(trees)


def _scalar(value: Any) -> Any:
    return Moment(value["moment"]) if isinstance(value, dict) else value
