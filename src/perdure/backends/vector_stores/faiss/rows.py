"""The rows beside a FAISS index in one SQLite file, which is the truth: the index is made from it.

Each collection `c` has these tables. rows_c: n, id, record, created_at, scope fields; n grows, is never reused, and
names one vector for ever. vectors_c: n and the float32 vector; missing for a bare row. tokens_c: the tokens of a row
(`Facets`). spans_c: its numbers and times by path. gone_c: vectors removed by each version of the collection, trimmed.
"""

from __future__ import annotations

# ruff: noqa: S608  (only our own names are written into SQL; every value is bound)
import json

# ruff: noqa: S608  (only our own names and numbers are written into SQL; every value is bound)
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

import numpy as np

from perdure.backends.sqlite_file import read_meta, write_meta
from perdure.backends.vector_stores.base import Names, Shape, Vector
from perdure.backends.vector_stores.common.document_store import MissingCollection
from perdure.backends.vector_stores.common.documents import Document, Row, decode
from perdure.backends.vector_stores.common.filter_clauses import Grammar, Span
from perdure.backends.vector_stores.sqlite.database import Database, key_text, text_key
from perdure.domain.errors import VectorStoreError
from perdure.domain.scope import SCOPE_FIELDS


@dataclass(frozen=True, slots=True)
class Sql:
    """A condition in two equivalent forms with the same placeholders, and their values."""

    probing: str
    looking_up: str
    values: tuple[str | bytes | int | float, ...] = ()
    scoped: bool = False  # whether it holds only inside given scopes

    def text(self, collection: int) -> str:
        """Return the form that reads fewer rows."""
        return (self.probing if self.scoped else self.looking_up).replace("{c}", str(collection))


def key(text: str) -> bytes:
    """Return the text as bytes that sort by code point, also with lone surrogates, which SQLite's text cannot hold."""
    return text.encode("utf-8", "surrogatepass")


def _in_table(table: str, condition: str, values: tuple[str | bytes | int | float, ...], *, has: bool = True) -> Sql:
    """Match rows with an entry in the table under the condition, or without one."""
    no = "" if has else "NOT "
    return Sql(
        f"{no}EXISTS (SELECT 1 FROM {table}_{{c}} WHERE n = r.n AND {condition})",
        f"{no}r.n IN (SELECT n FROM {table}_{{c}} WHERE {condition})",
        values,
    )


def _tokens(tokens: Sequence[str], *, has: bool = True) -> Sql:
    return _in_table("tokens", f"token IN ({_marks(tokens)})", tuple(map(bytes.fromhex, tokens)), has=has)


def _joined(word: str, clauses: Sequence[Sql], *, scoped: bool) -> Sql:
    return Sql(
        f"({word.join(clause.probing for clause in clauses)})",
        f"({word.join(clause.looking_up for clause in clauses)})",
        tuple(value for clause in clauses for value in clause.values),
        scoped,
    )


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))


def _plain(text: str, *values: str | bytes, scoped: bool = False) -> Sql:
    return Sql(text, text, values, scoped)


def _between(span: Span) -> Sql:
    bounds = [(sign, bound) for sign, bound in ((">=", span.low), ("<=", span.high)) if bound is not None]
    values = [float(bound) if span.kind == "number" else int(bound) for _, bound in bounds]
    condition = " AND ".join(["path = ?", *(f"value {sign} ?" for sign, _ in bounds)])
    return _in_table("spans", condition, (span_key(span.kind, span.path), *values))


def _holds(field: str, text: str, ignore_case: bool) -> Sql | None:
    """Match rows whose record contains the text, as JSON writes it."""
    return None if ignore_case else _plain("instr(r.record, ?) > 0", json.dumps(text)[1:-1])


def span_key(kind: str, path: str) -> bytes:
    """Return the key of a number or time in the table of spans."""
    return key(f"{kind}:{path}")


