"""The graph in Neo4j: memories and entities as nodes, statements as relationships."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, ClassVar, TypeVar
from uuid import uuid4

from pydantic import Field, SecretStr, field_validator

from perdure.backends.graphs import _rows as graph_rows
from perdure.backends.graphs._neo4j_client import Client, Transaction, rows
from perdure.backends.http.service import RemoteSettings, is_address, secret_from, text_from
from perdure.domain.errors import GraphDownError, GraphError
from perdure.domain.graph import Entity, Mention, Neighbourhood, Relation, StatedRelation, Statement, entity_key
from perdure.domain.scope import SCOPE_FIELDS, Scope

# What Neo4j holds for perdure, and the constraints and indexes under which it is found.
#
# (:Memory)-[:MENTIONS]->(:Entity) a memory, as one reader read it, names an entity between two moments
# (:Entity)-[:RELATES_TO]->(:Entity) a memory states that one entity stands to another (:PerdureGraph) one for each
# namespace: its identity, and the version of this layout (:PerdureLock) what writers wait for
#
# An entity is a node for each scope that names it, so that walls run between nodes. Long texts make no index key:
# `perdure_id` and `name_id` are digests, and hold the namespace too.

VERSION = 1  # the version of this layout, kept in the database
STRIPES = 32  # locks over which writers are spread
_LABELS = ("Memory", "Entity", "PerdureGraph", "PerdureLock")
_SCHEMA = (
    *(
        f"CREATE CONSTRAINT perdure_{label.lower()} IF NOT EXISTS FOR (n:{label}) REQUIRE n.perdure_id IS UNIQUE"
        for label in _LABELS
    ),
    "CREATE INDEX perdure_entity_name IF NOT EXISTS FOR (n:Entity) ON (n.name_id)",
    *(
        f"CREATE INDEX perdure_entity_{axis} IF NOT EXISTS FOR (n:Entity) ON (n.{axis}, n.name_id)"
        for axis in SCOPE_FIELDS
    ),
    "CREATE INDEX perdure_entity_namespace IF NOT EXISTS FOR (n:Entity) ON (n.namespace)",
    "CREATE INDEX perdure_relation_memory IF NOT EXISTS FOR ()-[r:RELATES_TO]-() ON (r.memory)",
)
_META = "MATCH (g:PerdureGraph {perdure_id: $graph}) RETURN g.identity AS identity, g.version AS version"
_MAKE_META = """
MERGE (g:PerdureGraph {perdure_id: $graph}) ON CREATE SET g.identity = $identity, g.version = $version
"""
_LOCK = """
UNWIND $locks AS id MERGE (l:PerdureLock {perdure_id: id}) SET l.times = coalesce(l.times, 0) + 1
"""


class Keys:
    """The keys of one namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.locks = [f"{namespace}:{number:02}" for number in range(STRIPES)]

    def memory(self, memory_id: str) -> str:
        return _digest(self.namespace, memory_id)

    def name(self, key: str) -> str:
        """Return the key of an entity of any scope."""
        return _digest(self.namespace, key)

    def entity(self, scope: Scope, key: str) -> str:
        return _digest(self.namespace, key, sorted(scope.given().items()))

    def entity_node(self, scope: Scope, key: str) -> dict[str, Any]:
        return {
            **scope.given(),
            "namespace": self.namespace,
            "key": key,
            "name_id": self.name(key),
            "starts": sorted(graph_rows.beginnings(key)),
        }

    def locks_of(self, things: Iterable[object]) -> list[str]:
        """Return the locks of memories and scopes, in the order in which every writer takes them."""
        return sorted({self.locks[int(_digest(thing), 16) % STRIPES] for thing in things})


def _digest(*parts: object) -> str:
    return blake2b(json.dumps(parts, default=str).encode(), digest_size=16).hexdigest()


async def prepare(client: Client, keys: Keys) -> str:
    """Create missing constraints, indexes and our own nodes; return the graph's id."""

    async def look(transaction: Transaction) -> list[dict[str, Any]]:
        return await rows(transaction, _META, graph=keys.namespace)

    async def make(transaction: Transaction) -> None:
        await rows(transaction, _MAKE_META, graph=keys.namespace, identity=str(uuid4()), version=VERSION)

    found = await client.read(look)
    if not found:
        for statement in _SCHEMA:
            await _make_schema(client, statement)
        await client.write(make)
        found = await client.read(look)
    version = found[0]["version"]
    if not isinstance(version, int) or version > VERSION:
        raise GraphError(
            f"the graph {keys.namespace!r} was written by a newer perdure (schema {version}, this one knows "
            f"{VERSION}): upgrade perdure"
        )
    return str(found[0]["identity"])


