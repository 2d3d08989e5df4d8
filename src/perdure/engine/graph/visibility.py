"""Sight: what of the graph a caller may learn, which is what the memories say that they may read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from perdure.backends.vector_stores.base import Point
from perdure.domain.clock import iso
from perdure.domain.filter import Condition, Filter, Moment, Not, Or, all_of, matches
from perdure.domain.graph import DEFAULT_TYPE, Entity, StatedRelation, entity_key
from perdure.domain.memory import MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.core.access import visible
from perdure.engine.core.kernel import Kernel
from perdure.pipeline.curation.rules.relations.names import read_mentions, type_of

AT_A_TIME = 500
"""Memories looked up in one go."""


@dataclass(frozen=True, slots=True)
class GraphVisibility:
    """One caller's: a scope, and of what stands there the memories that a filter lets through."""

    kernel: Kernel
    scope: Scope
    sees: Filter | None = None
    as_of: datetime | None = None

    async def items(self, memory_ids: Iterable[str]) -> dict[str, MemoryItem]:
        """Those of the memories that stand, or stood by then, and may be read; by id."""
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
        """The relations that these memories state; of an earlier moment, as if nothing had been taken back since."""
        return [replace(each, untold_at=None) for each in relations if each.memory_id in items]

    def entity(self, entity: Entity, items: Mapping[str, MemoryItem]) -> Entity | None:
        """The entity as these memories know it; None where none of them names it.

        What others say of it is not told: its description, its type and how it is written may be theirs. Whose sight
        has a filter is told what the memories that pass it say, whether or not there are others: else the difference
        would tell that there are.
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
    """The entity as some memories tell of it, the newest first: as they list it, or write it in their text."""
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
