"""The SQLite file of rows and vectors, and the SQL functions of its connections."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from perdure.backends.sqlite_file import Layout, SqliteFile
from perdure.backends.vector_stores.base import Kept, Point
from perdure.backends.vector_stores.common.filter_clauses import filter_plain, plain_filter
from perdure.backends.vector_stores.common.rows import (
    check_id,
    check_payload,
    check_same_dimension,
    check_vector,
    place_of,
)
from perdure.domain.clock import iso, read_moment
from perdure.domain.errors import NoCollectionError, VectorStoreError
from perdure.domain.filter import TIME_FIELDS, Condition, Filter, compare, matches
from perdure.domain.scope import SCOPE_FIELDS
from perdure.domain.text.terms import index_text

if TYPE_CHECKING:
    from perdure.backends.vector_stores.base import Vector

# The tables of the SQLite vector store.
#
# One numbered set of tables for each collection `c`:
#
# homes_c one row for each scope value that rows live under: a row's home is its first scope field rows_c payloads; n
# = (home << 32) | k, so that the rows of one home lie together vectors_c n, and the float32 vector as it was given; a
# row without one is bare, and absent here text_c full-text index over the memory's text by n, contentless gone_c
# which vectors a home lost at which of its sequence numbers, trimmed

# ruff: noqa: S608  (only our own names and numbers are written into SQL; every value is bound)


COLUMNS = (
    *SCOPE_FIELDS, "kind", "type", "state", "created_at", "updated_at", "expires_at", "valid_from", "valid_to",
    "told_at", "untold_at", "hash", "subject", "attribute", "version_of", "source", "role", "lineage_id",
)  # fmt: skip
"""Own fields that have a column of their own; `id`, `memory` and `metadata` have one each besides."""

HOME_BITS = 32  # bits of n that number the rows within a home
LAYOUT = Layout(
    application_id=0x50455244,  # `PERD`
    version=3,
    tables=frozenset({"collections"}),
    statements=(
        "CREATE TABLE collections (number INTEGER PRIMARY KEY AUTOINCREMENT, name NOT NULL UNIQUE, "
        "dimension INTEGER NOT NULL, model NOT NULL)",
    ),
)
"""What an empty file is made with; each collection makes tables of its own."""

_COLLECTION = f"""
CREATE TABLE homes_{{c}} (
    home INTEGER PRIMARY KEY AUTOINCREMENT, axis INTEGER NOT NULL, value NOT NULL,
    next INTEGER NOT NULL DEFAULT 0,     -- the k that the next row gets, never given twice
    count INTEGER NOT NULL DEFAULT 0,    -- rows that live here
    seq INTEGER NOT NULL DEFAULT 0,      -- grows with each change of the home's vectors
    trimmed INTEGER NOT NULL DEFAULT 0,  -- gone_c says nothing of changes up to here
    UNIQUE (axis, value)
);
CREATE TABLE rows_{{c}} (
    n INTEGER PRIMARY KEY, home INTEGER NOT NULL, axis INTEGER NOT NULL, id NOT NULL UNIQUE,
    odd INTEGER NOT NULL, bare INTEGER NOT NULL, {", ".join(COLUMNS)}, metadata, payload NOT NULL, memory
);
CREATE INDEX rows_{{c}}_order ON rows_{{c}} (created_at, id);
CREATE INDEX rows_{{c}}_home ON rows_{{c}} (home, created_at, id);
CREATE INDEX rows_{{c}}_hash ON rows_{{c}} (home, hash) WHERE hash IS NOT NULL;
CREATE INDEX rows_{{c}}_bare ON rows_{{c}} (id) WHERE bare = 1;
CREATE TABLE vectors_{{c}} (n INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE VIRTUAL TABLE text_{{c}} USING fts5(
    memory, content='', tokenize='porter unicode61 remove_diacritics 2'
);
CREATE TABLE gone_{{c}} (home INTEGER, seq INTEGER, n INTEGER, PRIMARY KEY (home, seq, n)) WITHOUT ROWID;
"""

# A row is found through its home where the home's axis is asked for: rows with an earlier home need these.
_AXIS = (
    "CREATE INDEX rows_{c}_{axis} ON rows_{c} ({axis}, created_at, id) WHERE {axis} IS NOT NULL AND axis < {number};"
)

_WORDS = """
CREATE TABLE words_{c} (word INTEGER PRIMARY KEY, text NOT NULL, place INTEGER);
CREATE TABLE word_vectors_{c} (place INTEGER PRIMARY KEY, vector BLOB NOT NULL)
"""
RECALL = f"""
CREATE TABLE recall_{{c}} (n INTEGER PRIMARY KEY, data BLOB NOT NULL, words BLOB NOT NULL);
{_WORDS}
"""
"""What recall keeps beside rows (`recall.py`); since version 3 of the layout."""

_FROM_VERSION_2 = f"""
ALTER TABLE words_{{c}} RENAME TO words_before_{{c}};
{_WORDS};
INSERT INTO words_{{c}} (word, text, place)
    SELECT word, text, iif(vector IS NULL, NULL, row_number() OVER (ORDER BY word)) FROM words_before_{{c}};
INSERT INTO word_vectors_{{c}} (place, vector)
    SELECT w.place, b.vector FROM words_{{c}} w JOIN words_before_{{c}} b ON b.word = w.word
    WHERE w.place IS NOT NULL ORDER BY w.place;
DROP TABLE words_before_{{c}}
"""
"""In version 2 a word's vector stood beside it, so that every new word rewrote a page of other words' vectors."""

TABLES = ("homes", "rows", "vectors", "text", "gone", "recall", "words", "word_vectors")


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection in the file; `number` is part of its tables' names and is never reused."""

    number: int
    name: str
    dimension: int
    model: str


def text_key(text: str) -> str | bytes:
    """Return the text as a column value: bytes if it has lone surrogates, which SQLite's text cannot hold."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def key_text(key: str | bytes) -> str:
    """Return the text of a `text_key`."""
    return key if isinstance(key, str) else key.decode("utf-8", "surrogatepass")


# ------------------------------------------------------------------ collections


def find_collection(connection: sqlite3.Connection, name: str) -> Collection:
    """Return the collection of that name; VectorStoreError if there is none."""
    row = connection.execute(
        "SELECT number, dimension, model FROM collections WHERE name = ?", (text_key(name),)
    ).fetchone()
    if row is None:
        raise NoCollectionError(name)
    return Collection(row[0], name, row[1], key_text(row[2]))


def all_collections(connection: sqlite3.Connection) -> list[Collection]:
    """Return every collection by name."""
    rows = connection.execute("SELECT number, name, dimension, model FROM collections").fetchall()
    found = [Collection(row[0], key_text(row[1]), row[2], key_text(row[3])) for row in rows]
    return sorted(found, key=lambda collection: collection.name)


def create_collection(connection: sqlite3.Connection, name: str, dimension: int, model: str) -> None:
    """Create a collection and its tables, unless it exists with the same dimension."""
    row = connection.execute("SELECT dimension FROM collections WHERE name = ?", (text_key(name),)).fetchone()
    if row is not None:
        check_same_dimension(name, row[0], dimension)
        return
    number = connection.execute(
        "INSERT INTO collections (name, dimension, model) VALUES (?, ?, ?)",
        (text_key(name), dimension, text_key(model)),
    ).lastrowid
    for statement in (_COLLECTION + RECALL).format(c=number).split(";"):
        connection.execute(statement)
    for place, axis in enumerate(SCOPE_FIELDS[1:], 1):
        connection.execute(_AXIS.format(c=number, axis=axis, number=place))


def delete_collection(connection: sqlite3.Connection, name: str) -> None:
    """Delete a collection and its tables, if it exists."""
    row = connection.execute("SELECT number FROM collections WHERE name = ?", (text_key(name),)).fetchone()
    if row is not None:
        for table in TABLES:
            connection.execute(f"DROP TABLE {table}_{row[0]}")
        connection.execute("DELETE FROM collections WHERE number = ?", row)


def empty_collection(connection: sqlite3.Connection, collection: Collection) -> None:
    """Delete every row and home of a collection; numbers of homes are never reused."""
    c = collection.number
    for table in TABLES:
        if table != "text":
            connection.execute(f"DELETE FROM {table}_{c}")
    connection.execute(f"INSERT INTO text_{c} (text_{c}) VALUES ('delete-all')")


# A point as the columns of a row, and back.
#
# A row is *even* where its columns say exactly what its payload says: then the payload's JSON keeps only what no
# column has. It is *odd* where a field with a column holds something else than text, a time is not in the fixed form,
# or the payload's id is not the row's; then the JSON keeps everything, and filters on that row read the JSON.

TIME_COLUMNS = TIME_FIELDS & set(COLUMNS)
SELECTED = ", ".join(f"r.{name}" for name in ("id", "odd", *COLUMNS, "metadata", "payload", "memory"))
"""The columns that `read_payload` takes, of a table called r."""

STORED = ("n", "home", "axis", "id", "odd", "bare", *COLUMNS, "metadata", "payload", "memory")
"""The columns that are written, n and home before `Record.columns`."""

NO_HOME = (len(SCOPE_FIELDS), "")  # the home of rows without a scope field
Home = tuple[int, str | bytes]  # which scope field, by its place in SCOPE_FIELDS, and its value


@dataclass(frozen=True, slots=True)
class Record:
    """A point prepared for writing."""

    id: str | bytes
    home: Home
    columns: tuple[Any, ...]  # values from `axis` on, in the order of STORED
    text: str  # what the full-text index gets
    vector: bytes | None
    stamp: tuple[Any, Any]
    """The memory's text and when it was last updated: what was kept beside a row with the same ones stays true."""
    kept: Kept | None


def to_record(point: Point, dimension: int) -> Record:
    """Check a point and take it apart; InvalidInputError names what is wrong."""
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
        _json_text(metadata) if has_metadata and not odd else None,
        _json_text(rest),
        _column(memory) if not odd else None,
    )
    return Record(
        text_key(id),
        home,
        values,
        index_text(memory) if isinstance(memory, str) else "",
        vector,
        (memory, payload.get("updated_at")),
        point.kept,
    )


