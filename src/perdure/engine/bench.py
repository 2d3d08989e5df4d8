"""Bench: recall measured on a store's own contents, by asking it for what it holds; only reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from perdure.domain.bench import BenchReport, MissedProbe, ProbeScores
from perdure.domain.scope import Scope
from perdure.engine.bench_asking import Asking, ProbeAnswer
from perdure.engine.bench_contents import COMPARED, duplicates, read_contents, topic_words
from perdure.engine.kernel import Kernel
from perdure.engine.requests import read_limit
from perdure.engine.search_requests import read_preset
from perdure.pipeline.probes import Kind, message_probes, sample, slot_probes
from perdure.pipeline.recall.presets import Preset

Progress = Callable[[float], None]
"""Called after each probe with the share in [0, 1] of them that has been asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRequest:
    """A `bench`, checked."""

    scope: Scope
    """Where it is asked; the empty one asks each memory's question in the memory's own scope."""
    probes: int
    limit: int
    preset: Preset


def read_bench(
    kernel: Kernel,
    *,
    scope: Scope,
    probes: int,
    preset: str | None,
    limit: int,
) -> BenchRequest:
    """A `bench`, checked against what this engine has."""
    return BenchRequest(
        scope=scope,
        probes=read_limit(probes, "probes"),
        limit=read_limit(limit),
        preset=read_preset(kernel, preset),
    )


async def bench(kernel: Kernel, request: BenchRequest, progress: Progress | None = None) -> BenchReport:
    """Ask for what the store holds, and report how well it was found; the backends must be open."""
    contents = await read_contents(kernel, request.scope)
    terms = await topic_words(kernel, contents)
    from_slots = slot_probes(contents.facts, contents.earlier)
    from_messages = message_probes(contents.facts, contents.sources, terms, contents.earlier)
    probes = sample([*from_slots, *from_messages], request.probes)
    asking = Asking(kernel, request.scope, request.limit, request.preset)
    answers = []
    for number, probe in enumerate(probes, 1):
        answers.append(await asking(probe))
        if progress is not None:
            progress(number / len(probes))
    same = await duplicates(kernel, contents)
    warnings = list(asking.warnings)
    if same.partly:
        warnings.append(f"duplicates were looked for among the newest {COMPARED} memories of each scope only")
    of_kind: dict[Kind, list[ProbeAnswer]] = {"slots": [], "messages": []}
    for answer in answers:
        of_kind[answer.probe.kind].append(answer)
    times = sorted(1_000 * answer.seconds for answer in answers)
    return BenchReport(
        preset=request.preset.name,
        limit=request.limit,
        memories=len(contents.facts),
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
            MissedProbe(answer.probe.kind, answer.probe.question, answer.probe.gold, answer.scope.given())
            for answer in answers
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
    )


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return sum(listed) / len(listed) if listed else None


def _percentile(ascending: Sequence[float], share: float) -> float | None:
    """The nearest rank: the least value that so many of all do not exceed."""
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)] if ascending else None