GRAMMAR = Grammar[Sql](
    one_of=_tokens,
    none_of=partial(_tokens, has=False),
    every=lambda clauses: _joined(" AND ", clauses, scoped=any(clause.scoped for clause in clauses)),
    some=lambda clauses: _joined(" OR ", clauses, scoped=all(clause.scoped for clause in clauses)),
    scope_is=lambda field, values: _plain(f"r.{field} IN ({_marks(values)})", *map(key, values), scoped=True),
    scope_is_not=lambda field, values: _plain(
        f"(r.{field} IS NULL OR r.{field} NOT IN ({_marks(values)}))", *map(key, values)
    ),
    between=_between,
    holds=_holds,
    most_values=200,  # fewer than a statement of SQLite takes
    most_clauses=100,
)


KIND = "faiss"  # what the file says of itself, so that no store takes another's
TABLES = ("rows", "vectors", "tokens", "spans", "gone")
_STATES = """
CREATE TABLE states (
    number INTEGER PRIMARY KEY,
    version INTEGER NOT NULL,   -- grows with each write
    stamp TEXT NOT NULL,        -- made anew by each write: a restored backup never has a later state's
    trimmed INTEGER NOT NULL    -- gone_c says nothing of versions up to here
)"""

_COLLECTION = f"""
CREATE TABLE rows_{{c}} (
    n INTEGER PRIMARY KEY AUTOINCREMENT, id BLOB NOT NULL UNIQUE, created_at BLOB NOT NULL, bare INTEGER NOT NULL,
    {", ".join(SCOPE_FIELDS)}, record TEXT NOT NULL
);
CREATE INDEX rows_{{c}}_order ON rows_{{c}} (created_at, id);
CREATE TABLE vectors_{{c}} (n INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE tokens_{{c}} (token BLOB, n INTEGER, PRIMARY KEY (token, n)) WITHOUT ROWID;
CREATE INDEX tokens_{{c}}_n ON tokens_{{c}} (n);
CREATE TABLE spans_{{c}} (path BLOB, value, n INTEGER, PRIMARY KEY (path, value, n)) WITHOUT ROWID;
CREATE INDEX spans_{{c}}_n ON spans_{{c}} (n);
CREATE TABLE gone_{{c}} (version INTEGER, n INTEGER, PRIMARY KEY (version, n)) WITHOUT ROWID;
"""
_SCOPE = "CREATE INDEX rows_{c}_{field} ON rows_{c} ({field}, created_at, id) WHERE {field} IS NOT NULL;"
_MOST_IDS = 500
_MOST_GONE = 10_000


class Rows(Database):
    """The open file; Database has the sharing between threads and processes, and the error mapping."""

    def _set_up(self) -> None:
        super()._set_up()
        with self.writing() as connection:
            kind = read_meta(connection, "kind")
            if kind is None and not connection.execute("SELECT 1 FROM collections").fetchone():
                write_meta(connection, "kind", KIND)
                connection.execute(_STATES)
            elif kind != KIND:
                raise VectorStoreError(f"{self.path} belongs to another vector store: give another path")

    def _reason(self, error: sqlite3.Error) -> str:
        return super()._reason(error).replace("busy_timeout", "timeout")


def open_rows(path: Path, timeout: float) -> Rows:
    return Rows(path, timeout)


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection as of one moment; `number` is part of its tables' names and is never reused."""

    number: int
    shape: Shape
    version: int
    stamp: str
    trimmed: int


def find(connection: sqlite3.Connection, name: str) -> Collection:
    """Return the collection of that name; MissingCollection if there is none."""
    found = connection.execute(
        "SELECT c.number, c.dimension, c.model, s.version, s.stamp, s.trimmed "
        "FROM collections c JOIN states s ON s.number = c.number WHERE c.name = ?",
        (text_key(name),),
    ).fetchone()
    if found is None:
        raise MissingCollection
    return Collection(found[0], Shape(found[1], key_text(found[2])), *found[3:])


def names(connection: sqlite3.Connection) -> Names:
    return [key_text(name) for (name,) in connection.execute("SELECT name FROM collections")]


