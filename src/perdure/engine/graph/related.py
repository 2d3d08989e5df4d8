"""Add related memories to a search: entities in the question lead over edges to others, and to their memories.

They come after the direct results. A memory that answers a question of two steps comes before memories that answer it
less: of "Where does Alice's manager live?" the memory that Bob lives in Porto covers `live`, and the one that he is
Alice's manager covers the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from perdure.backends.graphs.base import GraphStore
from perdure.domain.clock import EARLIEST, iso
from perdure.domain.filter import Filter, matches
from perdure.domain.graph import Edge, entity_key
from perdure.domain.memory import MemoryItem
from perdure.engine.aio.calls import degrade, never_fail
from perdure.engine.core.kernel import Kernel
from perdure.engine.graph.queries import GraphVisibility
from perdure.engine.graph.sync import GraphSync
from perdure.engine.requests import Query
from perdure.pipeline.curation.rules.relations.clauses import Question, read_question
from perdure.pipeline.curation.rules.relations.rules import USER
from perdure.pipeline.curation.rules.relations.validity import edges
from perdure.pipeline.retrieval.rescoring import bm25
from perdure.pipeline.retrieval.words import tokens, word_score

STEPS = 2  # maximum edges that a question is followed over
MOST_RELATIONS = 100
MOST_MEMORIES = 60  # maximum memories of the graph in one search, nearest first
BELOW_THE_BEST = 0.95  # maximum score of a two-step answer as a share of the best direct one
PLACES = 4  # one in so many places of a full result may go to related memories, at the end and where no word was shared
BEHIND = 0.9  # maximum score of the first related memory as a share of the last direct one's
_MYSELF = re.compile(r"\b(?:i|me|my|mine|myself)\b", re.IGNORECASE)
Shown = Callable[[dict[str, Any], float | None, float | None], MemoryItem]


@dataclass(slots=True)
class _Path:
    """How a memory was reached: over which entities and memories."""

    through: tuple[str, ...]
    bridges: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reached:
    """The entities in a question, and the memories around them with their paths, nearest first."""

    names: list[str] = field(default_factory=list)
    paths: dict[str, _Path] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Walk:
    """Memories with their paths, nearest first."""

    paths: dict[str, _Path] = field(default_factory=dict)

    def note(self, ids: Iterable[str], path: _Path) -> None:
        for id in ids:
            self.paths.setdefault(id, path)


class Related:
    """Extends search results if the question names an entity; does nothing while the graph is down."""

    def __init__(self, kernel: Kernel, keeper: GraphSync) -> None:
        self._kernel = kernel
        self._keeper = keeper

    async def reach(self, query: Query, text: str) -> Reached:
        """Return what the graph finds around the entities in the question."""
        warnings: list[str] = []
        with _unsearched(warnings):
            now = query.as_of or self._kernel.clock.now()
            question = read_question(text, now=query.reference_time or now)
            if names := _names(question, text):
                if behind := await self._keeper.settle_quickly(query.scope):
                    warnings.append(f"the graph is behind by {behind} jobs: what is related may be missing")
                reached = await self._reached(await self._keeper.store(), query, question, names)
                return replace(reached, warnings=[*warnings, *reached.warnings])
        return Reached(warnings=warnings)

    async def __call__(
        self,
        query: Query,
        text: str,
        within: Filter,
        found: list[MemoryItem],
        reached: Reached,
        *,
        shown: Shown,
        warnings: list[str],
    ) -> list[MemoryItem]:
        """Merge results and related memories, at most the query's limit, best first by `score`."""
        with _unsearched(warnings):
            return await self._join(query, text, within, found, reached, shown=shown)
        return found

    async def _join(
        self, query: Query, text: str, within: Filter, found: list[MemoryItem], reached: Reached, *, shown: Shown
    ) -> list[MemoryItem]:
        kernel, paths = self._kernel, reached.paths
        if not paths:
            return found
        named = {token for name in reached.names for token in tokens(name)}
        bare = " ".join(token for token in tokens(text) if token not in named)
        rows = {point.id: point for point in await kernel.store.get_many(kernel.collection, list(paths))}
        there = {item.id: item for item in found}
        texts = {id: str(point.payload.get("memory", "")) for id, point in rows.items()}
        texts |= {item.id: item.memory for item in found}  # the row of an earlier time may be gone by now
        wanted = [id for id in paths if id in there or (id in rows and matches(within, rows[id].payload))]
        ranks = dict(zip(wanted, bm25(text, [texts[id] for id in wanted]), strict=True))
        best = max((item.score or 0.0 for item in found), default=0.0)
        joined = list(found)
        behind: list[MemoryItem] = []
        for id in sorted(wanted, key=lambda id: -ranks[id]):
            chain = [texts[bridge] for bridge in paths[id].bridges if bridge in texts]
            share = _two_steps(bare, text, texts[id], chain)
            score = min(share, best * BELOW_THE_BEST) if found else share
            if share and (id not in there or score > (there[id].score or 0.0)):
                item = there[id].with_(score=score) if id in there else shown(rows[id].payload, score, None)
                joined = _placed([each for each in joined if each.id != id], item)
            elif id not in there:
                behind.append(shown(rows[id].payload, None, None))
        place = _behind(joined, text, query.limit)
        scores = _between(joined, place, [ranks[item.id] for item in behind])
        joined[place:place] = [item.with_(score=score) for item, score in zip(behind, scores, strict=True)]
        floor = (query.preset.threshold if query.threshold is None else query.threshold) or 0.0
        joined = [self._told(item, query, paths, ranks) for item in joined]
        kept = [item for item in joined if item.id in there or (item.score or 0.0) >= floor]
        return kept[: query.limit]

    async def _reached(self, store: GraphStore, query: Query, question: Question, asked: list[str]) -> Reached:
        now = query.as_of or self._kernel.clock.now()
        as_of = None if query.as_of is None else iso(query.as_of)
        starts = await store.entities(query.scope, names=asked, as_of=as_of)
        if not starts:
            return Reached()
        names = [entity.name for entity in starts]
        near = await store.neighbourhood(query.scope, names, depth=STEPS, limit=MOST_RELATIONS, as_of=as_of)
        sight = GraphVisibility(self._kernel, query.scope, query.filters, query.as_of)
        stating = dict.fromkeys(each.memory_id for each in near.relations)
        naming = dict.fromkeys(id for entity in near.entities for id in entity.memory_ids if id not in stating)
        items = await sight.items([*stating, *list(naming)[:MOST_MEMORIES]])
        found = edges(sight.stated(near.relations, items), include_past=True)
        start, end = _asked_time(query, question, now)
        holding = [edge for edge in found if _holds(edge, start, end)]
        walk, known = _Walk(), {entity_key(entity.name): entity for entity in near.entities}
        paths = {entity_key(name): _Path((), ()) for name in names}
        for _ in range(STEPS + 1):
            nexts: dict[str, _Path] = {}
            for key, path in paths.items():
                walk.note([id for id in known[key].memory_ids if id in items] if key in known else [], path)
            for edge in holding:
                for here, there in ((edge.source, edge.target), (edge.target, edge.source)):
                    before, key = paths.get(entity_key(here)), entity_key(there)
                    if before is not None and key not in paths and len(before.through) < STEPS:
                        bridges = (*before.bridges, *edge.memory_ids[:1])
                        nexts.setdefault(key, _Path((*before.through, there), bridges))
            if not nexts:
                break
            paths |= nexts
        return Reached(names, dict(list(walk.paths.items())[:MOST_MEMORIES]))

    def _told(self, item: MemoryItem, query: Query, paths: dict[str, _Path], ranks: dict[str, float]) -> MemoryItem:
        """Return the item with the graph's share of its score, if an explanation was requested."""
        if not query.explain or item.id not in paths:
            return item
        share = {"through": list(paths[item.id].through), "bm25": round(ranks[item.id], 4), "score": item.score}
        return item.with_(explanation={**(item.explanation or {}), "score": item.score, "graph": share})


