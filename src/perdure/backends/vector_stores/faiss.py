"""Vectors in a FAISS index, rows in an SQLite file beside it: search is exact, inside a scope and without one."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

from pydantic import Field, field_validator

from perdure.backends.blocking import run_unit
from perdure.backends.sqlite_file import read_meta
from perdure.backends.vector_stores import _faiss_care, _faiss_rows, _sqlite_care
from perdure.backends.vector_stores._document_engine import EngineSettings, Failure, MissingCollection, Shape
from perdure.backends.vector_stores._document_store import DocumentStore
from perdure.backends.vector_stores._documents import Document, Row
from perdure.backends.vector_stores._faiss_filter import FaissGrammar, Sql, key
from perdure.backends.vector_stores._faiss_index import VectorIndex
from perdure.backends.vector_stores._faiss_rows import Collection, Rows
from perdure.backends.vector_stores._rows import Place
from perdure.backends.vector_stores.base import Names, Vector
from perdure.domain.errors import VectorStoreError

T = TypeVar("T")

_log = logging.getLogger("perdure")
_PAGE = 500


class FaissVectorStore(DocumentStore[Sql]):
    """Keeps each collection's vectors in memory; threads, event loops and processes may share the folder."""

    name: ClassVar[str] = "faiss"
    scrub_note: ClassVar[str] = ""
    grammar = FaissGrammar()
    most_hits = 2**31 - 1

    class Settings(EngineSettings):
        """Where the folder lies."""

        path: Path = Field(Path("~/.memory/faiss"), validate_default=True)
        """The folder; made when it does not exist, readable by this user alone."""
        scrub_mb: int = Field(256, ge=0)
        """Megabytes up to which the rows are written anew at once when something is erased; more are at close."""

        @field_validator("path")
        @classmethod
        def _expand(cls, path: Path) -> Path:
            return path.expanduser()

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.settings = settings
        self._file = settings.path / "rows.db"
        self._open_rows: Rows | None = None
        self._indexes: dict[int, VectorIndex] = {}
        self._making = threading.Lock()

    # ------------------------------------------------------------------ life
    def _connect(self) -> None:
        self._open_rows = _faiss_rows.open_rows(self._file, self.settings.timeout)

    def _disconnect(self) -> None:
        rows = self._rows
        try:
            if not _faiss_care.finish_scrub(rows):
                _log.warning("deleted text may still be read in %s: another process holds it", rows.path)
            self._save()
        except VectorStoreError as error:
            _log.warning("the index of %s is left to be made anew: %s", rows.path, error)
        finally:
            self._open_rows = None
            self._indexes.clear()
            rows.close()

    @property
    def _rows(self) -> Rows:
        if self._open_rows is None:
            raise VectorStoreError(f"the vector store {self.settings.path} was closed meanwhile: open it again")
        return self._open_rows

    def _identity(self) -> str:
        with self._rows.reading() as connection:
            return str(read_meta(connection, "identity"))

    def _failure(self, error: Exception) -> Failure | None:
        return None  # SQLite's are translated where they arise, and FAISS computes in memory

    def stored_dimension(self, collection: str) -> int | None:
        """The dimension of a collection in the folder, read without opening the store; None if that cannot be told."""
        return _sqlite_care.stored_dimension(self._file, collection)

    # ------------------------------------------------------------------ collections
    def _find(self, name: str) -> Shape | None:
        try:
            return self._read_of(name, lambda _, collection: collection.shape)
        except MissingCollection:
            return None

    def _names(self) -> Names:
        with self._rows.reading() as connection:
            return _faiss_rows.names(connection)

    def _make(self, name: str, shape: Shape) -> None:
        with self._rows.writing() as connection:
            _faiss_rows.make(connection, name, shape)

    def _drop(self, name: str) -> None:
        with self._rows.writing() as connection:
            number = _faiss_rows.drop(connection, name)
        if number is not None:
            self._indexes.pop(number, None)
            with self._rows.translated():
                self._index_file(number).unlink(missing_ok=True)

    def _clear(self, name: str) -> None:
        with self._rows.writing() as connection:
            _faiss_rows.clear(connection, _faiss_rows.find(connection, name))

    # ------------------------------------------------------------------ documents
    def _write(self, name: str, documents: Sequence[Document], deletes: Sequence[str]) -> None:
        with self._rows.writing() as connection:
            collection = _faiss_rows.find(connection, name)
            if any(each.vector is not None and len(each.vector) != collection.shape.dimension for each in documents):
                raise MissingCollection  # another process made it anew, with another dimension
            _faiss_rows.write(connection, collection, documents, deletes)

    def _fetch(self, name: str, ids: Sequence[str], *, with_vectors: bool) -> list[Row]:
        return self._read_of(name, lambda connection, collection: _faiss_rows.fetch(connection, collection, ids))

    def _nearest(self, name: str, query: Vector, limit: int, clause: Sql | None) -> list[tuple[Row, float]]:
        def search(connection: sqlite3.Connection, collection: Collection) -> list[tuple[Row, float]]:
            if len(query) != collection.shape.dimension:
                raise MissingCollection
            inside = None if clause is None else _faiss_rows.numbers(connection, collection, clause)
            index = self._index(collection)
            with index.lock:
                if not index.follow(connection, collection, self._index_file(collection.number)):
                    raise _Stale
                best = index.search(query, limit, inside)
            rows = _faiss_rows.by_number(connection, collection, [n for n, _ in best])
            return [(rows[n], score) for n, score in best]

        while True:
            try:
                return self._read_of(name, search)
            except _Stale:
                continue  # another thread brought the index to a later moment than this read began at

    def _scan(self, name: str, clause: Sql | None, *, with_vectors: bool) -> Iterator[list[Row]]:
        with self._rows.reading() as connection:
            query, values = _faiss_rows.select(_faiss_rows.find(connection, name), clause, with_vectors=with_vectors)
            found = connection.execute(query, values)
            while page := found.fetchmany(_PAGE):
                yield _faiss_rows.to_rows(page)

    def _ordered(
        self, name: str, clause: Sql | None, after: Place | None, limit: int, *, with_vectors: bool
    ) -> list[Row]:
        place = None if after is None else (key(after[0]), key(after[1]))

        def read(connection: sqlite3.Connection, collection: Collection) -> list[Row]:
            query, values = _faiss_rows.select(
                collection, clause, with_vectors=with_vectors, ordered=True if place is None else place
            )
            return _faiss_rows.to_rows(connection.execute(query, (*values, limit)))

        return self._read_of(name, read)

    def _count(self, name: str, clause: Sql | None) -> int:
        return self._read_of(name, lambda connection, collection: _faiss_rows.count(connection, collection, clause))

    def _read_of(self, name: str, read: Callable[[sqlite3.Connection, Collection], T]) -> T:
        """Inside one read transaction, on the collection as it is in it."""
        with self._rows.reading() as connection:
            return read(connection, _faiss_rows.find(connection, name))

    # ------------------------------------------------------------------ indexes
    def _index(self, collection: Collection) -> VectorIndex:
        with self._making:
            index = self._indexes.get(collection.number)
            if index is None:
                index = self._indexes[collection.number] = VectorIndex(collection.shape.dimension)
            return index

    def _index_file(self, number: int) -> Path:
        return self._rows.path.with_name(f"index-{number}.faiss")

    def _save(self) -> None:
        """Write the index of every collection that was searched and has changed since."""
        with self._rows.reading() as connection, self._rows.translated():
            for name in _faiss_rows.names(connection):
                collection = _faiss_rows.find(connection, name)
                index = self._indexes.get(collection.number)
                if index is None or index.saved == collection.version:
                    continue
                file = self._index_file(collection.number)
                with index.lock:
                    if index.follow(connection, collection, file):
                        index.save(collection, file)
        with self._rows.writing() as connection:
            for name in _faiss_rows.names(connection):
                _faiss_rows.trim(connection, _faiss_rows.find(connection, name))

    # ------------------------------------------------------------------ durability
    async def sync(self) -> None:
        """Return once everything applied so far would survive power loss; the index is made of it again."""
        await run_unit(lambda: self._when_open(lambda: _sqlite_care.sync(self._rows)))

    async def scrub(self) -> bool:
        """Make deleted text and vectors unreadable; False if that is much, or others hold the file: a close does it."""

        def scrub() -> bool:
            rows = self._rows
            with rows.translated():
                for file in rows.path.parent.glob("index-*.faiss*"):  # the next close writes them
                    file.unlink(missing_ok=True)
                large = rows.path.stat().st_size > self.settings.scrub_mb * 1024 * 1024
            for index in list(self._indexes.values()):
                index.saved = -1
            _faiss_care.ask_for_scrub(rows)
            return False if large else _faiss_care.finish_scrub(rows)

        return await run_unit(lambda: self._when_open(scrub))

    async def check(self, collection: str) -> Names:
        """What disagrees inside the folder, a sentence each."""

        def check(connection: sqlite3.Connection, found: Collection) -> Names:
            index = VectorIndex(found.shape.dimension)
            kept = self._indexes.get(found.number)
            if kept is not None and kept.version == found.version:
                index = kept
            with index.lock:
                followed = index.follow(connection, found, self._index_file(found.number))
                vectors = index.vectors() if followed else None
            return _faiss_care.check(connection, found, collection, vectors)

        return await self._read_in(collection, lambda: self._read_of(collection, check))


class _Stale(Exception):
    """The index is of a later moment than the read transaction."""
