"""API keys: each name has one key that stands, and a key that was revoked stays in the list."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, insert, or_, select, update

from perdure.backends.ledgers.sql.context import Transaction
from perdure.backends.ledgers.sql.rows import Row, moment_of, scope_key, scope_of_key
from perdure.backends.ledgers.sql.tables import api_keys, take_numbers
from perdure.domain.access import ApiKey
from perdure.domain.errors import ConflictError, NotFoundError

_PLAIN = ("id", "name", "digest", "hint", "role")
_STANDS = api_keys.c.revoked_at.is_(None)


def add(tx: Transaction, key: ApiKey) -> None:
    """Keep a key; of two who ask for one name at once the second finds the first one's, for writers take turns."""
    taken = select(api_keys.c.id).where(_STANDS, api_keys.c.name == key.name)
    if tx.connection.execute(taken).first() is not None:
        raise ConflictError(f"there is a key named {key.name!r} already: revoke it first, or choose another name")
    known = select(api_keys.c.id).where(or_(api_keys.c.id == key.id, api_keys.c.digest == key.digest))
    if tx.connection.execute(known).first() is not None:
        raise ConflictError(f"the key {key.name!r} has the id or the secret of an earlier one: make a fresh key")
    row: dict[str, Any] = {name: getattr(key, name) for name in _PLAIN}
    row["seq"] = take_numbers(tx.connection, "desk", 1)[0]
    row["walls"] = scope_key(key.walls)
    row["created_at"] = moment_of(key.created_at, "created_at") if key.created_at else tx.now
    row["revoked_at"] = moment_of(key.revoked_at, "revoked_at") if key.revoked_at else None
    tx.connection.execute(insert(api_keys), row)


def _key(row: Row) -> ApiKey:
    values = {name: row[name] for name in (*_PLAIN, "created_at", "revoked_at")}
    return ApiKey(**values, walls=scope_of_key(row["walls"]))


def find(tx: Transaction, digest: str) -> ApiKey | None:
    """The key that stands and has this digest."""
    row = tx.connection.execute(select(api_keys).where(_STANDS, api_keys.c.digest == digest)).mappings().first()
    return None if row is None else _key(row)


def list_keys(tx: Transaction) -> list[ApiKey]:
    """All keys in the order in which they were made."""
    return [_key(row) for row in tx.connection.execute(select(api_keys).order_by(api_keys.c.seq)).mappings()]


def revoke(tx: Transaction, name_or_id: str, at: str) -> ApiKey:
    """End a key; an id is looked for before a name."""
    moment = moment_of(at, "at")
    for column in (api_keys.c.id, api_keys.c.name):
        row = tx.connection.execute(select(api_keys).where(_STANDS, column == name_or_id)).mappings().first()
        if row is not None:
            tx.connection.execute(update(api_keys).where(api_keys.c.id == row["id"]).values(revoked_at=moment))
            return _key({**row, "revoked_at": moment})
    raise NotFoundError(f"there is no key {name_or_id!r}, or it is revoked already")


def any_key(tx: Transaction) -> bool:
    """Whether a key was ever made."""
    return tx.connection.execute(select(func.count()).select_from(api_keys)).scalar_one() > 0
