"""Looking after the ledger's tables in PostgreSQL: no samples, checking, measuring them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from perdure.backends.ledgers.sql.tables import metadata
from perdure.backends.shared.postgres_service import NO_ROOM, is_away, why_away
from perdure.domain.errors import InvalidInputError, LedgerError, PerdureError

if TYPE_CHECKING:
    from sqlalchemy import Connection

# What goes wrong with a PostgreSQL server, by what can be done about it; never in words that quote what is stored.

_UNCHANGED = "nothing was changed in it"
_BY_STATE = {
    "25006": "may only be read here: name the primary server (target_session_attrs=read-write finds it)",
    "42501": "refuses what the user of its address may not do: it must own the schema, or be allowed to make it",
    "42P01": "has lost tables while it was open: open it again",
    "3F000": "has lost its schema while it was open: open it again",
    "53100": f"cannot grow: the server's disk is full; {_UNCHANGED}",
    "53200": f"failed: the server is out of memory; {_UNCHANGED}",
    "53300": NO_ROOM,
    "57014": f"took longer than statement_timeout; {_UNCHANGED}",
    "25P03": f"gave up a transaction in which this process had stood still; {_UNCHANGED}",
    "58030": f"failed: the server cannot read or write its files; {_UNCHANGED}",
}
_LOCKED = ("55P03", "40P01", "40001")
_DAMAGED = ("XX001", "XX002")
_TOO_LONG = "54000"


def in_our_words(error: psycopg.Error, name: str, lock_timeout: float) -> PerdureError:
    """The error of a ledger with this name."""
    state = error.sqlstate
    if state in _LOCKED:
        return locked(name, lock_timeout)
    if state == _TOO_LONG:
        return InvalidInputError(
            f"an id, a key or a scope is longer than the ledger {name} can index (some 2,700 bytes); {_UNCHANGED}"
        )
    if state in _BY_STATE:
        return LedgerError(f"the ledger {name} {_BY_STATE[state]}")
    if state in _DAMAGED:
        return LedgerError(f"the ledger {name} is damaged ({type(error).__name__}): restore a copy of the database")
    if is_away(error):
        return LedgerError(f"the ledger {name} {why_away(error)}")
    return LedgerError(f"the ledger {name} failed: {type(error).__name__} ({state}); {_UNCHANGED}")


def locked(name: str, lock_timeout: float) -> LedgerError:
    """The error of one who waited too long."""
    return LedgerError(f"the ledger {name} was locked by another writer for more than {lock_timeout:g} s; {_UNCHANGED}")


def damaged(error: BaseException | None) -> bool:
    """Whether the server found bytes on its disk that it had not written."""
    return getattr(error, "sqlstate", None) in _DAMAGED


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
