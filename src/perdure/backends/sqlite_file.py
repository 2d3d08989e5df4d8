"""A store in one SQLite file: one writing connection, a few reading ones, and error messages."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from abc import ABC
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol
from uuid import uuid4

from perdure.domain.errors import PerdureError, ReadOnlyError

MAX_READERS = 8  # readers at one time; a thread that wants a ninth waits, for milliseconds
_STATEMENTS = 512
_REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space",
    sqlite3.SQLITE_NOTADB: "the file is not an SQLite database: give another path, or put a backup in its place",
    sqlite3.SQLITE_READONLY: "the file or its folder is read-only: make both writable for this user",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened: its folder must exist and be writable for this user",
    sqlite3.SQLITE_PERM: "access is denied: make the file and its folder writable for this user",
    sqlite3.SQLITE_IOERR: "the disk failed to read or write: check the disk and its free space",
}


class Connected(Protocol):
    """A holder of connections to one file."""

    @property
    def path(self) -> Path:
        """Return the file."""

    def disconnect(self) -> None:
        """Close every connection, of which none is in use; the next use opens another."""


class ForkGate:
    """Lets no connection to a SQLite file cross a fork.

    What SQLite remembers of the locks on an open file is copied into the child, which then believes that it holds them:
    the parent folds the log into the file and removes it while the child writes there, and what the child was told is
    saved is lost (SQLite, "How To Corrupt An SQLite Database File", 2.6). So every use of a connection is inside this
    gate. A fork shuts it, waits until nobody is inside, closes every connection, and opens it again: in the parent and
    in the child the next use connects anew. If a use does not end in time, the child may not use the file.
    """

    WAIT_SECONDS: ClassVar[float] = 10.0

    def __init__(self) -> None:
        self._holders: weakref.WeakSet[Connected] = weakref.WeakSet()
        self._left_open: frozenset[str] = frozenset()  # files whose connections the fork under way could not close
        self._unusable: frozenset[str] = frozenset()
        self._changed = threading.Condition()
        self._inside = 0
        self._is_shut = False
        self._own = _Depth()

    def add(self, holder: Connected) -> None:
        """Have a holder close its connections before a fork."""
        with self._changed:
            self._holders.add(holder)

    def remove(self, holder: Connected) -> None:
        """Forget a holder that closed its file."""
        with self._changed:
            self._holders.discard(holder)

    def check(self, path: Path) -> None:
        """Raise sqlite3.OperationalError for a file that was in use when this process was forked."""
        if self._unusable and os.path.realpath(path) in self._unusable:
            raise sqlite3.OperationalError(
                "it was in use when this process was forked, and SQLite could lose what is written here: fork between "
                "two calls, or start the process anew (multiprocessing: 'spawn')"
            )

    def __enter__(self) -> None:
        if self._own.depth == 0:
            with self._changed:
                while self._is_shut:
                    self._changed.wait()
                self._inside += 1
        self._own.depth += 1

    def __exit__(self, *_: object) -> None:
        self._own.depth -= 1
        if self._own.depth == 0:
            with self._changed:
                self._inside -= 1
                if self._is_shut:
                    self._changed.notify_all()

    def shut(self) -> None:
        """Let nobody in, wait for those inside, and close every connection."""
        with self._changed:
            while self._is_shut:  # another thread forks
                self._changed.wait()
            self._is_shut = True
            is_empty = self._own.depth == 0 and self._changed.wait_for(lambda: self._inside == 0, self.WAIT_SECONDS)
            holders = list(self._holders)
        self._left_open = frozenset(os.path.realpath(holder.path) for holder in holders)
        if is_empty:
            for holder in holders:
                holder.disconnect()
            self._left_open = frozenset()

    def open(self) -> None:
        """Let everybody in again."""
        with self._changed:
            self._is_shut = False
            self._changed.notify_all()

    def begin_child(self) -> None:
        """Begin anew in the child, which has none of the threads."""
        self._unusable |= self._left_open
        self._changed = threading.Condition()
        self._inside = int(self._own.depth > 0)
        self._is_shut = False


class _Depth(threading.local):
    depth = 0


FORK_GATE = ForkGate()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=FORK_GATE.shut, after_in_parent=FORK_GATE.open, after_in_child=FORK_GATE.begin_child)


@dataclass(frozen=True, slots=True)
class Layout:
    """The tables of such a file besides `meta`, and how it is recognised."""

    application_id: int  # four letters by which other programs can know such a file
    version: int  # the version of the layout, kept in the file
    tables: frozenset[str]  # names of tables that every such file has
    statements: tuple[str, ...]  # what makes the tables and their indexes


class SqliteFile(ABC):
    """An open file. Writers of this process take turns, and wait at most `busy_timeout` seconds for other processes."""

    what: ClassVar[str]
    """What the file holds, as errors name it."""
    failure: ClassVar[type[PerdureError]]
    """The error that every failure of SQLite or the file system becomes."""
    busy: ClassVar[type[PerdureError]]
    """The error when another process holds the file."""
    rescue: ClassVar[str]
    """What can be done with a damaged file, besides putting a backup in its place."""
    layout: ClassVar[Layout]
    synchronous: ClassVar[str]
    """FULL where what was written must survive power loss, else NORMAL (SQLite "PRAGMA")."""
    page_size: ClassVar[int] = 4096
    """Bytes."""
    log_limit: ClassVar[int]
    """Bytes that the log keeps when it was folded into the file."""

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self.path = path = path.absolute()  # a later change of the working folder changes nothing
        self.busy_timeout = busy_timeout
        self._write_lock = threading.Lock()
        self._pool = threading.Condition()
        self._idle: list[sqlite3.Connection] = []
        self._readers = 0
        self._closed = False
        self.version = 0  # the version of the file's layout: an older one than today's only where it may not be written
        self._is_connected = False
        with FORK_GATE, self.translated():
            if path.is_dir():
                raise self._unusable("it is a folder: give the path of a file")
            make_private_file(path)
            self.read_only = not may_be_written(path)
            self._writer = self._connect(writes=not self.read_only)
            self._file = path.stat()
            try:
                self._look_over() if self.read_only else self._set_up()
            except BaseException:
                self._writer.close()
                raise
            self._is_connected = True
        FORK_GATE.add(self)

    def close(self) -> None:
        """Wait for every reader and writer, and close the file; a second call does nothing."""
        with FORK_GATE, self._write_lock, self._pool:
            if self._closed:
                return
            self._closed = True
            self._pool.wait_for(lambda: len(self._idle) == self._readers)
            with self.translated():
                self.disconnect()
            FORK_GATE.remove(self)

    def disconnect(self) -> None:
        """Close every connection, of which none is in use; the next use opens another."""
        for connection in (*self._idle, self._writer):
            connection.close()  # the last connection of all processes folds the log into the file
        self._idle.clear()
        self._readers = 0
        self._is_connected = False

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open a read transaction, which sees one state of the file."""
        with FORK_GATE, self.translated():
            connection = self._take()
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                self._give_back(connection)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Open a write transaction, which an exception rolls back."""
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
        """Return the writing connection outside of any transaction."""
        with FORK_GATE, self._write_lock, self.translated():
            self._check_open()
            if self.read_only:
                raise read_only(f"the {self.what} {self.path}")
            self.check_place()
            if not self._is_connected:
                self._writer = self._connect(writes=True)
                self._tune_writer()
                self._is_connected = True
            yield self._writer

    def check_place(self) -> None:
        """Raise the store's error if the file was removed or replaced: what goes into such a file is lost silently."""
        with self.translated():
            is_there = same_file(self.path, self._file)
        if not is_there:
            raise self.failure(f"the {self.what} {self.path} was removed or replaced while it was open: open it again")

    def _connect(self, *, writes: bool) -> sqlite3.Connection:
        connection = connect(self.path, self.busy_timeout, _STATEMENTS, read_only=self.read_only)
        if not writes:
            connection.execute("PRAGMA query_only = ON")
        return connection

    def _set_up(self) -> None:
        self._writer.execute(f"PRAGMA page_size = {self.page_size}")
        self._use_log()
        self._tune_writer()
        self._writer.execute("BEGIN IMMEDIATE")
        wrong = self._prepare()
        if wrong:
            self._writer.execute("ROLLBACK")
            raise self._unusable(wrong)
        self._writer.execute("COMMIT")

    def _tune_writer(self) -> None:
        """Set what SQLite forgets with each connection."""
        self._writer.execute(f"PRAGMA synchronous = {self.synchronous}")
        self._writer.execute("PRAGMA secure_delete = ON")
        self._writer.execute(f"PRAGMA journal_size_limit = {self.log_limit}")
        save_writes(self._writer)

    def _look_over(self) -> None:
        """Check that a read-only file is one of ours."""
        tables = self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        wrong = self._prepare() if tables else "it is empty, and may not be written: make it where it may be"
        if wrong:
            raise self._unusable(wrong)

    def _prepare(self) -> str | None:
        """Create the tables of an empty file; an error for a file that is not ours."""
        layout = self.layout
        tables = {name for (name,) in self._writer.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            self._writer.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID")
            for statement in layout.statements:
                self._writer.execute(statement)
            self._writer.execute(f"PRAGMA application_id = {layout.application_id}")
            write_meta(self._writer, "schema", layout.version)
            write_meta(self._writer, "identity", str(uuid4()))
            self.version = layout.version
            return None
        if not {"meta", *layout.tables} <= tables:
            return "it is an SQLite file of another program: give another path"
        version = read_meta(self._writer, "schema")
        if not isinstance(version, int) or version > layout.version:
            known = f"(schema {version}, this one knows {layout.version})"
            return f"it was written by a newer perdure {known}: upgrade perdure"
        if version < layout.version and not self.read_only:
            self._upgrade(version)
            write_meta(self._writer, "schema", layout.version)
        self.version = version if self.read_only else layout.version
        return None

    def _upgrade(self, version: int) -> None:
        """Bring the tables of an older layout up to date, in the caller's transaction."""

    def _use_log(self) -> None:
        """Switch to write-ahead logging; SQLite itself does not wait for another process that does so right now."""
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
                raise self._unusable(
                    "its file system has no shared memory for SQLite's write-ahead log: give a path on a local disk"
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
            return self._connect(writes=False)
        except BaseException:
            with self._pool:
                self._readers -= 1
                self._pool.notify_all()
            raise

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
            raise self.failure(f"the {self.what} {self.path} is closed: open it again")

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn every failure of SQLite or the file system into the store's error, with advice."""
        try:
            yield
        except sqlite3.Error as error:
            kind = self.busy if is_busy(error) else self.failure
            raise kind(f"the {self.what} {self.path} failed: {self._reason(error)}") from error
        except OSError as error:
            raise self._unusable(
                f"{error.strerror or error}: give the path of a file in a folder that this user can write to"
            ) from error

    def _unusable(self, reason: str) -> PerdureError:
        return self.failure(f"cannot use the {self.what} {self.path}: {reason}")

    def _reason(self, error: sqlite3.Error) -> str:
        if is_busy(error):
            return (
                f"another process has held it for more than {self.busy_timeout:g} s: try again, end that process, "
                "or raise busy_timeout"
            )
        code = _primary(error)
        if code == sqlite3.SQLITE_CORRUPT:
            return f"the file is damaged: put a backup in its place, or {self.rescue} ({error})"
        return f"{_REASONS[code]} ({error})" if code in _REASONS else str(error)


FOLD_AT = 16 * 1024 * 1024
"""Bytes of the log at which it is folded into the file: SQLite's own 4 MB write a page of an index that is in use into
the file for a few rows each. A log of this size is read again within 0.1 s after a crash."""


def save_writes(connection: sqlite3.Connection) -> None:
    """Have a connection that writes make fewer writes: nothing that is durable changes."""
    # Before a statement of an INSERT of many rows changes a page, SQLite saves the page in a file for temporary data.
    connection.execute("PRAGMA temp_store = MEMORY")
    (page,) = connection.execute("PRAGMA page_size").fetchone()
    connection.execute(f"PRAGMA wal_autocheckpoint = {FOLD_AT // page}")


def vacuum(connection: sqlite3.Connection) -> None:
    """Write a file anew; the copy that SQLite makes meanwhile is a file, whatever `save_writes` says."""
    connection.execute("PRAGMA temp_store = DEFAULT")
    try:
        connection.execute("VACUUM")
    finally:
        connection.execute("PRAGMA temp_store = MEMORY")


def may_be_written(path: Path) -> bool:
    """Whether a file and its log may be written; a missing one may."""
    return not path.is_file() or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def read_only(what: str) -> ReadOnlyError:
    """Return the error for a write to a read-only file."""
    return ReadOnlyError(f"{what} may only be read, because its folder or disk is read-only; nothing was changed")


def connect(path: Path, timeout: float, statements: int, *, read_only: bool) -> sqlite3.Connection:
    """Open a connection without implicit transactions; a read-only one creates and writes nothing (SQLite "WAL", 5)."""
    FORK_GATE.check(path)
    log, index = Path(f"{path}-wal"), Path(f"{path}-shm")
    place, alone = str(path), False
    if read_only:
        logged = log.exists() and log.stat().st_size > 0
        # Without a log nothing can be missed. With one, its index is needed: if there is none nobody has the file
        # open, and a connection that is alone keeps an index of its own.
        alone = logged and not index.exists()
        way = "mode=ro&vfs=unix-none" if alone else "mode=ro" if logged else "mode=ro&immutable=1"
        place = f"{path.as_uri()}?{way}"
    connection = sqlite3.connect(
        place,
        uri=read_only,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=statements,
    )
    if alone:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    return connection


def make_private_file(path: Path) -> None:
    """Create the file and its folders, private to this user; an existing one is not touched.

    Not even opened: closing it would drop this process's other locks on it (POSIX).
    """
    missing = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    # The name of a new file survives power loss only once its folder has been forced to the disk.
    for folder in (path.parent, *(folder.parent for folder in missing)):
        force_to_disk(folder)


def same_file(path: Path, known: os.stat_result | None) -> bool:
    """Whether a path still leads to the same file."""
    try:
        return known is not None and os.path.samestat(path.stat(), known)
    except FileNotFoundError:
        return False


def is_busy(error: BaseException | None) -> bool:
    """Whether an error says that another connection holds the file."""
    return isinstance(error, sqlite3.Error) and _primary(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _primary(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code of an error, 0 if it has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def force_to_disk(path: Path) -> None:
    """Return once a file, or a folder's listing, survives power loss. Never use it for the store's own file."""
    if path.is_dir() and os.name != "posix":
        return  # there the file system keeps its folders itself
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_meta(connection: sqlite3.Connection, key: str) -> object:
    """Return a value of the file's `meta` table, or None."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else row[0]


def write_meta(connection: sqlite3.Connection, key: str, value: object) -> None:
    """Set a value of the file's `meta` table; None removes it."""
    if value is None:
        connection.execute("DELETE FROM meta WHERE key = ?", (key,))
    else:
        connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))
