"""The indexes that recall works on: one for each scope that is asked for, read once and then kept up to date.

A search asks the ledger what was written inside the scope since the last one, by this process or another, and takes in
those rows alone. What is found is looked up in the store before it is shown, so that nothing that was erased, and no
text that another process has replaced, is ever answered with.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from perdure.backends.blocking import run_blocking
from perdure.backends.ledgers.base import Mark
from perdure.backends.vector_stores.base import Point, Vector
from perdure.domain.filter import Condition, all_of, eq, scope_filter
from perdure.domain.memory import FILES, LIVE
from perdure.domain.scope import Scope
from perdure.engine.entries import entry_of, stamp_of
from perdure.engine.kernel import Kernel
from perdure.engine.soft import given_up
from perdure.pipeline.recall.scope_index import ScopeIndex

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
class Held:
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
        self._held: OrderedDict[Scope, Held] = OrderedDict()
        self._words: OrderedDict[str, Vector] = OrderedDict()
        self._collection, self._process = "", 0
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes that they take together, but for the words'."""
        return self._size

    async def of(self, scope: Scope, *, with_words: bool = True) -> Held | None:
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
            with given_up("words are compared by their stems alone"):
                self._words.update(zip(missing, await embedder.embedder.embed_batch(missing), strict=True))
        found = {word: self._words[word] for word in asked if word in self._words}
        while len(self._words) > WORDS_KEPT:
            self._words.popitem(last=False)
        return found

    def drop(self, held: Held, ids: Iterable[str]) -> None:
        """These memories are no longer in the store."""
        held.changes += 1
        with held.turn:
            for id in ids:
                held.index.remove(id)

    def refresh(self, held: Held, points: Sequence[Point]) -> None:
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

    async def _read(self, scope: Scope) -> Held | None:
        """The index of a scope from the store, true for a moment before it was read."""
        kernel = self._kernel
        assert kernel.ledger is not None, "without one nothing is indexed"
        mark = (await kernel.ledger.touched(scope)).mark
        within = all_of(scope_filter(scope), Condition("kind", "in", self.searched), eq("state", LIVE))
        if not self._may_be(await kernel.store.count(kernel.collection, within)):
            return None
        page = await kernel.store.list(kernel.collection, within, with_vectors=True)
        held = Held(ScopeIndex(self._dimension), mark)
        await self._change(held, page.points, ())
        return held

    async def _follow(self, held: Held, scope: Scope) -> bool:
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

    async def _change(self, held: Held, points: Sequence[Point], gone: Sequence[str]) -> None:
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

    async def _give_words(self, held: Held) -> None:
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

    def _weigh(self, scope: Scope, held: Held) -> None:
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


def _take_in(held: Held, points: Sequence[Point], dimension: int) -> None:
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
