"""The read path: find the memories that answer a query, best first, by the steps of its preset."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perdure.backends.vector_stores.base import Hit, Point, Vector
from perdure.domain.clock import iso, read_moment
from perdure.domain.errors import RerankerError
from perdure.domain.event import SearchResult
from perdure.domain.filter import Condition, Filter, Moment, all_of, matches
from perdure.domain.memory import LIVE, VERSION, MemoryItem, oldest_first
from perdure.domain.scope import Scope
from perdure.domain.text.terms import split_words
from perdure.engine.aio.calls import background, degrade, guarded
from perdure.engine.config.config import LLMConfig, asked_by_role, seconds_of
from perdure.engine.core.access import CONFIRMED, TRUSTED, visible
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.lookup import Lookup, as_shown
from perdure.engine.read.access_counts import AccessCounts, recalled
from perdure.engine.read.fused import FusedMatches, FusedSearch
from perdure.engine.read.profile import Profile
from perdure.engine.requests import Query
from perdure.pipeline.prompting.context_block import quote, render_context
from perdure.pipeline.prompting.quoting import fingerprint
from perdure.pipeline.retrieval.fusion import adaptive_threshold
from perdure.pipeline.retrieval.question import marks_of
from perdure.pipeline.retrieval.reflection import Candidate, Reflection, choose
from perdure.pipeline.retrieval.rescoring import (
    adds_to,
    blend,
    hybrid,
    message_links,
    min_max,
    mmr,
    newer_first,
    only_asks,
    recency,
    said_once,
    says_nothing,
    topics,
    without_repeats,
    without_retold,
)
from perdure.pipeline.retrieval.rewrite import (
    CHARACTERS_PER_TOKEN,
    MAX_ANSWER_LENGTH,
    MAX_TOKENS,
    TEMPERATURE,
    Calling,
    hypothetical,
    is_self_contained,
    rewrite,
    with_history,
)
from perdure.pipeline.retrieval.search_gate import is_greeting, procedural_first
from perdure.pipeline.retrieval.time_window import Window, closeness, parse
from perdure.pipeline.retrieval.words import word_score

if TYPE_CHECKING:
    from perdure.engine.graph.related import Reached, Related

# The time filter of a question about the past, for presets that rank by similarity.

SHARE: Final = 0.5
"""The share of the missing score that is added to a memory from the period of the question.

With it .2 reaches the threshold of .6. MiniLM gives "What did I do last week?" .25 to .38 against what somebody did,
and .03 against what they like or own (measured).
"""
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True, slots=True)
class TimeFilter:
    """A past period that a question asks about."""

    window: Window

    @property
    def within(self) -> Filter:
        """Return the filter for what was said in the period."""
        start, end = self.window.start, self.window.end
        return all_of(
            None if start is None else Condition("told_at", "gte", Moment(iso(start))),
            None if end is None else Condition("told_at", "lt", Moment(iso(end))),
        )

    def near(self, items: Sequence[MemoryItem]) -> dict[str, float]:
        """Return how close each memory's time is to the period, by id: 1 inside, 0 far away."""
        days = [_day(item) for item in items]
        found = closeness(self.window, np.array(days, np.float64))
        return {item.id: float(value) for item, value in zip(items, found, strict=True)}


def time_filter(query: Query, now: datetime) -> TimeFilter | None:
    """Return the past period in the call or its question, or None: "today" does not ask for everything of today."""
    window = query.time_window or parse(query.text, query.reference_time or now)
    if window is None or window.end is None or window.end > now:
        return None
    return TimeFilter(window)


def raised(score: float, nearness: float) -> float:
    """Return a score in [0, 1] raised by the nearness to the period."""
    return score + (1 - score) * SHARE * nearness


def _day(item: MemoryItem) -> float:
    told = read_moment(item.told_at)
    return float("nan") if told is None else (told - _EPOCH) / timedelta(days=1)


# Reranking: a model reads question and memory together; if it fails the order stays as it was.