async def _make_schema(client: Client, statement: str) -> None:
    async def make(transaction: Transaction) -> None:
        await rows(transaction, statement)

    try:
        await client.write(make)
    except GraphError as error:
        if "AlreadyExists" not in str(error):  # another engine was faster, which is as well
            raise


async def lock(transaction: Transaction, locks: list[str]) -> None:
    """Wait for other writers of the same memories and scopes, and block them until the transaction ends."""
    await rows(transaction, _LOCK, locks=locks)


# Changes of the graph in Neo4j, each inside of one transaction.
#
# Labels, types and property names are fixed; every value is a parameter.

PART = 5000  # entities that one transaction of an erasure removes
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
    memory = keys.memory(statement.memory_id)
    await lock(transaction, keys.locks_of([memory, statement.scope]))
    found = await rows(transaction, _STATED, memory=memory, by=statement.by)
    changes = graph_rows.plan((_row(each) for each in found), statement)
    if changes.untell:
        await rows(transaction, _UNTELL, ids=changes.untell, moment=moment)
    if changes.tell:
        await rows(transaction, _TELL, told=[{"id": id, "at": at} for id, at in changes.tell])
    if changes.drop:
        await rows(transaction, _DROP, ids=changes.drop)
    if changes.insert:
        await _insert(transaction, keys, statement, changes)


def _row(found: Mapping[str, Any]) -> graph_rows.Row[str]:
    row, entity = found["row"], found["entity"]
    content = read_relation(row) if "relation" in row else Mention(**{name: row[name] for name in graph_rows.MENTION})
    return graph_rows.Row(found["id"], read_scope(entity), content, row["told_at"], row.get("untold_at"))


def read_relation(row: Mapping[str, Any]) -> Relation:
    fields: Mapping[str, Any] = {name: row.get(name) for name in graph_rows.RELATION}
    return Relation(**fields)


def read_scope(entity: Mapping[str, Any]) -> Scope:
    return Scope(**{axis: entity.get(axis) for axis in SCOPE_FIELDS})


async def _insert(transaction: Transaction, keys: Keys, statement: Statement, changes: graph_rows.Plan[str]) -> None:
    memory, scope = keys.memory(statement.memory_id), statement.scope
    stated = {"memory": memory, "memory_id": statement.memory_id, "by": statement.by, "told_at": statement.told_at}
    mentions: list[dict[str, Any]] = []
    relations: list[dict[str, Any]] = []
    for content in changes.insert:
        if isinstance(content, Mention):
            row = {**stated, **{name: getattr(content, name) for name in graph_rows.MENTION}}
            node = keys.entity_node(scope, content.key)
            mentions.append({"entity": keys.entity(scope, content.key), "node": node, "row": row})
        else:
            row = {**stated, **{name: getattr(content, name) for name in graph_rows.RELATION}}
            ends = {"source": keys.entity(scope, content.source_key), "target": keys.entity(scope, content.target_key)}
            relations.append({**ends, "row": row})
    if mentions:
        values = {"memory": memory, "id": statement.memory_id, "namespace": keys.namespace, "mentions": mentions}
        await rows(transaction, _MENTION, **values)
    if relations:
        await rows(transaction, _RELATE, relations=relations)


async def take_back(
    transaction: Transaction, keys: Keys, memory_ids: Sequence[str], moment: str, by: str | None
) -> None:
    memories = [keys.memory(memory_id) for memory_id in memory_ids]
    await lock(transaction, keys.locks_of(memories))
    for query in _TAKE_BACK:
        await rows(transaction, query, memories=memories, moment=moment, by=by)


async def count(transaction: Transaction, keys: Keys, memory_ids: Sequence[str]) -> int:
    found = await rows(transaction, _COUNT, memories=[keys.memory(memory_id) for memory_id in memory_ids])
    return int(found[0]["rows"] or 0) if found else 0


async def erase(transaction: Transaction, keys: Keys, memory_ids: Sequence[str]) -> int:
    """Remove all statements of these memories and unmentioned entities; return how many relationships."""
    await lock(transaction, keys.locks)
    gone = await count(transaction, keys, memory_ids)
    memories = [keys.memory(memory_id) for memory_id in memory_ids]
    await rows(transaction, _ERASE_RELATIONS, memories=memories)
    left = await rows(transaction, _ERASE_MEMORIES, memories=memories)
    entities = sorted({entity for row in left for entity in row["entities"]})
    await rows(transaction, _ERASE_ENTITIES, entities=entities)
    return gone


async def erase_part(transaction: Transaction, keys: Keys, where: str, values: Mapping[str, Any]) -> tuple[int, bool]:
    """Remove some entities and their mentions; return how many relationships, and whether there are more."""
    await lock(transaction, keys.locks)
    found = (await rows(transaction, _ERASE_PART.replace("{where}", where), **values, part=PART))[0]
    await rows(transaction, _ERASE_LEFT, memories=found["memories"])
    return found["rows"], found["entities"] == PART


