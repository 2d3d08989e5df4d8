"""The graph in one SQLite file: statements as rows; neighbourhoods by one recursive query."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field

from perdure.backends.blocking import run_blocking, run_unit
from perdure.backends.graphs import _rows as graph_rows
from perdure.backends.sqlite_file import Layout, SqliteFile, read_meta, vacuum, write_meta
from perdure.backends.validation import UserPath
from perdure.domain.errors import GraphDownError, GraphError
from perdure.domain.graph import Entity, Mention, Neighbourhood, Relation, StatedRelation, Statement, entity_key
from perdure.domain.scope import SCOPE_FIELDS, Scope

# The tables of the SQLite graph.
#
# mentions a memory, as one reader read it, names an entity between two moments; type '' comes of a relation alone
# relations it states that one entity stands to another words how the words of an entity's name begin, for names that
# are alike

STATED = ("memory_id", "reader", *SCOPE_FIELDS, "told_at", "untold_at")
"""Columns that both tables have: whose statement it is, behind which walls, from when to when."""

_TABLES = (
    f"CREATE TABLE mentions (id INTEGER PRIMARY KEY, entity_key NOT NULL, {', '.join((*STATED, *graph_rows.MENTION))})",
    "CREATE TABLE relations (id INTEGER PRIMARY KEY, source_key NOT NULL, target_key NOT NULL, "
    f"{', '.join((*STATED, *graph_rows.RELATION))})",
    "CREATE TABLE words (start TEXT, entity_key TEXT, PRIMARY KEY (start, entity_key)) WITHOUT ROWID",
    "CREATE INDEX mentions_memory ON mentions (memory_id, reader)",
    "CREATE INDEX relations_memory ON relations (memory_id, reader)",
)

_ENDS = (("mentions", "entity_key"), ("relations", "source_key"), ("relations", "target_key"))


def _end_indexes() -> Iterator[str]:
    for table, key in _ENDS:
        yield f"CREATE INDEX {table}_{key} ON {table} ({key})"
        for axis in SCOPE_FIELDS:
            yield f"CREATE INDEX {table}_{axis}_{key} ON {table} ({axis}, {key}) WHERE {axis} IS NOT NULL"


LAYOUT = Layout(
    application_id=0x50455247,  # `PERG`
    version=1,
    tables=frozenset({"mentions", "relations"}),
    statements=(*_TABLES, *_end_indexes()),
)
"""What an empty file is made with."""


_SCRUB = "scrub"  # the key in the file's meta table that says that erased text is still to be made unreadable


class Database(SqliteFile):
    """An open graph file."""

    what = "graph"
    failure = GraphError
    busy = GraphDownError
    rescue = "remove it and index the graph anew"
    layout = LAYOUT
    synchronous = "FULL"  # a job that is done is not done again after power loss
    log_limit = 16 * 1024 * 1024

    def scrub(self) -> bool:
        """Rewrite the file without erased data if that is due, and empty the log.

        False if another process holds the file: the next erasure or close, by any process, does it.
        """
        try:
            with self.alone() as connection:
                asked = read_meta(connection, _SCRUB)
                if asked is None:
                    return True
                vacuum(connection)
                (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if busy:
                    return False
                # Another process may have erased something since: what it asked for stays asked.
                connection.execute("DELETE FROM meta WHERE key = ? AND value = ?", (_SCRUB, asked))
                return True
        except GraphDownError:
            return False

    @staticmethod
    def scrub_later(connection: sqlite3.Connection) -> None:
        """Note in the current transaction that something was erased."""
        write_meta(connection, _SCRUB, str(uuid4()))


# ruff: noqa: S608  (only our own names are written into SQL; every value is bound)


_NOW = "{t}untold_at IS NULL"
_THEN = "{t}told_at <= :as_of AND ({t}untold_at IS NULL OR {t}untold_at > :as_of)"

# Both directions are asked of an index of their own; a name is reached at most once at each distance.
_REACHED = """
WITH RECURSIVE reached (entity_key, distance) AS (
    SELECT value, 0 FROM json_each(:keys)
    UNION
    SELECT r.target_key, distance + 1 FROM reached CROSS JOIN relations r ON r.source_key = reached.entity_key
        WHERE distance < :depth AND {of_r}
    UNION
    SELECT r.source_key, distance + 1 FROM reached CROSS JOIN relations r ON r.target_key = reached.entity_key
        WHERE distance < :depth AND {of_r}
),
nearest AS (SELECT entity_key, min(distance) AS distance FROM reached GROUP BY entity_key)
SELECT entity_key, distance, (
    SELECT count(DISTINCT m.memory_id) FROM mentions m WHERE m.entity_key = nearest.entity_key AND {of_m}
) AS named
FROM nearest WHERE named > 0 ORDER BY distance, named DESC, entity_key LIMIT :limit
"""


def where(scope: Scope, table: str = "") -> str:
    """Return the condition that all given scope fields are equal; they are bound by their own names."""
    return " AND ".join(f"{table}{axis} = :{axis}" for axis in scope.given()) or "TRUE"


def _stated(scope: Scope, as_of: str | None, table: str = "") -> str:
    """Return the condition that a row is in the scope, and is stated now or was known as of then."""
    return f"{where(scope, table)} AND {(_NOW if as_of is None else _THEN).format(t=table)}"


def _values(scope: Scope, as_of: str | None, **others: Any) -> dict[str, Any]:
    return {**scope.given(), "as_of": as_of, **others}


def entities(
    connection: sqlite3.Connection, scope: Scope, keys: Sequence[str] | None, limit: int, as_of: str | None
) -> list[Entity]:
    among = "" if keys is None else "AND entity_key IN (SELECT value FROM json_each(:keys))"
    found = connection.execute(
        f"SELECT entity_key FROM mentions WHERE {_stated(scope, as_of)} {among} "
        "GROUP BY entity_key ORDER BY count(DISTINCT memory_id) DESC, entity_key LIMIT :limit",
        _values(scope, as_of, keys=json.dumps(keys), limit=limit),
    ).fetchall()
    return _gathered(connection, scope, [key for (key,) in found], as_of)


def _gathered(connection: sqlite3.Connection, scope: Scope, keys: Sequence[str], as_of: str | None) -> list[Entity]:
    rows = connection.execute(
        "SELECT entity_key, name, type, description, memory_id, told_at FROM mentions "
        f"WHERE {_stated(scope, as_of)} AND entity_key IN (SELECT value FROM json_each(:keys))",
        _values(scope, as_of, keys=json.dumps(keys)),
    )
    found = graph_rows.gather(graph_rows.Naming(*row) for row in rows)
    return [found[key] for key in keys]


def neighbourhood(
    connection: sqlite3.Connection, scope: Scope, keys: Sequence[str], *, depth: int, limit: int, as_of: str | None
) -> Neighbourhood:
    query = _REACHED.format(of_r=_stated(scope, as_of, "r."), of_m=_stated(scope, as_of, "m."))
    values = _values(scope, as_of, keys=json.dumps(keys), depth=depth, limit=limit)
    distance = {key: away for key, away, _ in connection.execute(query, values)}
    rows = connection.execute(
        f"SELECT memory_id, told_at, untold_at, {', '.join((*SCOPE_FIELDS, *graph_rows.RELATION))} FROM relations "
        f"WHERE {_stated(scope, as_of)} AND source_key IN (SELECT value FROM json_each(:keys)) "
        "AND target_key IN (SELECT value FROM json_each(:keys))",
        _values(scope, as_of, keys=json.dumps(list(distance))),
    )
    relations = graph_rows.nearest_first([_read_stated(row) for row in rows], distance, limit)
    return Neighbourhood(tuple(_gathered(connection, scope, list(distance), as_of)), relations)


def _read_stated(row: Sequence[Any]) -> StatedRelation:
    axes = 3 + len(SCOPE_FIELDS)
    return StatedRelation(
        relation=read_relation(row[axes:]),
        memory_id=row[0],
        scope=Scope(*row[3:axes]),
        told_at=row[1],
        untold_at=row[2],
    )


def read_relation(values: Sequence[Any]) -> Relation:
    fields: Mapping[str, Any] = dict(zip(graph_rows.RELATION, values, strict=True))
    return Relation(**{**fields, "polarity": bool(fields["polarity"])})


def similar_names(connection: sqlite3.Connection, scope: Scope, name: str, limit: int) -> list[Entity]:
    """Return the scope's entities whose names share a word's beginning with a name, the most similar first."""
    starts = sorted(graph_rows.beginnings(entity_key(name)))
    rows = connection.execute(
        "SELECT m.entity_key, count(DISTINCT m.memory_id) FROM ("
        "SELECT DISTINCT entity_key FROM words WHERE start IN (SELECT value FROM json_each(:starts))"
        f") w CROSS JOIN mentions m ON m.entity_key = w.entity_key WHERE {_stated(scope, None, 'm.')} "
        "GROUP BY m.entity_key",
        _values(scope, None, starts=json.dumps(starts)),
    )
    return _gathered(connection, scope, graph_rows.most_alike(name, dict(rows.fetchall()), limit), None)


TABLES = ("mentions", "relations")
_INSERT_MENTION = (
    f"INSERT INTO mentions ({', '.join((*STATED, *graph_rows.MENTION))}, entity_key) "
    f"VALUES ({', '.join('?' * (len(STATED) + len(graph_rows.MENTION) + 1))})"
)
_INSERT_RELATION = (
    f"INSERT INTO relations ({', '.join((*STATED, *graph_rows.RELATION))}, source_key, target_key) "
    f"VALUES ({', '.join('?' * (len(STATED) + len(graph_rows.RELATION) + 2))})"
)

_OF_MEMORIES = "memory_id IN (SELECT value FROM json_each(:ids))"
Id = tuple[str, int]  # a row's table, and its id there


def state(connection: sqlite3.Connection, statement: Statement, moment: str) -> None:
    changes = graph_rows.plan(_rows(connection, statement.memory_id, statement.by), statement)
    for table, number in changes.untell:
        connection.execute(f"UPDATE {table} SET untold_at = ? WHERE id = ?", (moment, number))
    for (table, number), told_at in changes.tell:
        connection.execute(f"UPDATE {table} SET told_at = ?, untold_at = NULL WHERE id = ?", (told_at, number))
    for table, number in changes.drop:
        connection.execute(f"DELETE FROM {table} WHERE id = ?", (number,))
    _insert(connection, statement, changes)


def _rows(connection: sqlite3.Connection, memory_id: str, reader: str) -> Iterable[graph_rows.Row[Id]]:
    """Return all rows of a memory and reader."""
    whose = "WHERE memory_id = ? AND reader = ?"
    for row in connection.execute(
        f"SELECT id, {', '.join((*STATED, *graph_rows.MENTION))} FROM mentions {whose}", (memory_id, reader)
    ).fetchall():
        content: Mention | Relation = Mention(**dict(zip(graph_rows.MENTION, row[1 + len(STATED) :], strict=True)))
        yield graph_rows.Row(("mentions", row[0]), _scope(row), content, row[len(STATED) - 1], row[len(STATED)])
    for row in connection.execute(
        f"SELECT id, {', '.join((*STATED, *graph_rows.RELATION))} FROM relations {whose}", (memory_id, reader)
    ).fetchall():
        content = read_relation(row[1 + len(STATED) :])
        yield graph_rows.Row(("relations", row[0]), _scope(row), content, row[len(STATED) - 1], row[len(STATED)])


def _scope(row: Sequence[Any]) -> Scope:
    return Scope(*row[3 : 3 + len(SCOPE_FIELDS)])


def _insert(connection: sqlite3.Connection, statement: Statement, changes: graph_rows.Plan[Id]) -> None:
    scope = [getattr(statement.scope, axis) for axis in SCOPE_FIELDS]
    stated = [statement.memory_id, statement.by, *scope, statement.told_at, None]
    for content in changes.insert:
        if isinstance(content, Mention):
            values = [getattr(content, name) for name in graph_rows.MENTION]
            connection.execute(_INSERT_MENTION, [*stated, *values, content.key])
            words = [(start, content.key) for start in graph_rows.beginnings(content.key)]
            connection.executemany("INSERT OR IGNORE INTO words (start, entity_key) VALUES (?, ?)", words)
        else:
            values = [getattr(content, name) for name in graph_rows.RELATION]
            connection.execute(_INSERT_RELATION, [*stated, *values, content.source_key, content.target_key])


def erase(connection: sqlite3.Connection, which: str, values: Mapping[str, Any]) -> int:
    """Remove rows matching a condition, and name words that are no longer used; return the number of rows."""
    keys = [key for (key,) in connection.execute(f"SELECT DISTINCT entity_key FROM mentions WHERE {which}", values)]
    gone = sum(connection.execute(f"DELETE FROM {table} WHERE {which}", values).rowcount for table in TABLES)
    for key in keys:
        if connection.execute("SELECT 1 FROM mentions WHERE entity_key = ? LIMIT 1", (key,)).fetchone() is None:
            words = [(start, key) for start in graph_rows.beginnings(key)]
            connection.executemany("DELETE FROM words WHERE start = ? AND entity_key = ?", words)
    return gone


def _listed(memory_ids: Sequence[str]) -> str:
    return json.dumps(graph_rows.askable(memory_ids))


T = TypeVar("T")
_log = logging.getLogger("perdure")


class SqliteGraphStore(graph_rows.KeyedGraphStore):
    """Stores the graph in one file, which threads, event loops and processes may share; needs no server."""

    name: ClassVar[str] = "sqlite"

    class Settings(BaseModel):
        """The file's path, and how long to wait for it."""

        model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

        path: UserPath = Field(Path("~/.memory/graph.db"), validate_default=True)
        """The file; created with its folder if it does not exist, readable by this user alone."""
        busy_timeout: float = Field(10.0, ge=0)
        """Seconds to wait for another process that is writing."""
        scrub_mb: int = Field(256, ge=0)
        """Megabytes up to which an erasure rewrites the file at once; a larger file is rewritten at close."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._opening = threading.Lock()
        self._open: Database | None = None

    async def open(self) -> None:
        if self._open is None:  # every search asks
            await run_unit(self._open_file)

    def _open_file(self) -> None:
        with self._opening:
            if self._open is None:
                self._open = Database(self.settings.path, self.settings.busy_timeout)

    async def close(self) -> None:
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
        return str(await self._read(lambda connection: read_meta(connection, "identity")))

    async def state(self, statement: Statement, moment: str) -> None:
        stated = graph_rows.checked(statement)
        await self._write(lambda connection: state(connection, stated, moment))

    async def take_back(self, memory_ids: Sequence[str], moment: str, by: str | None = None) -> None:
        values = {"moment": moment, "by": by, "ids": _listed(memory_ids)}
        stated = f"untold_at IS NULL AND {_OF_MEMORIES}{'' if by is None else ' AND reader = :by'}"

        def write(connection: sqlite3.Connection) -> None:
            for table in TABLES:
                connection.execute(f"UPDATE {table} SET untold_at = :moment WHERE {stated}", values)

        await self._write(write)

    async def erase(self, memory_ids: Sequence[str]) -> int:
        return await self._erase(_OF_MEMORIES, {"ids": _listed(memory_ids)})

    async def erase_scope(self, scope: Scope) -> int:
        return await self._erase(where(scope), scope.given())

    async def count(self, memory_ids: Sequence[str]) -> int:
        values = {"ids": _listed(memory_ids)}

        def read(connection: sqlite3.Connection) -> int:
            counts = (
                connection.execute(f"SELECT count(*) FROM {each} WHERE {_OF_MEMORIES}", values) for each in TABLES
            )
            return sum(int(found.fetchone()[0]) for found in counts)

        return await self._read(read)

    async def _entities(self, scope: Scope, keys: list[str] | None, limit: int, as_of: str | None) -> list[Entity]:
        return await self._read(lambda connection: entities(connection, scope, keys, limit, as_of))

    async def _neighbourhood(
        self, scope: Scope, keys: list[str], depth: int, limit: int, as_of: str | None
    ) -> Neighbourhood:
        return await self._read(
            lambda connection: neighbourhood(connection, scope, keys, depth=depth, limit=limit, as_of=as_of)
        )

    async def _similar_names(self, scope: Scope, name: str, limit: int) -> list[Entity]:
        return await self._read(lambda connection: similar_names(connection, scope, name, limit))

    def _database(self) -> Database:
        if self._open is None:
            raise GraphError(f"the graph {self.settings.path} is not open: call open() first")
        return self._open

    async def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        def run() -> T:
            with self._database().reading() as connection:
                return read(connection)

        return await run_blocking(run)

    async def _write(self, write: Callable[[sqlite3.Connection], T]) -> T:
        def run() -> T:
            with self._database().writing() as connection:
                return write(connection)

        return await run_unit(run)

    async def _erase(self, which: str, values: Mapping[str, Any]) -> int:
        """Remove rows matching a condition, and rewrite the file if any were removed."""

        def run() -> int:
            database = self._database()
            with database.writing() as connection:
                gone = erase(connection, which, values)
                if gone:
                    database.scrub_later(connection)
            if database.path.stat().st_size <= self.settings.scrub_mb * 1024 * 1024:
                database.scrub()  # what it cannot do now, another erasure or the close does
            return gone

        return await run_unit(run)
