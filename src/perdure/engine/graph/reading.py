"""Reading: what a memory states, by the caller's own list, by rules, or by the language model that is configured."""

from __future__ import annotations

from dataclasses import replace

from perdure.backends.graphs.base import GraphStore
from perdure.domain.graph import Mention, Relation, Statement
from perdure.domain.memory import MemoryItem
from perdure.engine.graph.jobs import ENTITIES, TEMPORAL
from perdure.engine.graph.resolving import Read, Resolving
from perdure.engine.kernel import Kernel
from perdure.pipeline.relate.from_metadata import read_mentions
from perdure.pipeline.relate.model import read_with_model
from perdure.pipeline.relate.rules import read_relations


class Reading:
    """Reads the memories of one engine."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._resolving = Resolving(kernel)

    @property
    def is_quick(self) -> bool:
        """Whether no language model is asked."""
        return self._kernel.llm is None or self._kernel.config.chosen_curator != "llm"

    def is_due(self, item: MemoryItem) -> bool:
        """Whether the graph must hold something of a memory; what a model would read in it is not known."""
        return bool(listed(item) or (self.is_quick and any(_by_rules(item))))

    def listed(self, item: MemoryItem) -> Statement:
        """What the caller's own list of entities states."""
        return _statement(item, ENTITIES, listed(item), ())

    async def told(self, graph: GraphStore, item: MemoryItem) -> Statement:
        """What the text states, for no longer than it is valid."""
        llm = None if self.is_quick else self._kernel.llm
        read = _by_rules(item) if llm is None else await read_with_model(llm, item.memory, told_at=item.told_at)
        mentions, relations = await self._resolving(graph, item, read, llm)
        return _statement(item, TEMPORAL, mentions, tuple(_bounded(each, item.valid_to) for each in relations))

    def until(self, item: MemoryItem, end: str) -> list[Relation]:
        """What an earlier text stated, by rules, from its own time until a moment."""
        start = item.valid_from or item.told_at
        return [
            _bounded(replace(each, valid_from=each.valid_from or start), end)
            for each in _by_rules(item)[1]
            if each.polarity and (each.valid_from or start) < end
        ]


def listed(item: MemoryItem) -> tuple[Mention, ...]:
    """The entities that the caller lists in the metadata; what no graph can hold is no name."""
    return tuple(mention for mention in read_mentions(item.metadata.get("entities")) if _can_be_held(mention))


def _can_be_held(mention: Mention) -> bool:
    return bool(mention.key) and not any("\x00" in part for part in (mention.name, mention.type, mention.description))


def _by_rules(item: MemoryItem) -> Read:
    me = item.speaker or ("Assistant" if item.role == "assistant" else None)
    return read_relations(item.memory, told_at=item.told_at, speaker=me, about=item.scope.project_id)


def _bounded(relation: Relation, end: str | None) -> Relation:
    if end is None or (relation.valid_to is not None and relation.valid_to <= end):
        return relation
    return replace(relation, valid_to=end)


def _statement(item: MemoryItem, by: str, mentions: tuple[Mention, ...], relations: tuple[Relation, ...]) -> Statement:
    return Statement(
        memory_id=item.id, by=by, scope=item.scope, told_at=item.told_at, mentions=mentions, relations=relations
    )