async def relevance(
    kernel: Kernel, query: str, texts: Sequence[str], scores: Sequence[float], warnings: list[str]
) -> list[float]:
    """Return the reranker's scores from 0 to 1 over the candidates; `scores`, scaled alike, if it fails."""
    if kernel.reranker is not None and texts:
        with degrade("the memories found are not reranked", warnings):
            found = await kernel.reranker.rerank(query, list(texts))
            if len(found) != len(texts) or not all(map(math.isfinite, found)):
                raise RerankerError(f"{kernel.reranker.name} gave no finite score for each of {len(texts)} memories")
            return min_max(found)
    return min_max(scores)


# Similarity search: the store's cosine and the steps that a preset names after it; words without vectors.

MOST_TOLD = 50  # extra candidates if some may be messages that the reader already has

Shown = Callable[[dict[str, Any], float | None, float | None], MemoryItem]
"""Builds the returned item from a payload, a score and a similarity."""


@dataclass(slots=True)
class SimilaritySearch:
    """Fetches candidates and applies the preset's steps."""

    kernel: Kernel
    shown: Shown
    warnings: list[str]  # warnings of the search
    considered: int = field(default=0, init=False)  # candidates of the last search before its steps

    async def __call__(self, query: Query, text: str, *within: Filter) -> list[MemoryItem]:
        """Return at most `limit` memories that match some of the filters, best first by `score`."""
        preset = query.preset
        now = query.as_of or self.kernel.clock.now()
        time = time_filter(query, now) if preset.timely else None
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
        """Return the best candidates of each filter, each memory once."""
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
            # Checked only now, because the store would have to read the payload of each row.
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
        """Select by MMR; the order stays that of the scores."""
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
    """Return the days since it was said."""
    told = read_moment(item.told_at)
    return 0.0 if told is None else max(0.0, (now - told).total_seconds() / 86_400)


def _reflected(items: Sequence[MemoryItem], reflection: Reflection, ages: Mapping[str, float]) -> list[MemoryItem]:
    """`ages` are in days, by id."""
    candidates = [Candidate(place, item.memory, item.score or 0.0, ages[item.id]) for place, item in enumerate(items)]
    return [items[kept.place].with_(score=kept.score) for kept in choose(reflection)(candidates)]


# Explanations of scores (`explain=True`).


def explain_similarity(item: MemoryItem, text: str, query: Query) -> dict[str, Any]:
    """Explain the score of a preset that ranks by cosine."""
    return {
        "preset": query.preset.name,
        "query": text,
        "similarity": item.similarity,
        "score": item.score,
        "threshold": query.preset.threshold if query.threshold is None else query.threshold,
        "matched_by": "words" if item.similarity is None else "meaning",
    }


def explain_fused(item: MemoryItem, found: FusedMatches, number: int, query: Query) -> dict[str, Any]:
    """Explain the score of fused search: the contribution of each arm and signal, and the rank."""
    place = found.places[number]
    unit = found.ranked.units[place]
    rounded = {name: round(float(values[unit]), 4) for name, values in found.ranked.shares.items()}
    shares = {name: share for name, share in rounded.items() if share}
    window = found.question.window
    return {
        "preset": query.preset.name,
        "query": found.question.text,
        "words": list(found.question.words),
        "named": sorted(found.question.named),
        "time_window": None if window is None else _told(window),
        "similarity": item.similarity,
        "score": item.score,
        "threshold": query.threshold,
        "rank": place + 1,
        "of": found.ranked.found,
        "fused": round(float(found.ranked.fused[place]), 4),
        "shares": shares,
        "matched_by": max((name for name in ("lexical", "dense", "likeness")), key=lambda name: shares.get(name, 0.0)),
    }


def _told(window: Any) -> dict[str, Any]:
    start, end = (None if each is None else each.isoformat() for each in (window.start, window.end))
    return {"start": start, "end": end, "grain": window.grain, "month": window.month}