@contextmanager
def _unsearched(warnings: list[str]) -> Iterator[None]:
    what = "the graph was not searched"
    with never_fail(what, warnings), degrade(what, warnings):
        yield


def _asked_time(query: Query, question: Question, now: datetime) -> tuple[str, str]:
    """Return the first and last time of a question's period; the present if it names none."""
    given = query.time_window
    if given is not None:
        return iso(given.start or EARLIEST), iso(given.end or now)
    return question.window or (iso(now), iso(now))


def _names(question: Question, text: str) -> list[str]:
    """Return the entities in the question, including the user if they speak of themself."""
    return [*question.names, *([USER] if _MYSELF.search(text) else [])]


def _holds(edge: Edge, start: str, end: str) -> bool:
    """Whether an edge holds at some time of a period."""
    begun = edge.valid_from is None or edge.valid_from <= end
    return begun and (edge.valid_until is None or edge.valid_until > start)


def _two_steps(bare: str, question: str, text: str, chain: Sequence[str]) -> float:
    """Return the share of the question that path and memory cover, each adding something beyond names; else 0."""
    bridge = " ".join(chain)
    if not chain or not bare:
        return 0.0
    both, led, alone = (word_score(bare, each) for each in (f"{bridge} {text}", bridge, text))
    return word_score(question, f"{bridge} {text}") if both > led > 0 and both > alone > 0 else 0.0


def _placed(items: list[MemoryItem], item: MemoryItem) -> list[MemoryItem]:
    """Insert an item before the first that scores less; the others keep their order."""
    place = next((n for n, each in enumerate(items) if (each.score or 0.0) < (item.score or 0.0)), len(items))
    return [*items[:place], item, *items[place:]]


def _behind(items: Sequence[MemoryItem], question: str, limit: int) -> int:
    """Return the place of related memories: before the last few results that share no word with the question."""
    place = min(len(items), limit)
    while place > limit - limit // PLACES and word_score(question, items[place - 1].memory) == 0:
        place -= 1
    return place


def _between(items: Sequence[MemoryItem], place: int, ranks: Sequence[float]) -> list[float]:
    """Return scores for related memories at a place, by their words, never above the item before."""
    before = (items[place - 1].score or 0.0) if place else 1.0
    after = (items[place].score or 0.0) if place < len(items) else 0.0
    most = max(ranks, default=0.0)
    shares = [0.5 + 0.5 * (rank / most if most else 0.0) for rank in ranks]
    return [max(after, before * BEHIND * share) for share in shares]