# Questions to the graph in Neo4j, each inside of one transaction.
#
# Labels, types and property names are fixed; every value is a parameter.

_LIVE = (
    "(CASE WHEN $as_of IS NULL THEN r.untold_at IS NULL "
    "ELSE r.told_at <= $as_of AND (r.untold_at IS NULL OR r.untold_at > $as_of) END)"
)
_NAMED = f"""
MATCH (e:Entity) WHERE {{where}} MATCH (m:Memory)-[r:MENTIONS]->(e) WHERE {_LIVE}
RETURN e.key AS key, count(DISTINCT m) AS named
"""
_MOST_NAMED = _NAMED + "ORDER BY named DESC, key LIMIT $limit"
_NAMINGS = f"""
MATCH (e:Entity) WHERE {{where}} MATCH (:Memory)-[r:MENTIONS]->(e) WHERE {_LIVE}
RETURN e.key AS key, r.name AS name, r.type AS type, r.description AS description,
       r.memory_id AS memory_id, r.told_at AS told_at
"""
_BESIDE = f"""
MATCH (e:Entity) WHERE {{where}} MATCH (e)-[r:RELATES_TO]-(o:Entity) WHERE {_LIVE}
RETURN DISTINCT o.key AS key
"""
_BETWEEN = f"""
MATCH (e:Entity) WHERE {{where}} MATCH (e)-[r:RELATES_TO]->(o:Entity) WHERE o.name_id IN $names AND {_LIVE}
RETURN properties(r) AS row, properties(e) AS entity
"""

_ONE_OF = "e.name_id IN $names"
_ANY = "e.name_id IS NOT NULL"


def scope_clause(scope: Scope, *conditions: str) -> str:
    """Return the condition that all given scope fields are equal; they are parameters of their own names."""
    return " AND ".join([*(f"e.{axis} = ${axis}" for axis in scope.given()), "e.namespace = $namespace", *conditions])


def scope_parameters(keys: Keys, scope: Scope) -> dict[str, Any]:
    """Return the parameters of that condition."""
    return {**scope.given(), "namespace": keys.namespace}


class Reader:
    """Queries of one scope, as of one moment, in one transaction."""

    def __init__(self, transaction: Transaction, keys: Keys, scope: Scope, as_of: str | None) -> None:
        self._transaction = transaction
        self._keys = keys
        self._scope = scope
        self._values = {**scope_parameters(keys, scope), "as_of": as_of}

    async def entities(self, asked: Sequence[str] | None, limit: int) -> list[Entity]:
        """Return the entities, of these keys if given, the most mentioned first."""
        which, names = (_ANY, []) if asked is None else (_ONE_OF, self._names(asked))
        found = await self._ask(_MOST_NAMED, which, names=names, limit=limit)
        return await self._gathered([row["key"] for row in found])

    async def neighbourhood(self, asked: Sequence[str], depth: int, limit: int) -> Neighbourhood:
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
        relations = graph_rows.nearest_first(
            [_read_stated(row["row"], row["entity"]) for row in between], distance, limit
        )
        return Neighbourhood(tuple(await self._gathered(near)), relations)

    async def similar_names(self, name: str, limit: int) -> list[Entity]:
        """Return entities whose names share a word's beginning with a name, the most similar first."""
        starts = sorted(graph_rows.beginnings(entity_key(name)))
        alike = "any(start IN e.starts WHERE start IN $starts)"
        found = await self._ask(_NAMED, f"{_ANY} AND {alike}", starts=starts)
        return await self._gathered(graph_rows.most_alike(name, {row["key"]: row["named"] for row in found}, limit))

    async def _gathered(self, keys: Sequence[str]) -> list[Entity]:
        found = graph_rows.gather(
            graph_rows.Naming(**row) for row in await self._ask(_NAMINGS, _ONE_OF, names=self._names(keys))
        )
        return [found[key] for key in keys if key in found]

    def _names(self, keys: Iterable[str]) -> list[str]:
        return [self._keys.name(key) for key in keys]

    async def _ask(self, query: str, condition: str, **others: Any) -> list[dict[str, Any]]:
        text = query.replace("{where}", scope_clause(self._scope, condition))
        return await rows(self._transaction, text, **self._values, **others)


def _read_stated(row: dict[str, Any], entity: dict[str, Any]) -> StatedRelation:
    return StatedRelation(
        relation=read_relation(row),
        memory_id=row["memory_id"],
        scope=read_scope(entity),
        told_at=row["told_at"],
        untold_at=row.get("untold_at"),
    )


T = TypeVar("T")
DEFAULT_URL = "bolt://localhost:7687"
DEFAULT_USER = "neo4j"
_SCHEMES = ("bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc")


