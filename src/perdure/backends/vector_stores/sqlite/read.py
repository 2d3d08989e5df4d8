"""Reading rows: filters as SQL, the rows' places, lists, lookups, and vectors in memory."""

from __future__ import annotations

import heapq
import json

# ruff: noqa: S608  (only our own names and numbers are written into SQL; every value is bound)
import re
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from perdure.backends.vector_stores.base import Page, Point
from perdure.backends.vector_stores.common.rows import Listing, check_id, write_cursor
from perdure.backends.vector_stores.sqlite.database import (
    COLUMNS,
    HOME_BITS,
    SELECTED,
    TIME_COLUMNS,
    Collection,
    key_text,
    read_payload,
    read_vector,
    text_key,
    write,
)
from perdure.domain.filter import RECORD_FIELDS, And, Condition, Filter, Moment, Not, Scalar
from perdure.domain.scope import SCOPE_FIELDS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from perdure.backends.vector_stores.common.scoring import Matrix

MAX_DEPTH = 12
MAX_CONDITIONS = 400
"""Larger filters are not SQL's business: its parser's stack has 100 places and its trees 1,000 levels."""

MAX_LISTED = 200  # values of an `in` that are bound one by one; more are bound as one JSON list
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.:/ -]+")  # metadata keys that a JSON path can name in every version of SQLite
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
    """Return SQL over a row r that is 1 if the filter matches, else 0."""
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
    """Return the number of levels and conditions of a filter."""
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
    """Return every text that an equal JSON value can have."""
    if isinstance(value, (bool, str)):
        return [json.dumps(value)]
    if isinstance(value, Moment):
        return []
    if value == 0:
        return ["0", "0.0", "-0.0"]
    if isinstance(value, float):
        return [repr(value), str(int(value))] if value.is_integer() else [repr(value)]
    return [str(value), repr(float(value))] if int(float(value)) == value else [str(value)]


# ruff: noqa: S608  (only our own names and numbers are written into SQL; every value is bound)


_FINEST = ("run_id", "room_id", "agent_id", "project_id", "team_id", "world_id", "user_id")
"""Scope fields, those that divide rows most first."""

_LOOKED_UP = 400


@dataclass(frozen=True, slots=True)
class Home:
    """A home as of one moment."""

    number: int
    next: int
    count: int
    seq: int
    trimmed: int

    @property
    def span(self) -> tuple[int, int]:
        """Return the first and last n that a row here can have."""
        first = self.number << HOME_BITS
        return first, first + (1 << HOME_BITS) - 1


@dataclass(frozen=True, slots=True)
class Part:
    """Some of a filter's possible rows: those of a home, or those selected by SQL; parts never overlap."""

    where: Sql
    home: Home | None = None

    @property
    def span(self) -> Sql:
        """Return the part by its range of n, for reading all of it in file order."""
        return self.where if self.home is None else Sql("r.n BETWEEN ? AND ?", self.home.span)


def parts_of(connection: sqlite3.Connection, collection: Collection, filter: Filter | None) -> list[Part]:
    """Return where every matching row can lie.

    Rows with the first scope field of the filter are in its home, except those that also have an earlier field; an
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
    """Return the home of a scope value, or None if no row ever was in it."""
    row = connection.execute(
        f"SELECT home, next, count, seq, trimmed FROM homes_{collection.number} WHERE axis = ? AND value = ?",
        (axis, text_key(value)),
    ).fetchone()
    return None if row is None else Home(*row)


def _conditions(filter: Filter | None) -> Iterable[Condition]:
    """Return the conditions that every matching row satisfies."""
    if isinstance(filter, Condition):
        yield filter
    elif isinstance(filter, And):
        for part in filter.parts:
            yield from _conditions(part)


def _asked(filter: Filter | None) -> dict[str, str]:
    """Return the scope values that every matching row has."""
    return {
        condition.field: condition.value
        for condition in _conditions(filter)
        if condition.operator == "eq" and condition.field in SCOPE_FIELDS and isinstance(condition.value, str)
    }


def _with_hash(filter: Filter | None, where: Sql) -> Sql:
    """Narrow a home's rows by hash, if the filter asks for some."""
    for condition in _conditions(filter):
        if condition.field == "hash" and condition.operator in ("eq", "in"):
            values = condition.value if isinstance(condition.value, tuple) else (condition.value,)
            hashes = [text_key(value) for value in values if isinstance(value, str)]
            if len(hashes) <= MAX_LISTED:
                marks = ", ".join("?" * len(hashes))
                return Sql(f"{where.text} AND r.hash IN ({marks})", (*where.values, *hashes))
    return where


# ------------------------------------------------------------------ lookups


def get_many(
    connection: sqlite3.Connection, collection: Collection, ids: Sequence[str], with_vectors: bool = True
) -> list[Point]:
    """Return the existing rows of the ids, in the given order."""
    c = collection.number
    keys = [text_key(check_id(id)) for id in ids]
    vector = f"(SELECT v.vector FROM vectors_{c} v WHERE v.n = r.n)" if with_vectors else "NULL"
    found: dict[str | bytes, Any] = {}
    for start in range(0, len(keys), _LOOKED_UP):
        part = keys[start : start + _LOOKED_UP]
        rows = connection.execute(
            f"SELECT {SELECTED}, {vector} FROM rows_{c} r WHERE r.id IN ({', '.join('?' * len(part))})",
            part,
        )
        found.update((row[0], row) for row in rows)
    return [_point(found[key]) for key in keys if key in found]


