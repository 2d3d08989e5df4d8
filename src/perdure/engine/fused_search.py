"""Fused search: every memory of the scope ranked by words, meaning and cues, the best looked up and checked.

The score of the best one says how well it answers by itself; the others have their share of that by how they rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perdure.backends.blocking import run_blocking
from perdure.backends.vector_stores.base import Point, Vector
from perdure.domain.filter import Filter, matches
from perdure.domain.memory import MemoryItem
from perdure.engine.entries import stamp_of
from perdure.engine.kernel import Kernel
from perdure.engine.queries import Query
from perdure.engine.scope_indexes import INLINE, Held, ScopeIndexes, transient
from perdure.pipeline.recall.coverage import Coverage
from perdure.pipeline.recall.fuse import Ranked, rank
from perdure.pipeline.recall.question import Question, read_question
from perdure.pipeline.recall.scope_index import ScopeIndex
from perdure.pipeline.recall.weights import Ranking
from perdure.pipeline.words import word_score

ARM = 200
"""Rows that each arm of a store gives where there is no index: of the past, without a ledger, of a huge scope."""
AT_A_TIME = 32
"""Ranked memories looked up in one go at least; most searches need no more."""
TRIES = 4
"""Rankings after which rows that others keep changing are taken as they stand."""
JUDGED = 5
"""Memories from the top whose likeness says how well the best one answers."""


@dataclass(frozen=True, slots=True)
class Found:
    """Memories by rank, with what the ranking knew of each and of the question."""

    points: list[Point]
    ranked: Ranked
    places: list[int]
    """Where each point stands in `ranked`."""
    question: Question
    scores: list[float]
    by_meaning: bool
    """Whether the question had a vector."""
    skipped_past: int = 0
    """Memories that would have come, but are no longer valid."""

    def coverage(self, items: Sequence[MemoryItem]) -> Coverage:
        """How much of the question some of them hold, best first."""
        place = {
            str(point.payload.get("version_of") or point.id): place  # under which an earlier text is shown
            for point, place in zip(self.points, self.places, strict=True)
        }
        return self.ranked.evidence.covered(self.question, self.ranked.units, [place[item.id] for item in items])

    def item(self, number: int, shown: Any) -> MemoryItem:
        """The memory at a place, as `shown` makes it of payload, score and similarity."""
        similarity = float(self.ranked.similarity[self.places[number]]) if self.by_meaning else None
        made: MemoryItem = shown(self.points[number].payload, self.scores[number], similarity)
        return made


class FusedSearch:
    """Ranks and looks up."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.indexes = ScopeIndexes(kernel)
        self._ranking = Ranking()

    async def __call__(self, query: Query, text: str, within: Filter, past: Filter | None) -> Found:
        """The memories inside the filter by rank, up to the query's limit; `past` matches those that ran out."""
        held = None if query.reads_past else await self.indexes.of(query.scope)
        for attempt in range(TRIES):
            index = held.index if held is not None else await self._of_arms(query, text, within)
            speakers = tuple(index.speakers) if held is None else held.speakers()
            question, vector, words = await self._ask(speakers, query, text)
            ranked = await self._rank(index, held, question, vector, words)
            points, places, skipped, is_stale = await self._look_up(
                ranked, held, max(query.limit, JUDGED), within, past, is_last=attempt == TRIES - 1
            )
            if not is_stale or attempt == TRIES - 1:
                break
        scores = self._scores(question, ranked, points, places, vector)
        kept = slice(query.limit)
        return Found(points[kept], ranked, places[kept], question, scores[kept], vector is not None, skipped)

    # ------------------------------------------------------------------ pieces
    async def _ask(
        self, speakers: Sequence[str], query: Query, text: str
    ) -> tuple[Question, Vector | None, Mapping[str, Vector]]:
        question = read_question(
            text,
            speakers,
            reference=query.reference_time,
            now=self._kernel.ticker.now(),
            window=query.time_window,
        )
        vector = await self._kernel.embedding.query(query.meaning or question.text)
        return question, vector, await self.indexes.words(question.words)

    async def _of_arms(self, query: Query, text: str, within: Filter) -> ScopeIndex:
        """An index of what the store's own two arms find."""
        kernel = self._kernel
        most = max(ARM, query.limit)
        rows: dict[str, Point] = {}
        vector = await kernel.embedding.query(query.meaning or text)
        hits = [] if vector is None else await kernel.store.search(kernel.collection, vector, most, within)
        hits += await kernel.store.keyword_search(kernel.collection, text, most, within) or []
        ids = list(dict.fromkeys(hit.id for hit in hits))
        for point in await kernel.store.get_many(kernel.collection, ids):
            rows[point.id] = point
        index = transient(list(rows.values()), kernel.embedding.embedder.dimension)
        index.give_vectors(await self.indexes.words(list(index.unvectored)))
        return index

    async def _rank(
        self,
        index: ScopeIndex,
        held: Held | None,
        question: Question,
        vector: Vector | None,
        words: Mapping[str, Vector],
    ) -> Ranked:
        def ranked() -> Ranked:
            if held is None:
                return rank(index, question, vector, words, self._ranking)
            with held.turn:
                return rank(index, question, vector, words, self._ranking)

        return ranked() if len(index.alive) <= INLINE else await run_blocking(ranked)

    async def _look_up(
        self, ranked: Ranked, held: Held | None, limit: int, within: Filter, past: Filter | None, *, is_last: bool
    ) -> tuple[list[Point], list[int], int, bool]:
        """The first `limit` ranked memories that the store holds and the filter lets through."""
        kernel = self._kernel
        points: list[Point] = []
        places: list[int] = []
        skipped, start, step = 0, 0, max(AT_A_TIME, limit + limit // 4)
        while start < len(ranked.ids) and len(points) < limit:
            ids = ranked.ids[start : start + step]
            changes = 0 if held is None else held.changes
            there = {point.id: point for point in await kernel.store.get_many(kernel.collection, ids)}
            if held is not None and (held.changes != changes or self._note_stale(held, ids, there)) and not is_last:
                return points, places, skipped, True
            for place, id in enumerate(ids, start):
                point = there.get(id)
                if point is None or len(points) == limit:
                    continue
                if matches(within, point.payload):
                    points.append(point)
                    places.append(place)
                elif past is not None and matches(past, point.payload):
                    skipped += 1
            start += step
            step *= 2
        return points, places, skipped, False

    def _note_stale(self, held: Held, ids: Sequence[str], there: Mapping[str, Point]) -> bool:
        """Whether the index was wrong about some of these; if so it no longer is."""
        absent = [id for id in ids if id not in there]
        changed = [point for id, point in there.items() if held.index.stamps.get(id) != stamp_of(point)]
        if absent:
            self.indexes.drop(held, absent)
        if changed:
            self.indexes.refresh(held, changed)
        return bool(changed)

    def _scores(
        self, question: Question, ranked: Ranked, points: Sequence[Point], places: Sequence[int], vector: Vector | None
    ) -> list[float]:
        """Fused scores as shares of the best one's, times how well one of the best answers by itself."""
        if not points:
            return []
        embedder = self._kernel.embedding.embedder
        judged = list(zip(points, places, strict=True))[:JUDGED]
        evidence = 0.0
        for point, place in judged:
            evidence = max(evidence, word_score(question.text, str(point.payload.get("memory", ""))))
            if vector is not None:
                evidence = max(evidence, embedder.score(float(ranked.similarity[place])))
        best = float(ranked.fused[places[0]])
        if best <= 0:
            return [evidence] * len(points)
        return [evidence * max(0.0, float(ranked.fused[place])) / best for place in places]
