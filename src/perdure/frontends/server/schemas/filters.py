"""Parse mem0's filters into the filter tree that every store understands (`domain/filter.py`).

mem0's names are translated: `app_id` is `world_id`, `session_id` is `run_id`, `timestamp` is `valid_from`, `created_at`
is the message time with which a memory was first stored, if there was one, `expiration_date` is `expires_at`,
`keywords` searches the text, `memory_ids` is `id`, and `categories` and the keys of an object `metadata` are metadata
keys. A list means one of its values, `"*"` any value at all.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from perdure.domain.clock import iso
from perdure.domain.errors import FilterError
from perdure.domain.filter import MAX_DEPTH, TIME_FIELDS, And, Condition, Filter, Moment, Not, Or, all_of, parse_filter
from perdure.domain.memory import read_id
from perdure.domain.text.readable import shown
from perdure.frontends.server.schemas.fields import day_end, read_time

MAX_TEXT = 50_000  # maximum characters of a filter in a query string
AXES = {"user_id": "user_id", "agent_id": "agent_id", "run_id": "run_id", "session_id": "run_id", "app_id": "world_id"}
"""mem0's names of the scope fields."""

_TOLD = "first_told_at"
_EVER = Moment("0001-01-01T00:00:00.000000+00:00")  # a time before all others: every set time is later
_TIMES = {"timestamp": "valid_from", "expiration_date": "expires_at"} | {name: name for name in TIME_FIELDS}


def read_filters(value: object) -> Filter | None:
    """Parse an object, or its JSON or Python text; FilterError names a part that has no meaning."""
    if isinstance(value, str):
        value = object_of(value)
    parsed = None if value is None else parse_filter(_renamed(value, 0))
    return None if parsed is None else dated(parsed)


def dated(part: Filter) -> Filter:
    """Return the filter with `created_at` as in mem0: the first message time instead of perdure's clock."""
    if isinstance(part, Not):
        return Not(dated(part.part))
    if isinstance(part, (And, Or)):
        return type(part)(tuple(dated(each) for each in part.parts))
    if part.field != "created_at":
        return part
    told, has_none = replace(part, field=_TOLD), Not(Condition(_TOLD, "gte", _EVER))
    return Or((all_of(Not(has_none), told), all_of(has_none, part)))


def object_of(text: str) -> object:
    """Parse JSON, or Python literals, in which mem0's client writes filters into a query string."""
    if len(text) > MAX_TEXT:
        raise FilterError(f"filters may have {MAX_TEXT} characters, not {len(text)}", field="filters", value=None)
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
    raise FilterError(f"filters must be a JSON object, not {shown(text)}", field="filters", value=text)


def _renamed(expression: object, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise FilterError(f"filters may be nested {MAX_DEPTH} levels deep", field="filters", value=None)
    if not isinstance(expression, Mapping):
        return expression  # parse_filter reports the error
    if "field" in expression and "operator" in expression:
        name = expression["field"]
        return {**expression, "field": AXES.get(name, _TIMES.get(name, name)) if isinstance(name, str) else name}
    return {"AND": [_part(key, value, depth) for key, value in expression.items()]}


def _part(key: object, value: object, depth: int) -> Any:
    word = key.removeprefix("$").upper() if isinstance(key, str) else ""
    if word in ("AND", "OR", "NOT"):
        if isinstance(value, list):
            return {word: [_renamed(part, depth + 1) for part in value]}
        return {word: _renamed(value, depth + 1)}
    if not isinstance(key, str):
        return {key: value}
    if key in AXES:
        return _axis(AXES[key], value)
    if key in _TIMES:
        return _operators(_TIMES[key], value, _moment)
    if key == "metadata" and isinstance(value, Mapping):
        return {"AND": [_operators(f"metadata.{name}", each) for name, each in value.items()]}
    if key == "categories":
        return _categories(value)
    if key == "keywords":
        return _operators("memory", value if isinstance(value, Mapping) else {"icontains": value})
    if key == "memory_ids":
        return _operators("id", value, _memory_id)
    return _operators(key, value)


def _axis(axis: str, value: object) -> Any:
    """Return an id; numbers are ids too, and None means that it was not given."""
    if value is None:
        return {"AND": []}
    return _operators(axis, value, lambda _, _operator, each: _number_as_text(each))


def _categories(value: object) -> Any:
    """Return the conditions for one category, or for any of several."""
    if isinstance(value, Mapping) and "contains" in value:
        value = {("eq" if name == "contains" else name): each for name, each in value.items()}
    return _operators("metadata.categories", value)


def _operators(field: str, value: object, read: Any = lambda _field, _operator, each: each) -> Any:
    """Return the conditions on one field; `read` converts each operand."""
    if isinstance(value, Mapping):
        parts = {name: _operand(field, str(name).removeprefix("$"), each, read) for name, each in value.items()}
        return {field: parts}
    if isinstance(value, (list, tuple, set)):
        return {field: {"in": _operand(field, "in", value, read)}}
    if value == "*":
        return Condition(field, "contains", "")  # any text; a missing one does not match
    return {field: read(field, "eq", value)}


def _operand(field: str, operator: str, value: object, read: Any) -> object:
    if operator in ("in", "nin") and isinstance(value, (list, tuple, set)):
        return [read(field, operator, each) for each in value]
    return read(field, operator, value)


def _moment(field: str, operator: str, value: object) -> object:
    """Return the time in a filter: a day of expiry means its end, and `lte` a day includes the day."""
    if operator in ("contains", "icontains") or isinstance(value, (Mapping, list)):
        return value
    through = field == "expires_at" or operator == "lte"
    return iso((day_end if through else read_time)(value, field))


def _memory_id(_field: str, _operator: str, value: object) -> object:
    return read_id(value) or value


def _number_as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value
