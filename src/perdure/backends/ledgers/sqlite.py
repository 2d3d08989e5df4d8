"""The ledger in a SQLite file."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from uuid import UUID, uuid4

from pydantic import BaseModel, ConfigDict, Field, field_validator

from perdure.backends.file_lock import try_lock
from perdure.backends.ledgers.sql.ledger import Shared, SqlLedger
from perdure.backends.ledgers.sql.transactions import Database, Owners
from perdure.backends.ledgers.sql.units import HEAD, SETTINGS_PREFIX, Ask
from perdure.backends.sqlite_file import (
    FORK_GATE,
    connect,
    is_busy,
    make_private_file,
    may_be_written,
    read_only,
    same_file,
    save_writes,
    vacuum,
)
from perdure.domain.clock import Clock, system_clock
from perdure.domain.errors import LedgerError, LedgerLockedError, PerdureError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

_CACHE_KB = 8 * 1024  # kilobytes of pages that a connection may hold: a larger bulk write writes pages more than once
_SCRUB_WAIT = 1.0  # seconds that a scrub waits for other processes before it is put off


class SqliteLedger(SqlLedger):
    """A ledger in one file, for any number of tasks, threads and processes of one machine."""

    name: ClassVar[str] = "sqlite"

    class Settings(BaseModel):
        """The file's path, and how long its writers wait."""

        # Descriptions, and no docstrings of fields: for those pydantic parses this file whenever it is imported.
        model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

        path: Path = Field(
            default=Path("~/.memory/history.db"),
            description="The file; it and its folder are created if missing, readable by their owner alone.",
        )
        busy_timeout: float = Field(
            default=10.0, gt=0, le=3600, description="Seconds to wait for another writer before the call fails."
        )

        @field_validator("path")
        @classmethod
        def _is_a_file(cls, path: Path) -> Path:
            if path.name in ("", ":memory:"):
                raise ValueError("the ledger needs a file: it is shared between processes")
            try:
                return path.expanduser()
            except RuntimeError as error:
                raise ValueError(f"no home folder is known for {path}: name the file in full") from error

    def __init__(self, settings: Settings | None = None, clock: Clock = system_clock) -> None:
        settings = settings or self.Settings()
        super().__init__(SqliteDatabase(settings.path, settings.busy_timeout), clock)

    def holds_settings(self, path: Path, name: str) -> bool:
        with FORK_GATE, suppress(sqlite3.Error, OSError):
            if path.is_file():
                with contextlib.closing(connect(path.absolute(), 1.0, 0, read_only=True)) as connection:
                    found = connection.execute("SELECT 1 FROM marks WHERE name = ?", (SETTINGS_PREFIX + name,))
                    return found.fetchone() is not None
        return False


_LEFT_TO_THE_PARENT: list[sqlite3.Connection | None] = []
"""Connections that a forked process must neither use nor close."""
_TURNSTILES = Shared(threading.Lock)
"""Lets the writers of one file in one process take turns: SQLite would have them sleep and try again."""