def home_of(payload: dict[str, Any]) -> Home:
    """Return the payload's first scope field, which decides where its row lies."""
    for axis, name in enumerate(SCOPE_FIELDS):
        value = payload.get(name)
        if value is not None:
            return axis, text_key(value)
    return NO_HOME


def read_payload(row: Sequence[Any]) -> dict[str, Any]:
    """Return the payload from a row's SELECTED columns."""
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
    """Return a new float32 vector from a row's blob."""
    if blob is None:
        return None
    import numpy as np  # only now: lists read no vectors

    return np.frombuffer(blob, np.float32).copy()


_CREATED_AT = COLUMNS.index("created_at")


def _column(value: Any) -> str | bytes | None:
    return text_key(value) if isinstance(value, str) else None


def _rest(payload: dict[str, Any], has_metadata: bool) -> dict[str, Any]:
    """Return the parts of a row's payload that no column holds, such as empty texts and explicit nulls."""
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
    """Whether the text is a time in the fixed form, whose texts compare as the times do."""
    moment = read_moment(text)
    return moment is not None and iso(moment) == text


def _json_text(value: Any) -> str:
    """Return one text for each value, because filters compare these texts."""
    return _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


# Functions of the connection for filters that SQL cannot express; each is deterministic and gives 0 or 1.
#
# A filter travels to them as JSON text, so that it is a bound parameter like every other value.


