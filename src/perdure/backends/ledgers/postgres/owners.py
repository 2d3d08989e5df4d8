"""Who is alive, on all machines: an owner holds an advisory lock on a connection of its own.

The server lets go of it when the connection ends, whatever ends it: a process killed, a machine gone, a restart of the
server. Until then nobody's clock counts.
"""

from __future__ import annotations

import contextlib
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlalchemy import text

from perdure.backends.ledgers.sql.owners import OwnerLostError, Owners
from perdure.backends.shared.postgres_service import lock_key

if TYPE_CHECKING:
    import psycopg
    from sqlalchemy import Connection

    from perdure.backends.shared.postgres_service import Sessions

_HELD = (
    "EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND classid::bigint = :high AND objid::bigint = :low"
)
_ALIVE = text(f"SELECT {_HELD})")
_HELD_BY = text(f"SELECT {_HELD} AND pid = :pid)")
_STAY = text("SELECT pg_advisory_xact_lock_shared(:key)")

_LEFT_TO_THE_PARENT: list[psycopg.Connection[Any]] = []
"""Connections that a forked process must neither use nor close."""


@dataclass(frozen=True, slots=True)
class _Claim:
    owner: str
    connection: psycopg.Connection[Any]
    pid: int
    """Of the server's process that holds the lock."""
    let_go: weakref.finalize[[], PostgresOwners]


class PostgresOwners(Owners):
    """Owners of one schema; each has a connection beside the pool."""

    def __init__(self, sessions: Sessions, schema: str) -> None:
        self._sessions = sessions
        self._schema = schema
        self._claim: _Claim | None = None

    def claim(self) -> str:
        """Connect, and take a fresh owner's lock; an earlier claim, which was lost, is forgotten."""
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
        """Unlock, and close the connection: the server would notice that alone a little later."""
        import psycopg

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
        """Whether the connection is open, as far as this side knows."""
        return self._claim is None or not self._claim.connection.closed

    def alive(self, owner: str, connection: Connection | None = None) -> bool:
        """Whether the owner's connection, or a transaction of it that is not over yet, holds its lock."""
        assert connection is not None, "only the database knows"
        return bool(connection.execute(_ALIVE, self._halves(owner)).scalar_one())

    def vouch(self, owner: str, connection: Connection) -> None:
        """Hold the owner's lock in this transaction too, and make sure that its connection holds it.

        So nobody can take the owner for dead between here and the end of the transaction.
        """
        claim = self._claim
        if claim is not None and claim.owner == owner:
            connection.execute(_STAY, {"key": self._key(owner)})
            if connection.execute(_HELD_BY, {**self._halves(owner), "pid": claim.pid}).scalar_one():
                return
        raise OwnerLostError(f"the connection that held the locks in the ledger {self._sessions.name} was lost")

    def sweep(self) -> None:
        """The dead leave nothing."""

    def _key(self, owner: str) -> int:
        return lock_key(self._schema, "owner", owner)

    def _halves(self, owner: str) -> dict[str, int]:
        """The key as `pg_locks` shows it (PostgreSQL, "pg_locks": the high half in classid, the low one in objid)."""
        high, low = divmod(self._key(owner) % 2**64, 2**32)
        return {"high": high, "low": low}
