"""Changing rows: payload, vector and text index together, in the caller's transaction.

A row keeps its number n as long as its home and vector stay, and gets a new one otherwise: so a home's vectors are only
appended (read from the last known n on) or lost (read gone_c), which keeps cached blocks current.
"""

# ruff: noqa: S608  (only our own names and numbers are written into SQL; every value is bound)

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perdure.backends.vector_stores.base import Kept, Point
from perdure.backends.vector_stores.common.rows import check_id
from perdure.backends.vector_stores.sqlite import database, recall
from perdure.domain.errors import NotFoundError
from perdure.domain.text.terms import index_text

if TYPE_CHECKING:
    from perdure.backends.vector_stores.base import Vector

GONE_KEPT = 512  # lost vectors that gone_c remembers for each home at least; twice as many at most
_LOOKED_UP = 400  # ids in one lookup: SQLite's smallest limit of bound values is 999


@dataclass(frozen=True, slots=True)
class _Old:
    """The stored row under an id that is about to be written."""

    n: int
    text: str
    vector: bytes | None
    stamp: tuple[Any, Any]

    @property
    def home(self) -> int:
        return self.n >> database.HOME_BITS


@dataclass(slots=True)
class _Plan:
    """Rows to delete and to insert, gathered so that each table is written in one go."""

    removed_text: list[tuple[int, str]] = field(default_factory=list)
    removed_rows: list[tuple[int]] = field(default_factory=list)
    removed_vectors: list[tuple[int]] = field(default_factory=list)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    texts: list[tuple[int, str]] = field(default_factory=list)
    vectors: list[tuple[int, bytes]] = field(default_factory=list)
    counts: Counter[int] = field(default_factory=Counter)
    kept: list[tuple[int, Kept]] = field(default_factory=list)
    moved: list[tuple[int, int]] = field(default_factory=list)
    """New and old n of rows that keep what recall keeps beside them."""
    unkept: list[tuple[int]] = field(default_factory=list)

    def remove(self, old: _Old) -> None:
        self.unkept.append((old.n,))
        self.removed_text.append((old.n, old.text))
        self.removed_rows.append((old.n,))
        self.counts[old.home] -= 1
        if old.vector is not None:
            self.removed_vectors.append((old.n,))

    def add(self, n: int, record: database.Record) -> None:
        self.rows.append((n, n >> database.HOME_BITS, *record.columns))
        self.texts.append((n, record.text))
        self.counts[n >> database.HOME_BITS] += 1
        if record.vector is not None:
            self.vectors.append((n, record.vector))
        if record.kept is not None:
            self.kept.append((n, record.kept))

    def move(self, old: _Old, n: int, record: database.Record) -> None:
        """Write a row under another n."""
        self.remove(old)
        self.add(n, record)
        if record.kept is None and record.stamp == old.stamp:
            self.moved.append((n, old.n))

    def replace(self, old: _Old, record: database.Record) -> None:
        """Write over a row whose home and vector stay."""
        self.rows.append((old.n, old.home, *record.columns))
        if record.text != old.text:
            self.removed_text.append((old.n, old.text))
            self.texts.append((old.n, record.text))
        if record.kept is not None:
            self.kept.append((old.n, record.kept))
        elif record.stamp != old.stamp:
            self.unkept.append((old.n,))


def apply(
    connection: sqlite3.Connection, collection: database.Collection, puts: Sequence[Point], deletes: Sequence[str]
) -> None:
    """Write whole rows and delete others; an id in both is written, and the last of two puts counts."""
    write(connection, collection, to_records(puts, collection.dimension), [check_id(id) for id in deletes])


def to_records(points: Sequence[Point], dimension: int) -> list[database.Record]:
    """Prepare the points for writing, the last for each id."""
    records = [database.to_record(point, dimension) for point in points]
    return list({record.id: record for record in records}.values())


def write(
    connection: sqlite3.Connection,
    collection: database.Collection,
    records: Sequence[database.Record],
    deletes: Sequence[str],
) -> None:
    """Write the records and delete the ids."""
    written = {record.id for record in records}
    gone = {key for id in deletes if (key := database.text_key(id)) not in written}
    old = _find(connection, collection, [*written, *gone])
    plan = _Plan()
    for key in gone:
        if key in old:
            plan.remove(old[key])
    numbers = _Numbers(connection, collection)
    for record in records:
        before = old.get(record.id)
        if before is not None and before.vector == record.vector and numbers.home(record.home) == before.home:
            plan.replace(before, record)
            continue
        if before is not None:
            plan.move(before, numbers.next(record.home), record)
        else:
            plan.add(numbers.next(record.home), record)
    _execute(connection, collection, plan)
    _close_homes(connection, collection, plan, numbers)


def update(
    connection: sqlite3.Connection,
    collection: database.Collection,
    id: str,
    vector: Vector | None,
    payload: Mapping[str, Any] | None,
) -> None:
    """Replace the vector, the payload or both of one row; NotFoundError if there is none."""
    c = collection.number
    row = connection.execute(
        f"SELECT {database.SELECTED}, v.vector FROM rows_{c} r LEFT JOIN vectors_{c} v ON v.n = r.n WHERE r.id = ?",
        (database.text_key(check_id(id)),),
    ).fetchone()
    if row is None:
        raise NotFoundError(f"there is no row {id!r} in collection {collection.name!r}")
    point = Point(
        id,
        database.read_vector(row[-1]) if vector is None else vector,
        database.read_payload(row[:-1]) if payload is None else dict(payload),
    )
    apply(connection, collection, [point], ())