def register(connection: sqlite3.Connection) -> None:
    """Register the functions that filters use in SQL."""
    connection.create_function("perdure_text", 2, _text, deterministic=True)
    connection.create_function("perdure_json", 2, _json, deterministic=True)
    connection.create_function("perdure_key", 3, _key, deterministic=True)
    connection.create_function("perdure_row", -1, _row, deterministic=True)


def _text(value: str | bytes | None, spec: str) -> bool:
    """Whether a text column satisfies the condition."""
    condition = _condition(spec)
    return compare(None if value is None else key_text(value), condition.operator, condition.value)


def _json(value: str | None, spec: str) -> bool:
    """Whether a JSON value satisfies the condition."""
    condition = _condition(spec)
    return compare(None if value is None else json.loads(value), condition.operator, condition.value)


def _key(value: str | None, key: str, spec: str) -> bool:
    """Whether a key of a JSON object satisfies the condition; the key is JSON, because it may be any text."""
    condition = _condition(spec)
    found = None if value is None else json.loads(value).get(json.loads(key))
    return compare(found, condition.operator, condition.value)


def _row(spec: str, *columns: Any) -> bool:
    """Whether a row, given by its SELECTED columns, satisfies the filter."""
    return matches(_read(spec), read_payload(columns))


# ------------------------------------------------------------------ filters as text


def write(filter: Filter) -> str:
    """Return the filter as text for these functions."""
    return json.dumps(filter_plain(filter))


@lru_cache(maxsize=256)
def _read(spec: str) -> Filter:
    return plain_filter(json.loads(spec))


@lru_cache(maxsize=1024)
def _condition(spec: str) -> Condition:
    tree = _read(spec)
    assert isinstance(tree, Condition)
    return tree


_READER_CACHE_KB = 8 * 1024
_WRITER_CACHE_KB = 16 * 1024


class Database(SqliteFile):
    """An open file of rows and vectors."""

    what = "vector store"
    failure = busy = VectorStoreError
    rescue = "move the file away and run `perdure doctor --repair`, which rebuilds what the ledger has kept of it"
    layout = LAYOUT
    synchronous = "NORMAL"
    page_size = 8192  # five vectors of 384 numbers nearly fill a page; of 4,096 bytes a quarter would be waste
    log_limit = 64 * 1024 * 1024

    def _upgrade(self, version: int) -> None:
        statements = RECALL if version < 2 else _FROM_VERSION_2
        for collection in all_collections(self._writer):
            for statement in statements.format(c=collection.number).split(";"):
                self._writer.execute(statement)

    def _connect(self, *, writes: bool) -> sqlite3.Connection:
        connection = super()._connect(writes=writes)
        register(connection)
        connection.execute(f"PRAGMA cache_size = -{_WRITER_CACHE_KB if writes else _READER_CACHE_KB}")
        return connection
