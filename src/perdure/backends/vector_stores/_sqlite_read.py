"""Reading rows: where those that a filter wants lie, and lists, counts and lookups over them."""

# ruff: noqa: S608  (only our own names and numbers are written into SQL; every value is bound)

from __future__ import annotations

import heapq
import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from perdure.backends.vector_stores._rows import Place, check_id, read_cursor, write_cursor
from perdure.backends.vector_stores._sqlite_filter import MAX_LISTED, Sql, translate
from perdure.backends.vector_stores._sqlite_records import SELECTED, read_payload, read_vector
from perdure.backends.vector_stores._sqlite_schema import HOME_BITS, Collection, key_text, text_key
from perdure.backends.vector_stores.base import Page, Point
from perdure.domain.filter import And, Condition, Filter
from perdure.domain.scope import SCOPE_FIELDS

_FINEST = ("run_id", "room_id", "agent_id", "project_id", "team_id", "world_id", "user_id")
"""Scope fields, those that divide rows most first."""

_LOOKED_UP = 400


@dataclass(frozen=True, slots=True)
class Home:
    """A home as one moment sees it."""

    number: int
    next: int
    count: int
    seq: int
    trimmed: int

    @property
    def span(self) -> tuple[int, int]:
        """The first and last n that a row here can have."""
        first = self.number << HOME_BITS
        return first, first + (1 << HOME_BITS) - 1


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the rows that a filter can match: those of a home, or those that SQL tells; parts never overlap."""

    where: Sql
    home: Home | None = None

    @property
    def span(self) -> Sql:
        """The part by the range of n, for reading it whole in the order of the file."""
        return self.where if self.home is None else Sql("r.n BETWEEN ? AND ?", self.home.span)


def parts_of(connection: sqlite3.Connection, collection: Collection, filter: Filter | None) -> list[Part]:
    """Where every row lies that the filter can match.

    Rows that have the first scope field asked for lie in its home, but for those that also have an earlier field; an
    index lists these.
    """
    asked = _asked(filter)
    if not asked:
        return [Part(Sql("1"))]
    axis, value = next((axis, asked[name]) for axis, name in enumerate(SCOPE_FIELDS) if name in asked)
    parts = []
    home = find_home(connection, collection, axis, value)
    if home is not None:
        parts.append(Part(_with_hash(filter, Sql("r.home = ?", (home.number,))), home))
    if axis > 0:
        finest = next(name for name in _FINEST if name in asked)
        place = SCOPE_FIELDS.index(finest)
        others = Sql(
            f"(r.{finest} = ? AND r.{finest} IS NOT NULL AND r.axis < {place} AND +r.axis < ?)",
            (text_key(asked[finest]), axis),
        )
        parts.append(Part(others))
    return parts


def find_home(connection: sqlite3.Connection, collection: Collection, axis: int, value: str) -> Home | None:
    """The home of a scope value, or None where no row ever lived there."""
    row = connection.execute(
        f"SELECT home, next, count, seq, trimmed FROM homes_{collection.number} WHERE axis = ? AND value = ?",
        (axis, text_key(value)),
    ).fetchone()
    return None if row is None else Home(*row)


def _conditions(filter: Filter | None) -> Iterable[Condition]:
    """The conditions that every matching row satisfies."""
    if isinstance(filter, Condition):
        yield filter
    elif isinstance(filter, And):
        for part in filter.parts:
            yield from _conditions(part)


def _asked(filter: Filter | None) -> dict[str, str]:
    """The scope values that every matching row has."""
    return {
        condition.field: condition.value
        for condition in _conditions(filter)
        if condition.operator == "eq" and condition.field in SCOPE_FIELDS and isinstance(condition.value, str)
    }


def _with_hash(filter: Filter | None, where: Sql) -> Sql:
    """The rows of a home narrowed by hash, where the filter asks for some."""
    for condition in _conditions(filter):
        if condition.field == "hash" and condition.operator in ("eq", "in"):
            values = condition.value if isinstance(condition.value, tuple) else (condition.value,)
            hashes = [text_key(value) for value in values if isinstance(value, str)]
            if len(hashes) <= MAX_LISTED:
                marks = ", ".join("?" * len(hashes))
                return Sql(f"{where.text} AND r.hash IN ({marks})", (*where.values, *hashes))
    return where


# ------------------------------------------------------------------ lookups


def get_many(connection: sqlite3.Connection, collection: Collection, ids: Sequence[str]) -> list[Point]:
    """The rows of the ids that exist, with vectors, in the order asked."""
    c = collection.number
    keys = [text_key(check_id(id)) for id in ids]
    found: dict[str | bytes, Any] = {}
    for start in range(0, len(keys), _LOOKED_UP):
        part = keys[start : start + _LOOKED_UP]
        rows = connection.execute(
            f"SELECT {SELECTED}, v.vector FROM rows_{c} r LEFT JOIN vectors_{c} v ON v.n = r.n "
            f"WHERE r.id IN ({', '.join('?' * len(part))})",
            part,
        )
        found.update((row[0], row) for row in rows)
    return [_point(found[key]) for key in keys if key in found]


def payloads(connection: sqlite3.Connection, collection: Collection, ns: Sequence[int]) -> dict[int, dict[str, Any]]:
    """The payloads of rows by their n."""
    rows = connection.execute(
        f"SELECT {SELECTED}, r.n FROM rows_{collection.number} r WHERE r.n IN (SELECT value FROM json_each(?))",
        (json.dumps(ns),),
    )
    return {row[-1]: read_payload(row[:-1]) for row in rows}


def unembedded(connection: sqlite3.Connection, collection: Collection, limit: int) -> list[Point]:
    """Rows without a vector, by id."""
    rows = connection.execute(
        f"SELECT {SELECTED}, NULL FROM rows_{collection.number} r WHERE r.bare = 1 ORDER BY r.id LIMIT ?", (limit,)
    )
    return [_point(row) for row in rows]


def _point(row: Sequence[Any]) -> Point:
    return Point(key_text(row[0]), read_vector(row[-1]), read_payload(row[:-1]))


# ------------------------------------------------------------------ lists and counts


def list_rows(
    connection: sqlite3.Connection,
    collection: Collection,
    filter: Filter | None,
    *,
    limit: int | None,
    cursor: str | None,
    with_vectors: bool,
) -> Page:
    """One page of rows in the order of (created_at, id)."""
    after = None if cursor is None else read_cursor(cursor)
    condition = translate(filter)
    pages = [
        _ordered(connection, collection, part, condition, limit=limit, after=after, with_vectors=with_vectors)
        for part in parts_of(connection, collection, filter)
    ]
    rows = pages[0] if len(pages) == 1 else list(heapq.merge(*pages, key=lambda row: (_rank(row[-3]), _rank(row[0]))))
    more = limit is not None and len(rows) > limit
    kept = rows[:limit] if more else rows
    points = [Point(key_text(row[0]), read_vector(row[-1]), read_payload(row[:-3])) for row in kept]
    return Page(points, write_cursor((key_text(kept[-1][-3]), key_text(kept[-1][0]))) if more else None)


def _ordered(
    connection: sqlite3.Connection,
    collection: Collection,
    part: Part,
    condition: Sql,
    *,
    limit: int | None,
    after: Place | None,
    with_vectors: bool,
) -> list[Any]:
    """The rows of one part, one more than the limit: SELECTED, created_at, n and the vector if it is wanted."""
    c = collection.number
    vector = f"(SELECT v.vector FROM vectors_{c} v WHERE v.n = r.n)" if with_vectors else "NULL"
    start = Sql("1") if after is None else Sql("(r.created_at, r.id) > (?, ?)", tuple(text_key(one) for one in after))
    return connection.execute(
        f"SELECT {SELECTED}, r.created_at, r.n, {vector} FROM rows_{c} r "
        f"WHERE {part.where.text} AND {start.text} AND {condition.text} ORDER BY r.created_at, r.id LIMIT ?",
        (*part.where.values, *start.values, *condition.values, -1 if limit is None else limit + 1),
    ).fetchall()


def _rank(key: str | bytes) -> tuple[bool, bytes]:
    """What orders texts and bytes as SQLite does: texts first, each by their bytes."""
    return (False, key.encode()) if isinstance(key, str) else (True, key)


def count_rows(connection: sqlite3.Connection, collection: Collection, filter: Filter | None) -> int:
    """How many rows match."""
    c = collection.number
    if filter is None:
        return int(connection.execute(f"SELECT ifnull(sum(count), 0) FROM homes_{c}").fetchone()[0])
    condition = translate(filter)
    total = 0
    for part in parts_of(connection, collection, filter):
        where = part.where if "hash" in part.where.text else part.span
        (count,) = connection.execute(
            f"SELECT count(*) FROM rows_{c} r WHERE {where.text} AND {condition.text}",
            (*where.values, *condition.values),
        ).fetchone()
        total += count
    return total
