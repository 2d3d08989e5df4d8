"""A point as the columns of a row, and back.

A row is *even* where its columns say exactly what its payload says: then the payload's JSON keeps only what no column
has. It is *odd* where a field with a column holds something else than text, a time is not in the fixed form, or the
payload's id is not the row's; then the JSON keeps everything, and filters on that row read the JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from perdure.backends.vector_stores._rows import check_id, check_payload, check_vector, place_of
from perdure.backends.vector_stores._sqlite_schema import COLUMNS, key_text, text_key
from perdure.backends.vector_stores.base import Point, Vector
from perdure.domain.clock import iso, read_moment
from perdure.domain.filter import TIME_FIELDS
from perdure.domain.scope import SCOPE_FIELDS
from perdure.domain.terms import index_text

TIME_COLUMNS = TIME_FIELDS & set(COLUMNS)

SELECTED = ", ".join(f"r.{name}" for name in ("id", "odd", *COLUMNS, "metadata", "payload", "memory"))
"""The columns that `read_payload` takes, of a table called r."""

STORED = ("n", "home", "axis", "id", "odd", "bare", *COLUMNS, "metadata", "payload", "memory")
"""The columns that are written, n and home before `Record.columns`."""

NO_HOME = (len(SCOPE_FIELDS), "")
"""The home of rows without a scope field."""

Home = tuple[int, str | bytes]
"""Which scope field, by its place in SCOPE_FIELDS, and its value."""


@dataclass(frozen=True, slots=True)
class Record:
    """A point made ready to be written."""

    id: str | bytes
    home: Home
    columns: tuple[Any, ...]
    """Values from `axis` on, in the order of STORED."""
    text: str
    """What the full-text index gets."""
    vector: bytes | None


def to_record(point: Point, dimension: int) -> Record:
    """The point checked and taken apart; InvalidInputError names what is wrong."""
    id = check_id(point.id)
    payload = check_payload(point.payload)
    vector = None if point.vector is None else check_vector(point.vector, dimension).tobytes()
    memory, metadata = payload.get("memory"), payload.get("metadata")
    odd = not _is_even(id, payload)
    home = home_of(payload)
    columns = [None if value is None else _column(value) for value in map(payload.get, COLUMNS)]
    columns[_CREATED_AT] = text_key(place_of(id, payload)[0])
    has_metadata = isinstance(metadata, dict) and bool(metadata)
    rest = payload if odd else _rest(payload, has_metadata)
    values = (
        home[0],
        text_key(id),
        int(odd),
        int(vector is None),
        *columns,
        _json(metadata) if has_metadata and not odd else None,
        _json(rest),
        _column(memory) if not odd else None,
    )
    return Record(text_key(id), home, values, index_text(memory) if isinstance(memory, str) else "", vector)


def home_of(payload: dict[str, Any]) -> Home:
    """The first scope field that the payload has, by which its row lies."""
    for axis, name in enumerate(SCOPE_FIELDS):
        value = payload.get(name)
        if value is not None:
            return axis, text_key(value)
    return NO_HOME


def read_payload(row: Sequence[Any]) -> dict[str, Any]:
    """The payload of a row's SELECTED columns."""
    kept: dict[str, Any] = json.loads(row[-2])
    if row[1]:
        return kept
    payload: dict[str, Any] = {"id": key_text(row[0])}
    for name, value in zip(COLUMNS, row[2:-3], strict=True):
        if value:
            payload[name] = value if isinstance(value, str) else key_text(value)
    if row[-1] is not None:
        payload["memory"] = key_text(row[-1])
    if row[-3] is not None:
        payload["metadata"] = json.loads(row[-3])
    payload.update(kept)
    return payload


def read_vector(blob: bytes | None) -> Vector | None:
    """A float32 vector of one's own from a row's blob."""
    return None if blob is None else np.frombuffer(blob, np.float32).copy()


_CREATED_AT = COLUMNS.index("created_at")


def _column(value: Any) -> str | bytes | None:
    return text_key(value) if isinstance(value, str) else None


def _rest(payload: dict[str, Any], has_metadata: bool) -> dict[str, Any]:
    """What of an even row's payload no column holds, such as empty texts and explicit nulls."""
    return {
        name: value
        for name, value in payload.items()
        if not (value and name in _COLUMN_SET)
        and name != "id"
        and not (name == "memory" and value is not None)
        and not (name == "metadata" and has_metadata)
    }


_COLUMN_SET = frozenset(COLUMNS)


def _is_even(id: str, payload: dict[str, Any]) -> bool:
    if payload.get("id") != id or not isinstance(payload.get("memory", ""), str | None):
        return False
    for name in COLUMNS:
        value = payload.get(name)
        if value is None:
            continue
        if not isinstance(value, str) or (name in TIME_COLUMNS and not _is_fixed(value)):
            return False
    return True


@lru_cache(maxsize=4096)
def _is_fixed(text: str) -> bool:
    """Whether the text is a moment in the one form whose texts compare as the instants do."""
    moment = read_moment(text)
    return moment is not None and iso(moment) == text


def _json(value: Any) -> str:
    """One text for one value: filters compare these texts."""
    return _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
