"""Changes of the SQLite graph, each inside of a write transaction."""

# ruff: noqa: S608  (only our own names are written into SQL; every value is bound)

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from perdure.backends.graphs._entities import beginnings
from perdure.backends.graphs._rows import MENTION, RELATION, Plan, Row, plan
from perdure.backends.graphs._sqlite_read import read_relation, where
from perdure.backends.graphs._sqlite_schema import STATED
from perdure.domain.graph import Mention, Relation, Statement
from perdure.domain.scope import SCOPE_FIELDS, Scope

TABLES = ("mentions", "relations")

_INSERT_MENTION = (
    f"INSERT INTO mentions ({', '.join((*STATED, *MENTION))}, entity_key) "
    f"VALUES ({', '.join('?' * (len(STATED) + len(MENTION) + 1))})"
)
_INSERT_RELATION = (
    f"INSERT INTO relations ({', '.join((*STATED, *RELATION))}, source_key, target_key) "
    f"VALUES ({', '.join('?' * (len(STATED) + len(RELATION) + 2))})"
)

Id = tuple[str, int]
"""A row's table, and its id there."""


def state(connection: sqlite3.Connection, statement: Statement, moment: str) -> None:
    """Make the memory state this, as this reader read it."""
    changes = plan(_rows(connection, statement.memory_id, statement.by), statement)
    for table, number in changes.untell:
        connection.execute(f"UPDATE {table} SET untold_at = ? WHERE id = ?", (moment, number))
    for (table, number), told_at in changes.tell:
        connection.execute(f"UPDATE {table} SET told_at = ?, untold_at = NULL WHERE id = ?", (told_at, number))
    for table, number in changes.drop:
        connection.execute(f"DELETE FROM {table} WHERE id = ?", (number,))
    _insert(connection, statement, changes)


def _rows(connection: sqlite3.Connection, memory_id: str, reader: str) -> Iterable[Row[Id]]:
    """All that the memory ever stated, as this reader read it."""
    whose = "WHERE memory_id = ? AND reader = ?"
    for row in connection.execute(
        f"SELECT id, {', '.join((*STATED, *MENTION))} FROM mentions {whose}", (memory_id, reader)
    ).fetchall():
        content: Mention | Relation = Mention(**dict(zip(MENTION, row[1 + len(STATED) :], strict=True)))
        yield Row(("mentions", row[0]), _scope(row), content, row[len(STATED) - 1], row[len(STATED)])
    for row in connection.execute(
        f"SELECT id, {', '.join((*STATED, *RELATION))} FROM relations {whose}", (memory_id, reader)
    ).fetchall():
        content = read_relation(row[1 + len(STATED) :])
        yield Row(("relations", row[0]), _scope(row), content, row[len(STATED) - 1], row[len(STATED)])


def _scope(row: Sequence[Any]) -> Scope:
    return Scope(*row[3 : 3 + len(SCOPE_FIELDS)])


def _insert(connection: sqlite3.Connection, statement: Statement, changes: Plan[Id]) -> None:
    scope = [getattr(statement.scope, axis) for axis in SCOPE_FIELDS]
    stated = [statement.memory_id, statement.by, *scope, statement.told_at, None]
    for content in changes.insert:
        if isinstance(content, Mention):
            values = [getattr(content, name) for name in MENTION]
            connection.execute(_INSERT_MENTION, [*stated, *values, content.key])
            words = [(start, content.key) for start in beginnings(content.key)]
            connection.executemany("INSERT OR IGNORE INTO words (start, entity_key) VALUES (?, ?)", words)
        else:
            values = [getattr(content, name) for name in RELATION]
            connection.execute(_INSERT_RELATION, [*stated, *values, content.source_key, content.target_key])


def take_back(connection: sqlite3.Connection, memory_ids: Sequence[str], moment: str, by: str | None) -> None:
    """Let the memories state nothing any more."""
    of_reader = "" if by is None else "AND reader = :by"
    for table in TABLES:
        connection.execute(
            f"UPDATE {table} SET untold_at = :moment WHERE untold_at IS NULL {of_reader} "
            "AND memory_id IN (SELECT value FROM json_each(:ids))",
            {"moment": moment, "by": by, "ids": json.dumps(memory_ids)},
        )


def erase(connection: sqlite3.Connection, which: str, values: dict[str, Any]) -> int:
    """Remove the rows for which a condition holds, and the words of names that are left nowhere; how many rows."""
    keys = [key for (key,) in connection.execute(f"SELECT DISTINCT entity_key FROM mentions WHERE {which}", values)]
    gone = sum(connection.execute(f"DELETE FROM {table} WHERE {which}", values).rowcount for table in TABLES)
    for key in keys:
        if connection.execute("SELECT 1 FROM mentions WHERE entity_key = ? LIMIT 1", (key,)).fetchone() is None:
            words = [(start, key) for start in beginnings(key)]
            connection.executemany("DELETE FROM words WHERE start = ? AND entity_key = ?", words)
    return gone


def count(connection: sqlite3.Connection, which: str, values: dict[str, Any]) -> int:
    """How many rows there are for which a condition holds."""
    counts = (connection.execute(f"SELECT count(*) FROM {table} WHERE {which}", values) for table in TABLES)
    return sum(int(found.fetchone()[0]) for found in counts)


def of_memories(memory_ids: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The condition for rows of these memories."""
    return "memory_id IN (SELECT value FROM json_each(:ids))", {"ids": json.dumps(memory_ids)}


def of_scope(scope: Scope) -> tuple[str, dict[str, Any]]:
    """The condition for rows of a scope."""
    return where(scope), dict(scope.given())
