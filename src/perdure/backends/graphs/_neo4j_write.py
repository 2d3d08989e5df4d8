"""Changes of the graph in Neo4j, each inside of one transaction.

Labels, types and property names are fixed; every value is a parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.backends.graphs._neo4j_client import Transaction, rows
from perdure.backends.graphs._neo4j_schema import Keys, lock
from perdure.backends.graphs._rows import MENTION, RELATION, Plan, Row, plan
from perdure.domain.graph import Mention, Relation, Statement
from perdure.domain.scope import SCOPE_FIELDS, Scope

PART = 5000
"""Entities that one transaction of an erasure removes."""

_STATED = """
MATCH (:Memory {perdure_id: $memory})-[r:MENTIONS]->(e:Entity) WHERE r.by = $by
RETURN elementId(r) AS id, properties(r) AS row, properties(e) AS entity
UNION ALL
MATCH (e:Entity)-[r:RELATES_TO]->(:Entity) WHERE r.memory = $memory AND r.by = $by
RETURN elementId(r) AS id, properties(r) AS row, properties(e) AS entity
"""
_UNTELL = "UNWIND $ids AS id MATCH ()-[r]->() WHERE elementId(r) = id SET r.untold_at = $moment"
_TELL = """
UNWIND $told AS told MATCH ()-[r]->() WHERE elementId(r) = told.id SET r.told_at = told.at REMOVE r.untold_at
"""
_DROP = "UNWIND $ids AS id MATCH ()-[r]->() WHERE elementId(r) = id DELETE r"
_MENTION = """
MERGE (m:Memory {perdure_id: $memory}) ON CREATE SET m.id = $id, m.namespace = $namespace
WITH m UNWIND $mentions AS mention
MERGE (e:Entity {perdure_id: mention.entity}) ON CREATE SET e += mention.node
CREATE (m)-[r:MENTIONS]->(e) SET r = mention.row
"""
_RELATE = """
UNWIND $relations AS relation
MATCH (s:Entity {perdure_id: relation.source}) MATCH (t:Entity {perdure_id: relation.target})
CREATE (s)-[r:RELATES_TO]->(t) SET r = relation.row
"""
_TAKE_BACK = (
    """
UNWIND $memories AS id MATCH (:Memory {perdure_id: id})-[r:MENTIONS]->()
WHERE r.untold_at IS NULL AND ($by IS NULL OR r.by = $by) SET r.untold_at = $moment
""",
    """
UNWIND $memories AS id MATCH ()-[r:RELATES_TO]->() WHERE r.memory = id
AND r.untold_at IS NULL AND ($by IS NULL OR r.by = $by) SET r.untold_at = $moment
""",
)
_COUNT = """
UNWIND $memories AS id
RETURN sum(COUNT { (:Memory {perdure_id: id})-[:MENTIONS]->() })
     + sum(COUNT { MATCH ()-[r:RELATES_TO]->() WHERE r.memory = id }) AS rows
"""
_ERASE_RELATIONS = "UNWIND $memories AS id MATCH ()-[r:RELATES_TO]->() WHERE r.memory = id DELETE r"
_ERASE_MEMORIES = """
UNWIND $memories AS id MATCH (m:Memory {perdure_id: id})
OPTIONAL MATCH (m)-[:MENTIONS]->(e:Entity)
WITH m, collect(DISTINCT elementId(e)) AS entities
DETACH DELETE m
RETURN entities
"""
_ERASE_ENTITIES = """
UNWIND $entities AS id MATCH (e:Entity) WHERE elementId(e) = id AND NOT EXISTS { (e)--() } DELETE e
"""
_ERASE_PART = """
MATCH (e:Entity) WHERE {where} WITH e LIMIT $part
WITH collect(e) AS part
WITH part,
     COLLECT { UNWIND part AS e MATCH (m:Memory)-[:MENTIONS]->(e) RETURN DISTINCT elementId(m) } AS memories,
     COUNT { UNWIND part AS e MATCH (:Memory)-[r:MENTIONS]->(e) RETURN r } AS mentions,
     COUNT { UNWIND part AS e MATCH (e)-[r:RELATES_TO]-(:Entity) RETURN DISTINCT r } AS relations
