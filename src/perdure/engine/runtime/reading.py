"""Reading an agent's memories: newest first by room, time and flag, by their ids, and by what they mean (spec 003)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from perdure.backends.vector_stores.base import Point, Vector
from perdure.domain.clock import iso
from perdure.domain.filter import And, Condition, Filter, Moment, Not, all_of, eq
from perdure.domain.memory import LIVE, MemoryItem
from perdure.domain.records import LAST, moment_of
from perdure.domain.scope import Scope
from perdure.engine.calls import call
from perdure.engine.kernel import Kernel
from perdure.engine.visibility import visible
from perdure.engine.walls import reaches
from perdure.pipeline.recall.hybrid import bm25
from perdure.pipeline.words import word_score

FEW = 1_000
"""Rows up to which a table is read whole, to find its newest."""
BACK = (timedelta(hours=1), timedelta(days=1), timedelta(days=30))
"""Spans before now that are looked at in turn where there are more: the newest rows of a long chat are of today."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which memories are asked for."""

    scope: Scope
    table: str | None
    """None: whatever the table."""
    rooms: tuple[str, ...] | None = None
    """Only these; the scope then names none."""
    unique: bool = False
    """Only those whose flag is not false."""
    start: int | None = None
    end: int | None = None
    """Milliseconds, both included."""
    document_id: str | None = None
    """Only what was cut from this document."""

    def filter(self, now: datetime, *, include_past: bool = False) -> And:
        """The rows that it means, those that are no longer valid only where the past is included."""
        parts: list[Filter | None] = []
        if self.rooms is not None:
            parts.append(Condition("run_id", "in", self.rooms))
        if self.unique:
            parts.append(Not(eq("unique", False)))
        if self.start is not None:
            parts.append(Condition("created_at", "gte", Moment(moment_of(self.start))))
        if self.end is not None and self.end < LAST:
            parts.append(Condition("created_at", "lt", Moment(moment_of(self.end + 1))))
        if self.document_id is not None:
            parts.append(eq("derived_from", self.document_id))
        kinds = () if self.table is None else (self.table,)
        return visible(self.scope, now=now, kinds=kinds, include_past=include_past, filters=all_of(*parts))


@dataclass(frozen=True, slots=True)
class Found:
    """A memory and its vector, where that was asked for and there is one."""

    item: MemoryItem
    vector: Vector | None = None


class Reading:
    """Reads of the present; each stays inside of the scope that it is asked with."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @call
    async def newest(
        self, asked: Asked, *, count: int | None, offset: int = 0, with_vectors: bool = False
    ) -> list[Found]:
        """At most `count` memories after the first `offset`, newest first by (created_at, id)."""
        kernel = self._kernel
        wanted = None if count is None else offset + count
        within = asked.filter(kernel.ticker.now())
        rows = await self._newest(within, wanted)
        chosen = [row for row in rows[offset:wanted] if _is_seen(asked.scope, row)]
        if with_vectors and chosen:
            whole = await kernel.store.get_many(kernel.collection, [row.id for row in chosen])
            return [Found(MemoryItem.from_payload(row.payload), row.vector) for row in whole]
        return [Found(MemoryItem.from_payload(row.payload)) for row in chosen]

    async def _newest(self, within: And, wanted: int | None) -> list[Point]:
        """Rows newest first, at least as many as are wanted if there are."""
        kernel = self._kernel
        page = await kernel.store.list(kernel.collection, within, None if wanted is None else max(FEW, wanted))
        if page.next_cursor is not None and wanted is not None:
            for span in BACK:
                since = Condition("created_at", "gte", Moment(iso(kernel.ticker.now() - span)))
                page = await kernel.store.list(kernel.collection, all_of(within, since))
                if len(page.points) >= wanted:
                    break
            else:
                page = await kernel.store.list(kernel.collection, within)
        return page.points[::-1]

    @call
    async def by_ids(self, ids: Sequence[str], scope: Scope, table: str | None = None) -> list[Found]:
        """The memories of these ids that stand inside of the scope, newest first; others are skipped."""
        kernel = self._kernel
        rows = await kernel.store.get_many(kernel.collection, list(dict.fromkeys(ids)))
        found = [Found(MemoryItem.from_payload(row.payload), row.vector) for row in rows if _is_seen(scope, row)]
        if table is not None:
            found = [each for each in found if each.item.kind == table]
        return sorted(found, key=lambda each: (each.item.created_at, each.item.id), reverse=True)

    @call
    async def count(self, asked: Asked) -> int:
        """How many memories there are."""
        kernel = self._kernel
        return await kernel.store.count(kernel.collection, asked.filter(kernel.ticker.now()))

    @call
    async def search(
        self, asked: Asked, *, query: str | None, vector: Vector | None, floor: float | None, count: int
    ) -> list[Found]:
        """At most `count` memories that are like the query, or like the vector that stands for it.

        `score` is the cosine as a score in [0, 1] (U11), at least `floor`. The best come first; where the query's words
        are given, its share of them counts as much as the meaning in that order, and loses no memory (C7).
        """
        kernel = self._kernel
        if vector is None and query is not None:
            vector = await kernel.embedding.query(query)
        within = asked.filter(kernel.ticker.now())
        if vector is not None:
            score = kernel.embedding.embedder.score
            hits = await kernel.store.search(kernel.collection, vector, count, within)
            items = [MemoryItem.from_payload(hit.payload, score=score(hit.score), similarity=hit.score) for hit in hits]
        else:
            hits = await kernel.store.keyword_search(kernel.collection, query or "", count, within) or []
            items = [
                MemoryItem.from_payload(hit.payload, score=word_score(query or "", hit.payload.get("memory", "")))
                for hit in hits
            ]
        items = [item for item in items if reaches(asked.scope, item.scope) and (item.score or 0.0) >= (floor or 0.0)]
        if query is not None:
            order = by_words(query, [item.memory for item in items], [item.score or 0.0 for item in items])
            items = [items[place] for place in order]
        whole = {row.id: row for row in await kernel.store.get_many(kernel.collection, [item.id for item in items])}
        return [Found(item, whole[item.id].vector if item.id in whole else None) for item in items]


def by_words(query: str, texts: Sequence[str], scores: Sequence[float]) -> list[int]:
    """The places of all of the texts, best first by their score and their BM25, this as a share of the best one's."""
    words = bm25(query, texts)
    best = max(words, default=0.0) or 1.0
    worth = [score + word / best for score, word in zip(scores, words, strict=True)]
    return sorted(range(len(texts)), key=lambda place: (-worth[place], place))


def _is_seen(scope: Scope, row: Point) -> bool:
    item = MemoryItem.from_payload(row.payload)
    return item.state == LIVE and reaches(scope, item.scope)
