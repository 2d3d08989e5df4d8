"""Which memories stand near a fact: what a curator decides against, and the view of a batch under way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from perdure.backends.vector_stores.base import Vector, VectorStore
from perdure.domain.fact import Fact, Neighbour
from perdure.domain.filter import And, Condition, all_of, eq
from perdure.domain.memory import MemoryItem, Slots
from perdure.engine.fresh import FreshRows
from perdure.engine.visibility import TRUSTED

LLM_NEIGHBOURS = 5
"""Nearest memories shown to a model for each fact (spec 000 §4.3.2)."""
RULES_NEIGHBOURS = 15
"""Nearest memories given to the rules, which cost nothing to show more to."""
FORGET_NEIGHBOURS = 40
"""Nearest memories looked through by a request to forget, which may mean several."""
SAME_SLOT = 10
"""Memories of the same subject and attribute that are looked at however far their words are."""
HASHES_AT_ONCE = 200
"""Exact repeats that are looked up in one query."""


class Neighbourhood:
    """Memories near facts inside one scope: those of the store, overlaid with what the batch has done so far.

    What is quarantined is near nothing, but for a request to forget: it is neither updated nor shown to a model.
    """

    def __init__(self, store: VectorStore, collection: str, within: And) -> None:
        self._store = store
        self._collection = collection
        self._within = within
        self._gone: set[str] = set()
        self._fresh = FreshRows()

    async def near(self, fact: Fact, vector: Vector | None, slots: Slots | None, limit: int) -> list[Neighbour]:
        """The memories near a fact, nearest first, then those that only share its subject and attribute."""
        limit = FORGET_NEIGHBOURS if fact.forget else limit
        within = self._within if fact.forget else all_of(self._within, TRUSTED)
        found: dict[str, Neighbour] = {}
        for neighbour in await self._stored(fact, vector, limit, within):
            found.setdefault(neighbour.item.id, neighbour)
        if slots is not None:
            for neighbour in await self._same_slot(slots, vector, within):
                found.setdefault(neighbour.item.id, neighbour)
        stored = [neighbour for id, neighbour in found.items() if id not in self._gone and id not in self._fresh]
        fresh = self._fresh.near(fact.text, vector, slots, limit=limit, same_slot=SAME_SLOT)
        fresh = [each for each in fresh if fact.forget or each.item.quarantined is None]
        return sorted(
            [*stored, *fresh], key=lambda near: -2.0 if near.similarity is None else near.similarity, reverse=True
        )

    async def same_text(self, hashes: Iterable[str]) -> dict[str, MemoryItem]:
        """Memories of the store whose text has one of the hashes, rather trusted ones than quarantined ones."""
        found: dict[str, MemoryItem] = {}
        asked = list(dict.fromkeys(hashes))
        for start in range(0, len(asked), HASHES_AT_ONCE):
            some = Condition("hash", "in", tuple(asked[start : start + HASHES_AT_ONCE]))
            page = await self._store.list(self._collection, all_of(self._within, some))
            for point in page.points:
                item = MemoryItem.from_payload(point.payload)
                if item.hash not in found or found[item.hash].quarantined is not None:
                    found[item.hash] = item
        return found

    def overlay(self, item: MemoryItem, vector: Vector | None) -> None:
        """Take note of a memory that the batch has written."""
        self._fresh.put(item, vector)
        self._gone.discard(item.id)

    def remove(self, id: str) -> None:
        """Take note of a memory that the batch has removed."""
        self._fresh.drop(id)
        self._gone.add(id)

    async def _stored(self, fact: Fact, vector: Vector | None, limit: int, within: And) -> Sequence[Neighbour]:
        neighbours: list[Neighbour] = []
        if vector is not None:
            for hit in await self._store.search(self._collection, vector, limit, within):
                neighbours.append(Neighbour(item=MemoryItem.from_payload(hit.payload), similarity=hit.score))
        if vector is None or fact.forget:
            hits = await self._store.keyword_search(self._collection, fact.text, limit, within)
            for hit in hits or []:
                neighbours.append(Neighbour(item=MemoryItem.from_payload(hit.payload), similarity=None))
        return neighbours

    async def _same_slot(self, slots: Slots, vector: Vector | None, within: And) -> Sequence[Neighbour]:
        same = all_of(within, eq("subject", slots.subject), eq("attribute", slots.attribute))
        page = await self._store.list(self._collection, same, SAME_SLOT, with_vectors=True)
        return [
            Neighbour(item=MemoryItem.from_payload(point.payload), similarity=cosine(vector, point.vector))
            for point in page.points
        ]


def cosine(left: Vector | None, right: Vector | None) -> float | None:
    """Cosine of two vectors in [-1, 1], or None if one is missing; 0 for a vector of zeros."""
    if left is None or right is None:
        return None
    norm = float(np.linalg.norm(left) * np.linalg.norm(right))
    return float(np.clip(float(left @ right) / norm, -1.0, 1.0)) if norm > 0 else 0.0
