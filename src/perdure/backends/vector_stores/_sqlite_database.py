"""Connections to one SQLite file: one that writes, a few that read, and what is said when SQLite fails."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure.backends.vector_stores import _sqlite_functions, _sqlite_schema
from perdure.domain.errors import VectorStoreError

MAX_READERS = 8
"""Readers at one time; a thread that wants a ninth waits, for milliseconds."""

PAGE_SIZE = 8192
"""Bytes: five vectors of 384 numbers fill a page but for a twentieth; SQLite's 4,096 would waste a quarter."""

_READER_CACHE_KB = 8 * 1024
_WRITER_CACHE_KB = 16 * 1024
_WAL_LIMIT_BYTES = 64 * 1024 * 1024
_STATEMENTS = 512

_REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space; nothing was changed",
    sqlite3.SQLITE_CORRUPT: "the file is damaged: put a backup in its place, or save what can be read with "
    "the `.recover` command of the sqlite3 shell",
    sqlite3.SQLITE_NOTADB: "the file is not an SQLite database: give another path, or put a backup in its place",
    sqlite3.SQLITE_READONLY: "the file or its folder is read-only: make both writable for this user",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened: its folder must exist and be writable for this user",
    sqlite3.SQLITE_PERM: "access is denied: make the file and its folder writable for this user",
    sqlite3.SQLITE_IOERR: "the disk failed to read or write: check the disk and its free space",
}


class Database:
    """An open file. Writers of this process wait for each other, those of others for at most `busy_timeout` seconds."""

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self.path = path = path.absolute()  # a later change of the working folder changes nothing
        self.busy_timeout = busy_timeout
        self._write_lock = threading.Lock()
        self._pool = threading.Condition()
        self._idle: list[sqlite3.Connection] = []
        self._readers = 0
        self._closed = False
        with self.translated():
            _make_file(path)
            self._writer = self._connect(_WRITER_CACHE_KB)
            try:
                self._set_up()
            except BaseException:
                self._writer.close()
                raise

    def close(self) -> None:
        """Wait for every reader and writer, and close the file; a second call does nothing."""
        with self._write_lock, self._pool:
            if self._closed:
                return
            self._closed = True
            self._pool.wait_for(lambda: len(self._idle) == self._readers)
            with self.translated():
                for connection in self._idle:
                    connection.close()
                self._writer.close()  # the last connection of all processes folds the log into the file

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection inside a read transaction: everything read in it is of one moment."""
        with self.translated():
            connection = self._take()
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                self._give_back(connection)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The writing connection inside a transaction, which an exception rolls back whole."""
        with self.alone() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def alone(self) -> Iterator[sqlite3.Connection]:
        """The writing connection outside of any transaction."""
        with self._write_lock, self.translated():
            self._check_open()
            yield self._writer

    # ------------------------------------------------------------------ connections
    def _connect(self, cache_kb: int) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=self.busy_timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_STATEMENTS,
        )
        _sqlite_functions.register(connection)
        connection.execute(f"PRAGMA cache_size = -{cache_kb}")
        return connection

    def _set_up(self) -> None:
        self._writer.execute(f"PRAGMA page_size = {PAGE_SIZE}")
        self._use_log()
        self._writer.execute("PRAGMA synchronous = NORMAL")
        self._writer.execute("PRAGMA secure_delete = ON")
        self._writer.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT_BYTES}")
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            _sqlite_schema.prepare(self._writer)
        except VectorStoreError as error:
            self._writer.execute("ROLLBACK")
            raise VectorStoreError(f"cannot use the vector store {self.path}: {error}") from None
        self._writer.execute("COMMIT")

    def _use_log(self) -> None:
        """Switch to write-ahead logging; SQLite does not wait by itself for another process that does so right now."""
        deadline = time.monotonic() + self.busy_timeout
        while True:
            try:
                (mode,) = self._writer.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
                continue
            if mode != "wal":
                raise VectorStoreError(
                    f"cannot use the vector store {self.path}: its file system has no shared memory for SQLite's "
                    "write-ahead log: give a path on a local disk"
                )
            return

    def _take(self) -> sqlite3.Connection:
        with self._pool:
            self._pool.wait_for(lambda: self._closed or self._idle or self._readers < MAX_READERS)
            self._check_open()
            if self._idle:
                return self._idle.pop()
            self._readers += 1
        try:
            connection = self._connect(_READER_CACHE_KB)
            connection.execute("PRAGMA query_only = ON")
        except BaseException:
            with self._pool:
                self._readers -= 1
                self._pool.notify_all()
            raise
        return connection

    def _give_back(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        finally:
            with self._pool:
                self._idle.append(connection)
                self._pool.notify_all()

    def _check_open(self) -> None:
        if self._closed:
            raise VectorStoreError(f"the vector store {self.path} is closed: open it again")

    # ------------------------------------------------------------------ failures
    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn every failure of SQLite or the file system into a VectorStoreError that says what to do."""
        try:
            yield
        except sqlite3.Error as error:
            raise VectorStoreError(f"the vector store {self.path} failed: {self._reason(error)}") from error
        except OSError as error:
            raise VectorStoreError(
                f"cannot use the vector store {self.path}: {error.strerror or error}: give the path of a file in a "
                "folder that this user can write to"
            ) from error

    def _reason(self, error: sqlite3.Error) -> str:
        if is_busy(error):
            return (
                f"another process has held it for more than {self.busy_timeout:g} s: try again, end that process, "
                "or raise busy_timeout"
            )
        code = _primary(error)
        return f"{_REASONS[code]} ({error})" if code in _REASONS else str(error)


def is_busy(error: sqlite3.Error) -> bool:
    """Whether an error says that another connection holds the file."""
    return _primary(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _primary(error: sqlite3.Error) -> int:
    """SQLite's primary result code of an error, 0 if it has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _make_file(path: Path) -> None:
    """Make the file, private to this user, with its folders; one that exists is not touched.

    Not even opened: closing it would drop the locks that other connections of this process hold on it (POSIX).
    """
    if path.is_dir():
        raise VectorStoreError(f"cannot use the vector store {path}: it is a folder: give the path of a file")
    missing = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    for folder in (path.parent, *(folder.parent for folder in missing)):
        force_to_disk(folder)


def force_to_disk(path: Path) -> None:
    """Return once a file, or what a folder lists, would survive power loss. Never for the store's own file."""
    if path.is_dir() and os.name != "posix":
        return  # there the file system keeps its folders itself
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
