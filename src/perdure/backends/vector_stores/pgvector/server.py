"""Connections to the store's PostgreSQL server: a pool, and the error mapping.

The pool connects in the calling thread, so that a refusal is reported at once, and nothing runs in the background that
a forked process would lack.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString, TypeAlias

import psycopg
from pgvector.psycopg import register_vector
from psycopg.rows import TupleRow
from psycopg.sql import SQL, Identifier
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import QueuePool

from perdure.backends.shared.postgres_service import NO_ROOM, Sessions, is_away, refusal, why_away
from perdure.backends.vector_stores.common.document_store import Failure

Connection: TypeAlias = psycopg.Connection[TupleRow]
_UNCHANGED = "nothing was changed"
_BY_STATE = {
    "25006": "may only be read here: name the primary server (target_session_attrs=read-write finds it)",
    "42501": "refuses what the user of its address may not do: it must be allowed to make tables in the schema",
    "3F000": "has lost its schema while it was open: open it again",
    "42P01": "has lost its tables while it was open: open it again",
    "53100": f"cannot grow: the server's disk is full; {_UNCHANGED}",
    "53200": f"failed: the server is out of memory; {_UNCHANGED}",
    "53300": NO_ROOM,
    "54000": f"cannot index what is that long; {_UNCHANGED}",
    "58030": f"failed: the server cannot read or write its files; {_UNCHANGED}",
    "XX001": "is damaged: restore a copy of the database",
    "XX002": "is damaged: restore a copy of the database",
}
_PASSING = {"40001", "40P01", "53300", "25P03"}  # failed for what others did at the same time
_TIMED_OUT = ("57014", "55P03")
_NO_TABLE = "42P01"
_DURABLE: LiteralString = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)
_HOME: LiteralString = (
    "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
)


class ServerError(Exception):
    """A server failure without the driver's words, which may quote stored data."""

    def __init__(self, failure: Failure, state: str | None = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.is_missing_table = state == _NO_TABLE


class Server:
    """The pool of one store; connections are in autocommit."""

    def __init__(self, url: str, schema: str, *, size: int, timeout: float) -> None:
        """ValueError, which does not show it, for an unreadable address."""
        self._timeout = timeout
        self._size = size
        self.sessions = Sessions(
            url,
            schema,
            connect_timeout=max(2.0, min(timeout, 10.0)),
            settings={
                "statement_timeout": f"{int(timeout * 1000)}ms",
                "lock_timeout": f"{int(timeout * 1000)}ms",
                # The best plan differs from scope to scope: one user has ten memories, another a million.
                "plan_cache_mode": "force_custom_plan",
            },
            set_up=_set_up,
        )
        self._guard = threading.Lock()
        self._pool: QueuePool | None = None
        self._process = 0

    @property
    def name(self) -> str:
        """Return host, port, database and schema, without user and password."""
        return self.sessions.name

    def close(self) -> None:
        """Close unused connections; the others follow when they are returned."""
        with self._guard:
            pool, self._pool = self._pool, None
        if pool is not None and self._process == os.getpid():
            pool.dispose()

    def _of_this_process(self) -> QueuePool:
        with self._guard:
            if self._pool is not None and self._process != os.getpid():
                _LEFT_TO_THE_PARENT.append(self._pool)
                self._pool = None
            if self._pool is None:
                self._process = os.getpid()
                self._pool = QueuePool(
                    self._open, pool_size=self._size, max_overflow=0, timeout=self._timeout, use_lifo=True
                )
            return self._pool

    def _open(self) -> Any:
        connection = self.sessions.connect()
        connection.autocommit = True
        return connection

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Open a connection for one call; failures are ServerError."""
        with self.translated():
            pool = self._of_this_process()
            held = pool.connect()
            while _has_ended(connection := _driver(held)):
                held.invalidate()
                held.close()
                held = pool.connect()
            try:
                yield connection
            finally:
                if connection.closed:
                    held.invalidate()
                held.close()

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise ServerError for the driver's errors, without their chain: their details may quote stored data."""
        try:
            yield
        except psycopg.Error as error:
            raise ServerError(self._meaning(error), error.sqlstate) from None
        except PoolTimeout:
            busy = f"had all of its {self._size} connections in use for {self._timeout:g} s (pool_size)"
            raise ServerError(Failure(f"{self.name} {busy}")) from None

    def _meaning(self, error: psycopg.Error) -> Failure:
        state = error.sqlstate or ""
        if state in _TIMED_OUT:
            return Failure(f"{self.name} took longer than the timeout of {self._timeout:g} s; {_UNCHANGED}")
        if state in _PASSING:
            words = _BY_STATE.get(state, f"was in the way of others ({type(error).__name__}); {_UNCHANGED}")
            return Failure(f"{self.name} {words}", passing=True)
        if state in _BY_STATE:
            return Failure(f"{self.name} {_BY_STATE[state]}")
        if is_away(error):
            return Failure(f"{self.name} {why_away(error)}", passing=refusal(error) is None)
        return Failure(f"{self.name} failed: {type(error).__name__} ({state}); {_UNCHANGED}")


def _driver(held: Any) -> Connection:
    connection: Connection = held.driver_connection
    return connection


def _has_ended(connection: Connection) -> bool:
    """Whether the server ended an unused connection; sends nothing."""
    try:
        for _ in range(2):  # its last words, then the end of the line
            connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return True
    return connection.closed


def _set_up(connection: psycopg.Connection[Any]) -> None:
    """Set durable commits and the vector type, wherever the extension is."""
    connection.execute(_DURABLE)
    home = connection.execute(_HOME).fetchone()
    if home is not None:
        path = SQL("SELECT set_config('search_path', current_setting('search_path') || ', ' || quote_ident(%s), false)")
        connection.execute(path, home)
        register_vector(connection)


def quoted(*names: str) -> str:
    return Identifier(*names).as_string()


_LEFT_TO_THE_PARENT: list[QueuePool] = []  # pools that a forked process must neither use nor close
