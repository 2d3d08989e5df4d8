"""Bench: recall measured on a store's own contents, by searching for what was told and what is stored; only reads."""

from __future__ import annotations

import copy
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from perdure.backends.blocking import run_blocking
from perdure.backends.embedders.base import Embedder
from perdure.domain.clock import iso
from perdure.domain.filter import Condition, Moment, Or, all_of, eq, matches, scope_filter
from perdure.domain.maintenance import BenchReport, MissedProbe, ProbeScores
from perdure.domain.memory import LIVE, MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.core.access import visible
from perdure.engine.core.embedding import Embedding
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.lookup import scan, scan_episodes
from perdure.engine.read.search import CONTEXT_CANDIDATES, ReadPath
from perdure.engine.requests import Query, read_limit, read_preset
from perdure.pipeline.maintenance.probes import (
    KINDS,
    USER,
    Kind,
    Probe,
    Statement,
    duplicate_pairs,
    folded,
    message_probes,
    sample,
    slot_probes,
    tells,
    told_probe,
)
from perdure.pipeline.prompting.quoting import estimate_tokens, fit
from perdure.pipeline.retrieval.names import proper_nouns
from perdure.pipeline.retrieval.presets import Preset
from perdure.pipeline.retrieval.rescoring import statements
from perdure.pipeline.retrieval.rewrite import key_terms

# Running probes: a search for each, its result, and its time without the embedding.

BUDGET = 2_000  # tokens of results within which recall is measured: the default of `context`


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """The result of one probe."""

    probe: Probe
    scope: Scope
    rank: int | None  # rank of the first expected memory, from 1; None if it was not found
    coverage: float
    seconds: float  # duration of the search, without the embedding
    stale: bool
    foreign: int
    recall: float | None  # share of the expected memories within the token budget; of `messages` only


class _Watch(Embedder):
    """The engine's embedder, with the seconds that it took."""

    name = "watch"

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.local = embedder.local
        self.seconds = 0.0

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    @property
    def label(self) -> str:
        return self._embedder.label

    @property
    def english_only(self) -> bool:
        return self._embedder.english_only

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
class ProbeRunner:
    """Runs probes one by one through its own read path, apart from other searches."""

    kernel: Kernel
    scope: Scope  # the scope of the searches; if it is empty, each memory's own scope
    limit: int
    preset: Preset
    warnings: dict[str, None] = field(default_factory=dict)  # warnings of the searches, each once
    _watch: _Watch = field(init=False)
    _read: ReadPath = field(init=False)
    _warm: Scope | None = None

    def __post_init__(self) -> None:
        self._watch = _Watch(self.kernel.embedding.embedder)
        watched = copy.copy(self.kernel)
        watched.embedding = Embedding(self._watch)
        self._read = ReadPath(watched)

    async def __call__(self, probe: Probe) -> ProbeAnswer:
        """Run the search and score the results."""
        scope = self.scope if self.scope.given() else probe.scope
        query = Query(text=probe.question, scope=scope, limit=self.limit, preset=self.preset)
        if scope != self._warm:
            await self._read.find(query)  # loads the scope, which later searches reuse
            self._warm = scope
        embedded, started = self._watch.seconds, time.perf_counter()
        result = await self._read.find(query)
        seconds = time.perf_counter() - started - (self._watch.seconds - embedded)
        self.warnings.update(dict.fromkeys(result.warnings))
        stale = {folded(text) for text in probe.stale}
        return ProbeAnswer(
            probe,
            scope,
            rank=_rank(probe, result.results),
            coverage=result.coverage,
            seconds=seconds,
            stale=any(folded(item.memory) in stale for item in result.results),
            foreign=sum(not scope.holds(item.scope) for item in result.results),
            recall=await self._recall(probe, scope) if probe.kind == "messages" else None,
        )

    async def _recall(self, probe: Probe, scope: Scope) -> float:
        query = Query(text=probe.question, scope=scope, limit=CONTEXT_CANDIDATES, preset=self.preset)
        items = (await self._read.find(query)).results
        kept = {items[place].id for place in fit([estimate_tokens(item.memory) for item in items], BUDGET)}
        return sum(id in kept for id in probe.gold) / len(probe.gold)


def _rank(probe: Probe, results: Sequence[MemoryItem]) -> int | None:
    if probe.kind == "told":
        found = [tells(probe, item.memory, item.sources) for item in results]
    else:
        # If messages are searched too, the source message of the probe ranks first: it does not count.
        found = [item.id in probe.gold for item in results if item.id != probe.message]
    return found.index(True) + 1 if True in found else None


# Contents of a store for probes: facts with their earlier texts, their source messages, duplicates.

