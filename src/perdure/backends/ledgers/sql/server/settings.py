"""Settings that people change while a service runs: marks of the ledger, each an object of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, insert, select

from perdure.backends.ledgers.sql.context import Transaction
from perdure.backends.ledgers.sql.rows import decode, encode
from perdure.backends.ledgers.sql.tables import marks, take_numbers

_PREFIX = "settings:"
"""Marks of other uses have none."""


def get(tx: Transaction, name: str) -> dict[str, Any]:
    """The values under a name."""
    text = tx.connection.execute(select(marks.c.value).where(marks.c.name == _PREFIX + name)).scalar()
    found: dict[str, Any] = {} if text is None else decode(text)
    return found


def merge(tx: Transaction, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Lay values over those under a name; a None takes one away."""
    take_numbers(tx.connection, "desk", 1)  # for its row makes writers take turns
    merged = {key: value for key, value in {**get(tx, name), **values}.items() if value is not None}
    text = encode(merged, "settings")
    tx.connection.execute(delete(marks).where(marks.c.name == _PREFIX + name))
    tx.connection.execute(insert(marks), {"name": _PREFIX + name, "value": text})
    return merged
