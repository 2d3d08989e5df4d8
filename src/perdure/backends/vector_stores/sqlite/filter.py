"""Filters as SQL that is true of exactly the rows that `matches` is true of (perdure.domain.filter).

Every piece of SQL is 0 or 1, never NULL, so that NOT means not. Values are bound, never spliced. `ne` and `nin` are NOT
of `eq` and `in`, as in `compare`. JSON values of one kind are compared by their text, which has one form (see
`_sqlite_records`): so a number is never a text, true is never 1, and no digit is lost.
"""

# ruff: noqa: S608  (only our own names and numbers are written into SQL; every value is bound)

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from perdure.backends.vector_stores.sqlite.database import COLUMNS, SELECTED, TIME_COLUMNS, text_key, write
from perdure.domain.filter import RECORD_FIELDS, And, Condition, Filter, Moment, Not, Scalar

MAX_DEPTH = 12
MAX_CONDITIONS = 400
"""Larger filters are not SQL's business: its parser's stack has 100 places and its trees 1,000 levels."""

MAX_LISTED = 200
"""Values of an `in` that are bound one by one; more are bound as one JSON list."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.:/ -]+")
"""Metadata keys that a JSON path can name in every version of SQLite."""

_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_POSITIVE = {"ne": "eq", "nin": "in"}


@dataclass(frozen=True, slots=True)
class Sql:
    """A piece of SQL over a row r, with the values of its placeholders."""

    text: str
    values: tuple[Any, ...] = ()


TRUE = Sql("1")
FALSE = Sql("0")


def translate(filter: Filter | None) -> Sql:
    """SQL over a row r that is 1 where the filter matches, else 0."""
    if filter is None or (isinstance(filter, And) and not filter.parts):
        return TRUE
    spec = write(filter)
    whole = f"perdure_row(?, {SELECTED})"
    depth, conditions = _size(filter)
    if depth > MAX_DEPTH or conditions > MAX_CONDITIONS:
        return Sql(whole, (spec,))
    even = _translate(filter)
    return Sql(f"CASE r.odd WHEN 0 THEN {even.text} ELSE {whole} END", (*even.values, spec))


def _size(filter: Filter) -> tuple[int, int]:
    """Levels and conditions of a filter."""
    if isinstance(filter, Condition):
        return 1, 1
    parts = (filter.part,) if isinstance(filter, Not) else filter.parts
    sizes = [_size(part) for part in parts]
    return 1 + max((depth for depth, _ in sizes), default=0), sum(count for _, count in sizes)


def _translate(filter: Filter) -> Sql:
    if isinstance(filter, Condition):
        return _condition(filter)
    if isinstance(filter, Not):
        return _not(_translate(filter.part))
    if isinstance(filter, And):
        return _join(filter.parts, " AND ", TRUE)
    return _join(filter.parts, " OR ", FALSE)


def _join(parts: tuple[Filter, ...], word: str, empty: Sql) -> Sql:
    return _joined([_translate(part) for part in parts], word) if parts else empty


def _joined(pieces: list[Sql], word: str) -> Sql:
    return Sql(f"({word.join(piece.text for piece in pieces)})", tuple(v for piece in pieces for v in piece.values))


def _not(piece: Sql) -> Sql:
    return Sql(f"(NOT {piece.text})", piece.values)


def _condition(condition: Condition) -> Sql:
    if condition.operator in _POSITIVE:
        return _not(_condition(Condition(condition.field, _POSITIVE[condition.operator], condition.value)))
    if condition.field in _TEXT_COLUMNS:
        return _on_column(condition, _TEXT_COLUMNS[condition.field])
    return _on_json(condition)


# ------------------------------------------------------------------ own fields that have a column of text

_TEXT_COLUMNS = {name: f"r.{name}" for name in ("id", "memory", *COLUMNS)} | {
    "created_at": "nullif(r.created_at, '')"  # "" stands for none, so that lists have an order
}


def _on_column(condition: Condition, column: str) -> Sql:
    operator, value = condition.operator, condition.value
    if operator in ("eq", "in"):
        operands = value if isinstance(value, tuple) else (value,)
        if all(isinstance(one, Moment) for one in operands) and condition.field in TIME_COLUMNS:
            return _one_of(Sql(column), [one.text for one in operands if isinstance(one, Moment)])
        if not any(isinstance(one, Moment) for one in operands):
            return _one_of(Sql(column), [one for one in operands if isinstance(one, str)])
    elif operator == "contains" and isinstance(value, str):
        exact = f"WHEN 'text' THEN instr({column}, ?) > 0 WHEN 'blob' THEN perdure_text({column}, ?) ELSE 0"
        return Sql(f"CASE typeof({column}) {exact} END", (text_key(value), write(condition)))
    elif operator in _SIGNS and isinstance(value, Moment) and condition.field in TIME_COLUMNS:
        return Sql(f"ifnull({column} {_SIGNS[operator]} ?, 0)", (value.text,))
    return Sql(f"perdure_text({column}, ?)", (write(condition),))


def _one_of(field: Sql, texts: list[str]) -> Sql:
    """Whether a text is one of these."""
    keys = [text_key(text) for text in texts]
    if len(keys) <= MAX_LISTED:
        return _bound(field, keys)
    plain = [key for key in keys if isinstance(key, str) and "\x00" not in key]
    others = [key for key in keys if not isinstance(key, str) or "\x00" in key]  # SQLite's JSON would maim them
    listed = Sql(
        f"ifnull({field.text} IN (SELECT value FROM json_each(?)), 0)",
        (*field.values, json.dumps(plain, ensure_ascii=False)),
    )
    pieces = [_bound(field, others[start : start + MAX_LISTED]) for start in range(0, len(others), MAX_LISTED)]
    return _joined([listed, *pieces], " OR ")


def _bound(field: Sql, keys: list[str | bytes]) -> Sql:
    if not keys:
        return FALSE
    return Sql(f"ifnull({field.text} IN ({', '.join('?' * len(keys))}), 0)", (*field.values, *keys))


# ------------------------------------------------------------------ metadata, and own fields that have none


def _on_json(condition: Condition) -> Sql:
    field = condition.field
    if field in RECORD_FIELDS:
        document, key = "r.payload", field
    else:
        document, key = "r.metadata", field.removeprefix("metadata.")
    if not _PLAIN_KEY.fullmatch(key):
        return Sql(f"perdure_key({document}, ?, ?)", (json.dumps(key), write(condition)))
    path = f'$."{key}"'
    value = condition.value
    operands = value if isinstance(value, tuple) else (value,)
    if condition.operator not in ("eq", "in") or any(isinstance(one, Moment) for one in operands):
        return Sql(f"perdure_json({document} -> ?, ?)", (path, write(condition)))
    single = _one_of(Sql(f"{document} -> ?", (path,)), [form for one in operands for form in _json_forms(one)])
    element = f"(json_type({document}, ?) = 'array' AND perdure_json({document} -> ?, ?))"
    return Sql(f"({single.text} OR ifnull({element}, 0))", (*single.values, path, path, write(condition)))


def _json_forms(value: Scalar) -> list[str]:
    """Every text that a JSON value equal to this one can have."""
    if isinstance(value, (bool, str)):
        return [json.dumps(value)]
    if isinstance(value, Moment):
        return []
    if value == 0:
        return ["0", "0.0", "-0.0"]
    if isinstance(value, float):
        return [repr(value), str(int(value))] if value.is_integer() else [repr(value)]
    return [str(value), repr(float(value))] if int(float(value)) == value else [str(value)]
