"""The ledger in a PostgreSQL database, for replicas on several machines.

After a scrub, erased text is gone from tables, indexes and the planner's samples. Out of reach are the server's
write-ahead log until it is recycled, archives, backups, replicas, a query log, and free disk blocks; their retention is
the operator's.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from perdure.backends.http.service import secret_from
from perdure.backends.ledgers.sql.ledger import Shared, SqlLedger
from perdure.backends.ledgers.sql.transactions import Database
from perdure.backends.ledgers.sql.units import ConnectionLostError
from perdure.backends.registry import missing_driver
from perdure.domain.clock import Clock, system_clock
from perdure.domain.errors import ConfigError, LedgerError, LedgerLockedError, PerdureError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

logger = logging.getLogger("perdure")
_ADDRESS = re.compile(r"postgres(?:ql)?(?:\+\w+)?://")


class PostgresLedger(SqlLedger):
    """A ledger in one schema of a PostgreSQL database (14 or newer), for any number of processes and machines.

    Each open ledger holds one connection outside of the pool, to which its locks are bound. A pooler in between must
    keep sessions (PgBouncer: `pool_mode = session`).
    """

    name: ClassVar[str] = "postgres"
    scrub_note: ClassVar[str] = (
        "the server's write-ahead log, archives, backups and replicas keep it for their own time"
    )

    class Settings(BaseModel):
        """The database, and how long its writers wait."""

        model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, use_attribute_docstrings=True)

        url: SecretStr | None = Field(default_factory=partial(secret_from, "DATABASE_URL"))
        """`postgresql://user:password@host:5432/database`, with libpq's parameters; by default DATABASE_URL."""
        schema_name: str = Field(default="perdure", pattern=r"^[a-z_][a-z0-9_]{0,62}$")
        """The schema of the ledger's tables, created if it is missing; one schema is one ledger."""
        pool_size: int = Field(default=8, ge=1, le=100)
        """Maximum open connections, not counting the one that holds the locks."""
        connect_timeout: float = Field(default=10.0, ge=2, le=3600)
        """Seconds to wait for a connection."""
        lock_timeout: float = Field(default=10.0, gt=0, le=3600)
        """Seconds to wait for another writer before the call fails."""
        statement_timeout: float = Field(default=60.0, gt=0, le=86_400)
        """Seconds that one statement may take."""

        @model_validator(mode="after")
        def _has_an_address(self) -> PostgresLedger.Settings:
            # A complaint about the field itself would show its value, and with it the password.
            if self.url is None:
                raise ValueError("url is required: name the server, or set DATABASE_URL")
            if not _ADDRESS.match(self.url.get_secret_value().strip()):
                raise ValueError("url must begin with postgresql:// or postgres://")
            return self

    def __init__(self, settings: Settings | None = None, clock: Clock = system_clock) -> None:
        super().__init__(PostgresDatabase(settings or self.Settings()), clock)


_TURNSTILES = Shared(threading.Lock)
"""Lets the writers of one process take turns, so that they do not take up the pool's connections with waiting."""


