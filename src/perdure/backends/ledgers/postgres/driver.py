"""Driver-specific parts for PostgreSQL: text, owners, failures, table maintenance."""

from __future__ import annotations

import contextlib
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
from psycopg.types.string import StrDumperUnknown, TextLoader
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from perdure.backends.ledgers.sql.tables import metadata
from perdure.backends.ledgers.sql.transactions import OwnerLostError, Owners
from perdure.backends.ledgers.sql.units import Ask
from perdure.backends.shared.postgres_service import NO_ROOM, is_away, lock_key, why_away
from perdure.domain.errors import InvalidInputError, LedgerError, LedgerLockedError, PerdureError

if TYPE_CHECKING:
    from psycopg.abc import Buffer
    from sqlalchemy import Connection

    from perdure.backends.shared.postgres_service import Sessions

# Text as PostgreSQL can hold it: all of Unicode but U+0000, for which a pair of characters stands.

_MARK = "\x1a"
"""U+001A, named SUBSTITUTE: what stands in for a character that cannot be represented. Followed by a digit here."""


def escape(plain: str) -> str:
    """Return text without NUL, different for different texts."""
    return plain.replace(_MARK, f"{_MARK}1").replace("\x00", f"{_MARK}0")


def unescape(escaped: str) -> str:
    return escaped.replace(f"{_MARK}0", "\x00").replace(f"{_MARK}1", _MARK)


class _Dumper(StrDumperUnknown):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(escape(obj))


class _Loader(TextLoader):
    def load(self, data: Buffer) -> bytes | str:
        found = super().load(data)
        return unescape(found) if isinstance(found, str) else found


def hold_any_text(connection: psycopg.Connection[Any]) -> None:
    """Let any text pass through this connection in both directions."""
    connection.adapters.register_dumper(str, _Dumper)
    connection.adapters.register_loader("text", _Loader)


# Who is alive, on all machines: an owner holds an advisory lock on a connection of its own.
#
# The server lets go of it when the connection ends, whatever ends it: a process killed, a machine gone, a restart of
# the server. Until then nobody's clock counts.

_HELD = (
    "EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND classid::bigint = :high AND objid::bigint = :low"
)
_ALIVE = text(f"SELECT {_HELD})")
_HELD_BY = text(f"SELECT {_HELD} AND pid = :pid)")
_STAY = text("SELECT pg_advisory_xact_lock_shared(:key)")
_LEFT_TO_THE_PARENT: list[psycopg.Connection[Any]] = []  # connections that a forked process must neither use nor close


@dataclass(frozen=True, slots=True)
class _Claim:
    owner: str
    connection: psycopg.Connection[Any]
    pid: int  # of the server's process that holds the lock
    let_go: weakref.finalize[[], PostgresOwners]


class PostgresOwners(Owners):
    """Owners in one schema; each has a connection outside of the pool."""

    def __init__(self, sessions: Sessions, schema: str) -> None:
        self._sessions = sessions
        self._schema = schema
        self._claim: _Claim | None = None

    def claim(self) -> str:
        """Connect and lock a new owner id; an earlier, lost claim is dropped."""
        self._let_go()
        connection = self._sessions.connect()
        try:
            connection.autocommit = True
            owner = str(uuid4())
            # Shared, so that each transaction of the owner can hold it as well (`vouch`).
            query = "SELECT pg_advisory_lock_shared(%s), pg_backend_pid()"
            row = connection.execute(query, [self._key(owner)]).fetchone()
            assert row is not None, "a SELECT without FROM has one row"
        except BaseException:
            connection.close()
            raise
        self._claim = _Claim(owner, connection, row[1], weakref.finalize(self, connection.close))
        return owner

    def release(self) -> None:
        """Unlock and close the connection, which the server would notice later by itself."""
        if self._claim is not None:
            with contextlib.suppress(psycopg.Error):
                self._claim.connection.execute("SELECT pg_advisory_unlock_all()")
        self._let_go()

    def _let_go(self) -> None:
        claim, self._claim = self._claim, None
        if claim is not None:
            claim.let_go()

    def abandon(self) -> None:
        """Leave the connection to the parent process; closing it here would end it there."""
        claim, self._claim = self._claim, None
        if claim is not None:
            claim.let_go.detach()
            _LEFT_TO_THE_PARENT.append(claim.connection)

    def intact(self) -> bool:
        return self._claim is None or not self._claim.connection.closed

    def alive(self, owner: str, connection: Connection | Ask | None = None) -> bool:
        """Whether the owner's connection, or an unfinished transaction of it, holds its lock."""
        assert connection is not None, "only the database knows"
        return bool(_beneath(connection).execute(_ALIVE, self._halves(owner)).scalar_one())

    def vouch(self, owner: str, connection: Connection | Ask) -> None:
        """Hold the owner's lock in this transaction too, so that nobody takes the owner for dead before its end."""
        claim = self._claim
        if claim is not None and claim.owner == owner:
            beneath = _beneath(connection)
            beneath.execute(_STAY, {"key": self._key(owner)})
            if beneath.execute(_HELD_BY, {**self._halves(owner), "pid": claim.pid}).scalar_one():
                return
        raise OwnerLostError(f"the connection that held the locks in the ledger {self._sessions.name} was lost")

    def sweep(self) -> None:
        """The dead leave nothing."""

    def _key(self, owner: str) -> int:
        return lock_key(self._schema, "owner", owner)

    def _halves(self, owner: str) -> dict[str, int]:
        """Return the key as in `pg_locks` (PostgreSQL, "pg_locks": the high half in classid, the low one in objid)."""
        high, low = divmod(self._key(owner) % 2**64, 2**32)
        return {"high": high, "low": low}


def _beneath(connection: Connection | Ask) -> Connection:
    """Return SQLAlchemy's connection of a transaction."""
    if not isinstance(connection, Ask):
        return connection
    assert connection.beneath is not None, "only a file is asked without SQLAlchemy"
    return connection.beneath


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


def locked(name: str, lock_timeout: float) -> LedgerLockedError:
    return LedgerLockedError(
        f"the ledger {name} was locked by another writer for more than {lock_timeout:g} s; {_UNCHANGED}"
    )


def damaged(error: BaseException | None) -> bool:
    """Whether the server found corrupted bytes on its disk."""
    return getattr(error, "sqlstate", None) in _DAMAGED


_WORDS = {
    "memory_history": ("old_value", "new_value", "reason", "change"),
    "journal": ("change", "vector", "keep_vector"),
    "episodes": ("name", "content", "brought"),
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
    """Keep the planner from sampling columns with the user's text."""
    for table, columns in _WORDS.items():
        changes = ", ".join(f"ALTER COLUMN {column} SET STATISTICS 0" for column in columns)
        connection.execute(text(f"ALTER TABLE {table} {changes}"))


def check(connection: Connection) -> list[str]:
    """Return invalid indexes, and tables with unreadable rows; not inside a transaction."""
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
    """Return the bytes of the tables with indexes and TOAST."""
    found: int = connection.execute(_SIZE).scalar_one()
    return found
