"""The `pgvector` store: memories in tables of a PostgreSQL database, searched exactly inside their scope."""

from __future__ import annotations

import logging
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from typing import Any, ClassVar, LiteralString, cast
from uuid import uuid4
from zlib import crc32

import numpy as np
import psycopg
from pgvector import Vector as PgVector
from psycopg import errors
from psycopg.sql import Identifier
from pydantic import ConfigDict, Field, SecretStr, model_validator

from perdure.backends.http.service import secret_from
from perdure.backends.shared.batches import bounded_batches
from perdure.backends.shared.postgres_service import ADDRESS, lock_key, rewrite
from perdure.backends.vector_stores.base import Names, Shape, Vector
from perdure.backends.vector_stores.common import document_store
from perdure.backends.vector_stores.common.documents import Document, Row, decode, digest
from perdure.backends.vector_stores.common.rows import Place, check_most_dimensions
from perdure.backends.vector_stores.pgvector.server import Connection, Server, ServerError, quoted
from perdure.backends.vector_stores.pgvector.sql import (
    GRAMMAR,
    Clause,
    escape,
    key_text,
    payload_json,
    to_json,
    unescape,
    word_key,
)
from perdure.domain.errors import ConfigError, VectorStoreError
from perdure.domain.scope import SCOPE_FIELDS

# ruff: noqa: S608  (only names of our own, quoted, and numbers are written into SQL; every value is bound)

MOST_DIMENSIONS = 16_000  # numbers in a vector, as pgvector has it
MOST_INDEXED = 2_000  # numbers in a vector that pgvector's HNSW takes
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
_SWEPT = ("expires_at", "valid_to")  # moments by which whole collections are swept
_BROKEN_INDEXES: LiteralString = """
SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = to_regclass(%s) AND NOT (i.indisvalid AND i.indisready) ORDER BY 1
"""


def table_name(collection: str) -> str:
    """Return a collection's table: its own name if plain, else the readable part and a digest."""
    if _PLAIN_NAME.fullmatch(collection) and collection not in (_REGISTRY, _STORE):
        return collection
    return f"perdure_{re.sub('[^A-Za-z0-9_]+', '_', collection)[:30]}_{digest(collection, 10)}"


logger = logging.getLogger("perdure")
_PAGE = 1000  # rows of a page of `_scan`
_CHUNK = 100 if psycopg.capabilities.has_stream_chunked() else 1
"""Rows that the driver takes up at one time: one where its libpq is older than 17."""
_MOST_NEAR = 500
"""Rows that the index of vectors is asked for: it is asked to look at twice as many, of which it takes 1,000."""
_BATCH = 500
_BATCH_TEXT = 4_000_000  # documents, and characters of their records, in one statement of a write
_EVERYTHING = Clause("true")
_PUT: LiteralString = """
INSERT INTO {table} (id, vector, payload, created_at, record, tokens, words, numbers, moments)
SELECT i, v, p::jsonb, c, r, string_to_array(t, ' '), string_to_array(w, ' '), n::jsonb, m::jsonb
FROM unnest(%b::text[], %b::vector[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[],
            %b::text[]) AS given (i, v, p, c, r, t, w, n, m)
ON CONFLICT (id) DO UPDATE SET (vector, payload, created_at, record, tokens, words, numbers, moments) = (
    EXCLUDED.vector, EXCLUDED.payload, EXCLUDED.created_at, EXCLUDED.record, EXCLUDED.tokens, EXCLUDED.words,
    EXCLUDED.numbers, EXCLUDED.moments)
"""

_RANKED: LiteralString = """
WITH held AS MATERIALIZED (
    SELECT id, record, words, cardinality(words) AS length FROM {table} WHERE {having} AND {clause}
), shared AS MATERIALIZED (
    SELECT DISTINCT id, word FROM held, unnest(words) AS word WHERE word = ANY(%s::text[])
), rarities AS (
    SELECT word, ln(1 + (greatest({total}, count(*)) - count(*) + 0.5) / (count(*) + 0.5))::float8 AS rarity
    FROM shared GROUP BY word
), weights AS (
    SELECT id, sum(rarity) AS weight FROM shared JOIN rarities USING (word) GROUP BY id
)
SELECT record,
    weight * 2.2 / (1 + 1.2 * (0.25 + 0.75 * length / greatest((SELECT avg(length) FROM held), 1)))::float8 AS score
FROM weights JOIN held USING (id) ORDER BY score DESC, id LIMIT %s
"""
"""BM25 with the constants of `scoring`, each word counted once; rarity is measured inside the filter."""