class PostgresDatabase(Database):
    """One schema, with a small connection pool. Writers take turns by an advisory lock."""

    def __init__(self, settings: PostgresLedger.Settings) -> None:
        try:
            from perdure.backends.ledgers.postgres.driver import PostgresOwners, hold_any_text
            from perdure.backends.shared.postgres_service import Sessions, lock_key
        except ImportError as error:
            raise missing_driver("postgres", error) from error
        assert settings.url is not None, "the settings were checked"
        try:
            self._sessions = Sessions(
                settings.url.get_secret_value(),
                settings.schema_name,
                connect_timeout=settings.connect_timeout,
                settings={
                    "lock_timeout": f"{int(settings.lock_timeout * 1000)}ms",
                    "statement_timeout": f"{int(settings.statement_timeout * 1000)}ms",
                },
                set_up=hold_any_text,
            )
        except ValueError as error:
            raise ConfigError(f"history.config.url {error}", field="history.config.url") from None
        self._settings = settings
        self._timeout = settings.lock_timeout
        self._engine: Engine | None = None
        self._turnstile = _TURNSTILES.of(self.identity)
        self._writers = lock_key(settings.schema_name, "writers")
        self._scrubbers = lock_key(settings.schema_name, "scrub")
        self.owners = PostgresOwners(self._sessions, settings.schema_name)

    @property
    def identity(self) -> str:
        """Return host, port, database and schema; two spellings of a host are two identities."""
        return self._sessions.name

    def open(self) -> None:
        from sqlalchemy import create_engine
        from sqlalchemy.pool import QueuePool

        with self._translated():
            try:
                self._sessions.make_schema(self._writers)
            except ValueError as error:
                raise LedgerError(f"the server of the ledger {self.identity} {error}") from None
            self._engine = create_engine(
                "postgresql+psycopg://",
                creator=self._sessions.connect,
                poolclass=QueuePool,
                pool_size=self._settings.pool_size,
                max_overflow=0,
                pool_timeout=self._timeout,
                # A connection that a restart of the server has ended is replaced before it is used.
                pool_pre_ping=True,
                pool_use_lifo=True,
                # Whatever the server's default is: one who waited for the turn must see what was written meanwhile.
                isolation_level="READ COMMITTED",
                hide_parameters=True,
                use_native_hstore=False,
            )
        with self.reading() as connection:
            if connection.exec_driver_sql("SHOW fsync").scalar_one() == "off":
                logger.warning(
                    "the server of the ledger %s runs with fsync off: what it acknowledges does not survive power loss",
                    self.identity,
                )

    def prepare(self, connection: Connection) -> None:
        from perdure.backends.ledgers.postgres import driver

        driver.keep_no_samples(connection)

    def close(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    def forsake(self) -> None:
        """Leave the pool to the parent process; closing its connections here would end them there."""
        engine, self._engine = self._engine, None
        if engine is not None:
            _LEFT_TO_THE_PARENT.append(engine)
        self._turnstile = _TURNSTILES.of(self.identity)
        self.owners.abandon()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        engine = self._opened().execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with self._translated(), engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, *, durable: bool) -> Iterator[Connection]:
        """Open a transaction of the schema's only writer, in READ COMMITTED: it sees all earlier writes.

        A durable one commits with the server's settings, at least with its own log flushed; others do not wait for
        that. With one writer at a time, numbers become visible in order, and nothing deadlocks.
        """
        from sqlalchemy import text

        engine = self._opened()
        if not self._turnstile.acquire(timeout=self._timeout):
            raise self._locked()
        try:
            with self._translated(), engine.connect() as connection:
                begin = (
                    "SELECT set_config('synchronous_commit', CASE WHEN :durable THEN CASE current_setting("
                    "'synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END"
                    " ELSE 'off' END, true), pg_advisory_xact_lock(:key)"
                )
                connection.execute(text(begin), {"durable": durable, "key": self._writers})
                yield connection
                self._commit(connection)
        finally:
            self._turnstile.release()

    def _commit(self, connection: Connection) -> None:
        from sqlalchemy.exc import DBAPIError

        try:
            connection.commit()
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            raise ConnectionLostError(
                f"the connection to the ledger {self.identity} was lost while a change was being committed: it was "
                "made whole, or not at all"
            ) from None

    def _opened(self) -> Engine:
        if self._engine is None:
            raise LedgerError(f"the ledger {self.identity} is not open")
        return self._engine

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Map the driver's errors without their chain: their details may quote stored text."""
        from psycopg import Error
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (Error, SQLAlchemyError) as error:
            raise self._meaning(error) from None

    def translate(self, error: Exception) -> PerdureError | None:
        from psycopg import Error
        from sqlalchemy.exc import SQLAlchemyError

        return self._meaning(error) if isinstance(error, (Error, SQLAlchemyError)) else None

    def _meaning(self, error: Exception) -> PerdureError:
        import psycopg
        from sqlalchemy.exc import DBAPIError
        from sqlalchemy.exc import TimeoutError as PoolTimeout

        from perdure.backends.ledgers.postgres.driver import in_our_words

        if isinstance(error, PoolTimeout):
            return self._locked()
        cause = error.orig if isinstance(error, DBAPIError) else error
        if not isinstance(cause, psycopg.Error):
            return LedgerError(f"the ledger {self.identity} cannot be used: {type(cause).__name__}")
        known = in_our_words(cause, self.identity, self._timeout)
        if isinstance(error, DBAPIError) and error.connection_invalidated:
            return ConnectionLostError(str(known))
        return known

    def _locked(self) -> LedgerLockedError:
        from perdure.backends.ledgers.postgres.driver import locked

        return locked(self.identity, self._timeout)

    def scrub(self) -> bool:
        """Rewrite the tables (VACUUM FULL) once nobody reads an older state; the server's log is out of reach."""
        from psycopg.sql import Identifier

        from perdure.backends.ledgers.sql.tables import metadata
        from perdure.backends.shared.postgres_service import rewrite

        self._opened()
        with self._translated(), self._sessions.connect() as connection:
            return rewrite(connection, self._scrubbers, map(Identifier, metadata.tables), options="FULL")

    def check(self) -> list[str]:
        from perdure.backends.ledgers.postgres import driver

        engine = self._opened().execution_options(isolation_level="AUTOCOMMIT")
        with self._translated(), engine.connect() as connection:
            return driver.check(connection)

    def size(self) -> int:
        from perdure.backends.ledgers.postgres import driver

        with self.reading() as connection:
            return driver.size(connection)


_LEFT_TO_THE_PARENT: list[Engine] = []  # pools that a forked process must neither use nor close
