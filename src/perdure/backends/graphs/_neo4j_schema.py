"""What Neo4j holds for perdure, and the constraints and indexes under which it is found.

    (:Memory)-[:MENTIONS]->(:Entity)     a memory, as one reader read it, names an entity between two moments
    (:Entity)-[:RELATES_TO]->(:Entity)   a memory states that one entity stands to another
    (:PerdureGraph)                      one for each namespace: its identity, and the version of this layout
    (:PerdureLock)                       what writers wait for

An entity is a node for each scope that names it, so that walls run between nodes. Long texts make no index key:
`perdure_id` and `name_id` are digests, and hold the namespace too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any
from uuid import uuid4

from perdure.backends.graphs._entities import beginnings
from perdure.backends.graphs._neo4j_client import Client, Transaction, rows
from perdure.domain.errors import GraphError
from perdure.domain.scope import SCOPE_FIELDS, Scope

VERSION = 1
"""The version of this layout, kept in the database."""

STRIPES = 32
"""Locks over which writers are spread."""

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
    """The names under which things of one namespace are found."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.locks = [f"{namespace}:{number:02}" for number in range(STRIPES)]

    def memory(self, memory_id: str) -> str:
        """Which node a memory is."""
        return _digest(self.namespace, memory_id)

    def name(self, key: str) -> str:
        """By which an entity of any scope is found."""
        return _digest(self.namespace, key)

    def entity(self, scope: Scope, key: str) -> str:
        """Which node an entity is."""
        return _digest(self.namespace, key, sorted(scope.given().items()))

    def entity_node(self, scope: Scope, key: str) -> dict[str, Any]:
        """What an entity's node holds."""
        return {
            **scope.given(),
            "namespace": self.namespace,
            "key": key,
            "name_id": self.name(key),
            "starts": sorted(beginnings(key)),
        }

    def locks_of(self, things: Iterable[object]) -> list[str]:
        """The locks of memories and scopes, in the order in which every writer takes them."""
        return sorted({self.locks[int(_digest(thing), 16) % STRIPES] for thing in things})


def _digest(*parts: object) -> str:
    return blake2b(json.dumps(parts, default=str).encode(), digest_size=16).hexdigest()


async def prepare(client: Client, keys: Keys) -> str:
    """Make what is missing of constraints, indexes and our own nodes; the graph's identity."""

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
    """Wait for other writers of the same memories and scopes, and keep them waiting until the transaction ends."""
    await rows(transaction, _LOCK, locks=locks)
