"""Questions to the graph in Neo4j, each inside of one transaction.

Labels, types and property names are fixed; every value is a parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from perdure.backends.graphs._entities import Naming, beginnings, gather, most_alike
from perdure.backends.graphs._neo4j_client import Transaction, rows
from perdure.backends.graphs._neo4j_schema import Keys
from perdure.backends.graphs._neo4j_write import read_relation, read_scope
from perdure.backends.graphs._rows import nearest_first
from perdure.domain.graph import Entity, Neighbourhood, StatedRelation, entity_key
from perdure.domain.scope import Scope

_STATED = (
    "(CASE WHEN $as_of IS NULL THEN r.untold_at IS NULL "
    "ELSE r.told_at <= $as_of AND (r.untold_at IS NULL OR r.untold_at > $as_of) END)"
)
_NAMED = f"""
MATCH (e:Entity) WHERE {{where}} MATCH (m:Memory)-[r:MENTIONS]->(e) WHERE {_STATED}
RETURN e.key AS key, count(DISTINCT m) AS named
"""
_MOST_NAMED = _NAMED + "ORDER BY named DESC, key LIMIT $limit"
_NAMINGS = f"""
MATCH (e:Entity) WHERE {{where}} MATCH (:Memory)-[r:MENTIONS]->(e) WHERE {_STATED}
RETURN e.key AS key, r.name AS name, r.type AS type, r.description AS description,
       r.memory_id AS memory_id, r.told_at AS told_at
"""
_BESIDE = f"""
MATCH (e:Entity) WHERE {{where}} MATCH (e)-[r:RELATES_TO]-(o:Entity) WHERE {_STATED}
RETURN DISTINCT o.key AS key
"""
_BETWEEN = f"""
MATCH (e:Entity) WHERE {{where}} MATCH (e)-[r:RELATES_TO]->(o:Entity) WHERE o.name_id IN $names AND {_STATED}
RETURN properties(r) AS row, properties(e) AS entity
"""

_ONE_OF = "e.name_id IN $names"
_ANY = "e.name_id IS NOT NULL"


def where(scope: Scope, *conditions: str) -> str:
    """The condition that all fields which the scope gives are equal; they are parameters of their own names."""
    return " AND ".join([*(f"e.{axis} = ${axis}" for axis in scope.given()), "e.namespace = $namespace", *conditions])


def values(keys: Keys, scope: Scope) -> dict[str, Any]:
    """The parameters of that condition."""
    return {**scope.given(), "namespace": keys.namespace}


class Reader:
    """Questions of one scope, as of one moment, inside of one transaction."""

    def __init__(self, transaction: Transaction, keys: Keys, scope: Scope, as_of: str | None) -> None:
        self._transaction = transaction
        self._keys = keys
        self._scope = scope
        self._values = {**values(keys, scope), "as_of": as_of}

    async def entities(self, asked: Sequence[str] | None, limit: int) -> list[Entity]:
        """The entities, of these keys if there are any given, those named by most memories first."""
        which, names = (_ANY, []) if asked is None else (_ONE_OF, self._names(asked))
        found = await self._ask(_MOST_NAMED, which, names=names, limit=limit)
        return await self._gathered([row["key"] for row in found])

    async def neighbourhood(self, asked: Sequence[str], depth: int, limit: int) -> Neighbourhood:
        """The entities in reach, and the relations between them."""
        distance = dict.fromkeys(asked, 0)
        frontier = list(asked)
        for away in range(1, depth + 1):
            beside = await self._ask(_BESIDE, _ONE_OF, names=self._names(frontier))
            frontier = [row["key"] for row in beside if row["key"] not in distance]
            distance.update(dict.fromkeys(frontier, away))
        found = await self._ask(_NAMED, _ONE_OF, names=self._names(distance))
        named = {row["key"]: row["named"] for row in found}
        near = sorted(named, key=lambda key: (distance[key], -named[key], key))[:limit]
        distance = {key: distance[key] for key in near}
        between = await self._ask(_BETWEEN, _ONE_OF, names=self._names(near))
        relations = nearest_first([_read_stated(row["row"], row["entity"]) for row in between], distance, limit)
        return Neighbourhood(tuple(await self._gathered(near)), relations)

    async def similar_names(self, name: str, limit: int) -> list[Entity]:
        """Entities whose names have a word's beginning in common with a name, the most alike first."""
        starts = sorted(beginnings(entity_key(name)))
        alike = "any(start IN e.starts WHERE start IN $starts)"
        found = await self._ask(_NAMED, f"{_ANY} AND {alike}", starts=starts)
        return await self._gathered(most_alike(name, {row["key"]: row["named"] for row in found}, limit))

    async def _gathered(self, keys: Sequence[str]) -> list[Entity]:
        """The entities of these keys, in this order."""
        found = gather(Naming(**row) for row in await self._ask(_NAMINGS, _ONE_OF, names=self._names(keys)))
        return [found[key] for key in keys if key in found]

    def _names(self, keys: Iterable[str]) -> list[str]:
        return [self._keys.name(key) for key in keys]

    async def _ask(self, query: str, condition: str, **others: Any) -> list[dict[str, Any]]:
        text = query.replace("{where}", where(self._scope, condition))
        return await rows(self._transaction, text, **self._values, **others)


def _read_stated(row: dict[str, Any], entity: dict[str, Any]) -> StatedRelation:
    return StatedRelation(
        relation=read_relation(row),
        memory_id=row["memory_id"],
        scope=read_scope(entity),
        told_at=row["told_at"],
        untold_at=row.get("untold_at"),
    )
