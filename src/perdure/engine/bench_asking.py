"""Asking probes: a search for each, what came of it, and how long it took without the embedding."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from perdure.backends.embedders.base import Embedder
from perdure.domain.event import SearchResult
from perdure.domain.scope import Scope
from perdure.engine.embedding import Embedding
from perdure.engine.kernel import Kernel
from perdure.engine.queries import Query
from perdure.engine.read_path import CONTEXT_CANDIDATES, ReadPath
from perdure.pipeline.duplicates import folded
from perdure.pipeline.probes import Probe
from perdure.pipeline.quoting import estimate_tokens
from perdure.pipeline.recall.budget import fit
from perdure.pipeline.recall.presets import Preset

BUDGET = 2_000
"""Tokens of results in which recall is measured: the default of `context`."""


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """What came of one probe."""

    probe: Probe
    scope: Scope
    rank: int | None
    """From 1, of the first memory that the probe is after."""
    coverage: float
    seconds: float
    """Of the search, without the embedding."""
    stale: bool
    foreign: int
    recall: float | None
    """Share of the gold among the results that fit into the budget; of `messages` only."""


class _Watch(Embedder):
    """The engine's embedder, and how many seconds it took."""

    name = "watch"

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.seconds = 0.0

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    @property
    def local(self) -> bool:
        return self._embedder.local

    @property
    def label(self) -> str:
        return self._embedder.label

    async def embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        started = time.perf_counter()
        try:
            return await self._embedder.embed_batch(texts)
        finally:
            self.seconds += time.perf_counter() - started

    async def embed(self, text: str) -> NDArray[np.float32]:
        started = time.perf_counter()
        try:
            return await self._embedder.embed(text)
        finally:
            self.seconds += time.perf_counter() - started

    def unavailable(self) -> str | None:
        return self._embedder.unavailable()

    def score(self, similarity: float) -> float:
        return self._embedder.score(similarity)


@dataclass(slots=True)
class Asking:
    """Asks probes one by one, through a read path of its own: other searches neither wait for it nor count in it."""

    kernel: Kernel
    scope: Scope
    """Where probes are asked; the empty one leaves each in its own scope."""
    limit: int
    preset: Preset
    warnings: dict[str, None] = field(default_factory=dict)
    """What searches had to give up, each said once."""
    _watch: _Watch = field(init=False)
    _read: ReadPath = field(init=False)
    _warm: Scope | None = None

    def __post_init__(self) -> None:
        self._watch = _Watch(self.kernel.embedding.embedder)
        watched = copy.copy(self.kernel)
        watched.embedding = Embedding(self._watch)
        self._read = ReadPath(watched)

    async def __call__(self, probe: Probe) -> ProbeAnswer:
        """Search for it, and judge what came."""
        scope = self.scope if self.scope.given() else probe.scope
        query = Query(text=probe.question, scope=scope, limit=self.limit, preset=self.preset)
        if scope != self._warm:
            await self._read.find(query)  # reads the scope, which no later search does
            self._warm = scope
        result, seconds = await self._timed(query)
        self.warnings.update(dict.fromkeys(result.warnings))
        # Where messages are searched too, the one that lent its words comes first of all: it answers nothing.
        ids = [item.id for item in result.results if item.id != probe.message]
        stale = {folded(text) for text in probe.stale}
        return ProbeAnswer(
            probe,
            scope,
            rank=next((rank for rank, id in enumerate(ids, 1) if id in probe.gold), None),
            coverage=result.coverage,
            seconds=seconds,
            stale=any(folded(item.memory) in stale for item in result.results),
            foreign=sum(not scope.holds(item.scope) for item in result.results),
            recall=await self._recall(probe, scope) if probe.kind == "messages" else None,
        )

    async def _timed(self, query: Query) -> tuple[SearchResult, float]:
        embedded, started = self._watch.seconds, time.perf_counter()
        result = await self._read.find(query)
        return result, time.perf_counter() - started - (self._watch.seconds - embedded)

    async def _recall(self, probe: Probe, scope: Scope) -> float:
        query = Query(text=probe.question, scope=scope, limit=CONTEXT_CANDIDATES, preset=self.preset)
        items = (await self._read.find(query)).results
        kept = {items[place].id for place in fit([estimate_tokens(item.memory) for item in items], BUDGET)}
        return sum(id in kept for id in probe.gold) / len(probe.gold)