def make(connection: sqlite3.Connection, name: str, shape: Shape) -> None:
    """Create a collection and its tables, unless it exists."""
    try:
        find(connection, name)
    except MissingCollection:
        values = (text_key(name), shape.dimension, text_key(shape.model))
        number = connection.execute(
            "INSERT INTO collections (name, dimension, model) VALUES (?, ?, ?)", values
        ).lastrowid
        connection.execute("INSERT INTO states VALUES (?, 0, ?, 0)", (number, uuid4().hex))
        scopes = "".join(_SCOPE.format(c=number, field=field) for field in SCOPE_FIELDS)
        for statement in (_COLLECTION.format(c=number) + scopes).split(";"):
            connection.execute(statement)


def drop(connection: sqlite3.Connection, name: str) -> int | None:
    """Delete a collection and its tables; return its number, or None if it is missing."""
    try:
        number = find(connection, name).number
    except MissingCollection:
        return None
    for table in TABLES:
        connection.execute(f"DROP TABLE {table}_{number}")
    connection.execute("DELETE FROM states WHERE number = ?", (number,))
    connection.execute("DELETE FROM collections WHERE number = ?", (number,))
    return number


def clear(connection: sqlite3.Connection, collection: Collection) -> None:
    """Delete every row; every index of the collection must be rebuilt."""
    for table in TABLES:
        connection.execute(f"DELETE FROM {table}_{collection.number}")
    version = _step(connection, collection)
    connection.execute("UPDATE states SET trimmed = ? WHERE number = ?", (version, collection.number))


def _step(connection: sqlite3.Connection, collection: Collection) -> int:
    values = (collection.version + 1, uuid4().hex, collection.number)
    connection.execute("UPDATE states SET version = ?, stamp = ? WHERE number = ?", values)
    return collection.version + 1


def trim(connection: sqlite3.Connection, collection: Collection) -> None:
    """Forget old removed vectors; an index that missed them is rebuilt."""
    c = collection.number
    (count,) = connection.execute(f"SELECT count(*) FROM gone_{c}").fetchone()
    if count > _MOST_GONE:
        connection.execute(f"DELETE FROM gone_{c}")
        connection.execute("UPDATE states SET trimmed = version WHERE number = ?", (c,))


def write(
    connection: sqlite3.Connection, collection: Collection, documents: Iterable[Document], deletes: Iterable[str]
) -> None:
    version = _step(connection, collection)
    for id in deletes:
        _remove(connection, collection.number, version, id)
    for document in documents:
        _put(connection, collection.number, version, document)


def _remove(connection: sqlite3.Connection, c: int, version: int, id: str) -> None:
    found = connection.execute(f"SELECT n, bare FROM rows_{c} WHERE id = ?", (key(id),)).fetchone()
    if found is not None:
        n, bare = found
        for table in ("rows", "vectors", "tokens", "spans"):
            connection.execute(f"DELETE FROM {table}_{c} WHERE n = ?", (n,))
        if not bare:
            connection.execute(f"INSERT INTO gone_{c} VALUES (?, ?)", (version, n))


def _put(connection: sqlite3.Connection, c: int, version: int, document: Document) -> None:
    vector = None if document.vector is None else document.vector.astype("<f4").tobytes()
    found = connection.execute(
        f"SELECT r.n, v.vector FROM rows_{c} r LEFT JOIN vectors_{c} v ON v.n = r.n WHERE r.id = ?", (key(document.id),)
    ).fetchone()
    n = None
    if found is not None and found[1] == vector:
        n = found[0]  # the index has this vector by this number
        for table in ("rows", "tokens", "spans"):
            connection.execute(f"DELETE FROM {table}_{c} WHERE n = ?", (n,))
    elif found is not None:
        _remove(connection, c, version, document.id)
    scope = [None if (text := document.scope.get(field)) is None else key(text) for field in SCOPE_FIELDS]
    values = (n, key(document.id), key(document.created_at), vector is None, *scope, document.record)
    marks = ", ".join("?" * len(values))
    given = connection.execute(f"INSERT INTO rows_{c} VALUES ({marks})", values).lastrowid
    if vector is not None and n is None:
        connection.execute(f"INSERT INTO vectors_{c} VALUES (?, ?)", (given, vector))
    tokens = [(bytes.fromhex(token), given) for token in document.tokens]
    connection.executemany(f"INSERT INTO tokens_{c} VALUES (?, ?)", tokens)
    spans: list[tuple[bytes, float | int, int | None]] = [
        *((span_key("number", path), number, given) for path, number in document.numbers.items()),
        *((span_key("moment", path), moment, given) for path, moment in document.moments.items()),
    ]
    connection.executemany(f"INSERT INTO spans_{c} VALUES (?, ?, ?)", spans)