# ------------------------------------------------------------------ what stands there


def _find(
    connection: sqlite3.Connection, collection: database.Collection, keys: Sequence[str | bytes]
) -> dict[str | bytes, _Old]:
    c = collection.number
    found = {}
    for start in range(0, len(keys), _LOOKED_UP):
        part = keys[start : start + _LOOKED_UP]
        rows = connection.execute(
            f"SELECT r.n, v.vector, {database.SELECTED} FROM rows_{c} r LEFT JOIN vectors_{c} v ON v.n = r.n "
            f"WHERE r.id IN ({', '.join('?' * len(part))})",
            part,
        )
        for n, vector, *columns in rows:
            payload = database.read_payload(columns)
            memory = payload.get("memory")
            text = index_text(memory) if isinstance(memory, str) else ""
            found[columns[0]] = _Old(n, text, vector, (memory, payload.get("updated_at")))
    return found


class _Numbers:
    """Numbers of homes, created if missing, and of their new rows."""

    def __init__(self, connection: sqlite3.Connection, collection: database.Collection) -> None:
        self._connection = connection
        self._table = f"homes_{collection.number}"
        self._homes: dict[database.Home, int] = {}
        self.nexts: dict[int, int] = {}

    def home(self, home: database.Home) -> int:
        """Return the number of a home."""
        if home not in self._homes:
            found = self._connection.execute(
                f"SELECT home, next FROM {self._table} WHERE axis = ? AND value = ?", home
            ).fetchone()
            if found is None:
                made = self._connection.execute(f"INSERT INTO {self._table} (axis, value) VALUES (?, ?)", home)
                found = made.lastrowid, 0
            self._homes[home], self.nexts[found[0]] = found
        return self._homes[home]

    def next(self, home: database.Home) -> int:
        """Return a number for a new row, never given before."""
        number = self.home(home)
        k = self.nexts[number]
        self.nexts[number] = k + 1
        return (number << database.HOME_BITS) | k


# ------------------------------------------------------------------ writing


def _execute(connection: sqlite3.Connection, collection: database.Collection, plan: _Plan) -> None:
    c = collection.number
    marks = ", ".join("?" * len(database.STORED))
    steps: list[tuple[str, list[Any]]] = [
        (f"INSERT INTO text_{c} (text_{c}, rowid, memory) VALUES ('delete', ?, ?)", plan.removed_text),
        (f"DELETE FROM rows_{c} WHERE n = ?", plan.removed_rows),
        (f"DELETE FROM vectors_{c} WHERE n = ?", plan.removed_vectors),
        (f"INSERT OR REPLACE INTO rows_{c} ({', '.join(database.STORED)}) VALUES ({marks})", plan.rows),
        (f"INSERT INTO text_{c} (rowid, memory) VALUES (?, ?)", plan.texts),
        (f"INSERT INTO vectors_{c} (n, vector) VALUES (?, ?)", plan.vectors),
    ]
    for statement, values in steps:
        if values:
            connection.executemany(statement, values)
    recall.move(connection, c, plan.moved)
    recall.remove(connection, c, plan.unkept)
    recall.put(connection, c, plan.kept)


def _close_homes(
    connection: sqlite3.Connection, collection: database.Collection, plan: _Plan, numbers: _Numbers
) -> None:
    """Update counts, next numbers and sequence numbers of the homes."""
    c = collection.number
    lost: dict[int, list[int]] = {}
    for (n,) in plan.removed_vectors:
        lost.setdefault(n >> database.HOME_BITS, []).append(n)
    changed = {*lost, *(n >> database.HOME_BITS for n, _ in plan.vectors)}
    for home in sorted({*changed, *plan.counts}):
        connection.execute(
            f"UPDATE homes_{c} SET count = count + ?, next = max(next, ?), seq = seq + ? WHERE home = ?",
            (plan.counts[home], numbers.nexts.get(home, 0), home in changed, home),
        )
    for home, gone in lost.items():
        connection.executemany(
            f"INSERT INTO gone_{c} (home, seq, n) SELECT home, seq, ? FROM homes_{c} WHERE home = ?",
            [(n, home) for n in gone],
        )
        _trim(connection, c, home)


def _trim(connection: sqlite3.Connection, c: int, home: int) -> None:
    """Forget a home's old losses; return up to where."""
    kept = list(_sequence_of(connection, c, home, 2 * GONE_KEPT))
    if not kept:
        return
    (last,) = _sequence_of(connection, c, home, GONE_KEPT)
    connection.execute(f"DELETE FROM gone_{c} WHERE home = ? AND seq <= ?", (home, last))
    connection.execute(f"UPDATE homes_{c} SET trimmed = ? WHERE home = ?", (last, home))


def _sequence_of(connection: sqlite3.Connection, c: int, home: int, place: int) -> Iterator[int]:
    rows = connection.execute(
        f"SELECT seq FROM gone_{c} WHERE home = ? ORDER BY seq DESC LIMIT 1 OFFSET ?", (home, place)
    )
    return (seq for (seq,) in rows)
