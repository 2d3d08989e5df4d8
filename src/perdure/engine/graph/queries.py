"""Graph queries: entities, their relations and their neighbours at a time, as far as the caller may see them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from perdure.backends.graphs.base import GraphStore
from perdure.backends.vector_stores.base import Point
from perdure.domain.clock import iso
from perdure.domain.errors import NoGraphError, NotFoundError
from perdure.domain.filter import Condition, Filter, Moment, Not, Or, all_of, matches
from perdure.domain.graph import DEFAULT_TYPE, MENTIONED_WITH, Edge, Entity, Neighbor, StatedRelation, entity_key
from perdure.domain.job import QueueStatus
from perdure.domain.memory import MemoryItem
from perdure.domain.scope import Scope
from perdure.domain.text.readable import shown
from perdure.engine.aio.calls import guarded
from perdure.engine.core.access import visible
from perdure.engine.core.kernel import Kernel
from perdure.engine.graph.sync import GraphSync
from perdure.engine.requests import GraphQuery
from perdure.pipeline.curation.rules.relations.names import read_mentions, type_of
from perdure.pipeline.curation.rules.relations.validity import edges

WIDEST = 5_000  # maximum entities and relations that one query reads


@dataclass(frozen=True, slots=True)
class VisibleGraph:
    """What a caller sees around an entity: entities by key, current edges, and the memories behind them."""

    entities: Mapping[str, Entity]
    edges: Sequence[Edge]
    items: Mapping[str, MemoryItem]
    relations: Sequence[StatedRelation]


class GraphReads:
    """Queries to the graph of one engine; NoGraphError without a graph, GraphDownError while it is down."""

    def __init__(self, kernel: Kernel, keeper: GraphSync | None) -> None:
        self._kernel = kernel
        self._keeper = keeper

    @guarded
    async def entities(
        self, asked: GraphQuery, *, names: Sequence[str] | None = None, limit: int = 100
    ) -> list[Entity]:
        """Return the entities of a scope, the most mentioned first; with names only these."""
        store, sight = await self._begin(asked), self._sight(asked)
        wide = limit
        while True:
            found = await store.entities(asked.scope, names=names, limit=wide, as_of=_text(asked.as_of))
            items = await sight.items(id for entity in found for id in entity.memory_ids)
            seen = [known for entity in found if (known := sight.entity(entity, items)) is not None]
            if len(seen) >= limit or len(found) < wide:  # entities of others must not use up the limit
                seen.sort(key=lambda entity: (-len(entity.memory_ids), entity_key(entity.name)))
                return seen[:limit]
            wide *= 4

    @guarded
    async def relations(self, asked: GraphQuery, name: str, *, depth: int = 1) -> list[Edge]:
        """Return the edges of an entity, or `depth` away, ordered by time; NotFoundError if it is unknown."""
        around = await self.around(asked, [name], depth)
        near = _within(around.edges, _known(around, name), depth - 1)
        found = [edge for edge in around.edges if near & {*_ends(edge)}]
        return sorted(found, key=lambda edge: (edge.valid_from or "", edge.relation, edge.source, edge.target))

    @guarded
    async def neighbors(self, asked: GraphQuery, name: str, *, depth: int = 1) -> list[Neighbor]:
        """Return entities at most `depth` edges away, and those mentioned together with it, nearest first."""
        around = await self.around(asked, [name], depth)
        key = _known(around, name)
        found = [*_walked(around, key, depth), *_beside(around, key, asked.at or asked.as_of or self._now())]
        return sorted(found, key=lambda each: (each.depth, each.relationship == MENTIONED_WITH, each.name.casefold()))

    @guarded
    async def queue_status(self, scope: Scope) -> QueueStatus:
        """Return how much work waits for the graph inside a scope."""
        keeper = self._configured()
        if keeper.queue is None:
            return QueueStatus(pending=0, processing=0, failed=0, oldest_pending_at=None, by_kind={})
        return keeper.kinds.status(await keeper.queue.status(keeper.kinds.all, scope))

    @guarded
    async def revive(self) -> int:
        """Make all waiting and parked jobs due now; return how many."""
        keeper = self._configured()
        count = 0 if keeper.queue is None else await keeper.queue.revive(keeper.kinds.all)
        keeper.wake()
        return count

    async def around(self, asked: GraphQuery, names: Sequence[str], depth: int) -> VisibleGraph:
        """Return what the caller sees around entities, inside a running call."""
        store, sight, as_of = await self._begin(asked), self._sight(asked), _text(asked.as_of)
        near = await store.neighbourhood(asked.scope, names, depth=depth, limit=WIDEST, as_of=as_of)
        # The statement that ends an edge may lie outside: the new lead is two edges away from the former one.
        reached = [entity.name for entity in near.entities]
        wider = await store.neighbourhood(asked.scope, reached, depth=1, limit=WIDEST, as_of=as_of) if reached else near
        relations = list(dict.fromkeys((*near.relations, *wider.relations)))
        entities = {entity_key(entity.name): entity for entity in (*wider.entities, *near.entities)}
        ids = [id for entity in entities.values() for id in entity.memory_ids]
        items = await sight.items([*ids, *(each.memory_id for each in relations)])
        seen = {key: known for key, entity in entities.items() if (known := sight.entity(entity, items)) is not None}
        stated = sight.stated(relations, items)
        moment = asked.at or (None if asked.include_past else asked.as_of or self._now())
        return VisibleGraph(seen, edges(stated, at=_text(moment), include_past=asked.include_past), items, stated)

    async def _begin(self, asked: GraphQuery) -> GraphStore:
        keeper = self._configured()
        await keeper.settle(asked.scope)
        return await keeper.store()

    def _configured(self) -> GraphSync:
        if self._keeper is None:
            raise NoGraphError
        return self._keeper

    def _sight(self, asked: GraphQuery) -> GraphVisibility:
        return GraphVisibility(self._kernel, asked.scope, asked.sees, asked.as_of)

    def _now(self) -> datetime:
        return self._kernel.clock.now()


def _known(around: VisibleGraph, name: str) -> str:
    key = entity_key(name)
    if key not in around.entities:
        raise NotFoundError(f"there is no entity {shown(name)}")
    return key


def _ends(edge: Edge) -> tuple[str, str]:
    return entity_key(edge.source), entity_key(edge.target)


def _within(edges: Sequence[Edge], start: str, depth: int) -> set[str]:
    """Return the entities that are at most `depth` edges away."""
    reached = {start}
    for _ in range(depth):
        reached |= {end for edge in edges if reached & {*_ends(edge)} for end in _ends(edge)}
    return reached


def _walked(around: VisibleGraph, start: str, depth: int) -> Iterator[Neighbor]:
    """Yield the neighbours over current edges: each edge once, from the end that was reached first."""
    reached, walked = {start}, set[Edge]()
    for away in range(1, depth + 1):
        here = set(reached)
        for edge in around.edges:
            source, target = _ends(edge)
            if edge in walked or source == target or not {source, target} & here:
                continue
            walked.add(edge)
            key = target if source in here else source
            reached.add(key)
            yield Neighbor(
                name=edge.target if key == target else edge.source,
                type=around.entities[key].type,
                relationship=edge.relation,
                direction="out" if key == target else "in",
                depth=away,
                valid_from=edge.valid_from,
                valid_until=edge.valid_until,
                memory_ids=edge.memory_ids,
            )


def _beside(around: VisibleGraph, start: str, moment: datetime) -> Iterator[Neighbor]:
    """Yield entities mentioned together with one in memories valid at a time, if no edge relates the two."""
    related: dict[str, set[frozenset[str]]] = {}
    for each in around.relations:
        pair = frozenset((each.relation.source_key, each.relation.target_key))
        related.setdefault(each.memory_id, set()).add(pair)
    found: dict[str, list[str]] = {}
    names: dict[str, tuple[str, str]] = {}
    for id in around.entities[start].memory_ids:
        item = around.items[id]
        mentions = {mention.key: mention for mention in read_mentions(item.metadata.get("entities"))}
        if start not in mentions or not _holds(item, iso(moment)):
            continue
        for key, mention in mentions.items():
            if key != start and frozenset((start, key)) not in related.get(id, set()):
                found.setdefault(key, []).append(id)
                names.setdefault(key, (mention.name, mention.type))
    for key, ids in found.items():
        name, type = names[key]
        yield Neighbor(
            name=name, type=type, relationship=MENTIONED_WITH, direction="both", depth=1, memory_ids=tuple(ids)
        )


def _holds(item: MemoryItem, moment: str) -> bool:
    begun = item.valid_from is None or item.valid_from <= moment
    return begun and (item.valid_to is None or item.valid_to > moment)


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else iso(moment)


AT_A_TIME = 500  # memories looked up in one go


@dataclass(frozen=True, slots=True)
class GraphVisibility:
    """One caller's view: a scope, and a filter for the memories in it."""

    kernel: Kernel
    scope: Scope
    sees: Filter | None = None
    as_of: datetime | None = None

    async def items(self, memory_ids: Iterable[str]) -> dict[str, MemoryItem]:
        """Return the readable memories that exist, or existed at that time, by id."""
        kernel, ids = self.kernel, list(dict.fromkeys(memory_ids))
        within = self._within()
        found: dict[str, MemoryItem] = {}
        for start in range(0, len(ids), AT_A_TIME):
            some = ids[start : start + AT_A_TIME]
            if self.as_of is None:
                points: Sequence[Point] = await kernel.store.get_many(kernel.collection, some)
            else:
                either = Or((Condition("id", "in", tuple(some)), Condition("version_of", "in", tuple(some))))
                points = (await kernel.store.list(kernel.collection, all_of(within, either))).points
            for point in points:
                if matches(within, point.payload):
                    item = MemoryItem.from_payload(point.payload)
                    found[item.version_of or item.id] = item
        return found

    def _within(self) -> Filter:
        now = self.kernel.clock.now()
        moment = Moment(iso(self.as_of or now))
        still = Not(Condition("expires_at", "lte", moment))
        shown = all_of(still, self.sees)
        return visible(self.scope, now=now, as_of=self.as_of, include_past=True, filters=shown)

    def stated(self, relations: Sequence[StatedRelation], items: Mapping[str, MemoryItem]) -> list[StatedRelation]:
        """Return the relations that these memories state; for an earlier time without later withdrawals."""
        return [replace(each, untold_at=None) for each in relations if each.memory_id in items]

    def entity(self, entity: Entity, items: Mapping[str, MemoryItem]) -> Entity | None:
        """Return the entity as these memories describe it; None if none mentions it.

        Data from other memories (description, type, spelling) is left out. With a filter this always applies, whether
        or not there are other memories: otherwise the difference would reveal them.
        """
        ids = tuple(id for id in entity.memory_ids if id in items)
        if not ids:
            return None
        if self.sees is not None:
            return _as_told(entity, [items[id] for id in ids])
        if len(ids) == len(entity.memory_ids):
            return entity
        updated = max(items[id].told_at for id in ids)
        return replace(entity, memory_ids=ids, description="", type=DEFAULT_TYPE, updated_at=updated)


def _as_told(entity: Entity, items: Sequence[MemoryItem]) -> Entity:
    """Return the entity as some memories describe it, the newest first: as they list it, or spell it in their text."""
    key = entity_key(entity.name)
    listed = [each for item in items for each in read_mentions(item.metadata.get("entities")) if each.key == key]
    written = re.compile(re.escape(entity.name), re.IGNORECASE)
    names = [each.name for each in listed] or [found[0] for item in items if (found := written.search(item.memory))]
    name = names[0] if names else entity.name
    types = [each.type for each in listed if each.type != DEFAULT_TYPE]
    return Entity(
        name=name,
        type=types[0] if types else type_of(name),
        description=next((each.description for each in listed if each.description), ""),
        memory_ids=tuple(item.version_of or item.id for item in items),
        updated_at=max(item.told_at for item in items),
    )