class SqliteDatabase(Database):
    """One SQLite file in WAL mode, with a small connection pool."""

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self._path = Path(os.path.realpath(path))
        self._timeout = busy_timeout
        self._engine: Engine | None = None
        self._making = threading.Lock()
        self._file: os.stat_result | None = None  # the file as it was opened; None while it is not open
        self._plain: sqlite3.Connection | None = None
        """A connection for plain SQL that reads, and one that writes; each has a lock."""
        self._asking = threading.Lock()
        self._plain_writer: sqlite3.Connection | None = None
        self._turnstile = _TURNSTILES.of(self.identity)
        self._watch: sqlite3.Connection | None = None
        self._watches = 0  # how many connections watched: what two of them count cannot be compared
        self._watching = threading.Lock()
        self.owners = FileOwners(self._path.with_name(f"{self._path.name}.owners"))

    @property
    def path(self) -> Path:
        """Return the file."""
        return self._path

    @property
    def identity(self) -> str:
        return f"sqlite:{self._path}"

    def open(self) -> None:
        make_private_file(self._path)
        FORK_GATE.add(self)
        self.read_only = not may_be_written(self._path)
        if not self.read_only:
            with FORK_GATE:
                self._use_wal()
        self._file = self._path.stat()

    def close(self) -> None:
        with FORK_GATE:
            with self._making:
                engine, self._engine, self._file = self._engine, None, None
            for kind, lock in (
                ("_watch", self._watching),
                ("_plain", self._asking),
                ("_plain_writer", self._turnstile),
            ):
                with lock:
                    self._close_plain(kind)
            if engine is not None:
                engine.dispose()
            FORK_GATE.remove(self)

    def disconnect(self) -> None:
        """Close every connection, of which none is in use; the next use opens another."""
        for kind in ("_watch", "_plain", "_plain_writer"):
            self._close_plain(kind)
        if self._engine is not None:
            self._engine.dispose()

    def _close_plain(self, kind: str) -> None:
        connection: sqlite3.Connection | None = getattr(self, kind)
        if connection is not None:
            setattr(self, kind, None)
            connection.close()

    def forsake(self) -> None:
        """Drop the pool: SQLite forbids using connections after a fork, even closing them."""
        engine, self._engine, self._file = self._engine, None, None
        if engine is not None:
            engine.dispose(close=False)
        _LEFT_TO_THE_PARENT.extend((self._watch, self._plain, self._plain_writer))
        self._plain_writer = None
        self._watch, self._watching = None, threading.Lock()
        self._plain, self._asking = None, threading.Lock()
        self._making = threading.Lock()
        self._turnstile = _TURNSTILES.of(self.identity)
        self.owners.abandon()

    def _connect(self) -> sqlite3.Connection:
        connection = connect(self._path, self._timeout, 256, read_only=self.read_only)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")
        if not self.read_only:
            save_writes(connection)
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
        return connection

    def _use_wal(self) -> None:
        """Switch to WAL mode, which stays with the file; SQLite does not wait for others here."""
        deadline = time.monotonic() + self._timeout
        connection = self._connect()
        try:
            while True:
                try:
                    connection.execute("PRAGMA journal_mode = WAL")
                    return
                except sqlite3.OperationalError as error:
                    if not is_busy(error) or time.monotonic() > deadline:
                        raise
                    time.sleep(0.005)
        finally:
            connection.close()

    def version(self) -> int | None:
        """Return SQLite's count of others' commits, from a connection that never writes (`PRAGMA data_version`)."""
        with FORK_GATE, self._watching, suppress(sqlite3.Error, OSError):
            if self._file is None or not same_file(self._path, self._file):
                return None
            if self._watch is None:
                self._watch = self._connect()
                self._watches += 1
            return (self._watches << 32) + int(self._watch.execute("PRAGMA data_version").fetchone()[0])
        return None

    def check_place(self) -> None:
        if self._file is not None:
            self._make_sure()

    @contextmanager
    def asking(self) -> Iterator[Ask]:
        with FORK_GATE, self._asking:
            if self._file is None:
                raise self._not_open()
            if self._plain is None:
                self._plain = self._connect()
            connection = self._plain
            connection.execute("BEGIN")
            try:
                yield _asking_on(connection)
            finally:
                connection.execute("ROLLBACK")

    @contextmanager
    def changing(self) -> Iterator[Ask]:
        with self._turn():
            if self._file is None:
                raise self._not_open()
            if self._plain_writer is None:
                self._plain_writer = self._connect()
                self._plain_writer.execute("PRAGMA synchronous = NORMAL")
            connection = self._plain_writer
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield _asking_on(connection)
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def is_current(self) -> bool:
        with self.asking() as ask:
            there = ask("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'")
            return bool(there) and [tuple(row) for row in ask("SELECT version_num FROM alembic_version")] == [(HEAD,)]

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with FORK_GATE, self._opened().connect() as connection:
            _raw(connection).execute("BEGIN")
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self, *, durable: bool) -> Iterator[Connection]:
        """Open a write transaction: `synchronous=FULL` if it must survive power loss, else NORMAL."""
        engine = self._opened()
        with self._turn(), engine.connect() as connection:
            _begin_writing(connection, "FULL" if durable else "NORMAL")
            with connection.begin():
                yield connection

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold this process's turn to write."""
        if self.read_only:
            raise read_only(f"the ledger {self._path}")
        with FORK_GATE:
            if not self._turnstile.acquire(timeout=self._timeout):
                raise self._locked()
            try:
                self._make_sure()
                yield
            finally:
                self._turnstile.release()

    def _make_sure(self) -> None:
        """Check that the file and the owners' folder still exist: writes to a removed file are lost silently."""
        if not (same_file(self._path, self._file) and self.owners.intact()):
            raise LedgerError(
                f"the ledger {self._path} or its folder of owners was removed or replaced while it was open: "
                "nothing was changed in it; open it again"
            )

    def _opened(self) -> Engine:
        with self._making:
            if self._file is None:
                raise self._not_open()
            if self._engine is None:
                # Imported here because it costs 0.3 s, and many programs only open a ledger, and look into it.
                from sqlalchemy import create_engine
                from sqlalchemy.pool import QueuePool

                self._engine = create_engine(
                    "sqlite://",
                    creator=self._connect,
                    poolclass=QueuePool,
                    pool_size=4,
                    max_overflow=60,
                    pool_timeout=self._timeout,
                    hide_parameters=True,
                )
            return self._engine

    def _not_open(self) -> LedgerError:
        return LedgerError(f"the ledger {self.identity} is not open")

    def translate(self, error: Exception) -> PerdureError | None:
        from sqlalchemy.exc import SQLAlchemyError
        from sqlalchemy.exc import TimeoutError as PoolTimeout

        if isinstance(error, PoolTimeout):
            return self._locked()
        cause = getattr(error, "orig", None) or error
        if isinstance(cause, sqlite3.Error):
            return self._locked() if is_busy(cause) else LedgerError(f"the ledger {self._path} {_what(cause)}")
        if isinstance(cause, (OSError, SQLAlchemyError)):
            return LedgerError(f"the ledger {self._path} cannot be used: {cause}")
        return None

    def _locked(self) -> LedgerLockedError:
        return LedgerLockedError(
            f"the ledger {self._path} was locked by another writer for more than {self._timeout:g} s; "
            "nothing was changed in it"
        )

    def scrub(self) -> bool:
        with FORK_GATE:
            return self._scrub()

    def _scrub(self) -> bool:
        self._opened()
        if self.read_only:
            raise read_only(f"the ledger {self._path}")
        if not self._turnstile.acquire(timeout=self._timeout):
            return False
        try:
            connection = self._connect()
            try:
                connection.execute(f"PRAGMA busy_timeout = {int(_SCRUB_WAIT * 1000)}")
                vacuum(connection)
                busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                return not busy
            finally:
                connection.close()
        except sqlite3.OperationalError as error:
            if is_busy(error):
                return False
            raise
        finally:
            self._turnstile.release()

    def check(self) -> list[str]:
        with FORK_GATE:
            connection = self._connect()
            try:
                found = [row[0] for row in connection.execute("PRAGMA integrity_check(20)")]
            except sqlite3.DatabaseError as error:
                found = [str(error)]
            finally:
                connection.close()
        return [] if found == ["ok"] else [f"SQLite finds the ledger's file damaged: {what}" for what in found]

    def size(self) -> int:
        files = (self._path, self._path.with_name(f"{self._path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())


def _asking_on(connection: sqlite3.Connection) -> Ask:
    return Ask(lambda sql, values: connection.execute(sql, values).fetchall())


def _raw(connection: Connection) -> sqlite3.Connection:
    raw = connection.connection.driver_connection
    assert isinstance(raw, sqlite3.Connection), "the engine was made with our own connections"
    return raw


def _begin_writing(connection: Connection, level: str) -> None:
    """Begin with the write lock, so that a writer waits at its beginning and never fails half way."""
    raw = _raw(connection)
    if connection.info.get("synchronous") != level:
        raw.execute(f"PRAGMA synchronous = {level}")
        connection.info["synchronous"] = level
    raw.execute("BEGIN IMMEDIATE")


def _what(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return "cannot grow: the disk is full; nothing was changed in it"
    if code == sqlite3.SQLITE_READONLY:
        return "may not be written: check the rights of the file and its folder; nothing was changed in it"
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return f"is damaged or no SQLite file ({error}): restore a copy, or move it away to begin anew"
    return f"failed: {error}; nothing was changed in it"


class FileOwners(Owners):
    """Owners on one machine: a folder with a locked file for each.

    The lock belongs to the open file, so owners of one process are distinguished too.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._claimed: str | None = None
        self._let_go: weakref.finalize[[int], FileOwners] | None = None

    def claim(self) -> str:
        """Create and lock a file; OSError if the folder cannot be written."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        while True:
            owner = str(uuid4())
            file = self._folder / owner
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
            # A sweep may take the file for a dead owner's in the instant before it is locked; then another is made.
            if try_lock(descriptor) and _is_at(descriptor, file):
                self._claimed = owner
                self._let_go = weakref.finalize(self, os.close, descriptor)
                return owner
            os.close(descriptor)

    def release(self) -> None:
        if self._let_go is None or self._claimed is None:
            return
        with contextlib.suppress(OSError):
            (self._folder / self._claimed).unlink()
        self.abandon()

    def abandon(self) -> None:
        """Close the file; after a fork the lock stays with the parent process."""
        if self._let_go is not None:
            self._let_go()
        self._let_go = self._claimed = None

    def intact(self) -> bool:
        return self._claimed is None or (self._folder / self._claimed).exists()

    def alive(self, owner: str, connection: Connection | Ask | None = None) -> bool:
        if owner == self._claimed:
            return True
        file = self._folder / owner
        try:
            descriptor = os.open(file, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
        except FileNotFoundError:
            return False
        try:
            # Shared, so that two who ask at once do not take each other for the owner.
            if not try_lock(descriptor, shared=True):
                return True
            file.unlink(missing_ok=True)
            return False
        finally:
            os.close(descriptor)

    def sweep(self) -> None:
        for file in self._folder.iterdir():
            with contextlib.suppress(ValueError, OSError):
                self.alive(str(UUID(file.name)))


def _is_at(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False
