"""The read path, preset `plain`: exact cosine, threshold, validity, limit (DESIGN §5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from perdure.backends.vector_stores.base import Hit
from perdure.domain.event import HistoryRecord, ListResult, SearchResult
from perdure.domain.filter import Condition, Filter, all_of
from perdure.domain.memory import LIVE, VERSION, MemoryItem
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.calls import call
from perdure.engine.kernel import Kernel
from perdure.engine.visibility import visible
from perdure.pipeline.inject import render
from perdure.pipeline.recency import newer_first
from perdure.pipeline.rewrite import with_history
from perdure.pipeline.words import word_score

CONTEXT_CANDIDATES = 50
"""Memories that compete for a context block; ten lines fill the default budget of most prompts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One call of `search`, checked."""

    text: str
    scope: Scope
    limit: int = 100
    filters: Filter | None = None
    threshold: float | None = None
    types: tuple[str, ...] = ()
    history: tuple[Message, ...] = ()
    as_of: datetime | None = None
    include_past: bool = False
    explain: bool = False
    versions: bool = False
    """Earlier texts instead of those that stand now."""


class ReadPath:
    """Finds, lists and tells the history of memories."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @call
    async def search(self, query: Query) -> SearchResult:
        """The memories nearest to the query, best first by `score`."""
        return await self.find(query)

    async def find(self, query: Query) -> SearchResult:
        """`search` for a call that is under way already."""
        kernel = self._kernel
        text = with_history(query.text, query.history)
        vector = await kernel.embedding.query(text)
        within = self._within(query)
        if vector is not None:
            hits = await kernel.store.search(kernel.collection, vector, query.limit, within)
            scored = [_scored(hit, kernel.embedding.embedder.score(hit.score), hit.score) for hit in hits]
        else:
            found = await kernel.store.keyword_search(kernel.collection, text, query.limit, within) or []
            scored = [_scored(hit, word_score(text, hit.payload.get("memory", "")), None) for hit in found]
        scored.sort(key=lambda item: (-(item.score or 0.0), item.id))
        kept = [item for item in scored if query.threshold is None or (item.score or 0.0) >= query.threshold]
        results = newer_first(kept)
        if query.explain:
            results = [item.with_(explanation=_explain(item, text, query)) for item in results]
        return SearchResult(results, coverage=results[0].score or 0.0 if results else 0.0)

    def _within(self, query: Query) -> Filter:
        types = Condition("type", "in", query.types) if query.types else None
        kinds = ("facts", "messages") if self._kernel.config.episodes == "search" else ("facts",)
        return visible(
            query.scope,
            now=self._kernel.ticker.now(),
            kinds=kinds,
            as_of=query.as_of,
            include_past=query.include_past,
            filters=all_of(types, query.filters),
            state=VERSION if query.versions else LIVE,
        )

    @call
    async def get(self, id: str) -> MemoryItem | None:
        """The memory with this id as it now stands, or None."""
        kernel = self._kernel
        point = await kernel.store.get(kernel.collection, id)
        if point is None:
            return None
        item = MemoryItem.from_payload(point.payload)
        return item if item.state == LIVE else None

    @call
    async def get_all(
        self,
        scope: Scope,
        *,
        limit: int,
        filters: Filter | None,
        cursor: str | None,
        as_of: datetime | None,
        include_past: bool,
    ) -> ListResult:
        """A page of the scope's memories, oldest first by (created_at, id)."""
        kernel = self._kernel
        within = visible(scope, now=kernel.ticker.now(), as_of=as_of, include_past=include_past, filters=filters)
        page = await kernel.store.list(kernel.collection, within, limit, cursor)
        return ListResult([_shown(point.payload) for point in page.points], page.next_cursor)

    @call
    async def history(self, id: str) -> list[HistoryRecord]:
        """Every event of the memory, and of its whole line where updates make new memories, oldest first."""
        return await self._kernel.history(id)

    @call
    async def context(self, query: Query, *, max_tokens: int) -> str:
        """What is remembered of the query as a block for a prompt, within `max_tokens`."""
        found = await self.find(query)
        return render(found.results, max_tokens=max_tokens)


def _scored(hit: Hit, score: float, similarity: float | None) -> MemoryItem:
    return _shown(hit.payload, score, similarity)


def _shown(payload: dict[str, object], score: float | None = None, similarity: float | None = None) -> MemoryItem:
    """The item as readers see it: an earlier version answers under the id of its memory."""
    item = MemoryItem.from_payload(payload, score=score, similarity=similarity)
    return item if item.version_of is None else item.with_(id=item.version_of)


def _explain(item: MemoryItem, text: str, query: Query) -> dict[str, object]:
    return {
        "preset": "plain",
        "query": text,
        "similarity": item.similarity,
        "score": item.score,
        "threshold": query.threshold,
        "matched_by": "words" if item.similarity is None else "meaning",
    }
