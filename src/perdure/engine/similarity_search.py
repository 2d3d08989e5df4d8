"""Similarity search: the store's cosine and the steps that a preset names after it (U12); words without vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from perdure.backends.vector_stores.base import Hit, Point, Vector
from perdure.domain.clock import read_moment
from perdure.domain.filter import Filter, all_of, matches
from perdure.domain.memory import MemoryItem
from perdure.engine.asked_time import asked_time, raised
from perdure.engine.kernel import Kernel
from perdure.engine.queries import Query
from perdure.engine.reranking import relevance
from perdure.engine.visibility import TRUSTED
from perdure.pipeline.echo import fingerprint
from perdure.pipeline.recall.adaptive import adaptive_threshold
from perdure.pipeline.recall.decay import blend, recency
from perdure.pipeline.recall.diversify import mmr
from perdure.pipeline.recall.hybrid import hybrid
from perdure.pipeline.recall.min_max import min_max
from perdure.pipeline.recall.reflection import Candidate, Reflection, choose
from perdure.pipeline.recall.repeats import without_repeats
from perdure.pipeline.recall.type_routing import procedural_first
from perdure.pipeline.words import word_score

MOST_TOLD = 50
"""Candidates fetched beyond those wanted, where some may be messages that the reader has before them."""

Shown = Callable[[dict[str, Any], float | None, float | None], MemoryItem]
"""Makes the item that readers see of a payload, a score and a similarity."""


@dataclass(slots=True)
class SimilaritySearch:
    """Fetches candidates and takes the preset's steps."""

    kernel: Kernel
    shown: Shown
    warnings: list[str]
    """What had to be given up."""
    considered: int = field(default=0, init=False)
    """Candidates that the steps of the last search chose from."""

    async def __call__(self, query: Query, text: str, *within: Filter) -> list[MemoryItem]:
        """At most `limit` memories inside some of the filters, best first by `score`."""
        preset = query.preset
        now = query.as_of or self.kernel.ticker.now()
        time = asked_time(query, now) if preset.timely else None
        if time is not None:
            within = (*within, *(all_of(each, time.within) for each in within))
        hits, items = await self._candidates(query, text, within)
        near = {} if time is None else time.near(items)
        self.considered = len(items)
        scores = [item.score or 0.0 for item in items]
        if preset.hybrid is not None:
            scores = hybrid(text, [item.memory for item in items], scores, preset.hybrid)
        if query.rerank or (preset.rerank and self.kernel.reranker is not None):
            scores = await relevance(self.kernel, text, [item.memory for item in items], scores, self.warnings)
        if near:
            scores = [raised(score, near[item.id]) for item, score in zip(items, scores, strict=True)]
        if preset.relative:
            scores = min_max(scores)
        items = _best_first(items, scores)
        floor = preset.threshold if query.threshold is None else query.threshold
        if preset.adaptive and items:
            floor = adaptive_threshold([item.score or 0.0 for item in items], floor or 0.0)
        items = [item for item in items if floor is None or (item.score or 0.0) >= floor]
        ages = {item.id: _age(item, now) * (1 - near.get(item.id, 0.0)) for item in items}
        if preset.recency_weight:
            blended = [blend(item.score or 0.0, recency(ages[item.id]), preset.recency_weight) for item in items]
            items = _best_first(items, blended)
        if preset.reflection is not None:
            items = _reflected(items, preset.reflection, ages)
        if preset.diversity is not None:
            items = [items[place] for place in without_repeats([(each.memory, each.slots) for each in items])]
        if preset.diversity is not None and len(items) > query.limit:
            items = await self._diverse(items, hits, query.limit, preset.diversity)
        if preset.procedures_first:
            items = [items[place] for place in procedural_first(text, [item.type for item in items])]
        return items[: query.limit]

    async def _candidates(
        self, query: Query, text: str, withins: Sequence[Filter]
    ) -> tuple[list[Hit], list[MemoryItem]]:
        """The best of each filter, each memory once (K26)."""
        vector = await self.kernel.embedding.query(query.meaning or text)
        found: dict[str, Hit] = {}
        for within in withins:
            found.update((hit.id, hit) for hit in await self._within(query, text, vector, within))
        hits = list(found.values())
        if vector is not None:
            score = self.kernel.embedding.embedder.score
            items = [self.shown(hit.payload, score(hit.score), hit.score) for hit in hits]
        else:
            items = [self.shown(hit.payload, word_score(text, hit.payload.get("memory", "")), None) for hit in hits]
        return hits, _best_first(items, [item.score or 0.0 for item in items])

    async def _within(self, query: Query, text: str, vector: Vector | None, within: Filter) -> list[Hit]:
        most = query.limit * query.preset.candidates
        asked = most + min(len(query.told), MOST_TOLD)
        hits = await self._ask(text, vector, asked, within)
        if query.trusted and not all(matches(TRUSTED, hit.payload) for hit in hits):
            # Only now is the store asked for it: for each row it would have to look into the payload.
            hits = await self._ask(text, vector, asked, all_of(within, TRUSTED))
        if query.told:
            hits = [hit for hit in hits if not _is_told(hit.payload, query.told)]
        return hits[:most]

    async def _ask(self, text: str, vector: Vector | None, most: int, within: Filter) -> list[Hit]:
        kernel = self.kernel
        if vector is not None:
            return await kernel.store.search(kernel.collection, vector, most, within)
        return await kernel.store.keyword_search(kernel.collection, text, most, within) or []

    async def _diverse(
        self, items: Sequence[MemoryItem], hits: Sequence[Hit], limit: int, trade: float
    ) -> list[MemoryItem]:
        """MMR chooses who comes; the order stays that of the scores."""
        rows: list[Point] = await self.kernel.store.get_many(self.kernel.collection, [hit.id for hit in hits])
        vectors = {row.id: row.vector for row in rows}
        chosen = mmr([item.score or 0.0 for item in items], [vectors.get(item.id) for item in items], limit, trade)
        return [items[place] for place in sorted(chosen)]


def _is_told(payload: dict[str, Any], told: frozenset[str]) -> bool:
    return payload.get("kind") == "messages" and fingerprint(str(payload.get("memory", ""))) in told


def _best_first(items: Sequence[MemoryItem], scores: Sequence[float]) -> list[MemoryItem]:
    rescored = [
        item if item.score == score else item.with_(score=score)  # a copy of an item costs more than all else here
        for item, score in zip(items, scores, strict=True)
    ]
    return sorted(rescored, key=lambda item: (-(item.score or 0.0), item.id))


def _age(item: MemoryItem, now: datetime) -> float:
    """Days since it was told."""
    told = read_moment(item.told_at)
    return 0.0 if told is None else max(0.0, (now - told).total_seconds() / 86_400)


def _reflected(items: Sequence[MemoryItem], reflection: Reflection, ages: Mapping[str, float]) -> list[MemoryItem]:
    """`ages` are in days, by id."""
    candidates = [Candidate(place, item.memory, item.score or 0.0, ages[item.id]) for place, item in enumerate(items)]
    return [items[kept.place].with_(score=kept.score) for kept in choose(reflection)(candidates)]
