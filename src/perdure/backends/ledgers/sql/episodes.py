"""Episodes, the messages as they were said; and answers, cached values and fingerprints with a lifetime."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Table, bindparam, delete, insert, select, tuple_, update

from perdure.backends.ledgers.base import EpisodePage, Ledger, Remembered, read_cursor
from perdure.backends.ledgers.sql.tables import (
    change_with,
    check_limit,
    episode_of,
    episode_row,
    episodes,
    idempotency,
    in_scope,
    insert_new,
    known_ids,
    responses,
    rows_with,
    take_numbers,
)
from perdure.backends.ledgers.sql.tables import fingerprints as fingerprints_
from perdure.backends.ledgers.sql.units import Transaction, reads, scope_key, scope_of_key, writes
from perdure.domain.clock import iso, parse_moment
from perdure.domain.event import Episode
from perdure.domain.scope import Scope


def add_episodes(connection: Connection, new: Sequence[Episode], batch: str | None = None) -> int:
    """Insert episodes with unknown ids; return how many."""
    known = known_ids(connection, episodes, [episode.id for episode in new])
    fresh = {episode.id: episode for episode in new if episode.id not in known}
    if not fresh:
        return 0
    numbers = take_numbers(connection, "episode", len(fresh))
    rows = [episode_row(episode, number, batch) for episode, number in zip(fresh.values(), numbers, strict=True)]
    connection.execute(insert_new(connection, episodes), rows)
    return len(rows)


@writes(Ledger.insert_episodes, within=None)
def insert_episodes(tx: Transaction, episodes: Sequence[Episode]) -> int:
    return add_episodes(tx.connection, episodes)


@reads(Ledger.get_episodes)
def get_episodes(tx: Transaction, ids: Sequence[str]) -> list[Episode]:
    rows = rows_with(tx.connection, select(episodes), episodes.c.id, ids)
    found = {row["id"]: episode_of(row) for row in rows}
    return [found[id] for id in ids if id in found]


@reads(Ledger.list_episodes)
def list_episodes(
    tx: Transaction, scope: Scope, limit: int = 100, cursor: str | None = None, *, include_hidden: bool = False
) -> EpisodePage:
    check_limit(limit)
    query = select(episodes).where(*in_scope(episodes, scope))
    if not include_hidden:
        query = query.where(episodes.c.hidden == 0)
    if cursor is not None:
        query = query.where(tuple_(episodes.c.told_at, episodes.c.seq) > tuple_(*read_cursor(cursor)))
    query = query.order_by(episodes.c.told_at, episodes.c.seq).limit(limit + 1)
    rows = tx.connection.execute(query).mappings().all()
    more = len(rows) > limit
    last = rows[limit - 1] if more else None
    return EpisodePage(
        [episode_of(row) for row in rows[:limit]], None if last is None else f"{last['told_at']}|{last['seq']}"
    )


@reads(Ledger.recent_episodes)
def recent_episodes(tx: Transaction, scope: Scope, limit: int, before: str | None = None) -> list[Episode]:
    check_limit(limit)
    query = select(episodes).where(*in_scope(episodes, scope), episodes.c.hidden == 0)
    if before is not None:
        query = query.where(episodes.c.told_at < before)
    query = query.order_by(episodes.c.told_at.desc(), episodes.c.seq.desc()).limit(limit)
    return [episode_of(row) for row in reversed(tx.connection.execute(query).mappings().all())]


@reads(Ledger.pending_episodes)
def pending_episodes(tx: Transaction, scope: Scope, limit: int = 1000) -> list[Episode]:
    check_limit(limit)
    query = select(episodes).where(*in_scope(episodes, scope), episodes.c.pending == 1, episodes.c.hidden == 0)
    query = query.order_by(episodes.c.seq).limit(limit)
    return [episode_of(row) for row in tx.connection.execute(query).mappings()]


@writes(Ledger.mark_extracted, durable=False)
def mark_extracted(tx: Transaction, ids: Sequence[str]) -> None:
    change_with(tx.connection, update(episodes).values(pending=0, brought=None), episodes.c.id, ids)


@writes(Ledger.hide_episodes, within=None)
def hide_episodes(tx: Transaction, ids: Sequence[str], hidden: bool = True) -> None:
    change_with(tx.connection, update(episodes).values(hidden=int(hidden)), episodes.c.id, ids)


# Answers under idempotency keys, cached values, fingerprints of injected text.

REMEMBERED_FOR = timedelta(hours=24)
"""How long an idempotency key answers: longer than any client retries, as payment interfaces have it."""
CACHED_FOR = timedelta(days=30)  # how long cached values and fingerprints are kept
_LIFETIMES = {"idempotency": REMEMBERED_FOR, "responses": CACHED_FOR, "fingerprints": CACHED_FOR}
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _lookup(table: Table) -> Any:
    return select(table.c.value).where(
        table.c.key == bindparam("key"), table.c.scope == bindparam("scope"), table.c.created_at >= bindparam("since")
    )


_LOOKUPS = {table.name: _lookup(table) for table in (idempotency, responses)}


def keep_answer(connection: Connection, answer: Remembered, batch: str | None, now: str) -> None:
    _replace(connection, idempotency, answer.key, answer.scope, now, value=answer.result, batch_id=batch)


@reads(Ledger.remembered)
def remembered(tx: Transaction, key: str, scope: Scope) -> str | None:
    return _find(tx.connection, idempotency, key, scope, tx.now)


@writes(Ledger.cache, durable=False)
def cache(tx: Transaction, key: str, scope: Scope, value: str) -> None:
    _replace(tx.connection, responses, key, scope, tx.now, value=value)


@reads(Ledger.cached)
def cached(tx: Transaction, key: str, scope: Scope) -> str | None:
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


@writes(Ledger.add_fingerprints, durable=False)
def add_fingerprints(tx: Transaction, scope: Scope, fingerprints: Collection[str]) -> None:
    values, scope_text = sorted(set(fingerprints)), scope_key(scope)
    _drop_old(tx.connection, fingerprints_, tx.now)
    if values:
        renewed = delete(fingerprints_).where(fingerprints_.c.scope == scope_text)
        change_with(tx.connection, renewed, fingerprints_.c.fingerprint, values)
        rows = [{"fingerprint": value, "scope": scope_text, "created_at": tx.now} for value in values]
        tx.connection.execute(insert_new(tx.connection, fingerprints_), rows)


@reads(Ledger.known_fingerprints)
def known_fingerprints(tx: Transaction, scope: Scope, fingerprints: Collection[str]) -> set[str]:
    fresh = fingerprints_.c.created_at >= _oldest(fingerprints_, tx.now)
    query = select(fingerprints_.c.fingerprint, fingerprints_.c.scope).where(fresh)
    rows = rows_with(tx.connection, query, fingerprints_.c.fingerprint, sorted(set(fingerprints)))
    return {row["fingerprint"] for row in rows if scope_of_key(row["scope"]).overlaps(scope)}


def cached_rows(
    connection: Connection, ids: Sequence[str], scope: Scope | None, cached_in: Scope | None = None
) -> list[tuple[Table, str, str]]:
    """Return the rows, as (table, key, scope), that an erasure of these ids and this scope deletes.

    Of `cached_in` all cached values: a model's answer may repeat memories without naming them.
    """
    found = []
    for table, key in ((idempotency, "key"), (responses, "key"), (fingerprints_, "fingerprint")):
        scopes = [each for each in (scope, cached_in if table is responses else None) if each is not None]
        columns = [table.c[key], table.c.scope, *([table.c.value] if "value" in table.c else [])]
        for row in connection.execute(select(*columns)):
            overlapping = any(scope_of_key(row.scope).overlaps(each) for each in scopes)
            if overlapping or ("value" in table.c and _mentions(row.value, ids)):
                found.append((table, row[0], row.scope))
    return found


def _mentions(text: str, ids: Sequence[str]) -> bool:
    if len(ids) < 16:
        return any(id in text for id in ids)
    # So many ids are looked up among those that the text names, rather than each in the text.
    named = set(_UUID.findall(text))
    return any(id in named if _UUID.fullmatch(id) else id in text for id in ids)


def drop_cached(connection: Connection, rows: Iterable[tuple[Table, str, str]]) -> int:
    """Delete the rows of `cached_rows`; return how many."""
    count = 0
    for table, key, scope_text in rows:
        column = table.c.key if "key" in table.c else table.c.fingerprint
        count += connection.execute(delete(table).where(column == key, table.c.scope == scope_text)).rowcount
    return count
