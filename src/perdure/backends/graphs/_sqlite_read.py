"""Questions to the SQLite graph, each inside of a read transaction."""

# ruff: noqa: S608  (only our own names are written into SQL; every value is bound)

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from perdure.backends.graphs._entities import Naming, beginnings, gather, most_alike
from perdure.backends.graphs._rows import RELATION, nearest_first
from perdure.domain.graph import Entity, Neighbourhood, Relation, StatedRelation, entity_key
from perdure.domain.scope import SCOPE_FIELDS, Scope

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
    """The condition that all fields which the scope gives are equal; they are bound by their own names."""
    return " AND ".join(f"{table}{axis} = :{axis}" for axis in scope.given()) or "TRUE"


def _stated(scope: Scope, as_of: str | None, table: str = "") -> str:
    """The condition that a row is of the scope, and is stated now, or was as far as had been told by then."""
    return f"{where(scope, table)} AND {(_NOW if as_of is None else _THEN).format(t=table)}"


def _values(scope: Scope, as_of: str | None, **others: Any) -> dict[str, Any]:
    return {**scope.given(), "as_of": as_of, **others}


def entities(
    connection: sqlite3.Connection, scope: Scope, keys: Sequence[str] | None, limit: int, as_of: str | None
) -> list[Entity]:
    """The entities of a scope, of these keys if there are any given, those named by most memories first."""
    among = "" if keys is None else "AND entity_key IN (SELECT value FROM json_each(:keys))"
    found = connection.execute(
        f"SELECT entity_key FROM mentions WHERE {_stated(scope, as_of)} {among} "
        "GROUP BY entity_key ORDER BY count(DISTINCT memory_id) DESC, entity_key LIMIT :limit",
        _values(scope, as_of, keys=json.dumps(keys), limit=limit),
    ).fetchall()
    return _gathered(connection, scope, [key for (key,) in found], as_of)


def _gathered(connection: sqlite3.Connection, scope: Scope, keys: Sequence[str], as_of: str | None) -> list[Entity]:
    """The entities of these keys, in this order."""
    rows = connection.execute(
        "SELECT entity_key, name, type, description, memory_id, told_at FROM mentions "
        f"WHERE {_stated(scope, as_of)} AND entity_key IN (SELECT value FROM json_each(:keys))",
        _values(scope, as_of, keys=json.dumps(keys)),
    )
    found = gather(Naming(*row) for row in rows)
    return [found[key] for key in keys]


def neighbourhood(
    connection: sqlite3.Connection, scope: Scope, keys: Sequence[str], *, depth: int, limit: int, as_of: str | None
) -> Neighbourhood:
    """The entities in reach, and the relations between them."""
    query = _REACHED.format(of_r=_stated(scope, as_of, "r."), of_m=_stated(scope, as_of, "m."))
    values = _values(scope, as_of, keys=json.dumps(keys), depth=depth, limit=limit)
    distance = {key: away for key, away, _ in connection.execute(query, values)}
    rows = connection.execute(
        f"SELECT memory_id, told_at, untold_at, {', '.join((*SCOPE_FIELDS, *RELATION))} FROM relations "
        f"WHERE {_stated(scope, as_of)} AND source_key IN (SELECT value FROM json_each(:keys)) "
        "AND target_key IN (SELECT value FROM json_each(:keys))",
        _values(scope, as_of, keys=json.dumps(list(distance))),
    )
    relations = nearest_first([_read_stated(row) for row in rows], distance, limit)
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
    """The relation of a row's columns."""
    fields: Mapping[str, Any] = dict(zip(RELATION, values, strict=True))
    return Relation(**{**fields, "polarity": bool(fields["polarity"])})


def similar_names(connection: sqlite3.Connection, scope: Scope, name: str, limit: int) -> list[Entity]:
    """Entities of the scope whose names have a word's beginning in common with a name, the most alike first."""
    starts = sorted(beginnings(entity_key(name)))
    rows = connection.execute(
        "SELECT m.entity_key, count(DISTINCT m.memory_id) FROM ("
        "SELECT DISTINCT entity_key FROM words WHERE start IN (SELECT value FROM json_each(:starts))"
        f") w CROSS JOIN mentions m ON m.entity_key = w.entity_key WHERE {_stated(scope, None, 'm.')} "
        "GROUP BY m.entity_key",
        _values(scope, None, starts=json.dumps(starts)),
    )
    return _gathered(connection, scope, most_alike(name, dict(rows.fetchall()), limit), None)
