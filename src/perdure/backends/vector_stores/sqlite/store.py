"""The vector store in one SQLite file: payload, vector and text index change together; search is exact."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from perdure.backends.blocking import run_blocking, run_unit
from perdure.backends.sqlite_file import read_meta
from perdure.backends.validation import UserPath
from perdure.backends.vector_stores import base
from perdure.backends.vector_stores.common.rows import (
    Listing,
    ListingStore,
    check_dimension,
    check_id,
    check_limit,
    check_vector,
)
from perdure.backends.vector_stores.sqlite import database as schema
from perdure.backends.vector_stores.sqlite import maintenance, recall
from perdure.backends.vector_stores.sqlite import read as _sqlite_read
from perdure.backends.vector_stores.sqlite import write as _sqlite_write
from perdure.backends.vector_stores.sqlite.database import Collection, Database
from perdure.backends.vector_stores.sqlite.read import (
    BlockCache,
    StaleSnapshot,
)
from perdure.domain.errors import VectorStoreError
from perdure.domain.filter import Filter

T = TypeVar("T")
_log = logging.getLogger("perdure")


class SqliteVectorStore(ListingStore):
    """Stores rows in one file, which threads, event loops and processes may share; survives kill -9 at any instant."""

    name: ClassVar[str] = "sqlite"

    class Settings(BaseModel):
        """The file's path, and its limits."""

        # Descriptions, and no docstrings of fields: for those pydantic parses this file whenever it is imported.
        model_config = ConfigDict(extra="forbid", frozen=True)

        path: UserPath = Field(
            Path("~/.memory/memories.db"),
            validate_default=True,
            description="The file; created with its folder if it does not exist, readable by this user alone.",
        )
        busy_timeout: float = Field(10.0, ge=0, description="Seconds to wait for another process that is writing.")
        cache_mb: int = Field(256, ge=0, description="Megabytes of vectors that may be kept in memory.")
        scrub_mb: int = Field(
            256,
            ge=0,
            description="Megabytes up to which an erasure rewrites the file at once; a larger file is "
            "rewritten at close.",
        )

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._opening = threading.Lock()
        self._open: tuple[Database, BlockCache] | None = None
        self._scrub_asked = False  # the file remembers too, but for a scrub that could not even write that down

    # ------------------------------------------------------------------ life
    async def open(self) -> None:
        await run_unit(self._open_file)

    def _open_file(self) -> None:
        with self._opening:
            if self._open is None:
                database = Database(self.settings.path, self.settings.busy_timeout)
                self._open = database, BlockCache(self.settings.cache_mb * 1024 * 1024)

    @property
    def read_only(self) -> bool:
        return self._open is not None and self._open[0].read_only

    def check_place(self) -> None:
        self._database().check_place()

    async def close(self) -> None:
        await run_unit(self._close_file)

    def _close_file(self) -> None:
        with self._opening:
            if self._open is None:
                return
            database, _ = self._open
            self._open = None
            try:
                if database.read_only:
                    return
                done = maintenance.scrub(database) if self._scrub_asked else maintenance.finish_scrub(database)
                if not done:
                    _log.warning("deleted text may still be read in %s: another process holds it", database.path)
            except VectorStoreError as error:
                _log.warning("a scrub of %s may be left to do: %s", database.path, error)
            finally:
                database.close()

    async def identity(self) -> str:
        return str(await self._read(lambda connection: read_meta(connection, "identity")))

    def stored_collections(self) -> base.Shapes:
        return maintenance.stored_collections(self.settings.path)

    # ------------------------------------------------------------------ collections
    async def create_collection(self, name: str, dimension: int, *, model: str = "") -> None:
        check_dimension(dimension)
        await self._write(lambda connection: schema.create_collection(connection, name, dimension, model))

    async def delete_collection(self, name: str) -> None:
        await self._write(lambda connection: schema.delete_collection(connection, name))

    async def list_collections(self) -> base.Names:
        found = await self._read(schema.all_collections)
        return [collection.name for collection in found]

    async def get_collection_info(self, name: str) -> base.CollectionInfo:
        def read(connection: sqlite3.Connection, found: Collection) -> base.CollectionInfo:
            count = _sqlite_read.count_rows(connection, found, None)
            return base.CollectionInfo(name, count, found.dimension, found.model)

        return await self._read_in(name, read)

    async def reset(self) -> None:
        def write(connection: sqlite3.Connection) -> None:
            for collection in schema.all_collections(connection):
                schema.empty_collection(connection, collection)

        await self._write(write)

    # ------------------------------------------------------------------ rows
    async def apply(self, collection: str, puts: Sequence[base.Point], deletes: Sequence[str] = ()) -> None:
        points, gone = list(puts), [check_id(id) for id in deletes]

        def apply() -> None:
            database = self._database()
            with database.reading() as connection:
                known = schema.find_collection(connection, collection)
            records = _sqlite_write.to_records(points, known.dimension)  # others may write meanwhile
            with database.writing() as connection:
                found = schema.find_collection(connection, collection)
                if found.dimension != known.dimension:  # it was deleted and made anew in between
                    records = _sqlite_write.to_records(points, found.dimension)
                _sqlite_write.write(connection, found, records, gone)

        await run_unit(apply)

    async def update(
        self, collection: str, id: str, vector: base.Vector | None = None, payload: Mapping[str, Any] | None = None
    ) -> None:
        await self._write(
            lambda connection: _sqlite_write.update(
                connection, schema.find_collection(connection, collection), id, vector, payload
            )
        )

    async def get_many(self, collection: str, ids: Sequence[str]) -> base.Points:
        return await self._read_in(collection, _sqlite_read.get_many, list(ids))

    async def payloads(self, collection: str, ids: Sequence[str]) -> base.Points:
        return await self._read_in(collection, _sqlite_read.get_many, list(ids), False)

    # ------------------------------------------------------------------ reading
    async def search(
        self, collection: str, query_vector: base.Vector, limit: int, filters: Filter | None = None
    ) -> base.Hits:
        from perdure.backends.vector_stores.common.scoring import unit
        from perdure.backends.vector_stores.sqlite.search import search_rows

        limit = check_limit(limit)

        def search(connection: sqlite3.Connection, found: Collection) -> base.Hits:
            query = unit(check_vector(query_vector, found.dimension, "query_vector"))
            return search_rows(connection, self._blocks(), found, query=query, limit=limit, filter=filters)

        return await self._read_in(collection, search)

    async def keyword_search(self, collection: str, text: str, limit: int, filters: Filter | None = None) -> base.Hits:
        from perdure.backends.vector_stores.sqlite.search import keyword_search

        limit = check_limit(limit)
        return await self._read_in(collection, keyword_search, text, limit, filters)

    async def _list(self, collection: str, wanted: Listing) -> base.Page:
        return await self._read_in(collection, _sqlite_read.list_rows, wanted)

    async def count(self, collection: str, filters: Filter | None = None) -> int:
        return await self._read_in(collection, _sqlite_read.count_rows, filters)

    async def unembedded(self, collection: str, limit: int) -> base.Points:
        limit = check_limit(limit)
        return await self._read_in(collection, _sqlite_read.unembedded, limit)

    # ------------------------------------------------------------------ what recall keeps beside rows
    async def kept_rows(self, collection: str, filters: Filter | None = None) -> base.KeptRows | None:
        """Return the matching rows with their kept data; None for an older file that may not be written."""
        return await self._read_in(collection, recall.kept_rows, filters) if self._keeps else None

    async def keep(self, collection: str, rows: Mapping[str, tuple[str, base.Kept]]) -> None:
        """Keep derived data with rows; nothing in a file that may not be written."""
        if not self.read_only:
            await self._write_in(collection, recall.keep, rows)

    async def words(self, collection: str, keys: Sequence[int]) -> base.KeptWords:
        found = await self._read_in(collection, recall.words, keys) if self._keeps else None
        return found if found is not None else await super().words(collection, keys)

    async def give_words(self, collection: str, vectors: Mapping[str, base.Vector]) -> None:
        """Set the vectors of existing words; nothing in a file that may not be written."""
        if not self.read_only:
            await self._write_in(collection, recall.give_words, vectors)

    @property
    def _keeps(self) -> bool:
        return self._database().version >= 3

    # ------------------------------------------------------------------ durability
    async def sync(self) -> None:
        await run_unit(lambda: maintenance.sync(self._database()))

    async def scrub(self) -> bool:
        """Make deleted text unreadable in the file; False if it is large or held by another: a later close does it."""
        return await run_unit(self._scrub_file)

    def _scrub_file(self) -> bool:
        database = self._database()
        self._scrub_asked = True
        if database.path.stat().st_size > self.settings.scrub_mb * 1024 * 1024:
            maintenance.scrub_later(database)
        else:
            self._scrub_asked = not maintenance.scrub(database)
        return not self._scrub_asked

    async def check(self, collection: str) -> base.Names:
        return await self._read_in(collection, maintenance.check)

    # ------------------------------------------------------------------ threads
    def _database(self) -> Database:
        if self._open is None:
            raise VectorStoreError(f"the vector store {self.settings.path} is not open: call open() first")
        return self._open[0]

    def _blocks(self) -> BlockCache:
        if self._open is None:
            raise VectorStoreError(f"the vector store {self.settings.path} was closed meanwhile: open it again")
        return self._open[1]

    async def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """Run in a thread, in a read transaction."""

        def run() -> T:
            while True:
                try:
                    with self._database().reading() as connection:
                        return read(connection)
                except StaleSnapshot:
                    continue  # the next moment is at least the one that the other thread saw

        return await run_blocking(run)

    async def _read_in(self, name: str, read: Callable[..., T], *arguments: Any) -> T:
        """Run in a thread, in a read transaction, on the collection of that name."""
        return await self._read(
            lambda connection: read(connection, schema.find_collection(connection, name), *arguments)
        )

    async def _write_in(self, name: str, write: Callable[..., None], *arguments: Any) -> None:
        """Run in a thread, in a write transaction, on the collection of that name."""
        await self._write(lambda connection: write(connection, schema.find_collection(connection, name), *arguments))

    async def _write(self, write: Callable[[sqlite3.Connection], None]) -> None:
        """Run in a thread, in a write transaction."""

        def run() -> None:
            with self._database().writing() as connection:
                write(connection)

        await run_unit(run)
