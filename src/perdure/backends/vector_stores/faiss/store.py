"""Vectors in a FAISS index, rows in a SQLite file beside it; search is exact, with and without a scope."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import faiss
import numpy as np
from pydantic import Field

from perdure.backends.blocking import run_unit
from perdure.backends.sqlite_file import force_to_disk, is_busy, read_meta, vacuum, write_meta
from perdure.backends.validation import UserPath
from perdure.backends.vector_stores.base import Names, Shape, Shapes, Vector
from perdure.backends.vector_stores.common.document_store import (
    DocumentStore,
    EngineSettings,
    Failure,
    MissingCollection,
)
from perdure.backends.vector_stores.common.documents import Document, Row
from perdure.backends.vector_stores.common.rows import Place
from perdure.backends.vector_stores.faiss import rows
from perdure.backends.vector_stores.faiss import rows as _faiss_rows
from perdure.backends.vector_stores.faiss.rows import GRAMMAR, Collection, Rows, Sql, key, vectors_after
from perdure.backends.vector_stores.sqlite import maintenance
from perdure.domain.errors import VectorStoreError

# ruff: noqa: S608  (only our own names and numbers are written into SQL)


_SCRUB = "scrub"  # the key that stands in the file's table of facts from the asking for a scrub until it is done


def ask_for_scrub(rows: Rows) -> None:
    """Note in the file that it needs a scrub."""
    with rows.writing() as connection:
        write_meta(connection, _SCRUB, 1)


def finish_scrub(rows: Rows) -> bool:
    """Do a requested scrub, of this process or another: rewrite the file and empty its log.

    False while another process holds the file, else True.
    """
    try:
        with rows.alone() as connection:
            if read_meta(connection, _SCRUB) is None:
                return True
            vacuum(connection)
            if _is_held(connection):
                return False
            write_meta(connection, _SCRUB, None)
            return True
    except VectorStoreError as error:
        if is_busy(error.__cause__):
            return False
        raise


def _is_held(connection: sqlite3.Connection) -> bool:
    """Empty the log; return whether somebody still reads it."""
    (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return bool(busy)


def check_rows(
    connection: sqlite3.Connection, collection: Collection, name: str, indexed: Mapping[int, Vector] | None
) -> Names:
    """Return one sentence for each inconsistency; `indexed` is None if the index is of another moment."""
    c = collection.number
    queries = {
        "{} vectors have no row": f"SELECT count(*) FROM vectors_{c} WHERE n NOT IN (SELECT n FROM rows_{c})",
        "{} rows are wrongly taken to have a vector, or none": f"SELECT count(*) FROM rows_{c} r "
        f"WHERE r.bare = EXISTS (SELECT 1 FROM vectors_{c} v WHERE v.n = r.n)",
        f"{{}} vectors are not of dimension {collection.shape.dimension}": f"SELECT count(*) FROM vectors_{c} "
        f"WHERE length(vector) <> {4 * collection.shape.dimension}",
        "{} tokens have no row": f"SELECT count(*) FROM tokens_{c} WHERE n NOT IN (SELECT n FROM rows_{c})",
        "{} numbers and moments have no row": f"SELECT count(*) FROM spans_{c} WHERE n NOT IN (SELECT n FROM rows_{c})",
    }
    counts = {sentence: connection.execute(query).fetchone()[0] for sentence, query in queries.items()}
    if indexed is not None and not any(counts.values()):
        ids, vectors = vectors_after(connection, collection, 0)
        stored = dict(zip(ids, vectors, strict=True))
        counts["{} vectors are in the index or in the rows alone"] = len(stored.keys() ^ indexed.keys())
        counts["{} vectors of the index are not the rows'"] = sum(
            not np.array_equal(vector, indexed[n]) for n, vector in stored.items() if n in indexed
        )
    found = [f"{text.format(count)} in collection {name!r}" for text, count in counts.items() if count]
    broken = [text for (text,) in connection.execute("PRAGMA quick_check(20)") if text != "ok"]
    return found + [f"SQLite's own check_rows says: {text}" for text in broken]


_CHUNK = 10_000  # vectors that are read from the rows at one time
_MOST_DEAD = 1_000  # vectors that are gone and still in the index, at least; beyond a tenth of all it is made smaller


class VectorIndex:
    """Exact inner products by `IndexIDMap2(IndexFlatIP)`; callers hold `lock` around `follow` and `search`."""

    def __init__(self, dimension: int) -> None:
        self.lock = threading.Lock()
        self.version = -1
        self.saved = -1  # the version that its file has, as far as this process knows
        self._dimension = dimension
        self._reset()

    def _reset(self) -> None:
        self._index: Any = faiss.IndexIDMap2(faiss.IndexFlatIP(self._dimension))
        self._dead: set[int] = set()  # taking one out moves all behind it: they are passed over until they are many
        self._last = 0

    def follow(self, connection: sqlite3.Connection, collection: Collection, file: Path) -> bool:
        """Bring the index to the version of this read transaction; False if it is newer."""
        if self.version < 0:
            self._load(collection, file)
        if self.version >= collection.version:
            return self.version == collection.version
        if self.version < collection.trimmed:
            self._reset()
        else:
            gone = rows.gone_after(connection, collection, self.version)
            self._dead.update(n for n in gone if n <= self._last)  # greater ones came and went unseen
        self._take_in(connection, collection)
        if len(self._dead) > max(_MOST_DEAD, self._index.ntotal // 10):
            self._compact()
        self.version = collection.version
        return True

    def _take_in(self, connection: sqlite3.Connection, collection: Collection) -> None:
        while True:
            ids, vectors = rows.vectors_after(connection, collection, self._last, _CHUNK)
            if ids:
                self._index.add_with_ids(np.stack(vectors), np.array(ids, np.int64))
                self._last = ids[-1]
            if len(ids) < _CHUNK:
                return

    def _compact(self) -> None:
        if self._dead:
            self._index.remove_ids(np.array(sorted(self._dead), np.int64))
            self._dead = set()

    def search(self, query: Vector, limit: int, numbers: Sequence[int] | None) -> list[tuple[int, float]]:
        """Return the best vectors among those numbers, or among all, with their inner products."""
        if numbers is None:
            most = self._index.ntotal - len(self._dead)
            selector = faiss.IDSelectorNot(_batch(list(self._dead))) if self._dead else None
        else:
            most, selector = len(numbers), _batch(numbers)
        if not most:
            return []
        parameters = None if selector is None else faiss.SearchParameters(sel=selector)  # type: ignore[call-arg]  # its stubs lack it
        scores, found = self._index.search(query[None, :], min(limit, most), params=parameters)
        return [(int(n), float(score)) for n, score in zip(found[0], scores[0], strict=True) if n >= 0]

    def vectors(self) -> dict[int, Vector]:
        """Return every indexed vector by its number."""
        ids = faiss.vector_to_array(self._index.id_map)
        return {int(n): self._index.reconstruct(int(n)) for n in ids if int(n) not in self._dead}

    def save(self, collection: Collection, file: Path) -> None:
        """Write the index atomically, at the collection's version."""
        self._compact()
        body = faiss.serialize_index(self._index).tobytes()
        head = json.dumps([collection.stamp, collection.version, self._last, _digest(body)]).encode()
        half = file.with_name(f"{file.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            half.touch(mode=0o600)
            half.write_bytes(head + b"\n" + body)
            force_to_disk(half)
            half.replace(file)
        finally:
            half.unlink(missing_ok=True)
        self.saved = collection.version

    def _load(self, collection: Collection, file: Path) -> None:
        """Load the file's index if it was made from exactly these rows; else the index stays empty."""
        try:
            head, _, body = file.read_bytes().partition(b"\n")
            stamp, version, last, digest = json.loads(head)
        except (OSError, ValueError, TypeError):
            return
        if stamp != collection.stamp or version != collection.version or digest != _digest(body):
            return
        try:
            index = faiss.deserialize_index(np.frombuffer(body, np.uint8))
        except RuntimeError:  # another version of FAISS wrote it
            return
        self._index, self._last = index, last
        self.version = self.saved = collection.version


def _batch(numbers: Sequence[int]) -> Any:
    return faiss.IDSelectorBatch(np.array(numbers, np.int64))


def _digest(body: bytes) -> str:
    return blake2b(body, digest_size=16).hexdigest()


T = TypeVar("T")
_log = logging.getLogger("perdure")
_PAGE = 500


class FaissVectorStore(DocumentStore[Sql]):
    """Keeps each collection's vectors in memory; threads, event loops and processes may share the folder."""

    name: ClassVar[str] = "faiss"
    scrub_note: ClassVar[str] = ""
    grammar = GRAMMAR
    settings: Settings
    most_hits = 2**31 - 1

    class Settings(EngineSettings):
        """The folder."""

        path: UserPath = Field(Path("~/.memory/faiss"), validate_default=True)
        """The folder; created if it does not exist, readable by this user alone."""
        scrub_mb: int = Field(256, ge=0)
        """Megabytes up to which an erasure rewrites the rows at once; larger files are rewritten at close."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._file = settings.path / "rows.db"
        self._open_rows: Rows | None = None
        self._indexes: dict[int, VectorIndex] = {}
        self._making = threading.Lock()

    def _connect(self) -> None:
        self._open_rows = _faiss_rows.open_rows(self._file, self.settings.timeout)

    def _disconnect(self) -> None:
        rows = self._rows
        try:
            if not finish_scrub(rows):
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

    def stored_collections(self) -> Shapes:
        return maintenance.stored_collections(self._file)

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
        """Run in one read transaction on the collection."""
        with self._rows.reading() as connection:
            return read(connection, _faiss_rows.find(connection, name))

    def _index(self, collection: Collection) -> VectorIndex:
        with self._making:
            index = self._indexes.get(collection.number)
            if index is None:
                index = self._indexes[collection.number] = VectorIndex(collection.shape.dimension)
            return index

    def _index_file(self, number: int) -> Path:
        return self._rows.path.with_name(f"index-{number}.faiss")

    def _save(self) -> None:
        """Write the index of every collection that was searched and has changed."""
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

    async def sync(self) -> None:
        await run_unit(lambda: self._when_open(lambda: maintenance.sync(self._rows)))

    async def scrub(self) -> bool:
        def scrub() -> bool:
            rows = self._rows
            with rows.translated():
                for file in rows.path.parent.glob("index-*.faiss*"):  # the next close writes them
                    file.unlink(missing_ok=True)
                large = rows.path.stat().st_size > self.settings.scrub_mb * 1024 * 1024
            for index in list(self._indexes.values()):
                index.saved = -1
            ask_for_scrub(rows)
            return False if large else finish_scrub(rows)

        return await run_unit(lambda: self._when_open(scrub))

    async def check(self, collection: str) -> Names:
        def check(connection: sqlite3.Connection, found: Collection) -> Names:
            index = VectorIndex(found.shape.dimension)
            kept = self._indexes.get(found.number)
            if kept is not None and kept.version == found.version:
                index = kept
            with index.lock:
                followed = index.follow(connection, found, self._index_file(found.number))
                vectors = index.vectors() if followed else None
            return check_rows(connection, found, collection, vectors)

        return await self._read_in(collection, lambda: self._read_of(collection, check))


class _Stale(Exception):
    """The index is newer than the read transaction."""
