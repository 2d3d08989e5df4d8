"""The profile `knowledge-graph`: the nine tools of MCP's own `server-memory`, with its schemas and its answers.

(npm `@modelcontextprotocol/server-memory` 2026.8.31.) What they store are ordinary memories, one for each entity,
observation and relation, so `recall` finds them, their history is kept, and a deletion can be undone.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pydantic import ConfigDict, Field

from perdure.domain.errors import EmbeddingError, NotFoundError
from perdure.domain.memory import TRUSTED, MemoryItem
from perdure.frontends.mcp.core import noted
from perdure.frontends.mcp.tool import Arguments, Tool, ToolAnswer, ToolCall
from perdure.pipeline.curation.importers.server_memory import (
    ENTITY,
    OBSERVATION,
    PART,
    RELATION,
    entity_memory,
    observation_memory,
    relation_memory,
)

ORDER = "node_order"
"""The metadata key by which the parts of the graph are in the order in which they were made."""
PAGE = 1000
AT_ONCE = 16
"""Writes that run at the same time."""


class GraphArguments(Arguments):
    """Arguments of these tools; unknown ones are ignored, as the original does."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class GraphEntity(GraphArguments):
    """An entity with its observations."""

    name: str = Field(description="The name of the entity")
    entityType: str = Field(description="The type of the entity")
    observations: list[str] = Field(description="An array of observation contents associated with the entity")


class GraphRelation(GraphArguments):
    """A relation between two entities."""

    source: str = Field(alias="from", description="The name of the entity where the relation starts")
    target: str = Field(alias="to", description="The name of the entity where the relation ends")
    relationType: str = Field(description="The type of the relation")


class GraphAnswer(ToolAnswer):
    """An answer whose text is indented JSON, as the original's."""

    def as_text(self) -> str:
        """Return it as indented JSON."""
        return json.dumps(self.shown(), ensure_ascii=False, indent=2)

    def shown(self) -> Any:
        """Return what the text says."""
        return self.plain()

    def plain(self) -> dict[str, Any]:
        """Return the answer as plain JSON values."""
        return self.model_dump(mode="json", by_alias=True)


@dataclass(slots=True)
class StoredEntity:
    """An entity as it is stored: the ids of its memories, and of those of its observations by content."""

    kind: str
    ids: list[str] = field(default_factory=list)
    observations: dict[str, list[str]] = field(default_factory=dict)


@dataclass(slots=True)
class StoredGraph:
    """The graph in a caller's scope. Two processes may store the same part; it is one, with two memories."""

    entities: dict[str, StoredEntity] = field(default_factory=dict)
    relations: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, items: Iterable[MemoryItem]) -> StoredGraph:
        """Build it from its memories."""
        graph = cls()
        parts = sorted(items, key=lambda item: (str(item.metadata.get(ORDER, "")), item.created_at, item.id))
        for item in parts:
            told = item.metadata
            if told[PART] == ENTITY:
                graph.entities.setdefault(told["node"], StoredEntity(told["node_type"])).ids.append(item.id)
            elif told[PART] == RELATION:
                key = told["node"], told["node_target"], told["node_relation"]
                graph.relations.setdefault(key, []).append(item.id)
        for item in parts:
            told = item.metadata
            if told[PART] == OBSERVATION and (entity := graph.entities.get(told["node"])) is not None:
                entity.observations.setdefault(told["observation"], []).append(item.id)
        return graph

    def entity(self, name: str) -> GraphEntity:
        """Return an entity as the tools answer it."""
        found = self.entities[name]
        return GraphEntity(name=name, entityType=found.kind, observations=[*found.observations])

    def around(self, names: Sequence[str]) -> KnowledgeGraph:
        """Return entities, in the order of the graph, with the relations that begin or end at one of them."""
        wanted = set(names)
        return KnowledgeGraph(
            entities=[self.entity(name) for name in self.entities if name in wanted],
            relations=[_relation(key) for key in self.relations if wanted & {key[0], key[1]}],
        )


class KnowledgeGraph(GraphAnswer):
    """Answer of the reading tools."""

    entities: list[GraphEntity]
    relations: list[GraphRelation]


async def load(call: ToolCall) -> StoredGraph:
    """Read the graph; parts in quarantine stay out, because the answer enters a prompt."""
    filters = {"AND": [{f"metadata.{PART}": {"in": [ENTITY, OBSERVATION, RELATION]}}, TRUSTED]}
    items: list[MemoryItem] = []
    cursor = None
    while True:
        page = await call.memory.get_all(limit=PAGE, filters=filters, cursor=cursor)
        items += page.results
        cursor = page.next_cursor
        if cursor is None:
            return StoredGraph.of(items)


