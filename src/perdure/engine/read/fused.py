"""Fused search: every memory of the scope ranked by words, meaning and cues, the best looked up and checked.

The score of the best one says how well it answers by itself; the others have their share of that by how they rank.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from perdure.backends.blocking import run_blocking
from perdure.backends.ledgers.base import Mark
from perdure.backends.vector_stores.base import Point, Vector
from perdure.domain.clock import read_moment
from perdure.domain.filter import Condition, Filter, all_of, eq, matches, scope_filter
from perdure.domain.memory import FILES, LIVE, MemoryItem
from perdure.domain.scope import SCOPE_FIELDS, Scope
from perdure.engine.aio.calls import degrade
from perdure.engine.core.embedding import PASSAGES, cues_of
from perdure.engine.core.kernel import Kernel
from perdure.engine.requests import Query
from perdure.pipeline.retrieval.fusion import Coverage, Ranked, rank
from perdure.pipeline.retrieval.question import Question, read_question
from perdure.pipeline.retrieval.scope_index import Entry, ScopeIndex, read, unpack
from perdure.pipeline.retrieval.weights import Ranking
from perdure.pipeline.retrieval.words import word_score

# The indexes that recall works on: one for each scope that is asked for, read once and then kept up to date.
#
# A search asks the ledger what was written inside the scope since the last one, by this process or another, and takes
# in those rows alone. What is found is looked up in the store before it is shown, so that nothing that was erased,
# and no text that another process has replaced, is ever answered with.

# Rows of the store as recall takes them in.

DAY = 86_400.0


def stamp_of(point: Point) -> str:
    """What changes whenever a row does."""
    return f"{point.payload.get('updated_at', '')}/{point.payload.get('version', 1)}"


def entry_of(point: Point, dimension: int) -> Entry:
    """The row as an entry of an index whose vectors have this dimension."""
    payload = point.payload
    told = read_moment(payload.get("told_at", ""))
    role = str(payload.get("role", "memory"))
    vector = point.vector
    if vector is not None:
        length = float(np.linalg.norm(vector))
        vector = vector / length if length > 0 else None
    speaker = payload.get("speaker")
    text = str(payload.get("memory", ""))
    return Entry(
        id=point.id,
        stamp=stamp_of(point),
        track=tuple(payload.get(field) for field in SCOPE_FIELDS),
        place=(
            0.0 if told is None else told.timestamp() / DAY,
            str(payload.get("created_at", "")),
            int(payload.get("position") or 0),
        ),
        turn=role != "memory",
        role=role,
        speaker=speaker if isinstance(speaker, str) and speaker else None,
        features=read(text),
        cues=cues_of(payload),
        vector=vector,
        passages=unpack(payload.get(PASSAGES), dimension),
    )


MOST_BYTES = 256 * 2**20
"""That all indexes take together, but for the one that was asked for last; the scopes longest unused go first. A memory
of ten words takes 4 KB with 384 dimensions, more than half of that for vectors, of its words too."""
MOST_MEMORIES = 250_000
"""Of one scope that is indexed at all."""
MOST_BYTES_OF_ONE = 2**30
"""That they may be expected to take."""
_BESIDE = 2_500
"""Bytes of a memory beside its own vector."""
AWAITED = 30.0
"""Seconds for which a row is looked for that the ledger has told of and the store does not hold yet."""
AWAITED_HERE = 0.5
"""The same of a store inside this process, where a row comes a moment after its history."""
INLINE = 2_000
"""Units up to which an index is ranked on the event loop itself: a few milliseconds."""
TAKEN_INLINE = 50
"""Rows that an index takes in there: a few milliseconds too; a thousand of them take seventy."""
WORDS_KEPT = 20_000
"""Words whose vectors are kept for all scopes: 30 MB."""


@dataclass(slots=True)
class CachedIndex:
    """An index, the moment that it is true for, and who is at it."""

    index: ScopeIndex
    mark: Mark
    awaited: dict[str, float] = field(default_factory=dict)
    changes: int = 0
    """Times that rows were taken in or let go: what was read before the last of them may be older."""
    turn: threading.Lock = field(default_factory=threading.Lock)
    size: int = 0
    """Bytes that it took when it was last asked for."""
    plain: dict[str, str] = field(default_factory=dict)
    """Memories that were marked and tell nothing of answers all the same, by the stamp that they had."""

    def speakers(self) -> tuple[str, ...]:
        """The names of all who speak in the scope, folded."""
        with self.turn:
            return tuple(self.index.speakers)

    def marked(self, cues: int) -> list[str]:
        """The ids of the memories that have one of these cues, oldest told first."""
        with self.turn:
            index = self.index
            units = np.flatnonzero(index.alive & (index.cues & cues > 0))
            ordered = units[np.argsort(index.days[units], kind="stable")]
            return list(dict.fromkeys(index.ids[owner] for owner in index.owner[ordered]))


class ScopeIndexes:
    """The indexes of one engine, within a budget of bytes."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._held: OrderedDict[Scope, CachedIndex] = OrderedDict()
        self._words: OrderedDict[str, Vector] = OrderedDict()
        self._collection, self._process = "", 0
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes that they take together, but for the words'."""
        return self._size

    async def of(self, scope: Scope, *, with_words: bool = True) -> CachedIndex | None:
        """The index of a scope as it stands now; None where there is no ledger to follow, or the scope is too large.

        Without words, those that are new to it have no vectors yet: who compares none does not wait for them.
        """
        kernel = self._kernel
        if kernel.ledger is None:
            return None
        if (self._collection, self._process) != (kernel.collection, os.getpid()):
            self._held.clear()  # of a fork, in which another thread may have been at them
            self._size = 0
            self._collection, self._process = kernel.collection, os.getpid()
        held = known = self._held.get(scope)
        if held is not None and not (await self._follow(held, scope) and self._may_be(held.index.alive_entries)):
            held = None
        if held is None:
            if self._held.get(scope) is known:
                self._let_go(scope)
            held = await self._read(scope)
            if held is None:
                return None
            self._let_go(scope)  # of another search that was quicker
            self._held[scope] = held
        if with_words:
            await self._give_words(held)
        self._weigh(scope, held)
        return held

    async def words(self, asked: Iterable[str]) -> dict[str, Vector]:
        """The vectors of words; without those that could not be had."""
        embedder = self._kernel.embedding
        if not self._compares_words:
            return {}
        asked = list(dict.fromkeys(asked))
        missing = [word for word in asked if word not in self._words]
        if missing:
            with degrade("words are compared by their stems alone"):
                self._words.update(zip(missing, await embedder.embedder.embed_batch(missing), strict=True))
        found = {word: self._words[word] for word in asked if word in self._words}
        while len(self._words) > WORDS_KEPT:
            self._words.popitem(last=False)
        return found

    def drop(self, held: CachedIndex, ids: Iterable[str]) -> None:
        """These memories are no longer in the store."""
        held.changes += 1
        with held.turn:
            for id in ids:
                held.index.remove(id)

    def refresh(self, held: CachedIndex, points: Sequence[Point]) -> None:
        """These rows are not as the index has them."""
        held.changes += 1
        _take_in(held, points, self._dimension)

    def forget(self) -> None:
        """Let go of all indexes and words: something was erased."""
        self._held.clear()
        self._words.clear()
        self._size = 0

    # ------------------------------------------------------------------ pieces
    @property
    def _dimension(self) -> int:
        return self._kernel.embedding.embedder.dimension

    @property
    def _compares_words(self) -> bool:
        """Whether words have vectors of their own: not those of a service, which would be asked for each of them."""
        return self._kernel.embedding.available and self._kernel.embedding.embedder.local

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of rows that may enter prompts."""
        return ("facts", "messages") if self._kernel.config.episodes == "search" else ("facts",)

    @property
    def searched(self) -> tuple[str, ...]:
        """The kinds of rows that are searched: the files of agents too, which are too long for prompts."""
        return (*self.kinds, FILES)

    async def _read(self, scope: Scope) -> CachedIndex | None:
        """The index of a scope from the store, true for a moment before it was read."""
        kernel = self._kernel
        assert kernel.ledger is not None, "without one nothing is indexed"
        mark = (await kernel.ledger.touched(scope)).mark
        within = all_of(scope_filter(scope), Condition("kind", "in", self.searched), eq("state", LIVE))
        if not self._may_be(await kernel.store.count(kernel.collection, within)):
            return None
        page = await kernel.store.list(kernel.collection, within, with_vectors=True)
        held = CachedIndex(ScopeIndex(self._dimension), mark)
        await self._change(held, page.points, ())
        return held

    async def _follow(self, held: CachedIndex, scope: Scope) -> bool:
        """Take in what changed; False where the index is to be read anew."""
        kernel = self._kernel
        assert kernel.ledger is not None, "without one nothing is indexed"
        touched = await kernel.ledger.touched(scope, held.mark)
        if touched.reset or held.index.dead_units > max(1_000, len(held.index.alive) // 2):
            return False
        now = time.monotonic()
        awaited = {id: until for id, until in held.awaited.items() if until > now}
        wanted = dict.fromkeys((*awaited, *touched.written))
        if wanted or touched.gone:
            changes = held.changes
            points = await kernel.store.get_many(kernel.collection, list(wanted)) if wanted else []
            if held.changes != changes:  # another search was quicker, and what was read here may be older
                return await self._follow(held, scope)
            there = {point.id for point in points}
            absent = [id for id in wanted if id not in there]
            await self._change(held, points, (*touched.gone, *absent))
            durable = kernel.store.durable
            for id in absent if durable else touched.written:  # without a journal history comes before the row
                awaited.setdefault(id, now + (AWAITED if durable else AWAITED_HERE))
            held.awaited = {id: until for id, until in awaited.items() if not (durable and id in there)}
        held.mark = max(held.mark, touched.mark)
        return True

    async def _change(self, held: CachedIndex, points: Sequence[Point], gone: Sequence[str]) -> None:
        kinds = self.searched
        fitting = [
            point for point in points if point.payload.get("state") == LIVE and point.payload.get("kind") in kinds
        ]
        hidden = {point.id for point in points} - {point.id for point in fitting}
        fitting = [point for point in fitting if held.index.stamps.get(point.id) != stamp_of(point)]
        away = [id for id in (*gone, *hidden) if id in held.index]
        if not fitting and not away:
            return
        held.changes += 1
        with held.turn:
            for id in away:
                held.index.remove(id)
        if len(fitting) <= TAKEN_INLINE:
            _take_in(held, fitting, self._dimension)
        else:
            await run_blocking(_take_in, held, fitting, self._dimension)

    async def _give_words(self, held: CachedIndex) -> None:
        if not held.index.unvectored or not self._compares_words:
            return
        with held.turn:
            wanted = list(held.index.unvectored)
        for start in range(0, len(wanted), WORDS_KEPT // 2):
            vectors = await self.words(wanted[start : start + WORDS_KEPT // 2])
            with held.turn:
                held.index.give_vectors(vectors)

    def _may_be(self, memories: int) -> bool:
        """Whether a scope of so many memories is indexed."""
        return memories <= MOST_MEMORIES and memories * (4 * self._dimension + _BESIDE) <= MOST_BYTES_OF_ONE

    def _weigh(self, scope: Scope, held: CachedIndex) -> None:
        """Take an index for the one used last, and let go of others where all take too much."""
        if self._held.get(scope) is held:
            self._held.move_to_end(scope)
            self._size -= held.size
            held.size = held.index.size
            self._size += held.size
        while self._size > MOST_BYTES and len(self._held) > 1:
            self._let_go(next(iter(self._held)))

    def _let_go(self, scope: Scope) -> None:
        held = self._held.pop(scope, None)
        if held is not None:
            self._size -= held.size


def _take_in(held: CachedIndex, points: Sequence[Point], dimension: int) -> None:
    entries = [entry_of(point, dimension) for point in points if held.index.stamps.get(point.id) != stamp_of(point)]
    with held.turn:
        for entry in entries:
            held.index.put(entry)


def transient(points: Sequence[Point], dimension: int) -> ScopeIndex:
    """An index of a few rows, for one search."""
    index = ScopeIndex(dimension)
    for point in points:
        index.put(entry_of(point, dimension))
    return index


ARM = 200
"""Rows that each arm of a store gives where there is no index: of the past, without a ledger, of a huge scope."""
AT_A_TIME = 32
"""Ranked memories looked up in one go at least; most searches need no more."""
TRIES = 4
"""Rankings after which rows that others keep changing are taken as they stand."""
JUDGED = 5
"""Memories from the top whose likeness says how well the best one answers."""


@dataclass(frozen=True, slots=True)
class FusedMatches:
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

    async def __call__(self, query: Query, text: str, within: Filter, past: Filter | None) -> FusedMatches:
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
        return FusedMatches(points[kept], ranked, places[kept], question, scores[kept], vector is not None, skipped)

    # ------------------------------------------------------------------ pieces
    async def _ask(
        self, speakers: Sequence[str], query: Query, text: str
    ) -> tuple[Question, Vector | None, Mapping[str, Vector]]:
        question = read_question(
            text,
            speakers,
            reference=query.reference_time,
            now=self._kernel.clock.now(),
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
        held: CachedIndex | None,
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
        self,
        ranked: Ranked,
        held: CachedIndex | None,
        limit: int,
        within: Filter,
        past: Filter | None,
        *,
        is_last: bool,
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

    def _note_stale(self, held: CachedIndex, ids: Sequence[str], there: Mapping[str, Point]) -> bool:
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