BESIDE = 15  # memories beyond those, by which it is known what was read out of a message
BARE = 3  # words up to which a query ("nas-kellar") is taken to ask for each of them by name
FIRST = 10  # results whose order is the same whatever the limit, the default of the command line and of prompts
FURTHER = 5  # memories beyond the limit among which the newer one of a result is looked for
RERANKED = 50  # memories that a reranker reads: a perfect one over 50 would gain nine points of recall@10 on LoCoMo
CONTEXT_CANDIDATES = 50  # memories that compete for a context block; ten lines fill the default budget of most prompts

FAINT = 0.1
"""Share of the best score below which a memory is not an answer. A person's single facts that have nothing to do with a
question score 0.04 to 0.5 of the one that answers; on LoCoMo no evidence among the first ten is under 0.4."""


class ReadPath(Lookup):
    """Searches and lists memories, and returns their history."""

    def __init__(self, kernel: Kernel, related: Related | None = None, accesses: AccessCounts | None = None) -> None:
        super().__init__(kernel, AccessCounts(kernel) if accesses is None else accesses)
        self._related = related
        self._fused = FusedSearch(kernel)
        self._standing = Profile(kernel, self._fused.indexes)
        self.erasures = 0  # number of erasures by this process, for callers that keep copies of results

    @guarded
    async def search(self, query: Query) -> SearchResult:
        """Return the memories that answer the query, best first by `score`; they are counted as recalled."""
        warnings: list[str] = []
        found = await self.find(await self.rewritten(query, warnings))
        if not query.reads_past:  # a search of the past is not a use
            self.access_counts.note(recalled(found.results, query.threshold))
        if self._kernel.loss_check.warning is not None:
            warnings.append(self._kernel.loss_check.warning)
        return replace(found, warnings=[*warnings, *found.warnings]) if warnings else found

    @guarded
    async def look(self, query: Query) -> SearchResult:
        """`search` for a question that has been rewritten already."""
        return await self.find(query)

    async def rewritten(self, query: Query, warnings: list[str]) -> Query:
        """Return the query as the configured model rewrites it; unchanged if that fails."""
        llm, how = self._kernel.rewriter, self._kernel.config.rewrite
        if llm is None or how == "prepend" or (query.preset.gate and is_greeting(query.text)):
            return query
        calling = _calling(self._kernel.config.rewrite_llm)
        with degrade("the question is searched as it was asked", warnings):
            if how == "hypothetical":
                told = with_history(query.text, query.history)
                return replace(query, meaning=await hypothetical(llm, told, calling))
            if query.history and not is_self_contained(query.text):
                return replace(query, text=await rewrite(llm, query.text, query.history, calling), history=())
        return query

    async def find(self, query: Query) -> SearchResult:
        """`search` inside a running call."""
        if query.preset.gate and is_greeting(query.text):
            return SearchResult([])
        text = with_history(query.text, query.history)
        found = await (self._by_fusion if query.preset.ranking == "fused" else self._by_similarity)(query, text)
        if query.trusted:  # it enters a prompt
            told = [item for item in found.results if not _is_idle(item)]
            found = replace(found, results=told or found.results)
        return replace(found, results=oldest_first(found.results)) if query.order == "time" else found

    async def _by_similarity(self, query: Query, text: str) -> SearchResult:
        warnings: list[str] = []
        search = SimilaritySearch(self._kernel, as_shown, warnings)
        scopes = [query.scope] if query.also in (None, query.scope) else [query.scope, query.also]
        withins = [self._within(replace(query, scope=scope, trusted=False)) for scope in scopes]
        async with background(self._reach(query, text)) as reaching:
            results = newer_first(await search(query, text, *withins), marks=marks_of(text))
            if query.explain:
                results = [item.with_(explanation=explain_similarity(item, text, query)) for item in results]
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
        asked = replace(
            query,
            limit=max(query.limit, RERANKED) if query.rerank else self._fetched(max(query.limit, FIRST)),
        )
        async with background(self._reach(query, text)) as reaching:
            found = await self._fused(asked, text, self._within(query), past)
            items = [found.item(number, as_shown) for number in range(len(found.points))]
            if query.explain:
                items = [
                    item.with_(explanation=explain_fused(item, found, number, query))
                    for number, item in enumerate(items)
                ]
            if query.rerank:
                items = await self._reranked(text, items, warnings)
            results = await self._results(query, text, found, items)
            coverage = found.coverage([item for item in results if not (item.is_said and only_asks(item.memory))])
            results = await self._with_related(query, text, results, await reaching, warnings)
        return SearchResult(
            await self._hydrated(query, results),
            coverage=coverage.value,
            facets=coverage.facets,
            warnings=warnings,
            held_back=_earlier_texts(results) + len(found.past),
        )

    async def _results(
        self, query: Query, text: str, found: FusedMatches, items: Sequence[MemoryItem]
    ) -> list[MemoryItem]:
        """Return the results; the first are the same whatever the limit, though a larger one looks at more."""
        if query.rerank:
            return (await self._in_order(query, text, found, items, len(items)))[: query.limit]
        few = await self._in_order(query, text, found, items[: self._fetched(FIRST)], self._nearest(FIRST))
        first = few[: min(query.limit, FIRST)]
        if query.limit <= FIRST:
            return first
        many = await self._in_order(query, text, found, items, self._nearest(query.limit))
        shown = {item.id for item in first}
        return [*first, *(item for item in many if item.id not in shown)][: query.limit]

    async def _in_order(
        self, query: Query, text: str, found: FusedMatches, items: Sequence[MemoryItem], nearest: int
    ) -> list[MemoryItem]:
        """Return the nearest items, newer ones before older ones, and each thing once."""
        worth = _worth_showing(items[:nearest], query.threshold)
        links = await self._message_links(worth, items) if self._by_words else {}
        asking = found.question
        ordered = newer_first(worth, of_now=asking.of_now, links=links, marks=asking.marks)
        if not self._by_words:
            return ordered
        about = topics(text)
        named = about if len(split_words(text)) <= BARE else asking.marks
        ended = [as_shown(point.payload) for point in found.ended_before(len(items))]
        return said_once(ordered, items, ended, about=about, asked=named, of_now=asking.of_now, in_prompt=query.trusted)

    def _nearest(self, limit: int) -> int:
        """Return how many memories compete for the results; some messages give way to their facts."""
        return limit + (max(2 * FURTHER, limit // 2) if self._by_words else FURTHER)

    def _fetched(self, limit: int) -> int:
        """Return how many memories are looked up."""
        return self._nearest(limit) + (BESIDE if self._by_words else 0)

    @property
    def _by_words(self) -> bool:
        """Whether messages are found beside what was read out of them, each thing once."""
        return self._kernel.config.episodes == "words"

    async def _message_links(self, items: Sequence[MemoryItem], beside: Sequence[MemoryItem]) -> dict[str, set[str]]:
        """Return the links between messages, and between messages and what was read out of others."""
        if not any(item.is_said for item in items):
            return {}
        here = {item.id for item in beside}
        absent = list(dict.fromkeys(id for item in items for id in item.older if id not in here))
        kernel = self._kernel
        points = await kernel.store.payloads(kernel.collection, absent) if absent else []
        return message_links(items, [*beside, *(as_shown(point.payload) for point in points)])

    async def _reach(self, query: Query, text: str) -> Reached | None:
        if self._related is None or not query.related or query.versions:
            return None
        return await self._related.reach(query, text)

    async def _with_related(
        self, query: Query, text: str, found: list[MemoryItem], reached: Reached | None, warnings: list[str]
    ) -> list[MemoryItem]:
        if reached is None:
            return found
        warnings += reached.warnings
        if self._related is None or not reached.paths:
            return found
        return await self._related(query, text, self._within(query), found, reached, shown=as_shown, warnings=warnings)

    async def _reranked(self, text: str, items: list[MemoryItem], warnings: list[str]) -> list[MemoryItem]:
        """Return the items by the mean of their rank's share and the reranker's; the best score stays the scale."""
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
        trusted = all_of(TRUSTED, CONFIRMED if self._by_words else None) if query.trusted else None
        return visible(
            query.scope,
            now=self._kernel.clock.now(),
            kinds=self._kinds(query),
            as_of=query.as_of,
            include_past=query.include_past or include_past,
            filters=all_of(types, query.filters, trusted),
            state=VERSION if query.versions else LIVE,
        )

    def _kinds(self, query: Query) -> tuple[str, ...]:
        """Return the kinds of rows that a query may find; presets that keep to a specification find messages only if
        `episodes` is `search`."""
        kinds = self.searched if query.files else self.kinds
        if query.messages or query.preset.ranking == "fused" or self._kernel.config.episodes == "search":
            return kinds
        return tuple(kind for kind in kinds if kind != "messages")

    async def _hydrated(self, query: Query, items: list[MemoryItem]) -> list[MemoryItem]:
        """Return the memories with their source messages; hidden ones stay hidden."""
        ledger = self._kernel.ledger
        if not query.hydrate or ledger is None:
            return items
        ids = dict.fromkeys(id for item in items for id in item.sources)
        said = {episode.id: episode for episode in await ledger.get_episodes(list(ids)) if not episode.hidden}
        return [
            item.with_(messages=tuple(said[id].as_message() for id in item.sources if id in said)) for item in items
        ]

    @guarded
    async def context(self, query: Query, *, max_tokens: int) -> str:
        """Return the profile and the memories that answer the query, in its order, as a block for a prompt."""
        directives = await self._standing.directives(query.scope)
        profile = await self._standing.profile(query.scope)
        found = await self.find(await self.rewritten(replace(query, trusted=True, files=False, order="score"), []))
        standing = [*directives, *profile]
        said = {item.id for item in standing}
        facts = [item for item in found.results if item.id not in said]
        if self._by_words:
            best = max((item.score or 0.0 for item in found.results), default=0.0)
            facts = without_retold([item for item in facts if not item.is_said or adds_to(standing, item, best)])
        if standing and all(map(_is_idle, facts)):
            facts = []
        block = render_context(directives, profile, facts, max_tokens=max_tokens, order=query.order)
        self.access_counts.note(item for item in facts if not item.is_said and quote(item.memory) in block)
        return block

    @guarded
    async def directives(self, scope: Scope) -> list[MemoryItem]:
        """Return the user's wishes for how to be answered, oldest first, without quarantined ones."""
        return await self._standing.directives(scope)

    @guarded
    async def profile(self, scope: Scope) -> list[MemoryItem]:
        """Return the scope's current facts of single-valued attributes, without quarantined ones."""
        return await self._standing.profile(scope)

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
        """The memory that recall's indexes take, in bytes."""
        return self._fused.indexes.size

    def forget_copies(self) -> None:
        """Drop cached text of the store after an erasure."""
        self.erasures += 1
        self._fused.indexes.forget()


def _worth_showing(items: Sequence[MemoryItem], threshold: float | None) -> list[MemoryItem]:
    """Return the items that reach the threshold; without one, those that are not faint beside the best one."""
    best = max((item.score or 0.0 for item in items), default=0.0)
    floor = FAINT * best if threshold is None else threshold
    return [item for item in items if (item.score or 0.0) >= floor]


def _calling(named: LLMConfig | None) -> Calling:
    """Return the call settings for the model of the role `memory_rewrite`."""
    own = asked_by_role(named, max_tokens=MAX_TOKENS, temperature=TEMPERATURE)
    most = named.config.get("max_tokens") if named is not None else None
    longest = most * CHARACTERS_PER_TOKEN if isinstance(most, int) else 0
    return Calling(**own, seconds=seconds_of(named), longest=max(longest, MAX_ANSWER_LENGTH))


def _earlier_texts(items: list[MemoryItem]) -> int:
    """Return the number of earlier texts of these memories."""
    return sum(item.version - 1 for item in items)


def _is_idle(item: MemoryItem) -> bool:
    """Whether an item is a message that says nothing: courtesy, laughter, a plain joke."""
    from perdure.pipeline.curation.chat import is_chatter  # these patterns take long to compile
    from perdure.pipeline.curation.rules.extraction.filters import is_joke

    text = item.memory
    return item.kind == "messages" and (says_nothing(text) or is_chatter(text) or is_joke(text))
