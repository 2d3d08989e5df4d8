"""The tables of the SQLite vector store.

One numbered set of tables for each collection `c`:

    homes_c     one row for each scope value that rows live under: a row's home is its first scope field
    rows_c      payloads; n = (home << 32) | k, so that the rows of one home lie together
    vectors_c   n, and the float32 vector as it was given; a row without one is bare, and absent here
    text_c      full-text index over the memory's text by n, contentless
    gone_c      which vectors a home lost at which of its sequence numbers, trimmed
"""

# ruff: noqa: S608  (only our own names and numbers are written into SQL; every value is bound)

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from perdure.backends.sqlite_file import Layout
from perdure.domain.errors import ConfigError, NoCollectionError
from perdure.domain.scope import SCOPE_FIELDS

COLUMNS = (
    *SCOPE_FIELDS, "kind", "type", "state", "created_at", "updated_at", "expires_at", "valid_from", "valid_to",
    "told_at", "untold_at", "hash", "subject", "attribute", "version_of", "source", "role", "lineage_id",
)  # fmt: skip
"""Own fields that have a column of their own; `id`, `memory` and `metadata` have one each besides."""

HOME_BITS = 32
"""Bits of n that number the rows within a home."""

LAYOUT = Layout(
    application_id=0x50455244,  # `PERD`
    version=1,
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

TABLES = ("homes", "rows", "vectors", "text", "gone")


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection as the file knows it; `number` is part of its tables' names and is never used again."""

    number: int
    name: str
    dimension: int
    model: str


def text_key(text: str) -> str | bytes:
    """The text as a value of a column: bytes where it holds lone surrogates, which SQLite's text cannot."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def key_text(key: str | bytes) -> str:
    """The text that `text_key` made a key of."""
    return key if isinstance(key, str) else key.decode("utf-8", "surrogatepass")


# ------------------------------------------------------------------ collections


def find_collection(connection: sqlite3.Connection, name: str) -> Collection:
    """The collection of that name; VectorStoreError if there is none."""
    row = connection.execute(
        "SELECT number, dimension, model FROM collections WHERE name = ?", (text_key(name),)
    ).fetchone()
    if row is None:
        raise NoCollectionError(name)
    return Collection(row[0], name, row[1], key_text(row[2]))


def all_collections(connection: sqlite3.Connection) -> list[Collection]:
    """Every collection, by name."""
    rows = connection.execute("SELECT number, name, dimension, model FROM collections").fetchall()
    found = [Collection(row[0], key_text(row[1]), row[2], key_text(row[3])) for row in rows]
    return sorted(found, key=lambda collection: collection.name)


def create_collection(connection: sqlite3.Connection, name: str, dimension: int, model: str) -> None:
    """Make a collection and its tables, or leave one of the same dimension alone."""
    row = connection.execute("SELECT dimension FROM collections WHERE name = ?", (text_key(name),)).fetchone()
    if row is not None:
        if row[0] != dimension:
            raise ConfigError(
                f"collection {name!r} holds vectors of dimension {row[0]}, not {dimension}: "
                "use the embedder that filled it, or another collection",
                field="dimension",
                value=dimension,
            )
        return
    number = connection.execute(
        "INSERT INTO collections (name, dimension, model) VALUES (?, ?, ?)",
        (text_key(name), dimension, text_key(model)),
    ).lastrowid
    for statement in _COLLECTION.format(c=number).split(";"):
        connection.execute(statement)
    for place, axis in enumerate(SCOPE_FIELDS[1:], 1):
        connection.execute(_AXIS.format(c=number, axis=axis, number=place))


def delete_collection(connection: sqlite3.Connection, name: str) -> None:
    """Remove a collection and its tables, if it exists."""
    row = connection.execute("SELECT number FROM collections WHERE name = ?", (text_key(name),)).fetchone()
    if row is not None:
        for table in TABLES:
            connection.execute(f"DROP TABLE {table}_{row[0]}")
        connection.execute("DELETE FROM collections WHERE number = ?", row)


def empty_collection(connection: sqlite3.Connection, collection: Collection) -> None:
    """Remove every row of a collection. Homes go too, and their numbers are never used again."""
    c = collection.number
    for table in ("homes", "rows", "vectors", "gone"):
        connection.execute(f"DELETE FROM {table}_{c}")
    connection.execute(f"INSERT INTO text_{c} (text_{c}) VALUES ('delete-all')")
