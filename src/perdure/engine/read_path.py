"""The read path: a query becomes memories, best first, by the steps of its preset (DESIGN §5)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from perdure.domain.event import HistoryRecord, ListResult, SearchResult
from perdure.domain.filter import Condition, Filter, all_of
from perdure.domain.memory import LIVE, VERSION, MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.beside import beside
from perdure.engine.calls import call
from perdure.engine.config import LLMConfig
from perdure.engine.fused_search import FusedSearch
from perdure.engine.graph.related import Reached, Related
from perdure.engine.kernel import Kernel
from perdure.engine.queries import Query
from perdure.engine.receipts import fused_receipt, similarity_receipt
from perdure.engine.reranking import relevance
from perdure.engine.roles import asked_by_role, seconds_of
from perdure.engine.similarity_search import SimilaritySearch
from perdure.engine.soft import given_up
from perdure.engine.standing import Standing
from perdure.engine.visibility import TRUSTED, visible
from perdure.engine.walls import OPEN, is_inside, told_inside
from perdure.pipeline.gate import is_greeting
from perdure.pipeline.inject import render_context
from perdure.pipeline.recall.rewriting import (
    CHARACTERS_PER_TOKEN,
    MAX_ANSWER_LENGTH,
    MAX_TOKENS,
    TEMPERATURE,
    Calling,
    hypothetical,
    rewrite,
)
from perdure.pipeline.recency import newer_first
from perdure.pipeline.rewrite import is_self_contained, with_history

RERANKED = 50
"""Memories that a reranker reads: a perfect one over 50 would gain nine points of recall@10 on LoCoMo."""
CONTEXT_CANDIDATES = 50
"""Memories that compete for a context block; ten lines fill the default budget of most prompts."""


class ReadPath:
    """Finds, lists and tells the history of memories."""

    def __init__(self, kernel: Kernel, related: Related | None = None) -> None:
        self._kernel = kernel
        self._related = related
        self._fused = FusedSearch(kernel)
        self._standing = Standing(kernel, self._fused.indexes)
        self.erasures = 0
        """How often something was erased by this process, for who keeps copies of what was read."""

    @call
    async def search(self, query: Query) -> SearchResult:
        """The memories that answer the query, best first by `score`."""
        warnings: list[str] = []
        found = await self.find(await self.rewritten(query, warnings))
        return replace(found, warnings=[*warnings, *found.warnings]) if warnings else found

    @call
    async def look(self, query: Query) -> SearchResult:
        """`search` for a question that has been put anew already."""
        return await self.find(query)

    async def rewritten(self, query: Query, warnings: list[str]) -> Query:
        """The query as the configuration has the model put it; as it is where that fails (V88)."""
        llm, how = self._kernel.rewriter, self._kernel.config.rewrite
        if llm is None or how == "prepend" or (query.preset.gate and is_greeting(query.text)):
            return query
        calling = _calling(self._kernel.config.rewrite_llm)
        with given_up("the question is searched as it was asked", warnings):
            if how == "hypothetical":
                told = with_history(query.text, query.history)
                return replace(query, meaning=await hypothetical(llm, told, calling))
            if query.history and not is_self_contained(query.text):
                return replace(query, text=await rewrite(llm, query.text, query.history, calling), history=())
        return query

    async def find(self, query: Query) -> SearchResult:
        """`search` for a call that is under way already."""
        if query.preset.gate and is_greeting(query.text):
            return SearchResult([])
        text = with_history(query.text, query.history)
        return await (self._by_fusion if query.preset.ranking == "fused" else self._by_similarity)(query, text)

    async def _by_similarity(self, query: Query, text: str) -> SearchResult:
        warnings: list[str] = []
        search = SimilaritySearch(self._kernel, _shown, warnings)
        scopes = [query.scope] if query.also in (None, query.scope) else [query.scope, query.also]
        withins = [self._within(replace(query, scope=scope, trusted=False)) for scope in scopes]
        async with beside(self._reach(query, text)) as reaching:
            results = newer_first(await search(query, text, *withins))
            if query.explain:
                results = [item.with_(explanation=similarity_receipt(item, text, query)) for item in results]
            results = await self._with_related(query, text, results, await reaching, warnings)
        return SearchResult(
            await self._hydrated(query, results),
            coverage=results[0].score or 0.0 if results else 0.0,
            warnings=warnings,
            held_back=_earlier_texts(results),
            considered=search.considered,
        )

    async def _by_fusion(self, query: Query, text: str) -> SearchResult:
        warnings: list[str] = []
        past = None if query.include_past else self._within(query, include_past=True)
        asked = replace(query, limit=max(query.limit, RERANKED)) if query.rerank else query
        async with beside(self._reach(query, text)) as reaching:
            found = await self._fused(asked, text, self._within(query), past)
            items = [found.item(number, _shown) for number in range(len(found.points))]
            if query.explain:
                items = [
                    item.with_(explanation=fused_receipt(item, found, number, query))
                    for number, item in enumerate(items)
                ]
            if query.rerank:
                items = (await self._reranked(text, items, warnings))[: query.limit]
            results = newer_first([item for item in items if (item.score or 0.0) >= (query.threshold or 0.0)])
            coverage = found.coverage(results)
            results = await self._with_related(query, text, results, await reaching, warnings)
        return SearchResult(
            await self._hydrated(query, results),
            coverage=coverage.value,
            facets=coverage.facets,
            warnings=warnings,
            held_back=_earlier_texts(results) + found.skipped_past,
        )

    async def _reach(self, query: Query, text: str) -> Reached:
        if self._related is None or not query.related or query.versions:
            return Reached()
        return await self._related.reach(query, text)

    async def _with_related(
        self, query: Query, text: str, found: list[MemoryItem], reached: Reached, warnings: list[str]
    ) -> list[MemoryItem]:
        warnings += reached.warnings
        if self._related is None or not reached.paths:
            return found
        return await self._related(query, text, self._within(query), found, reached, shown=_shown, warnings=warnings)

    async def _reranked(self, text: str, items: list[MemoryItem], warnings: list[str]) -> list[MemoryItem]:
        """The items by the mean of their rank's share and the reranker's; the best one's score stays the measure."""
        scores = [item.score or 0.0 for item in items]
        best = max(scores, default=0.0)
        judged = await relevance(self._kernel, text, [item.memory for item in items], scores, warnings)
        if not best or warnings:
            return items
        blended = [
            item.with_(score=(score + best * share) / 2)
            for item, score, share in zip(items, scores, judged, strict=True)
        ]
        return sorted(blended, key=lambda item: (-(item.score or 0.0), item.id))

    def _within(self, query: Query, *, include_past: bool = False) -> Filter:
        types = Condition("type", "in", query.types) if query.types else None
        return visible(
            query.scope,
            now=self._kernel.ticker.now(),
            kinds=self._fused.indexes.searched if query.files else self._fused.indexes.kinds,
            as_of=query.as_of,
            include_past=query.include_past or include_past,
            filters=all_of(types, query.filters, TRUSTED if query.trusted else None),
            state=VERSION if query.versions else LIVE,
        )

    async def _hydrated(self, query: Query, items: list[MemoryItem]) -> list[MemoryItem]:
        """The memories with the messages that they came from, as these were said; hidden ones stay hidden."""
        ledger = self._kernel.ledger
        if not query.hydrate or ledger is None:
            return items
        ids = dict.fromkeys(id for item in items for id in item.sources)
        said = {episode.id: episode for episode in await ledger.get_episodes(list(ids)) if not episode.hidden}
        return [
            item.with_(messages=tuple(said[id].as_message() for id in item.sources if id in said)) for item in items
        ]

    @call
    async def get(self, id: str, walls: Scope = OPEN) -> MemoryItem | None:
        """The memory with this id as it now stands, or None; so too where it lies outside of the walls."""
        kernel = self._kernel
        point = await kernel.store.get(kernel.collection, id)
        if point is None:
            return None
        item = MemoryItem.from_payload(point.payload)
        return item if item.state == LIVE and is_inside(walls, item) else None

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
        kinds: tuple[str, ...] = ("facts",),
    ) -> ListResult:
        """A page of the scope's memories, oldest first by (created_at, id)."""
        kernel = self._kernel
        within = visible(
            scope, now=kernel.ticker.now(), kinds=kinds, as_of=as_of, include_past=include_past, filters=filters
        )
        page = await kernel.store.list(kernel.collection, within, limit, cursor)
        return ListResult([_shown(point.payload) for point in page.points], page.next_cursor)

    @call
    async def history(self, id: str, walls: Scope = OPEN) -> list[HistoryRecord]:
        """Every event of the memory, and of its whole line where updates make new memories, oldest first."""
        return told_inside(walls, await self._kernel.history(id))

    @call
    async def context(self, query: Query, *, max_tokens: int) -> str:
        """What stands for every question and what is remembered of this one, as a block for a prompt."""
        directives = await self._standing.directives(query.scope)
        profile = await self._standing.profile(query.scope)
        found = await self.find(await self.rewritten(replace(query, trusted=True, files=False), []))
        said = {item.id for item in (*directives, *profile)}
        facts = [item for item in found.results if item.id not in said]
        return render_context(directives, profile, facts, max_tokens=max_tokens)

    @call
    async def directives(self, scope: Scope) -> list[MemoryItem]:
        """How the user wants to be answered, oldest first: for prompts, so without what is quarantined."""
        return await self._standing.directives(scope)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of rows that may enter prompts."""
        return self._fused.indexes.kinds

    @property
    def searched(self) -> tuple[str, ...]:
        """The kinds of rows that a caller's search finds."""
        return self._fused.indexes.searched

    @property
    def index_bytes(self) -> int:
        """What recall's indexes take of the process's memory."""
        return self._fused.indexes.size

    def forget_copies(self) -> None:
        """Something was erased: let go of what was kept in memory of the store's text."""
        self.erasures += 1
        self._fused.indexes.forget()


def _calling(named: LLMConfig | None) -> Calling:
    """How the model of the role `memory_rewrite` is asked (V24)."""
    own = asked_by_role(named, max_tokens=MAX_TOKENS, temperature=TEMPERATURE)
    most = named.config.get("max_tokens") if named is not None else None
    longest = most * CHARACTERS_PER_TOKEN if isinstance(most, int) else 0
    return Calling(**own, seconds=seconds_of(named), longest=max(longest, MAX_ANSWER_LENGTH))


def _earlier_texts(items: list[MemoryItem]) -> int:
    """Texts of these memories that later ones have replaced."""
    return sum(item.version - 1 for item in items)


def _shown(payload: dict[str, Any], score: float | None = None, similarity: float | None = None) -> MemoryItem:
    """The item as readers see it: an earlier version answers under the id of its memory."""
    item = MemoryItem.from_payload(payload, score=score, similarity=similarity)
    return item if item.version_of is None else item.with_(id=item.version_of)
