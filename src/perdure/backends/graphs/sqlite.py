"""The graph in one SQLite file: what memories state, as rows; what lies around an entity, by one recursive query."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from perdure.backends.blocking import run_blocking, run_unit
from perdure.backends.graphs import _sqlite_read, _sqlite_write
from perdure.backends.graphs._rows import askable, asked_keys, check_depth, check_limit, checked
from perdure.backends.graphs._sqlite_database import Database
from perdure.backends.graphs.base import GraphStore
from perdure.backends.sqlite_file import read_meta
from perdure.domain.errors import GraphError
from perdure.domain.graph import Entity, Neighbourhood, Statement
from perdure.domain.scope import Scope

T = TypeVar("T")
_log = logging.getLogger("perdure")


class SqliteGraphStore(GraphStore):
    """Keeps the graph in one file, which threads, event loops and processes may share; needs no server."""

    name: ClassVar[str] = "sqlite"

    class Settings(BaseModel):
        """Where the file lies and how long to wait for it."""

        model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

        path: Path = Field(Path("~/.memory/graph.db"), validate_default=True)
        """The file; made with its folder when it does not exist, readable by this user alone."""
        busy_timeout: float = Field(10.0, ge=0)
        """Seconds to wait for another process that is writing."""
        scrub_mb: int = Field(256, ge=0)
        """Megabytes up to which the file is written anew at once when something is erased; a larger one is at close."""

        @field_validator("path")
        @classmethod
        def _expand(cls, path: Path) -> Path:
            return path.expanduser()

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._opening = threading.Lock()
        self._open: Database | None = None

    # ------------------------------------------------------------------ life
    async def open(self) -> None:
        """Open the file, and make it and its folder if they are missing."""
        if self._open is None:  # every search asks
            await run_unit(self._open_file)

    def _open_file(self) -> None:
        with self._opening:
            if self._open is None:
                self._open = Database(self.settings.path, self.settings.busy_timeout)

    async def close(self) -> None:
        """Make erased text unreadable if that is still to be done and nobody prevents it, and close the file."""
        await run_unit(self._close_file)

    def _close_file(self) -> None:
        with self._opening:
            database, self._open = self._open, None
            if database is None:
                return
            try:
                if not database.scrub():
                    _log.warning("erased text may still be read in %s: another process holds it", database.path)
            except GraphError as error:
                _log.warning("erased text may still be read in %s: %s", database.path, error)
            finally:
                database.close()

    async def identity(self) -> str:
        """The UUID that the file was made with."""
        return str(await self._read(lambda connection: read_meta(connection, "identity")))

    # ------------------------------------------------------------------ changes
    async def state(self, statement: Statement, moment: str) -> None:
        """Make the memory state this, as this reader read it; InvalidInputError for a name that is blank."""
        stated = checked(statement)
        await self._write(lambda connection: _sqlite_write.state(connection, stated, moment))

    async def take_back(self, memory_ids: Sequence[str], moment: str, by: str | None = None) -> None:
        """Let the memories state nothing any more."""
        ids = askable(memory_ids)
        await self._write(lambda connection: _sqlite_write.take_back(connection, ids, moment, by))

    async def erase(self, memory_ids: Sequence[str]) -> int:
        """Remove all that these memories ever stated; the file is written anew without it."""
        which, values = _sqlite_write.of_memories(askable(memory_ids))
        return await self._erase(lambda connection: _sqlite_write.erase(connection, which, values))

    async def erase_scope(self, scope: Scope) -> int:
        """Remove all that memories of a scope ever stated; the file is written anew without it."""
        which, values = _sqlite_write.of_scope(scope)
        return await self._erase(lambda connection: _sqlite_write.erase(connection, which, values))

    async def reset(self) -> None:
        """Remove everything; the file is written anew without it."""
        await self.erase_scope(Scope())

    async def count(self, memory_ids: Sequence[str]) -> int:
        """How many rows of mentions and relations these memories have."""
        which, values = _sqlite_write.of_memories(askable(memory_ids))
        return await self._read(lambda connection: _sqlite_write.count(connection, which, values))

    # ------------------------------------------------------------------ questions
    async def entities(
        self, scope: Scope, *, names: Sequence[str] | None = None, limit: int = 100, as_of: str | None = None
    ) -> list[Entity]:
        """The entities of a scope, those named by most memories first."""
        check_limit(limit)
        keys = None if names is None else asked_keys(names)
        return await self._read(lambda connection: _sqlite_read.entities(connection, scope, keys, limit, as_of))

    async def neighbourhood(
        self, scope: Scope, names: Sequence[str], *, depth: int = 1, limit: int = 1000, as_of: str | None = None
    ) -> Neighbourhood:
        """The entities in reach, and the relations between them, at most `limit` of each."""
        check_depth(depth)
        check_limit(limit)
        keys = asked_keys(names)
        return await self._read(
            lambda connection: _sqlite_read.neighbourhood(
                connection, scope, keys, depth=depth, limit=limit, as_of=as_of
            )
        )

    async def similar_names(self, scope: Scope, name: str, limit: int = 20) -> list[Entity]:
        """Entities of the scope whose names share a word, or its first three characters, the most alike first."""
        check_limit(limit)
        if not asked_keys([name]):
            return []
        return await self._read(lambda connection: _sqlite_read.similar_names(connection, scope, name, limit))

    # ------------------------------------------------------------------ threads
    def _database(self) -> Database:
        if self._open is None:
            raise GraphError(f"the graph {self.settings.path} is not open: call open() first")
        return self._open

    async def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """Run in a thread, inside a read transaction."""

        def run() -> T:
            with self._database().reading() as connection:
                return read(connection)

        return await run_blocking(run)

    async def _write(self, write: Callable[[sqlite3.Connection], T]) -> T:
        """Run in a thread, inside a write transaction."""

        def run() -> T:
            with self._database().writing() as connection:
                return write(connection)

        return await run_unit(run)

    async def _erase(self, erase: Callable[[sqlite3.Connection], int]) -> int:
        """Run in a thread, inside a write transaction, and write the file anew where something went."""

        def run() -> int:
            database = self._database()
            with database.writing() as connection:
                gone = erase(connection)
                if gone:
                    database.scrub_later(connection)
            if database.path.stat().st_size <= self.settings.scrub_mb * 1024 * 1024:
                database.scrub()  # what it cannot do now, another erasure or the close does
            return gone

        return await run_unit(run)
