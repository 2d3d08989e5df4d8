"""Looking after the ledger's tables in PostgreSQL: rewriting, checking, measuring them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
from psycopg.sql import SQL, Identifier
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from perdure.backends.ledgers._postgres_errors import damaged
from perdure.backends.ledgers._tables import metadata

if TYPE_CHECKING:
    from sqlalchemy import Connection

_SCRUB_WAIT = 3.0
"""Seconds that a scrub waits for others before it is put off."""
_PAUSE = 0.05
"""Seconds between two looks whether somebody still reads an older state."""

_WORDS = {
    "memory_history": ("old_value", "new_value", "reason", "change"),
    "journal": ("change", "vector", "keep_vector"),
    "episodes": ("name", "content"),
    "idempotency": ("key", "value"),
    "responses": ("value",),
}
"""Columns with text of the user's own: the planner would keep samples of it, which no rewriting of tables reaches."""

_OLDER_READERS: LiteralString = """
SELECT EXISTS (
    SELECT 1 FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND (datname IS NULL OR datname = current_database())
      AND (age(backend_xmin) > age(%(now)s::xid) OR age(backend_xid) > age(%(now)s::xid))
    UNION ALL SELECT 1 FROM pg_prepared_xacts
    WHERE database = current_database() AND age(transaction) > age(%(now)s::xid)
    UNION ALL SELECT 1 FROM pg_replication_slots WHERE age(xmin) > age(%(now)s::xid)
)"""
"""Whether a transaction may still see rows that were deleted before number `now`; such rows are kept by VACUUM."""

_BROKEN_INDEXES = text("""
SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = current_schema() AND NOT (i.indisvalid AND i.indisready) ORDER BY 1
""")
_SIZE = text("""
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND c.relkind = 'r'
""")


def keep_no_samples(connection: Connection) -> None:
    """Let the planner collect no values of columns that hold the user's text."""
    for table, columns in _WORDS.items():
        changes = ", ".join(f"ALTER COLUMN {column} SET STATISTICS 0" for column in columns)
        connection.execute(text(f"ALTER TABLE {table} {changes}"))


def scrub(connection: psycopg.Connection[Any], key: int) -> bool:
    """Rewrite every table, with its indexes, without what was deleted; False if another process is in the way."""
    connection.autocommit = True
    if connection.execute("SELECT pg_try_advisory_lock(%s)", [key]).fetchone() != (True,):
        return False
    row = connection.execute("SELECT (pg_current_xact_id()::text::bigint % 4294967296)::text").fetchone()
    assert row is not None, "a SELECT without FROM has one row"
    if not _wait_for_older_readers(connection, row[0]):
        return False
    connection.execute("SET statement_timeout = 0")
    connection.execute(SQL("SET lock_timeout = {}").format(f"{int(_SCRUB_WAIT * 1000)}ms"))
    try:
        for table in metadata.tables:
            connection.execute(SQL("VACUUM (FULL) {}").format(Identifier(table)))
    except psycopg.errors.LockNotAvailable:
        return False
    return True


def _wait_for_older_readers(connection: psycopg.Connection[Any], now: str) -> bool:
    deadline = time.monotonic() + _SCRUB_WAIT
    while connection.execute(_OLDER_READERS, {"now": now}).fetchone() == (True,):
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE)
    return True


def check(connection: Connection) -> list[str]:
    """Indexes that are not whole, and tables of which some row cannot be read; not inside of a transaction."""
    sentences = [
        f"PostgreSQL finds the index {name} of the ledger unfinished: rebuild it (REINDEX)"
        for name in connection.execute(_BROKEN_INDEXES).scalars()
    ]
    for table in metadata.tables:
        try:
            # The text of a whole row makes the server read every byte of it, those kept aside (TOAST) as well.
            connection.execute(text(f"SELECT sum(length(t::text)) FROM {table} t"))  # noqa: S608 - a name of our own
        except DBAPIError as error:
            if not damaged(error.orig):
                raise
            sentences.append(f"PostgreSQL finds the ledger's table {table} damaged: restore a copy of the database")
    return sentences


def size(connection: Connection) -> int:
    """Bytes of the tables, with indexes and what is kept aside."""
    found: int = connection.execute(_SIZE).scalar_one()
    return found
