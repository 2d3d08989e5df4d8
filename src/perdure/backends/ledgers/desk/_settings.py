"""Settings that people change while a service runs: marks of the ledger, each an object of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from perdure.backends.ledgers._numbers import take_numbers
from perdure.backends.ledgers._rows import decode, encode
from perdure.backends.ledgers._tables import marks

_PREFIX = "settings:"
"""Marks of other uses have none."""


def get(connection: Connection, name: str) -> dict[str, Any]:
    """The values under a name."""
    text = connection.execute(select(marks.c.value).where(marks.c.name == _PREFIX + name)).scalar()
    found: dict[str, Any] = {} if text is None else decode(text)
    return found


def merge(connection: Connection, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Lay values over those under a name; a None takes one away."""
    take_numbers(connection, "desk", 1)  # for its row makes writers take turns
    merged = {key: value for key, value in {**get(connection, name), **values}.items() if value is not None}
    text = encode(merged, "settings")
    connection.execute(delete(marks).where(marks.c.name == _PREFIX + name))
    connection.execute(insert(marks), {"name": _PREFIX + name, "value": text})
    return merged
