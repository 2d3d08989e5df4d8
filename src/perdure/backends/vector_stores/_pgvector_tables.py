"""The tables of a pgvector store: one for each collection, a registry of them, and the store's own identity."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
from psycopg import errors
from psycopg.sql import Identifier

from perdure.backends.postgres_service import lock_key, rewrite
from perdure.backends.vector_stores._document_engine import Shape
from perdure.backends.vector_stores._names import digest
from perdure.backends.vector_stores._pgvector_server import Connection, Server, quoted
from perdure.backends.vector_stores._pgvector_text import escape, unescape
from perdure.domain.errors import ConfigError, VectorStoreError
from perdure.domain.scope import SCOPE_FIELDS

# ruff: noqa: S608  (only names of our own, quoted, and numbers are written into SQL; every value is bound)

MOST_DIMENSIONS = 16_000
"""Numbers in a vector, as pgvector has it."""
MOST_INDEXED = 2_000
"""Numbers in a vector that pgvector's HNSW takes."""

_REGISTRY = "perdure_collections"
_STORE = "perdure_store"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")

_COLUMNS: LiteralString = """
    id text COLLATE "C" PRIMARY KEY,
    vector vector({dimension}),
    payload jsonb NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    record text NOT NULL,
    tokens text[] NOT NULL,
    words text[] NOT NULL,
    numbers jsonb NOT NULL,
    moments jsonb NOT NULL
"""
_WORDY = ("payload", "record", "words")
"""Columns with the user's text: the planner would keep samples of it, which no rewriting of tables reaches."""
_SWEPT = ("expires_at", "valid_to")
"""Moments by which whole collections are swept."""

_BROKEN_INDEXES: LiteralString = """
SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = to_regclass(%s) AND NOT (i.indisvalid AND i.indisready) ORDER BY 1
"""


def table_name(collection: str) -> str:
    """The table of a collection: by its own name, or, where that is no plain one, what is readable and a digest."""
    if _PLAIN_NAME.fullmatch(collection) and collection not in (_REGISTRY, _STORE):
        return collection
    return f"perdure_{re.sub('[^A-Za-z0-9_]+', '_', collection)[:30]}_{digest(collection, 10)}"


