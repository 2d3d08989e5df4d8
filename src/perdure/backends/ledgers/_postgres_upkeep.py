"""Looking after the ledger's tables in PostgreSQL: no samples, checking, measuring them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from perdure.backends.ledgers._postgres_errors import damaged
from perdure.backends.ledgers._tables import metadata

if TYPE_CHECKING:
    from sqlalchemy import Connection

_WORDS = {
    "memory_history": ("old_value", "new_value", "reason", "change"),
    "journal": ("change", "vector", "keep_vector"),
    "episodes": ("name", "content"),
    "idempotency": ("key", "value"),
    "responses": ("value",),
    "jobs": ("payload", "error"),
    "promotions": ("justification", "votes"),
    "audit": ("details",),
    "sessions": ("name", "state"),
    "response_links": ("session", "items"),
}
"""Columns with text of the user's own: the planner would keep samples of it, which no rewriting of tables reaches."""

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