def payloads(connection: sqlite3.Connection, collection: Collection, ns: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return the payloads of rows by n."""
    rows = connection.execute(
        f"SELECT {SELECTED}, r.n FROM rows_{collection.number} r WHERE r.n IN (SELECT value FROM json_each(?))",
        (json.dumps(ns),),
    )
    return {row[-1]: read_payload(row[:-1]) for row in rows}


def unembedded(connection: sqlite3.Connection, collection: Collection, limit: int) -> list[Point]:
    """Return rows without a vector, by id."""
    rows = connection.execute(
        f"SELECT {SELECTED}, NULL FROM rows_{collection.number} r WHERE r.bare = 1 ORDER BY r.id LIMIT ?", (limit,)
    )
    return [_point(row) for row in rows]


def _point(row: Sequence[Any]) -> Point:
    return Point(key_text(row[0]), read_vector(row[-1]), read_payload(row[:-1]))


# ------------------------------------------------------------------ lists and counts


def list_rows(connection: sqlite3.Connection, collection: Collection, wanted: Listing) -> Page:
    """Return one page of rows by (created_at, id)."""
    condition, limit = translate(wanted.filters), wanted.limit
    parts = parts_of(connection, collection, wanted.filters)
    pages = [_ordered(connection, collection, part, condition, wanted) for part in parts]
    rows = pages[0] if len(pages) == 1 else list(heapq.merge(*pages, key=lambda row: (_rank(row[-3]), _rank(row[0]))))
    more = limit is not None and len(rows) > limit
    kept = rows[:limit] if more else rows
    points = [Point(key_text(row[0]), read_vector(row[-1]), read_payload(row[:-3])) for row in kept]
    return Page(points, write_cursor((key_text(kept[-1][-3]), key_text(kept[-1][0]))) if more else None)


def _ordered(
    connection: sqlite3.Connection, collection: Collection, part: Part, condition: Sql, wanted: Listing
) -> list[Any]:
    """Return one part's rows, one more than the limit: SELECTED, created_at, n, and the vector if wanted."""
    c = collection.number
    vector = f"(SELECT v.vector FROM vectors_{c} v WHERE v.n = r.n)" if wanted.with_vectors else "NULL"
    after, limit = wanted.after, wanted.limit
    start = Sql("1") if after is None else Sql("(r.created_at, r.id) > (?, ?)", tuple(text_key(one) for one in after))
    return connection.execute(
        f"SELECT {SELECTED}, r.created_at, r.n, {vector} FROM rows_{c} r "
        f"WHERE {part.where.text} AND {start.text} AND {condition.text} ORDER BY r.created_at, r.id LIMIT ?",
        (*part.where.values, *start.values, *condition.values, -1 if limit is None else limit + 1),
    ).fetchall()


def _rank(key: str | bytes) -> tuple[bool, bytes]:
    """Return a sort key that orders texts and bytes as SQLite does: texts first, each by bytes."""
    return (False, key.encode()) if isinstance(key, str) else (True, key)


def count_rows(connection: sqlite3.Connection, collection: Collection, filter: Filter | None) -> int:
    """Return how many rows match."""
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


# Unit vectors of whole homes in memory, each as one matrix, kept current by the home's sequence number.
#
# A block is never changed, only followed by a newer one: rows that came are appended behind the part that older
# blocks see, rows that went are marked in a copy. So a search may go on with the block it has while another thread
# moves on.

CHUNK = 1024  # vectors that are read at one time


@dataclass(frozen=True, slots=True)
class Block:
    """The vectors of a home at one sequence number: the first `count` rows of the arrays, without dead ones."""

    seq: int
    next: int  # the k from which on rows are newer than this block
    count: int
    units: Matrix
    ns: NDArray[np.int64]  # the n of each row, ascending
    dead: NDArray[np.bool_] | None = None  # shape (count,), None where all live

    @property
    def alive(self) -> int:
        """Return the number of living rows."""
        return self.count if self.dead is None else self.count - int(self.dead.sum())

    @property
    def nbytes(self) -> int:
        """Return the memory of the arrays in bytes."""
        return self.units.nbytes + self.ns.nbytes + (0 if self.dead is None else self.dead.nbytes)

    def rank(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return approximate cosines of all rows with the unit query; -inf for dead ones. Shape (count,)."""
        import numpy as np

        scores: NDArray[np.float32] = self.units[: self.count] @ query
        if self.dead is not None:
            scores[self.dead] = -np.inf
        return scores

    def positions(self, ns: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the positions of the living rows among these n."""
        import numpy as np

        known = self.ns[: self.count]
        places = np.minimum(np.searchsorted(known, ns), max(self.count - 1, 0))
        found: NDArray[np.intp] = places[known[places] == ns] if self.count else places[:0]
        return found if self.dead is None else found[~self.dead[found]]


class StaleSnapshot(Exception):
    """The reader's transaction is older than the cached block: read again."""


class BlockCache:
    """Blocks by collection and home; beyond the limit the least recently used ones are dropped."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._blocks: OrderedDict[tuple[int, int], Block] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self._loading: dict[tuple[int, int], threading.Lock] = {}

    def get(self, connection: sqlite3.Connection, collection: Collection, home: Home) -> Block | None:
        """Return the home's block as of the read transaction, or None if it is too large to keep.

        StaleSnapshot if the cache has seen a later moment.
        """
        if home.count * collection.dimension * 4 > self.limit_bytes:
            return None
        key = collection.number, home.number
        with self._lock:
            loading = self._loading.setdefault(key, threading.Lock())
        with loading:
            with self._lock:
                block = self._blocks.get(key)
                if block is not None:
                    self._blocks.move_to_end(key)
            if block is not None and block.seq == home.seq:
                return block
            if block is not None and block.seq > home.seq:
                raise StaleSnapshot
            if block is None or block.seq < home.trimmed:
                block = load(connection, collection, home)
            else:
                block = follow(connection, collection, home, block)
            self._keep(key, block)
            return block

    def _keep(self, key: tuple[int, int], block: Block) -> None:
        with self._lock:
            old = self._blocks.pop(key, None)
            self._size += block.nbytes - (0 if old is None else old.nbytes)
            self._blocks[key] = block
            while self._size > self.limit_bytes and len(self._blocks) > 1:
                gone, oldest = self._blocks.popitem(last=False)
                self._size -= oldest.nbytes
                self._loading.pop(gone, None)


# ------------------------------------------------------------------ from the file


def load(connection: sqlite3.Connection, collection: Collection, home: Home) -> Block:
    """Read a whole block."""
    import numpy as np

    capacity = home.count if home.count > CHUNK else 0  # few rows become the arrays themselves
    block = Block(-1, 0, 0, np.empty((capacity, collection.dimension), np.float32), np.empty(capacity, np.int64))
    return _append(connection, collection, home, block)


def follow(connection: sqlite3.Connection, collection: Collection, home: Home, block: Block) -> Block:
    """Bring the block to the home's current state by reading only the changes."""
    import numpy as np

    gone = connection.execute(
        f"SELECT n FROM gone_{collection.number} WHERE home = ? AND seq > ?", (home.number, block.seq)
    ).fetchall()
    if gone:
        dead = np.zeros(block.count, bool) if block.dead is None else block.dead.copy()
        dead[block.positions(np.array([n for (n,) in gone], np.int64))] = True
        block = replace(block, dead=dead)
    block = _append(connection, collection, home, block)
    return _compact(block) if block.alive < block.count // 2 else block


def _append(connection: sqlite3.Connection, collection: Collection, home: Home, block: Block) -> Block:
    """Return the block with the rows from its `next` on."""
    import numpy as np

    first, last = home.span
    cursor = connection.execute(
        f"SELECT n, vector FROM vectors_{collection.number} WHERE n BETWEEN ? AND ? ORDER BY n",
        (first + block.next, last),
    )
    while rows := cursor.fetchmany(CHUNK):
        ns, units = read_units(rows, collection.dimension)
        block = _extend(block, ns, units)
    dead = block.dead
    if dead is not None:
        dead = np.concatenate([dead, np.zeros(block.count - len(dead), bool)])
    return replace(block, seq=home.seq, next=home.next, dead=dead)


def read_units(rows: list[tuple[int, bytes]], dimension: int) -> tuple[NDArray[np.int64], Matrix]:
    """Return the n and the unit vectors of rows (n, vector)."""
    import numpy as np

    from perdure.backends.vector_stores.common.scoring import unit_rows

    ns, blobs = zip(*rows, strict=True)
    raw = np.frombuffer(b"".join(blobs), np.float32).reshape(len(rows), dimension)
    return np.array(ns, np.int64), unit_rows(raw)


def _extend(block: Block, ns: NDArray[np.int64], units: Matrix) -> Block:
    """Return the block with rows appended, in the same arrays if they have room."""
    import numpy as np

    count = block.count + len(ns)
    all_units, all_ns = block.units, block.ns
    if len(all_ns) == 0:
        return replace(block, count=count, units=units, ns=ns)
    if count > len(all_ns):
        capacity = count + max(16, count // 8)
        all_units = np.empty((capacity, units.shape[1]), np.float32)
        all_units[: block.count] = block.units[: block.count]
        all_ns = np.empty(capacity, np.int64)
        all_ns[: block.count] = block.ns[: block.count]
    all_units[block.count : count] = units
    all_ns[block.count : count] = ns
    return replace(block, count=count, units=all_units, ns=all_ns)


def _compact(block: Block) -> Block:
    """Return the block without its dead rows."""
    import numpy as np

    assert block.dead is not None
    kept = np.flatnonzero(~block.dead)
    return replace(block, count=len(kept), units=block.units[kept], ns=block.ns[kept], dead=None)