class Tables:
    """The tables in one schema of a server."""

    def __init__(self, server: Server, schema: str, *, hnsw: bool) -> None:
        self._server = server
        self._schema = schema
        self._hnsw = hnsw
        self._registry = quoted(schema, _REGISTRY)
        self._store = quoted(schema, _STORE)
        self._making = lock_key(schema, "collections")
        self._scrubbing = lock_key(schema, "scrub of vectors")

    def name_of(self, collection: str) -> str:
        """The table of a collection, as SQL has it."""
        return quoted(self._schema, table_name(collection))

    # ------------------------------------------------------------------ the store
    def prepare(self) -> None:
        """Make schema, extension and registry where they are missing."""
        with self._server.told():
            try:
                self._server.sessions.make_schema(self._making)
            except ValueError as error:
                raise VectorStoreError(f"the server {self._server.name} {error}") from None
            with self._server.sessions.connect() as connection:
                self._make_extension(connection)
        with self._alone() as connection:
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self._registry} (name text PRIMARY KEY, relation text NOT NULL UNIQUE,"
                " dimension integer NOT NULL, model text NOT NULL, made_at timestamptz NOT NULL DEFAULT now())"
            )
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self._store} (identity text NOT NULL, scrub_due boolean NOT NULL)"
            )
            connection.execute(
                f"INSERT INTO {self._store} SELECT %s, false WHERE NOT EXISTS (SELECT FROM {self._store})",
                [str(uuid4())],
            )

    def _make_extension(self, connection: psycopg.Connection[Any]) -> None:
        there = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector')"
        if connection.execute(there).fetchone() == (True,):
            return
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [lock_key("extension")])
        # Not in a schema of ours: dropping one store must not take the others' vectors.
        public = connection.execute("SELECT to_regnamespace('public') IS NOT NULL").fetchone() == (True,)
        try:
            connection.execute(f"CREATE EXTENSION IF NOT EXISTS vector{' SCHEMA public' if public else ''}")
        except (errors.InsufficientPrivilege, errors.FeatureNotSupported, errors.UndefinedFile) as error:
            raise VectorStoreError(
                f"{self._server.name} has no extension vector, and it cannot be made here ({type(error).__name__}): "
                "install pgvector on the server, and run CREATE EXTENSION vector in the database as a superuser"
            ) from None

    def identity(self) -> str:
        """The id that the first opening made."""
        with self._server.connection() as connection:
            row = connection.execute(f"SELECT identity FROM {self._store}").fetchone()
        if row is None:
            raise VectorStoreError(f"{self._server.name} has lost its identity: restore a copy of the database")
        identity: str = row[0]
        return identity

    def syncs(self) -> bool:
        """Whether what the server acknowledges is on its disk."""
        with self._server.connection() as connection:
            return connection.execute("SHOW fsync").fetchone() != ("off",)

    # ------------------------------------------------------------------ collections
    @contextmanager
    def _alone(self) -> Iterator[Connection]:
        """A transaction in which nobody else makes or removes tables."""
        with self._server.connection() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [self._making])
            yield connection

    def find(self, collection: str) -> Shape | None:
        """The shape of a collection, or None."""
        query = f"SELECT dimension, model FROM {self._registry} WHERE name = %s AND to_regclass(%s) IS NOT NULL"
        with self._server.connection() as connection:
            row = connection.execute(query, [escape(collection), self.name_of(collection)]).fetchone()
        return None if row is None else Shape(row[0], unescape(row[1]))

    def names(self) -> list[str]:
        """The names of all collections."""
        with self._server.connection() as connection:
            return [unescape(name) for (name,) in connection.execute(f"SELECT name FROM {self._registry}")]

    def make(self, collection: str, shape: Shape) -> None:
        """Make a collection's table with its indexes; one that another process has just made is left alone."""
        if shape.dimension > MOST_DIMENSIONS:
            raise ConfigError(
                f"pgvector holds vectors of up to {MOST_DIMENSIONS} dimensions, not {shape.dimension}",
                field="dimension",
                value=shape.dimension,
            )
        table = self.name_of(collection)
        with self._alone() as connection:
            known = connection.execute(f"SELECT FROM {self._registry} WHERE name = %s", [escape(collection)]).fetchone()
            there = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [table]).fetchone() == (True,)
            if there and known is not None:
                return
            if there:
                raise ConfigError(
                    f"{self._server.name} has a table {table} that is not perdure's: name another schema or collection",
                    field="collection",
                    value=collection,
                )
            self._make_table(connection, table, shape.dimension)
            connection.execute(
                f"INSERT INTO {self._registry} (name, relation, dimension, model) VALUES (%s, %s, %s, %s)"
                " ON CONFLICT (name) DO UPDATE SET dimension = EXCLUDED.dimension, model = EXCLUDED.model",
                [escape(collection), table_name(collection), shape.dimension, escape(shape.model)],
            )

    def _make_table(self, connection: Connection, table: str, dimension: int) -> None:
        connection.execute(f"CREATE TABLE {table} ({_COLUMNS.format(dimension=dimension)})")
        # A search reads the vectors of a scope: they stand in the rows themselves as long as they fit.
        connection.execute(f"ALTER TABLE {table} ALTER COLUMN vector SET STORAGE MAIN")
        connection.execute(f"ALTER TABLE {table} SET (toast_tuple_target = 4096)")
        for column in _WORDY:
            connection.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS 0")
        for field in SCOPE_FIELDS:
            connection.execute(
                f"CREATE INDEX ON {table} ((payload->>'{field}'), created_at) WHERE payload->>'{field}' IS NOT NULL"
            )
        for field in _SWEPT:
            moment = f"(moments->'{field}')::float8"
            connection.execute(f"CREATE INDEX ON {table} (({moment})) WHERE {moment} IS NOT NULL")
        connection.execute(f"CREATE INDEX ON {table} (created_at, id)")
        connection.execute(f"CREATE INDEX ON {table} USING gin (tokens)")
        connection.execute(f"CREATE INDEX ON {table} USING gin (words)")
        if self._hnsw and dimension <= MOST_INDEXED:
            connection.execute(f"CREATE INDEX ON {table} USING hnsw (vector vector_ip_ops)")

    def drop(self, collection: str) -> None:
        """Remove a collection; one that is gone is no error, and a table that is not perdure's stays."""
        with self._alone() as connection:
            gone = f"DELETE FROM {self._registry} WHERE name = %s RETURNING name"
            if connection.execute(gone, [escape(collection)]).fetchone() is not None:
                connection.execute(f"DROP TABLE IF EXISTS {self.name_of(collection)}")

    # ------------------------------------------------------------------ upkeep
    def check(self, collection: str) -> list[str]:
        """Indexes that are not whole; rows that cannot be read are an error of their own."""
        table = self.name_of(collection)
        with self._server.connection() as connection:
            broken = connection.execute(_BROKEN_INDEXES, [table]).fetchall()
            # The text of a whole row makes the server read every byte of it, those kept aside (TOAST) as well.
            connection.execute(f"SELECT sum(length(t::text)) FROM {table} t")
        return [f"PostgreSQL finds the index {name} of {table} unfinished: rebuild it (REINDEX)" for (name,) in broken]

    def scrub(self) -> bool:
        """Rewrite every table without what was deleted (VACUUM FULL); False, with a note, if somebody is in the way."""
        tables = [Identifier(self._schema, table_name(name)) for name in self.names()]
        with self._server.told(), self._server.sessions.connect() as connection:
            # The planner's samples of scope values, and of ids, are taken anew as well.
            done = rewrite(connection, self._scrubbing, tables, options="FULL, ANALYZE")
            connection.execute(f"UPDATE {self._store} SET scrub_due = %s WHERE scrub_due <> %s", [not done, not done])
        return done

    def is_scrub_due(self) -> bool:
        """Whether a scrub was put off."""
        with self._server.connection() as connection:
            return connection.execute(f"SELECT scrub_due FROM {self._store}").fetchone() == (True,)