def select(
    collection: Collection,
    clause: Sql | None,
    *,
    with_vectors: bool = False,
    ordered: tuple[bytes, bytes] | bool = False,
) -> tuple[str, tuple[object, ...]]:
    """Return the query of a clause's records with their vectors; in order, after a place if one is given."""
    c = collection.number
    conditions, values = _where(collection, clause)
    if isinstance(ordered, tuple):
        conditions.append("(r.created_at, r.id) > (?, ?)")
        values += ordered
    text = f"SELECT r.record, {'v.vector' if with_vectors else 'NULL'} FROM rows_{c} r"
    if with_vectors:
        text += f" LEFT JOIN vectors_{c} v ON v.n = r.n"
    if conditions:
        text += f" WHERE {' AND '.join(conditions)}"
    if ordered is not False:
        text += " ORDER BY r.created_at, r.id LIMIT ?"
    return text, tuple(values)


def _where(collection: Collection, clause: Sql | None) -> tuple[list[str], list[object]]:
    return ([], []) if clause is None else ([clause.text(collection.number)], list(clause.values))


def to_rows(found: Iterable[tuple[str, bytes | None]]) -> list[Row]:
    """Return the rows of records and vectors from the file."""
    return [decode(record, None if vector is None else np.frombuffer(vector, "<f4")) for record, vector in found]


def fetch(connection: sqlite3.Connection, collection: Collection, ids: Sequence[str]) -> list[Row]:
    rows: list[Row] = []
    for start in range(0, len(ids), _MOST_IDS):
        some = [key(id) for id in ids[start : start + _MOST_IDS]]
        query, _ = select(collection, None, with_vectors=True)
        rows += to_rows(connection.execute(f"{query} WHERE r.id IN ({', '.join('?' * len(some))})", some))
    return rows


def by_number(connection: sqlite3.Connection, collection: Collection, numbers: Sequence[int]) -> dict[int, Row]:
    rows: dict[int, Row] = {}
    for start in range(0, len(numbers), _MOST_IDS):
        some = list(numbers[start : start + _MOST_IDS])
        query = f"SELECT n, record FROM rows_{collection.number} WHERE n IN ({', '.join('?' * len(some))})"
        rows.update((n, decode(record)) for n, record in connection.execute(query, some))
    return rows


def count(connection: sqlite3.Connection, collection: Collection, clause: Sql | None) -> int:
    conditions, values = _where(collection, clause)
    query = f"SELECT count(*) FROM rows_{collection.number} r"
    if conditions:
        query += f" WHERE {conditions[0]}"
    return int(connection.execute(query, values).fetchone()[0])


def numbers(connection: sqlite3.Connection, collection: Collection, clause: Sql) -> list[int]:
    """Return the n of the clause's rows that have a vector."""
    query = f"SELECT r.n FROM rows_{collection.number} r WHERE r.bare = 0 AND {clause.text(collection.number)}"
    return [n for (n,) in connection.execute(query, clause.values)]


def vectors_after(
    connection: sqlite3.Connection, collection: Collection, n: int, limit: int = -1
) -> tuple[list[int], list[Vector]]:
    """Return vectors after a number, in order; without a limit all."""
    query = f"SELECT n, vector FROM vectors_{collection.number} WHERE n > ? ORDER BY n LIMIT ?"
    found = connection.execute(query, (n, limit)).fetchall()
    return [row[0] for row in found], [np.frombuffer(row[1], "<f4") for row in found]


def gone_after(connection: sqlite3.Connection, collection: Collection, version: int) -> list[int]:
    """Return the numbers of the vectors removed after a version."""
    query = f"SELECT n FROM gone_{collection.number} WHERE version > ?"
    return [n for (n,) in connection.execute(query, (version,))]