FOREACH (e IN part | DETACH DELETE e)
RETURN memories, mentions + relations AS rows, size(part) AS entities
"""
_ERASE_LEFT = """
UNWIND $memories AS id MATCH (m:Memory) WHERE elementId(m) = id AND NOT EXISTS { (m)--() } DELETE m
"""


async def state(transaction: Transaction, keys: Keys, statement: Statement, moment: str) -> None:
    """Make the memory state this, as this reader read it."""
    memory = keys.memory(statement.memory_id)
    await lock(transaction, keys.locks_of([memory, statement.scope]))
    found = await rows(transaction, _STATED, memory=memory, by=statement.by)
    changes = plan((_row(each) for each in found), statement)
    if changes.untell:
        await rows(transaction, _UNTELL, ids=changes.untell, moment=moment)
    if changes.tell:
        await rows(transaction, _TELL, told=[{"id": id, "at": at} for id, at in changes.tell])
    if changes.drop:
        await rows(transaction, _DROP, ids=changes.drop)
    if changes.insert:
        await _insert(transaction, keys, statement, changes)


def _row(found: Mapping[str, Any]) -> Row[str]:
    row, entity = found["row"], found["entity"]
    content = read_relation(row) if "relation" in row else Mention(**{name: row[name] for name in MENTION})
    return Row(found["id"], read_scope(entity), content, row["told_at"], row.get("untold_at"))


def read_relation(row: Mapping[str, Any]) -> Relation:
    """The relation that an edge's properties hold."""
    fields: Mapping[str, Any] = {name: row.get(name) for name in RELATION}
    return Relation(**fields)


def read_scope(entity: Mapping[str, Any]) -> Scope:
    """The scope of an entity's node."""
    return Scope(**{axis: entity.get(axis) for axis in SCOPE_FIELDS})


async def _insert(transaction: Transaction, keys: Keys, statement: Statement, changes: Plan[str]) -> None:
    memory, scope = keys.memory(statement.memory_id), statement.scope
    stated = {"memory": memory, "memory_id": statement.memory_id, "by": statement.by, "told_at": statement.told_at}
    mentions: list[dict[str, Any]] = []
    relations: list[dict[str, Any]] = []
    for content in changes.insert:
        if isinstance(content, Mention):
            row = {**stated, **{name: getattr(content, name) for name in MENTION}}
            node = keys.entity_node(scope, content.key)
            mentions.append({"entity": keys.entity(scope, content.key), "node": node, "row": row})
        else:
            row = {**stated, **{name: getattr(content, name) for name in RELATION}}
            ends = {
                "source": keys.entity(scope, content.source_key),
                "target": keys.entity(scope, content.target_key),
            }
            relations.append({**ends, "row": row})
    if mentions:
        values = {"memory": memory, "id": statement.memory_id, "namespace": keys.namespace, "mentions": mentions}
        await rows(transaction, _MENTION, **values)
    if relations:
        await rows(transaction, _RELATE, relations=relations)


async def take_back(
    transaction: Transaction, keys: Keys, memory_ids: Sequence[str], moment: str, by: str | None
) -> None:
    """Let the memories state nothing any more."""
    memories = [keys.memory(memory_id) for memory_id in memory_ids]
    await lock(transaction, keys.locks_of(memories))
    for query in _TAKE_BACK:
        await rows(transaction, query, memories=memories, moment=moment, by=by)


async def count(transaction: Transaction, keys: Keys, memory_ids: Sequence[str]) -> int:
    """How many relationships these memories have."""
    found = await rows(transaction, _COUNT, memories=[keys.memory(memory_id) for memory_id in memory_ids])
    return int(found[0]["rows"] or 0) if found else 0


async def erase(transaction: Transaction, keys: Keys, memory_ids: Sequence[str]) -> int:
    """Remove all that these memories ever stated, and the entities that nobody else names; how many relationships."""
    await lock(transaction, keys.locks)
    gone = await count(transaction, keys, memory_ids)
    memories = [keys.memory(memory_id) for memory_id in memory_ids]
    await rows(transaction, _ERASE_RELATIONS, memories=memories)
    left = await rows(transaction, _ERASE_MEMORIES, memories=memories)
    entities = sorted({entity for row in left for entity in row["entities"]})
    await rows(transaction, _ERASE_ENTITIES, entities=entities)
    return gone


async def erase_part(transaction: Transaction, keys: Keys, where: str, values: Mapping[str, Any]) -> tuple[int, bool]:
    """Remove some of the entities for which a condition holds, with all that names them; how many relationships went,
    and whether there may be more."""
    await lock(transaction, keys.locks)
    found = (await rows(transaction, _ERASE_PART.replace("{where}", where), **values, part=PART))[0]
    await rows(transaction, _ERASE_LEFT, memories=found["memories"])
    return found["rows"], found["entities"] == PART