PAGE = 500  # rows and messages read at a time
COMPARED = 10_000  # newest memories of a scope that are compared pair by pair for duplicates
SHOWN_PAIRS = 20  # number of duplicates whose ids are returned, as examples


@dataclass(slots=True)
class Contents:
    """The facts that a search can find now, and their earlier texts."""

    facts: list[MemoryItem]
    earlier: dict[str, set[str]]  # earlier texts that are no longer current, by the id of the memory
    sources: dict[str, list[str]]
    """The source messages of a memory's current text, by its id; without those of earlier texts alone."""
    ended: dict[str, set[str]]  # texts that no longer hold, by the id of a message that they were read out of
    expired: set[str]  # ids of messages that a memory past its `expires_at` came from


async def read_contents(kernel: Kernel, scope: Scope) -> Contents:
    """Return the facts of a scope that a search can find now; the empty scope is the whole store."""
    contents = Contents([], {}, {}, defaultdict(set), set())
    versions: dict[str, list[MemoryItem]] = defaultdict(list)
    now = kernel.clock.now()
    is_expired = Condition("expires_at", "lte", Moment(iso(now)))  # of rows of every kind: messages expire too
    within = all_of(scope_filter(scope), Or((eq("kind", "facts"), is_expired)))
    async for points in scan(kernel, within):
        for point in points:
            item = MemoryItem.from_payload(point.payload)
            if matches(is_expired, point.payload):
                contents.expired.update(item.sources)
            if item.kind == "facts" and matches(visible(scope, now=now), point.payload):
                contents.facts.append(item)
                continue
            for source in item.sources:
                contents.ended[source].add(item.memory)
            if item.state != LIVE:
                for line in {item.version_of, item.lineage_id} - {None}:
                    versions[str(line)].append(item)
    for item in contents.facts:
        lines = {item.id, item.lineage_id or item.id}
        before = [
            each for line in lines for each in versions.get(line, ()) if folded(each.memory) != folded(item.memory)
        ]
        old_sources = {source for each in before for source in each.sources}
        contents.earlier[item.id] = {each.memory for each in before}
        contents.sources[item.id] = [source for source in item.sources if source not in old_sources]
    return contents


async def topic_words(kernel: Kernel, contents: Contents) -> dict[str, list[str]]:
    """Return the topic words of the facts' source messages, by id, of those that are stored and not hidden."""
    if kernel.ledger is None:
        return {}
    ids = list(dict.fromkeys(source for item in contents.facts for source in contents.sources[item.id]))
    terms: dict[str, list[str]] = {}
    for start in range(0, len(ids), PAGE):
        for episode in await kernel.ledger.get_episodes(ids[start : start + PAGE]):
            if not episode.hidden:
                terms[episode.id] = key_terms(episode.content)
    return terms


