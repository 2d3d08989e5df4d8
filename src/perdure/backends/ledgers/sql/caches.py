"""What is kept for a while: answers under idempotency keys, cached values, fingerprints of injected text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Table, bindparam, delete, insert, select

from perdure.backends.ledgers.base import Remembered
from perdure.backends.ledgers.sql.context import Transaction
from perdure.backends.ledgers.sql.rows import chunks, scope_key, scope_of_key
from perdure.backends.ledgers.sql.tables import fingerprints, idempotency, insert_new, responses
from perdure.domain.clock import iso, parse_moment
from perdure.domain.scope import Scope

REMEMBERED_FOR = timedelta(hours=24)
"""How long an idempotency key answers: longer than any client retries, as payment interfaces have it."""
CACHED_FOR = timedelta(days=30)
"""How long cached values and fingerprints are kept."""

_LIFETIMES = {"idempotency": REMEMBERED_FOR, "responses": CACHED_FOR, "fingerprints": CACHED_FOR}
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _lookup(table: Table) -> Any:
    return select(table.c.value).where(
        table.c.key == bindparam("key"), table.c.scope == bindparam("scope"), table.c.created_at >= bindparam("since")
    )


_LOOKUPS = {table.name: _lookup(table) for table in (idempotency, responses)}


def keep_answer(connection: Connection, answer: Remembered, batch: str | None, now: str) -> None:
    """Keep the answer to a call."""
    _replace(connection, idempotency, answer.key, answer.scope, now, value=answer.result, batch_id=batch)


def remembered(tx: Transaction, key: str, scope: Scope) -> str | None:
    """The answer that is still kept."""
    return _find(tx.connection, idempotency, key, scope, tx.now)


def put(tx: Transaction, key: str, scope: Scope, value: str) -> None:
    """Cache a value."""
    _replace(tx.connection, responses, key, scope, tx.now, value=value)


def get(tx: Transaction, key: str, scope: Scope) -> str | None:
    """The cached value."""
    return _find(tx.connection, responses, key, scope, tx.now)


def _find(connection: Connection, table: Table, key: str, scope: Scope, now: str) -> str | None:
    values = {"key": key, "scope": scope_key(scope), "since": _oldest(table, now)}
    found: str | None = connection.execute(_LOOKUPS[table.name], values).scalar()
    return found


def _replace(connection: Connection, table: Table, key: str, scope: Scope, now: str, **values: Any) -> None:
    scope_text = scope_key(scope)
    connection.execute(delete(table).where(table.c.key == key, table.c.scope == scope_text))
    _drop_old(connection, table, now)
    connection.execute(insert(table), {"key": key, "scope": scope_text, "created_at": now, **values})


def _drop_old(connection: Connection, table: Table, now: str) -> None:
    connection.execute(delete(table).where(table.c.created_at < _oldest(table, now)))


def _oldest(table: Table, now: str) -> str:
    return iso(parse_moment(now) - _LIFETIMES[table.name])


def add_fingerprints(tx: Transaction, scope: Scope, values: Iterable[str]) -> None:
    """Remember fingerprints of injected text."""
    scope_text = scope_key(scope)
    rows = [{"fingerprint": value, "scope": scope_text, "created_at": tx.now} for value in sorted(set(values))]
    _drop_old(tx.connection, fingerprints, tx.now)
    if rows:
        for some in chunks([str(row["fingerprint"]) for row in rows]):
            renewed = delete(fingerprints).where(
                fingerprints.c.fingerprint.in_(some), fingerprints.c.scope == scope_text
            )
            tx.connection.execute(renewed)
        tx.connection.execute(insert_new(tx.connection, fingerprints), rows)


def known_fingerprints(tx: Transaction, scope: Scope, values: Iterable[str]) -> set[str]:
    """Those of the fingerprints that an overlapping scope has seen."""
    known: set[str] = set()
    columns = (fingerprints.c.fingerprint, fingerprints.c.scope)
    for some in chunks(sorted(set(values))):
        query = select(*columns).where(
            fingerprints.c.fingerprint.in_(some), fingerprints.c.created_at >= _oldest(fingerprints, tx.now)
        )
        known.update(value for value, text in tx.connection.execute(query) if scope_of_key(text).overlaps(scope))
    return known


def touched(
    connection: Connection, ids: Sequence[str], scope: Scope | None, cached_in: Scope | None = None
) -> list[tuple[Table, str, str]]:
    """Which rows, as (table, key, scope), an erasure of these ids and this scope takes.

    Of `cached_in` every cached value goes: what a model answered holds words of memories without naming them.
    """
    found = []
    for table, key in ((idempotency, "key"), (responses, "key"), (fingerprints, "fingerprint")):
        walls = [wall for wall in (scope, cached_in if table is responses else None) if wall is not None]
        columns = [table.c[key], table.c.scope, *([table.c.value] if "value" in table.c else [])]
        for row in connection.execute(select(*columns)):
            overlapping = any(scope_of_key(row.scope).overlaps(wall) for wall in walls)
            if overlapping or ("value" in table.c and _mentions(row.value, ids)):
                found.append((table, row[0], row.scope))
    return found


def _mentions(text: str, ids: Sequence[str]) -> bool:
    if len(ids) < 16:
        return any(id in text for id in ids)
    # So many ids are looked up among those that the text names, rather than each in the text.
    named = set(_UUID.findall(text))
    return any(id in named if _UUID.fullmatch(id) else id in text for id in ids)


def forget(connection: Connection, rows: Iterable[tuple[Table, str, str]]) -> int:
    """Delete the rows that `touched` found; how many."""
    count = 0
    for table, key, scope_text in rows:
        column = table.c.key if "key" in table.c else table.c.fingerprint
        connection.execute(delete(table).where(column == key, table.c.scope == scope_text))
        count += 1
    return count