async def store(call: ToolCall, memories: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Store parts as they are, in this order; nothing is reconciled with other memories."""
    turns, now = asyncio.Semaphore(AT_ONCE), time.time_ns()

    async def write(place: int, text: str, metadata: dict[str, Any]) -> None:
        async with turns:
            told = {**metadata, ORDER: f"{now:020d}-{place:06d}"}
            result = await call.memory.add(text, metadata=noted(call, told), infer=False)
            if not result.results:
                raise EmbeddingError("; ".join(result.warnings))

    await asyncio.gather(*(write(place, *memory) for place, memory in enumerate(memories)))


async def remove(call: ToolCall, ids: Iterable[str]) -> None:
    """Delete parts; one that another process has deleted meanwhile is no error."""
    for id in ids:
        with suppress(NotFoundError):
            await call.memory.delete(id)


class CreateEntitiesArguments(GraphArguments):
    """Arguments of create_entities."""

    entities: list[GraphEntity]


class CreatedEntities(GraphAnswer):
    """Answer of create_entities: those that were new."""

    entities: list[GraphEntity]

    def shown(self) -> Any:
        """Return the entities alone."""
        return self.plain()["entities"]


async def create_entities(call: ToolCall, given: CreateEntitiesArguments) -> CreatedEntities:
    """Store the entities whose names are new, with their observations."""
    known = set((await load(call)).entities)
    new = []
    for entity in given.entities:
        if entity.name not in known:
            known.add(entity.name)
            new.append(entity)
    memories = []
    for entity in new:
        memories.append(entity_memory(entity.name, entity.entityType))
        memories += [observation_memory(entity.name, content) for content in dict.fromkeys(entity.observations)]
    await store(call, memories)
    return CreatedEntities(entities=new)


class RelationsArguments(GraphArguments):
    """Arguments of create_relations."""

    relations: list[GraphRelation]


class CreatedRelations(GraphAnswer):
    """Answer of create_relations: those that were new."""

    relations: list[GraphRelation]

    def shown(self) -> Any:
        """Return the relations alone."""
        return self.plain()["relations"]


async def create_relations(call: ToolCall, given: RelationsArguments) -> CreatedRelations:
    """Store the relations that are new."""
    known = (await load(call)).relations
    new = [key for key in dict.fromkeys(map(_key, given.relations)) if key not in known]
    await store(call, [relation_memory(source, relation, target) for source, target, relation in new])
    return CreatedRelations(relations=[_relation(key) for key in new])


class NewObservations(GraphArguments):
    """Observations for one entity."""

    entityName: str = Field(description="The name of the entity to add the observations to")
    contents: list[str] = Field(description="An array of observation contents to add")


class AddObservationsArguments(GraphArguments):
    """Arguments of add_observations."""

    observations: list[NewObservations]


class AddedToEntity(ToolAnswer):
    """The observations that were new for one entity."""

    entityName: str
    addedObservations: list[str]


class AddedObservations(GraphAnswer):
    """Answer of add_observations."""

    results: list[AddedToEntity]

    def shown(self) -> Any:
        """Return the results alone."""
        return self.plain()["results"]


async def add_observations(call: ToolCall, given: AddObservationsArguments) -> AddedObservations:
    """Store the observations that are new; NotFoundError names an entity that does not exist, and nothing is stored."""
    graph = await load(call)
    results, memories = [], []
    for each in given.observations:
        entity = graph.entities.get(each.entityName)
        if entity is None:
            raise NotFoundError(f"Entity with name {each.entityName} not found")
        added = [content for content in dict.fromkeys(each.contents) if content not in entity.observations]
        entity.observations.update({content: [] for content in added})
        memories += [observation_memory(each.entityName, content) for content in added]
        results.append(AddedToEntity(entityName=each.entityName, addedObservations=added))
    await store(call, memories)
    return AddedObservations(results=results)


class Done(GraphAnswer):
    """Answer of the deleting tools."""

    success: bool = True
    message: str

    def as_text(self) -> str:
        """Return the message."""
        return self.message


class DeleteEntitiesArguments(GraphArguments):
    """Arguments of delete_entities."""

    entityNames: list[str] = Field(description="An array of entity names to delete")


async def delete_entities(call: ToolCall, given: DeleteEntitiesArguments) -> Done:
    """Delete entities with their observations and their relations."""
    graph, names = await load(call), set(given.entityNames)
    for key, ids in graph.relations.items():
        if names & {key[0], key[1]}:
            await remove(call, ids)
    for name, entity in graph.entities.items():
        if name in names:
            await remove(call, [id for ids in entity.observations.values() for id in ids])
            await remove(call, entity.ids)
    return Done(message="Entities deleted successfully")


class OldObservations(GraphArguments):
    """Observations of one entity that are to go."""

    entityName: str = Field(description="The name of the entity containing the observations")
    observations: list[str] = Field(description="An array of observations to delete")


class DeleteObservationsArguments(GraphArguments):
    """Arguments of delete_observations."""

    deletions: list[OldObservations]


async def delete_observations(call: ToolCall, given: DeleteObservationsArguments) -> Done:
    """Delete observations; one that does not exist is no error."""
    graph = await load(call)
    for each in given.deletions:
        if (entity := graph.entities.get(each.entityName)) is not None:
            for content in dict.fromkeys(each.observations):
                await remove(call, entity.observations.get(content, ()))
    return Done(message="Observations deleted successfully")


class DeleteRelationsArguments(GraphArguments):
    """Arguments of delete_relations."""

    relations: list[GraphRelation] = Field(description="An array of relations to delete")


async def delete_relations(call: ToolCall, given: DeleteRelationsArguments) -> Done:
    """Delete relations; one that does not exist is no error."""
    stored = (await load(call)).relations
    for key in dict.fromkeys(map(_key, given.relations)):
        await remove(call, stored.get(key, ()))
    return Done(message="Relations deleted successfully")


class ReadGraphArguments(GraphArguments):
    """Arguments of read_graph: none."""


async def read_graph(call: ToolCall, given: ReadGraphArguments) -> KnowledgeGraph:
    """Return the whole graph."""
    graph = await load(call)
    return KnowledgeGraph(
        entities=[graph.entity(name) for name in graph.entities], relations=[_relation(key) for key in graph.relations]
    )


class SearchNodesArguments(GraphArguments):
    """Arguments of search_nodes."""

    query: str = Field(
        description="The search query to match against entity names, types, and observation content",
    )


async def search_nodes(call: ToolCall, given: SearchNodesArguments) -> KnowledgeGraph:
    """Return the entities whose name, type or observations contain the query in any case, with their relations."""
    graph, query = await load(call), given.query.lower()
    return graph.around(
        [
            name
            for name, entity in graph.entities.items()
            if any(query in text.lower() for text in (name, entity.kind, *entity.observations))
        ]
    )


class OpenNodesArguments(GraphArguments):
    """Arguments of open_nodes."""

    names: list[str] = Field(description="An array of entity names to retrieve")


async def open_nodes(call: ToolCall, given: OpenNodesArguments) -> KnowledgeGraph:
    """Return entities by name, with their relations."""
    return (await load(call)).around(given.names)


def _key(relation: GraphRelation) -> tuple[str, str, str]:
    return relation.source, relation.target, relation.relationType


def _relation(key: tuple[str, str, str]) -> GraphRelation:
    source, target, relation = key
    return GraphRelation.model_validate({"from": source, "to": target, "relationType": relation})


def _tool(name: str, description: str, **told: Any) -> Tool:
    return Tool(name=name, title=name.replace("_", " ").title(), description=description, **told)


DELETES = {"destroys": True, "repeatable": True}
TOOLS = (
    _tool(
        "create_entities",
        "Create multiple new entities in the knowledge graph",
        arguments=CreateEntitiesArguments,
        answer=CreatedEntities,
        run=create_entities,
    ),
    _tool(
        "create_relations",
        "Create multiple new relations between entities in the knowledge graph. Relations should be in active voice",
        arguments=RelationsArguments,
        answer=CreatedRelations,
        run=create_relations,
    ),
    _tool(
        "add_observations",
        "Add new observations to existing entities in the knowledge graph",
        arguments=AddObservationsArguments,
        answer=AddedObservations,
        run=add_observations,
    ),
    _tool(
        "delete_entities",
        "Delete multiple entities and their associated relations from the knowledge graph",
        arguments=DeleteEntitiesArguments,
        answer=Done,
        run=delete_entities,
        **DELETES,
    ),
    _tool(
        "delete_observations",
        "Delete specific observations from entities in the knowledge graph",
        arguments=DeleteObservationsArguments,
        answer=Done,
        run=delete_observations,
        **DELETES,
    ),
    _tool(
        "delete_relations",
        "Delete multiple relations from the knowledge graph",
        arguments=DeleteRelationsArguments,
        answer=Done,
        run=delete_relations,
        **DELETES,
    ),
    _tool(
        "read_graph",
        "Read the entire knowledge graph",
        arguments=ReadGraphArguments,
        answer=KnowledgeGraph,
        run=read_graph,
        reads=True,
    ),
    _tool(
        "search_nodes",
        "Search for nodes in the knowledge graph based on a query",
        arguments=SearchNodesArguments,
        answer=KnowledgeGraph,
        run=search_nodes,
        reads=True,
    ),
    _tool(
        "open_nodes",
        "Open specific nodes in the knowledge graph by their names",
        arguments=OpenNodesArguments,
        answer=KnowledgeGraph,
        run=open_nodes,
        reads=True,
    ),
)