class Neo4jGraphStore(graph_rows.KeyedGraphStore):
    """Stores the graph in a Neo4j server or cluster, which several engines may share."""

    name: ClassVar[str] = "neo4j"

    class Settings(RemoteSettings):
        """The server's address and credentials."""

        url: str = Field(default_factory=lambda: text_from("NEO4J_URL") or DEFAULT_URL)
        """The server's address for Bolt; from NEO4J_URL if left out."""
        username: str = Field(default_factory=lambda: text_from("NEO4J_USER") or DEFAULT_USER)
        """The user; from NEO4J_USER if left out."""
        password: SecretStr | None = Field(default_factory=lambda: secret_from("NEO4J_PASSWORD"))
        """The password; from NEO4J_PASSWORD if left out. A server without authentication needs none."""
        database: str | None = None
        """The database; the user's home database if left out."""
        namespace: str = Field(default="perdure", pattern=r"^[a-z][a-z0-9_-]{0,39}$")
        """Name of this graph, so that several may share a database without seeing each other."""
        timeout: float = Field(default=10.0, gt=0, le=3600)
        """Seconds that a call may take, retries included; an erasure of a whole scope takes several calls."""
        retry_time: float = Field(default=2.0, ge=0, le=600)
        """Seconds during which a transaction with a transient failure is retried."""

        @field_validator("url")
        @classmethod
        def _is_an_address(cls, value: str) -> str:
            if not is_address(value, _SCHEMES) or "@" in value:
                raise ValueError(f"must be an address such as {DEFAULT_URL}, without a user")
            return value

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._keys = Keys(settings.namespace)
        self._client: Client | None = None
        self._identity: str | None = None

    async def open(self) -> None:
        if self._client is None:
            settings = self.settings
            auth = None if settings.password is None else (settings.username, settings.password.get_secret_value())
            self._client = Client(
                settings.url, auth, settings.database, timeout=settings.timeout, retry_time=settings.retry_time
            )
        try:
            await self._ready()
        except GraphDownError:
            raise
        except BaseException:
            await self.close()  # what is wrong stays wrong, and nobody closes what did not open
            raise

    async def close(self) -> None:
        client, self._client, self._identity = self._client, None, None
        if client is not None:
            await client.close()

    async def identity(self) -> str:
        await self._ready()
        return str(self._identity)

    async def _ready(self) -> Client:
        client = self._client
        if client is None:
            raise GraphError(f"the graph at {self.settings.url} is not open: call open() first")
        if self._identity is None:
            self._identity = await prepare(client, self._keys)
        return client

    async def state(self, statement: Statement, moment: str) -> None:
        stated = graph_rows.checked(statement)
        await self._write(lambda transaction: state(transaction, self._keys, stated, moment))

    async def take_back(self, memory_ids: Sequence[str], moment: str, by: str | None = None) -> None:
        ids = graph_rows.askable(memory_ids)
        await self._write(lambda transaction: take_back(transaction, self._keys, ids, moment, by))

    async def erase(self, memory_ids: Sequence[str]) -> int:
        ids = graph_rows.askable(memory_ids)
        return await self._write(lambda transaction: erase(transaction, self._keys, ids))

    async def erase_scope(self, scope: Scope) -> int:
        where, values = scope_clause(scope), scope_parameters(self._keys, scope)
        rows, more = 0, True
        while more:
            gone, more = await self._write(lambda transaction: erase_part(transaction, self._keys, where, values))
            rows += gone
        return rows

    async def count(self, memory_ids: Sequence[str]) -> int:
        ids = graph_rows.askable(memory_ids)
        client = await self._ready()
        return await client.read(lambda transaction: count(transaction, self._keys, ids))

    async def _entities(self, scope: Scope, keys: list[str] | None, limit: int, as_of: str | None) -> list[Entity]:
        return await self._read(scope, as_of, lambda reader: reader.entities(keys, limit))

    async def _neighbourhood(
        self, scope: Scope, keys: list[str], depth: int, limit: int, as_of: str | None
    ) -> Neighbourhood:
        return await self._read(scope, as_of, lambda reader: reader.neighbourhood(keys, depth, limit))

    async def _similar_names(self, scope: Scope, name: str, limit: int) -> list[Entity]:
        return await self._read(scope, None, lambda reader: reader.similar_names(name, limit))

    async def _read(self, scope: Scope, as_of: str | None, ask: Callable[[Reader], Awaitable[T]]) -> T:
        client = await self._ready()
        return await client.read(lambda transaction: ask(Reader(transaction, self._keys, scope, as_of)))

    async def _write(self, write: Callable[[Transaction], Awaitable[T]]) -> T:
        client = await self._ready()
        return await client.write(write)
