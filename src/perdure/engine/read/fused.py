"""Fused search: every memory of the scope ranked by words, meaning and cues, the best looked up and checked.

The score of the best one says how well it answers by itself; the others have their share of that by how they rank.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from perdure.backends.blocking import run_blocking
from perdure.backends.ledgers.base import Mark
from perdure.backends.vector_stores.base import KeptRows, Point, Vector
from perdure.domain.filter import Condition, Filter, all_of, eq, matches, scope_filter
from perdure.domain.memory import FILES, LIVE, NOTES, MemoryItem
from perdure.domain.scope import Scope
from perdure.domain.text.terms import key_of
from perdure.engine.aio.calls import degrade
from perdure.engine.core.embedding import entry_of, give_words, stamp_of, with_kept
from perdure.engine.core.kernel import Kernel
from perdure.engine.requests import Query
from perdure.pipeline.retrieval.features import outdated, unpack_entries
from perdure.pipeline.retrieval.fusion import Coverage, Ranked, rank
from perdure.pipeline.retrieval.question import Question, read_question
from perdure.pipeline.retrieval.scope_index import ScopeIndex
from perdure.pipeline.retrieval.weights import Ranking
from perdure.pipeline.retrieval.word_table import WordTable
from perdure.pipeline.retrieval.words import may_be_foreign, shares_topic, word_score

# The indexes that recall works on: one for each scope that is asked for, read once and then kept up to date.
#
# A search asks the ledger what was written inside the scope since the last one, by this process or another, and takes
# in those rows alone. What is found is looked up in the store before it is shown, so that nothing that was erased,
# and no text that another process has replaced, is ever answered with.

MOST_BYTES = 256 * 2**20
"""That all indexes and the words that they share take together, but for the index that was asked for last; the scopes
longest unused go first. A memory of ten words takes 2.5 KB with 384 dimensions, three fifths of that for its vector."""
MOST_MEMORIES = 250_000
"""Of one scope that is indexed at all."""
MOST_BYTES_OF_ONE = 2**30
"""That they may be expected to take."""
_BESIDE = 1_500
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
"""Words after which indexes that are read share a new table: 35 MB."""
ASKED_KEPT = 4_096
"""Words of questions that are in no memory, whose vectors are kept: 6 MB."""


@dataclass(slots=True)
class CachedIndex:
    """An index, the moment that it is true for, and who is at it."""

    index: ScopeIndex
    mark: Mark
    version: int | None = None
    """The ledger's version at or before the mark, where it tells one."""
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
        self._asked: OrderedDict[str, Vector] = OrderedDict()
        self._table: WordTable | None = None
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
            self.forget()  # of a fork, in which another thread may have been at them
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
            await self.give_words(held.index)
        self._weigh(scope, held)
        return held

    async def ask(self, text: str, words: Iterable[str]) -> tuple[Vector | None, dict[str, Vector]]:
        """The vector of a question, and those of its words: in one run of the encoder, where some are new to it."""
        embedding = self._kernel.embedding
        if not self._kernel.embedding.compares_words:
            return await embedding.query(text), {}
        known, missing = await self._known(words)
        if not missing:
            return await embedding.query(text), known
        vector, *further = await embedding.embedder.embed_batch([text, *missing])
        new = dict(zip(missing, further, strict=True))
        self._asked |= new
        while len(self._asked) > ASKED_KEPT:
            self._asked.popitem(last=False)
        return vector, known | new

    async def give_words(self, index: ScopeIndex) -> None:
        """Give the words of an index the vectors that the store has, and make those that nobody made yet."""
        wanted = index.unvectored if self._kernel.embedding.compares_words else []
        if not wanted:
            return
        known, missing = await self._known(wanted)
        index.words.give(known)
        with degrade("words are compared by their stems alone"):
            kernel = self._kernel
            index.words.give(await give_words(kernel.store, kernel.collection, kernel.embedding, missing))

    async def _known(self, words: Iterable[str]) -> tuple[dict[str, Vector], list[str]]:
        """The vectors of words that are in memory or in the store, and the words whose vectors are not."""
        known: dict[str, Vector] = {}
        missing = []
        for word in dict.fromkeys(words):
            vector = self._shared.vector(word)
            if vector is None:
                vector = self._asked.get(word)
            if vector is None:
                missing.append(word)
            else:
                known[word] = vector
        if missing:
            kept = await self._kernel.store.words(self._kernel.collection, [key_of(word) for word in missing])
            known |= kept.with_vector()
        return known, [word for word in missing if word not in known]

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
        self._asked.clear()
        self._kernel.embedding.words_given.clear()
        self._table = None
        self._size = 0

    # ------------------------------------------------------------------ pieces
    @property
    def _dimension(self) -> int:
        return self._kernel.embedding.embedder.dimension

    @property
    def _shared(self) -> WordTable:
        """The words that indexes share; a full table stays with the indexes that have it."""
        if self._table is None or len(self._table) > WORDS_KEPT:
            self._table = WordTable(self._dimension)
        return self._table

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of rows that may enter prompts."""
        return ("facts", NOTES, "messages") if self._kernel.config.searches_messages else ("facts", NOTES)

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
        held = CachedIndex(ScopeIndex(self._dimension, self._shared), mark)
        kept = await kernel.store.kept_rows(kernel.collection, within)
        if kept is None:
            page = await kernel.store.list(kernel.collection, within, with_vectors=True)
            await self._change(held, page.points, ())
            return held
        await self._fill(held, kept, within)
        return held

    async def _fill(self, held: CachedIndex, kept: KeptRows, within: Filter) -> None:
        """Take in rows with what was kept beside them; what was not is made now, and kept."""
        kernel, table = self._kernel, held.index.words
        data, words = list(kept.data), list(kept.words)
        bare = outdated(data, kept.updated)
        if bare:
            points = await kernel.store.get_many(kernel.collection, [kept.ids[place] for place in bare])
            made = {each.id: each for each in await run_blocking(_made, points, self._dimension)}
            for place in bare:
                data[place] = None  # of a row that was taken out meanwhile
                point = made.get(kept.ids[place])
                if point is not None and point.kept is not None:
                    data[place], words[place] = point.kept.data, point.kept.keys
                    table.learn(point.kept.words)
            with degrade("what recall reads out of memories is read again by the next process"):
                await kernel.store.keep(
                    kernel.collection,
                    {id: (str(each.payload.get("updated_at")), each.kept) for id, each in made.items() if each.kept},
                )
        gone = {place for place in bare if data[place] is None}
        there = [place for place in range(len(data)) if place not in gone]
        packed = [each for each in data if each is not None]
        if not packed:
            return
        batch = await run_blocking(unpack_entries, packed, [words[place] for place in there])
        unknown = table.unknown(batch.words.tolist())
        if unknown:
            table.take_in(await kernel.store.words(kernel.collection, unknown))
            if table.unknown(unknown):  # damaged: `doctor` tells of it, and the texts have the words
                page = await kernel.store.list(kernel.collection, within, with_vectors=True)
                await self._change(held, page.points, ())
                return

        def fill() -> None:
            vectors = kept.vectors[there] if gone else kept.vectors
            lengths: NDArray[np.float32] = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
            lengths[lengths == 0] = 1
            vectors /= lengths
            with held.turn:
                held.index.extend([kept.ids[place] for place in there], batch, vectors)

        await run_blocking(fill)

    async def _follow(self, held: CachedIndex, scope: Scope) -> bool:
        """Take in what changed; False where the index is to be read anew."""
        kernel = self._kernel
        assert kernel.ledger is not None, "without one nothing is indexed"
        version = kernel.ledger.version()
        if version is not None and version == held.version and not held.awaited:
            return True  # nothing was committed since, here or elsewhere
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
        held.mark, held.version = max(held.mark, touched.mark), version
        return True

    async def _change(self, held: CachedIndex, points: Sequence[Point], gone: Sequence[str]) -> None:
        kinds = self.searched
        fitting = [
            point for point in points if point.payload.get("state") == LIVE and point.payload.get("kind") in kinds
        ]
        hidden = {point.id for point in points} - {point.id for point in fitting}
        fitting = [point for point in fitting if held.index.stamps.get(point.id) != stamp_of(point.payload)]
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
        shared = 0 if self._table is None else self._table.size
        while self._size + shared > MOST_BYTES and len(self._held) > 1:
            self._let_go(next(iter(self._held)))

    def _let_go(self, scope: Scope) -> None:
        held = self._held.pop(scope, None)
        if held is not None:
            self._size -= held.size


def _take_in(held: CachedIndex, points: Sequence[Point], dimension: int) -> None:
    entries = [
        entry_of(point, dimension) for point in points if held.index.stamps.get(point.id) != stamp_of(point.payload)
    ]
    with held.turn:
        for entry in entries:
            held.index.put(entry)


def _made(points: Sequence[Point], dimension: int) -> list[Point]:
    return [with_kept(point, dimension) for point in points]


def transient(points: Sequence[Point], dimension: int) -> ScopeIndex:
    """An index of a few rows, for one search."""
    index = ScopeIndex(dimension)
    for point in points:
        index.put(entry_of(point, dimension))
    return index


ARM = 200
"""Rows that each arm of a store gives where there is no index: of the past, without a ledger, of a huge scope."""
AT_A_TIME = 12
"""Ranked memories looked up in one go at least; most searches need no more."""
RANKED = 8
"""Memories that are ranked for each that is asked for; of a scope where filters leave few of these, all are."""
TRIES = 4
"""Rankings after which rows that others keep changing are taken as they stand."""
JUDGED = 5
"""Memories from the top whose likeness says how well the best one answers."""
UNREAD = 0.5
"""Share of a likeness by an English embedder that counts for a question in another language that shares no topic word:
unrelated German sentences score .74 to .90 in full, as high as answers do."""


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
    past: list[Point] = field(default_factory=list)
    """Memories that would have come, but are no longer valid."""

    def ended_before(self, count: int) -> list[Point]:
        """Those of `past` that rank before the last of the first `count` points."""
        if count >= len(self.points):
            return self.past
        before = set(self.ranked.ids[: self.places[count - 1]])
        return [point for point in self.past if point.id in before]

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


_Asked: TypeAlias = tuple[Question, Vector | None, Mapping[str, Vector]]
"""A question, its vector and those of its words."""


class FusedSearch:
    """Ranks and looks up."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.indexes = ScopeIndexes(kernel)
        self._ranking = Ranking()

    async def __call__(self, query: Query, text: str, within: Filter, past: Filter | None) -> FusedMatches:
        """The memories inside the filter by rank, up to the query's limit; `past` matches those that ran out."""
        held = None if query.reads_past else await self.indexes.of(query.scope)
        wanted = max(query.limit, JUDGED)
        most: int | None = RANKED * max(wanted, AT_A_TIME)
        for attempt in range(TRIES):
            index = held.index if held is not None else await self._of_arms(query, text, within)
            speakers = tuple(index.speakers) if held is None else held.speakers()
            asked = await self._ask(speakers, query, text)
            ranked = await self._rank(index, held, asked, most)
            points, places, ended, is_stale = await self._look_up(
                ranked, held, wanted, within, past, is_last=attempt == TRIES - 1
            )
            if len(points) < wanted and len(ranked.ids) < ranked.found and not is_stale:
                most, is_stale = None, True  # a filter leaves few of the best: all are ranked
            if not is_stale or attempt == TRIES - 1:
                break
        question, vector, _ = asked
        scores = self._scores(question, ranked, points, places, vector)
        kept = slice(query.limit)
        return FusedMatches(points[kept], ranked, places[kept], question, scores[kept], vector is not None, ended)

    # ------------------------------------------------------------------ pieces
    async def _ask(self, speakers: Sequence[str], query: Query, text: str) -> _Asked:
        question = read_question(
            text,
            speakers,
            reference=query.reference_time,
            now=self._kernel.clock.now(),
            window=query.time_window,
        )
        vector, words = await self.indexes.ask(query.meaning or question.text, question.words)
        return question, vector, words

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
        await self.indexes.give_words(index)
        return index

    async def _rank(self, index: ScopeIndex, held: CachedIndex | None, asked: _Asked, most: int | None) -> Ranked:
        question, vector, words = asked

        def ranked() -> Ranked:
            with nullcontext() if held is None else held.turn:
                return rank(index, question, vector, words, self._ranking, most=most)

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
    ) -> tuple[list[Point], list[int], list[Point], bool]:
        """The first `limit` ranked memories that the store holds and the filter lets through."""
        kernel = self._kernel
        points: list[Point] = []
        places: list[int] = []
        ended: list[Point] = []
        start, step = 0, max(AT_A_TIME, limit + limit // 4)
        while start < len(ranked.ids) and len(points) < limit:
            ids = ranked.ids[start : start + step]
            changes = 0 if held is None else held.changes
            there = {point.id: point for point in await kernel.store.payloads(kernel.collection, ids)}
            if held is not None:
                is_stale = held.changes != changes or await self._mend(held, ids, there)
                if is_stale and not is_last:
                    return points, places, ended, True
            for place, id in enumerate(ids, start):
                point = there.get(id)
                if point is None or len(points) == limit:
                    continue
                if matches(within, point.payload):
                    points.append(point)
                    places.append(place)
                elif past is not None and matches(past, point.payload):
                    ended.append(point)
            start += step
            step *= 2
        return points, places, ended, False

    async def _mend(self, held: CachedIndex, ids: Sequence[str], there: Mapping[str, Point]) -> bool:
        """Bring the index up to date where it was wrong about rows that are there; whether it was."""
        absent = [id for id in ids if id not in there]
        changed = [id for id, point in there.items() if held.index.stamps.get(id) != stamp_of(point.payload)]
        if absent:
            self.indexes.drop(held, absent)
        if changed:
            kernel = self._kernel
            self.indexes.refresh(held, await kernel.store.get_many(kernel.collection, changed))
        return bool(changed)

    def _scores(
        self, question: Question, ranked: Ranked, points: Sequence[Point], places: Sequence[int], vector: Vector | None
    ) -> list[float]:
        """Fused scores as shares of the best one's, times how well one of the best answers by itself.

        For a question in es, pt, it, fr or de, an embedder that reads only English says little where no topic word is
        shared.
        """
        if not points:
            return []
        embedder = self._kernel.embedding.embedder
        is_unread = vector is not None and embedder.english_only and may_be_foreign(question.text)
        language = _language_of(question.text) if is_unread else ""
        judged = list(zip(points, places, strict=True))[:JUDGED]
        evidence = 0.0
        for point, place in judged:
            text = str(point.payload.get("memory", ""))
            evidence = max(evidence, word_score(question.text, text))
            if vector is not None:
                is_read = not language or shares_topic(question.text, text, language)
                near = embedder.score(float(ranked.similarity[place]))
                evidence = max(evidence, near if is_read else UNREAD * near)
        best = float(ranked.fused[places[0]])
        if best <= 0:
            return [evidence] * len(points)
        return [evidence * max(0.0, float(ranked.fused[place])) / best for place in places]


def _language_of(question: str) -> str:
    """Return es, pt, it, fr or de if the question is in that language, else ""."""
    from perdure.pipeline.curation.rules.extraction.cleaning import LANGUAGES, language_of  # heavy: it knows many words

    language = language_of(question)
    return language if language in LANGUAGES else ""
