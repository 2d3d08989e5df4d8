"""Resolving: a name that a memory writes becomes the name by which its scope knows the entity (deterministic first)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from perdure.backends.graphs.base import GraphStore
from perdure.backends.llms.base import LLM
from perdure.domain.graph import Entity, Mention, Relation, entity_key
from perdure.domain.memory import LIVE, MemoryItem
from perdure.engine.kernel import Kernel
from perdure.pipeline.relate.model import choose
from perdure.pipeline.relate.resolve import resolve
from perdure.pipeline.relate.rules import USER
from perdure.pipeline.relate.stated import slot_of

Read = tuple[tuple[Mention, ...], tuple[Relation, ...]]
"""What a memory names, and what it states."""

CANDIDATES = 5
"""Known entities that a model is shown for one name."""
MOST_ASKED = 8
"""Names of one memory that a model is asked about."""
LOOKED_AT = 20
"""Memories of a known entity that are looked at."""


class Resolving:
    """Resolves names against what is known in the memory's own scope, and may be known to whoever reads it."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    async def __call__(self, graph: GraphStore, item: MemoryItem, read: Read, llm: LLM | None) -> Read:
        """What was read with the names that are known; `llm` is asked for names that rules leave open."""
        mentions, relations = read
        types = {each.name: each.type for each in reversed(mentions)}
        for relation in relations:
            types.setdefault(relation.source, "")
            types.setdefault(relation.target, "")
        known: dict[str, str] = {}
        asked = 0
        for name, type in types.items():
            if name == USER:
                continue
            candidates = await self._candidates(graph, item, name)
            found = resolve(name, type, candidates)
            if found is None and candidates and llm is not None and asked < MOST_ASKED:
                asked += 1
                found = await choose(llm, name, item.memory, candidates[:CANDIDATES])
            if found is not None and entity_key(found) != entity_key(name):
                known[name] = found
        return (
            tuple(dict.fromkeys(replace(each, name=known.get(each.name, each.name)) for each in mentions)),
            tuple(dict.fromkeys(_renamed(each, known) for each in relations)),
        )

    async def _candidates(self, graph: GraphStore, item: MemoryItem, name: str) -> list[Entity]:
        """Entities of the scope with a like name, but for those that this memory alone names."""
        near = await graph.similar_names(item.scope, name)
        others = [entity for entity in near if entity.memory_ids != (item.id,)]
        return [entity for entity in others if item.tags is None or await self._is_common(entity, item)]

    async def _is_common(self, entity: Entity, item: MemoryItem) -> bool:
        """Whether all who may read a team's memory may read one that names the entity: else its name would get out."""
        kernel = self._kernel
        rows = await kernel.store.get_many(kernel.collection, entity.memory_ids[:LOOKED_AT])
        return any(_is_wider(MemoryItem.from_payload(row.payload), item) for row in rows)


def _is_wider(known: MemoryItem, item: MemoryItem) -> bool:
    """Whether a memory that stands may be read by all who may read another."""
    if known.state != LIVE or known.tags is None or item.tags is None:
        return False
    if known.tags.visibility == "team":
        return True
    same_project = known.scope.project_id == item.scope.project_id
    if known.tags.visibility == "project":
        return item.tags.visibility == "project" and same_project
    return item.tags.visibility == "private" and known.tags.written_by == item.tags.written_by


def _renamed(relation: Relation, known: Mapping[str, str]) -> Relation:
    source, target = known.get(relation.source, relation.source), known.get(relation.target, relation.target)
    if (source, target) == (relation.source, relation.target):
        return relation
    slot = slot_of(relation.relation, source, target) if relation.slot is not None else None
    return replace(relation, source=source, target=target, slot=slot)