class PgVectorStore(document_store.DocumentStore[Clause]):
    """Memories in a PostgreSQL database (14 or newer) with the extension pgvector, for any number of processes.

    A batch is one transaction. After a scrub, deleted text is gone from the tables; the server's write-ahead log,
    backups and replicas keep it for their own time.
    """

    name: ClassVar[str] = "pgvector"
    scrub_note: ClassVar[str] = (
        "the server's write-ahead log, archives, backups and replicas keep it for their own time"
    )
    ranks_words: ClassVar[bool] = True
    most_hits: ClassVar[int] = 1_000_000
    grammar = GRAMMAR

    class Settings(document_store.EngineSettings):
        """The database, and how it is used."""

        model_config = ConfigDict(populate_by_name=True)

        connection_string: SecretStr | None = Field(default_factory=partial(secret_from, "DATABASE_URL"))
        """`postgresql://user:password@host:5432/database`, with libpq's parameters; by default DATABASE_URL."""
        schema_name: str = Field(default="public", alias="schema", pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,62}$")
        """The schema of the store's tables (or `schema`), created if it is missing; one schema is one store."""
        pool_size: int = Field(default=8, ge=1, le=100)
        """Maximum open connections."""
        hnsw: bool = False
        """Whether new collections get an HNSW index for searches without any filter, which become approximate."""

        @model_validator(mode="after")
        def _has_an_address(self) -> PgVectorStore.Settings:
            # A complaint about the field itself would show its value, and with it the password.
            if self.connection_string is None:
                raise ValueError("connection_string is required: name the server, or set DATABASE_URL")
            if not ADDRESS.match(self.connection_string.get_secret_value().strip()):
                raise ValueError("connection_string must begin with postgresql:// or postgres://")
            return self

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        assert settings.connection_string is not None, "the settings were checked"
        try:
            self._server = Server(
                settings.connection_string.get_secret_value(),
                settings.schema_name,
                size=settings.pool_size,
                timeout=settings.timeout,
            )
        except ValueError as error:
            field = "vector_store.config.connection_string"
            raise ConfigError(f"{field} {error}", field=field) from None
        self._schema = settings.schema_name
        self._hnsw = settings.hnsw
        self._registry = quoted(self._schema, _REGISTRY)
        self._store = quoted(self._schema, _STORE)
        self._making = lock_key(self._schema, "collections")
        self._scrubbing = lock_key(self._schema, "scrub of vectors")

    def _connect(self) -> None:
        self._prepare()
        with self._server.connection() as connection:
            if connection.execute("SHOW fsync").fetchone() == ("off",):
                logger.warning(
                    "the server of the vector store %s runs with fsync off: what it acknowledges does not survive "
                    "power loss",
                    self._server.name,
                )

    def _prepare(self) -> None:
        with self._server.translated():
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

    def _disconnect(self) -> None:
        try:
            with self._server.connection() as connection:
                due = connection.execute(f"SELECT scrub_due FROM {self._store}").fetchone() == (True,)
            if due:
                self._scrub()
        except ServerError as error:
            logger.info("the vector store %s", error.failure.message)
        finally:
            self._server.close()

    def _identity(self) -> str:
        with self._server.connection() as connection:
            row = connection.execute(f"SELECT identity FROM {self._store}").fetchone()
        if row is None:
            raise VectorStoreError(f"{self._server.name} has lost its identity: restore a copy of the database")
        identity: str = row[0]
        return identity

    def _failure(self, error: Exception) -> document_store.Failure | None:
        return error.failure if isinstance(error, ServerError) else None

    async def scrub(self) -> bool:
        return await self._read(self._scrub)

    def _scrub(self) -> bool:
        """Rewrite every table without deleted data (VACUUM FULL); False, with a note, if somebody is in the way."""
        tables = [Identifier(self._schema, table_name(name)) for name in self._names()]
        with self._server.translated(), self._server.sessions.connect() as connection:
            # The planner's samples of scope values, and of ids, are taken anew as well.
            done = rewrite(connection, self._scrubbing, tables, options="FULL, ANALYZE")
            connection.execute(f"UPDATE {self._store} SET scrub_due = %s WHERE scrub_due <> %s", [not done, not done])
        return done

    async def check(self, collection: str) -> Names:
        def read() -> Names:
            self._shape(collection)
            with self._on(collection) as table, self._server.connection() as connection:
                broken = connection.execute(_BROKEN_INDEXES, [table]).fetchall()
                # The text of a whole row makes the server read every byte of it, those kept aside (TOAST) as well.
                connection.execute(f"SELECT sum(length(t::text)) FROM {table} t")
            return [
                f"PostgreSQL finds the index {name} of {table} unfinished: rebuild it (REINDEX)" for (name,) in broken
            ]

        return await self._read_in(collection, read)

    def _table(self, collection: str) -> str:
        return quoted(self._schema, table_name(collection))

    @contextmanager
    def _alone(self) -> Iterator[Connection]:
        """Open a transaction in which nobody else creates or deletes tables."""
        with self._server.connection() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [self._making])
            yield connection

    def _find(self, name: str) -> Shape | None:
        query = f"SELECT dimension, model FROM {self._registry} WHERE name = %s AND to_regclass(%s) IS NOT NULL"
        with self._server.connection() as connection:
            row = connection.execute(query, [escape(name), self._table(name)]).fetchone()
        return None if row is None else Shape(row[0], unescape(row[1]))

    def _names(self) -> Names:
        with self._server.connection() as connection:
            return [unescape(name) for (name,) in connection.execute(f"SELECT name FROM {self._registry}")]

    def _make(self, name: str, shape: Shape) -> None:
        check_most_dimensions("pgvector", MOST_DIMENSIONS, shape.dimension)
        table = self._table(name)
        with self._alone() as connection:
            known = connection.execute(f"SELECT FROM {self._registry} WHERE name = %s", [escape(name)]).fetchone()
            there = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [table]).fetchone() == (True,)
            if there and known is not None:
                return
            if there:
                raise ConfigError(
                    f"{self._server.name} has a table {table} that is not perdure's: name another schema or collection",
                    field="collection",
                    value=name,
                )
            self._make_table(connection, table, shape.dimension)
            connection.execute(
                f"INSERT INTO {self._registry} (name, relation, dimension, model) VALUES (%s, %s, %s, %s)"
                " ON CONFLICT (name) DO UPDATE SET dimension = EXCLUDED.dimension, model = EXCLUDED.model",
                [escape(name), table_name(name), shape.dimension, escape(shape.model)],
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

    def _drop(self, name: str) -> None:
        with self._alone() as connection:
            gone = f"DELETE FROM {self._registry} WHERE name = %s RETURNING name"
            if connection.execute(gone, [escape(name)]).fetchone() is not None:
                connection.execute(f"DROP TABLE IF EXISTS {self._table(name)}")

    def _clear(self, name: str) -> None:
        try:
            with self._server.connection() as connection:
                connection.execute(f"TRUNCATE {self._table(name)}")
        except ServerError as error:
            if not error.is_missing_table:
                raise

    @contextmanager
    def _on(self, name: str) -> Iterator[str]:
        """Return a collection's table; MissingCollection if it does not exist."""
        try:
            yield self._table(name)
        except ServerError as error:
            if error.is_missing_table:
                raise document_store.MissingCollection from None
            raise

    def _write(self, name: str, documents: Sequence[Document], deletes: Sequence[str]) -> None:
        rows, gone = list(map(_columns, documents)), list(map(key_text, deletes))
        with self._on(name) as table, self._server.connection() as connection, connection.transaction():
            # One statement does not see what another transaction is about to commit: batches with an id in common take
            # turns, in one order for all, so that they neither pass each other nor wait in a circle.
            turns = sorted({lock_key(table, _share(id)) for id in (*gone, *(row[0] for row in rows))})
            connection.execute("SELECT pg_advisory_xact_lock(turn) FROM unnest(%s::bigint[]) AS turn", [turns])
            if gone:
                connection.execute(f"DELETE FROM {table} WHERE id = ANY(%s::text[])", [gone])
            for batch in bounded_batches(rows, lambda row: len(row[4]), most_size=_BATCH_TEXT, most_items=_BATCH):
                connection.execute(_PUT.format(table=table), [list(column) for column in zip(*batch, strict=True)])

    def _fetch(self, name: str, ids: Sequence[str], *, with_vectors: bool) -> list[Row]:
        return self._rows(name, "id = ANY(%s::text[])", [list(map(key_text, ids))], with_vectors=with_vectors)

    def _rows(self, name: str, where: LiteralString, values: Sequence[object], *, with_vectors: bool) -> list[Row]:
        with self._on(name) as table, self._server.connection() as connection:
            query = f"SELECT {_wanted(with_vectors)} FROM {table} WHERE {where}"
            return list(map(_row, connection.execute(query, values, binary=True)))

    def _nearest(self, name: str, query: Vector, limit: int, clause: Clause | None) -> list[tuple[Row, float]]:
        inside = clause or _EVERYTHING
        if self._hnsw and clause is None and limit <= _MOST_NEAR:
            found = self._near(name, query, limit)
            if len(found) == limit:
                return found
        with self._on(name) as table, self._server.connection() as connection:
            # Adding 0 keeps the planner from an index of vectors, which would lose rows of the scope.
            sql = (
                f"SELECT record, (vector <#> %s) + 0 AS distance FROM {table}"
                f" WHERE vector IS NOT NULL AND {inside.sql} ORDER BY distance LIMIT %s"
            )
            return list(map(_scored, connection.execute(sql, (PgVector(query), *inside.values, limit), binary=True)))

    def _near(self, name: str, query: Vector, limit: int) -> list[tuple[Row, float]]:
        """Return rows near the query in a whole collection by the vector index; none if there are few rows."""
        with self._on(name) as table, self._server.connection() as connection, connection.transaction():
            many = f"SELECT EXISTS (SELECT FROM {table} OFFSET %s)"
            if connection.execute(many, [self.few_rows]).fetchone() != (True,):
                return []
            breadth = "SELECT set_config('hnsw.ef_search', %s, true), set_config('hnsw.iterative_scan', %s, true)"
            connection.execute(breadth, [str(max(2 * limit, 200)), "strict_order"])
            sql = f"SELECT record, vector <#> %s FROM {table} WHERE vector IS NOT NULL ORDER BY vector <#> %s LIMIT %s"
            asked = PgVector(query)
            return list(map(_scored, connection.execute(sql, (asked, asked, limit), binary=True)))

    def _scan(self, name: str, clause: Clause | None, *, with_vectors: bool) -> Iterator[list[Row]]:
        inside = clause or _EVERYTHING
        with self._on(name) as table, self._server.connection() as connection, connection.cursor() as cursor:
            query = f"SELECT {_wanted(with_vectors)} FROM {table} WHERE {inside.sql}"
            found = cursor.stream(query, inside.values, binary=True, size=_CHUNK)
            # A reader who leaves early must not leave the connection in the middle of its answer.
            with closing(cast("Generator[tuple[Any, ...]]", found)) as rows:
                while page := list(map(_row, islice(rows, _PAGE))):
                    yield page

    def _count(self, name: str, clause: Clause | None) -> int:
        inside = clause or _EVERYTHING
        with self._on(name) as table, self._server.connection() as connection:
            row = connection.execute(f"SELECT count(*) FROM {table} WHERE {inside.sql}", inside.values).fetchone()
            return 0 if row is None else int(row[0])

    def _ordered(
        self, name: str, clause: Clause | None, after: Place | None, limit: int, *, with_vectors: bool
    ) -> list[Row]:
        inside = clause or _EVERYTHING
        if after is not None:
            inside = self.grammar.every([inside, Clause("(created_at, id) > (%s, %s)", tuple(map(key_text, after)))])
        where = f"{inside.sql} ORDER BY created_at, id LIMIT %s"
        return self._rows(name, where, (*inside.values, limit), with_vectors=with_vectors)

    def _ranked(self, name: str, asked: Sequence[str], limit: int, clause: Clause | None) -> list[tuple[Row, float]]:
        inside = clause or _EVERYTHING
        words = list(map(word_key, asked))
        with self._on(name) as table, self._server.connection() as connection:
            if clause is None:  # counting a whole table reads all of it; its size is known well enough
                total = Clause("(SELECT reltuples FROM pg_class WHERE oid = to_regclass(%s))", (table,))
            else:
                total = Clause(f"(SELECT count(*) FROM {table} WHERE {inside.sql})", inside.values)
            # Inside a scope, whose rows have an index, the one of words would read everybody's.
            having: LiteralString = "(words && %s::text[]) IS TRUE" if inside.scoped else "words && %s::text[]"
            sql = _RANKED.format(table=table, having=having, clause=inside.sql, total=total.sql)
            values = (words, *inside.values, words, *total.values, limit)
            return [(decode(record), score) for record, score in connection.execute(sql, values, binary=True)]


def _share(id: str) -> str:
    """Return one of 64 lock shares of ids: a large batch needs few locks, and single rows seldom wait."""
    return str(crc32(id.encode()) % 64)


def _columns(document: Document) -> tuple[Any, ...]:
    """Return a row's values in the order of `_PUT`."""
    return (
        key_text(document.id),
        None if document.vector is None else PgVector(document.vector),
        payload_json(document.record),
        key_text(document.created_at),
        document.record,
        " ".join(document.tokens),
        " ".join(map(word_key, document.stems)),
        _by_path(document.numbers),
        _by_path(document.moments),
    )


def _by_path(values: dict[str, float] | dict[str, int]) -> str:
    return to_json({escape(path): value for path, value in values.items()}) if values else "{}"


def _scored(found: tuple[Any, ...]) -> tuple[Row, float]:
    record, distance = found
    return decode(record), 0.0 - distance


def _wanted(with_vectors: bool) -> LiteralString:
    return "record, vector" if with_vectors else "record"


def _row(found: tuple[Any, ...]) -> Row:
    record, *vectors = found
    if not vectors or vectors[0] is None:
        return decode(record)
    return decode(record, np.asarray(vectors[0].to_numpy(), np.float32))