async def ask_for_told(kernel: Kernel, scope: Scope, contents: Contents) -> tuple[int, list[Probe]]:
    """Return the number of users' messages that are stored and not hidden, and a probe for each that tells a value."""
    current: dict[str, set[str]] = defaultdict(set)
    for item in contents.facts:
        for source in item.sources:
            current[source].add(item.memory)
    count, probes = 0, list[Probe]()
    async for episodes in scan_episodes(kernel.ledger, scope):
        for episode in episodes:
            if episode.role != USER or episode.id in contents.expired:
                continue
            count += 1
            told = [Statement(text, key_terms(text), proper_nouns(text)) for text in statements(episode.content)]
            probe = told_probe(
                episode.id, Scope(**episode.scope), told, contents.ended.get(episode.id, ()), current[episode.id]
            )
            probes += [] if probe is None else [probe]
    return count, probes


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Pairs of memories of one scope with the same meaning."""

    count: int
    shown: tuple[tuple[str, str], ...]  # the ids of the first pairs
    partly: bool  # whether some scope was too large to compare completely


async def duplicates(kernel: Kernel, contents: Contents) -> Duplicates:
    """Return pairs of facts of one scope with the same meaning, among the newest `COMPARED` of each scope."""
    by_scope: dict[Scope, list[MemoryItem]] = defaultdict(list)
    for item in contents.facts:
        by_scope[item.scope].append(item)
    count, shown = 0, list[tuple[str, str]]()
    for items in by_scope.values():
        newest = items[-COMPARED:]
        ids = [item.id for item in newest]
        vectors: dict[str, NDArray[np.float32] | None] = {}
        for start in range(0, len(ids), PAGE):
            points = await kernel.store.get_many(kernel.collection, ids[start : start + PAGE])
            vectors.update((point.id, point.vector) for point in points)
        found, pairs = await run_blocking(
            duplicate_pairs, [item.memory for item in newest], [vectors.get(id) for id in ids], SHOWN_PAIRS - len(shown)
        )
        count += found
        shown += [(ids[one], ids[other]) for one, other in pairs]
    return Duplicates(count, tuple(shown), any(len(items) > COMPARED for items in by_scope.values()))


STANDARD_ERRORS = 1.96  # on either side of a share, for an interval that holds it in 95 of 100 samples

Progress = Callable[[float], None]  # called after each probe with the share in [0, 1] of the probes that are done


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRequest:
    """A validated `bench` request."""

    scope: Scope  # the scope of the searches; if it is empty, each memory's own scope
    probes: int
    limit: int
    preset: Preset


def read_bench(kernel: Kernel, *, scope: Scope, probes: int, preset: str | None, limit: int) -> BenchRequest:
    """Validate a `bench` request against this engine."""
    return BenchRequest(
        scope=scope, probes=read_limit(probes, "probes"), limit=read_limit(limit), preset=read_preset(kernel, preset)
    )


async def bench(kernel: Kernel, request: BenchRequest, progress: Progress | None = None) -> BenchReport:
    """Run probes for the store's contents, and report how well they were found; the backends must be open."""
    contents = await read_contents(kernel, request.scope)
    messages, told = await ask_for_told(kernel, request.scope, contents)
    terms = await topic_words(kernel, contents)
    from_slots = slot_probes(contents.facts, contents.earlier)
    from_messages = message_probes(contents.facts, contents.sources, terms, contents.earlier)
    probes = sample([*told, *from_slots, *from_messages], request.probes)
    asking = ProbeRunner(kernel, request.scope, request.limit, request.preset)
    answers = []
    for number, probe in enumerate(probes, 1):
        answers.append(await asking(probe))
        if progress is not None:
            progress(number / len(probes))
    same = await duplicates(kernel, contents)
    warnings = list(asking.warnings)
    if same.partly:
        warnings.append(f"duplicates were looked for among the newest {COMPARED} memories of each scope only")
    if contents.facts and not messages:
        off = ' (`episodes = "off"`)' if kernel.config.episodes == "off" else ""
        warnings.append(f"no messages of users are stored{off}: what was told cannot be asked for")
    of_kind: dict[Kind, list[ProbeAnswer]] = {kind: [] for kind in KINDS}
    for answer in answers:
        of_kind[answer.probe.kind].append(answer)
    times = sorted(1_000 * answer.seconds for answer in answers)
    return BenchReport(
        preset=request.preset.name,
        limit=request.limit,
        memories=len(contents.facts),
        messages=messages,
        scopes=len({item.scope for item in contents.facts}),
        all=_scores(answers),
        kinds={kind: _scores(some) for kind, some in of_kind.items()},
        recall_2000=_mean(answer.recall for answer in answers if answer.recall is not None),
        stale=sum(answer.stale for answer in answers),
        foreign=sum(answer.foreign for answer in answers),
        duplicates=same.count,
        duplicate_pairs=same.shown,
        coverage_found=_mean(answer.coverage for answer in answers if answer.rank is not None),
        coverage_missed=_mean(answer.coverage for answer in answers if answer.rank is None),
        search_p50_ms=_percentile(times, 0.5),
        search_p95_ms=_percentile(times, 0.95),
        missed=tuple(
            MissedProbe(kind, answer.probe.question, answer.probe.gold, answer.scope.given(), answer.probe.value)
            for kind, some in of_kind.items()
            for answer in some
            if answer.rank is None
        ),
        warnings=warnings,
    )


def _scores(answers: Sequence[ProbeAnswer]) -> ProbeScores:
    ranks = [answer.rank for answer in answers]

    def share(most: float) -> float:
        return _mean(float(rank is not None and rank <= most) for rank in ranks) or 0.0

    return ProbeScores(
        probes=len(answers),
        found_at_1=share(1),
        found_at_5=share(5),
        found_at_limit=share(math.inf),
        mrr=_mean(0.0 if rank is None else 1 / rank for rank in ranks) or 0.0,
        interval_at_1=_interval(share(1), len(ranks)),
        interval_at_limit=_interval(share(math.inf), len(ranks)),
    )


def _interval(share: float, count: int) -> tuple[float, float] | None:
    """Return the 95 % interval of a share of so many, by Wilson's score (1927), which also holds near 0 and 1."""
    if count == 0:
        return None
    spread = STANDARD_ERRORS**2 / count
    centre = share + spread / 2
    half = math.sqrt(spread * (share * (1 - share) + spread / 4))
    return max(0.0, (centre - half) / (1 + spread)), min(1.0, (centre + half) / (1 + spread))


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return sum(listed) / len(listed) if listed else None


def _percentile(ascending: Sequence[float], share: float) -> float | None:
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)] if ascending else None
