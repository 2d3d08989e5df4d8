"""Results of maintenance: merged memories, insights, and the recall benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from perdure.domain.memory import Answer, MemoryItem

# --- Merged memories and insights

CONSOLIDATION = "consolidation"
"""The `source` of a memory that several were merged into."""
REFLECTION = "reflection"
"""The `source` of an insight that is kept as a memory."""

Pattern = Literal["count", "issue", "approach", "style", "lesson"]
"""What an insight tells: what is done often, what goes wrong, how something is done, how to answer, what to do next
time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidation(Answer):
    """Several memories made one."""

    OMITTED_WHEN_EMPTY = ("warnings",)

    memory: MemoryItem
    removed: tuple[MemoryItem, ...]
    """Those that it took the place of, oldest first."""
    by: Literal["rules", "llm"] = "rules"
    """Who wrote its text."""
    dry_run: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Experience:
    """A memory as reflection reads it."""

    id: str
    text: str
    type: str = "semantic"
    tellings: frozenset[str] = frozenset()
    """What it was told by: its messages' ids, or its own where none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Insight(Answer):
    """What several memories show together, or what one of them teaches."""

    id: str | None = None
    """The memory of type `reflective` that keeps it, where it is kept."""
    content: str
    pattern: Pattern
    count: int
    """How often it was told."""
    memory_ids: tuple[str, ...]
    """The memories that it came from."""


@dataclass(slots=True, kw_only=True)
class Reflected(Answer):
    """The insights of one scope, and what became of the memories that keep them."""

    OMITTED_WHEN_EMPTY = ("warnings",)

    insights: list[Insight] = field(default_factory=list)
    added: int = 0
    updated: int = 0
    removed: int = 0
    """Insights of an earlier time that hold no longer."""
    by: Literal["rules", "llm"] = "rules"
    warnings: list[str] = field(default_factory=list)

    def model_dump(self) -> dict[str, Any]:
        """`{"results": [...], "added": ..., "updated": ..., "removed": ..., "by": ...}`, with warnings if any."""
        dump = Answer.model_dump(self)
        return {"results": dump.pop("insights"), **dump}


# --- The recall benchmark: how well a store finds its own contents


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeScores(Answer):
    """How probes fared; all but the count are shares in [0, 1] of the probes, 0 where there are none."""

    probes: int
    found_at_1: float
    found_at_5: float
    """Never more than `found_at_limit`, where the limit is below 5 too."""
    found_at_limit: float
    mrr: float
    """Mean of 1 / rank of the first memory that the probe is after, 0 for one that did not come."""


@dataclass(frozen=True, slots=True)
class MissedProbe(Answer):
    """A probe whose memory did not come: what `why_not` can be asked."""

    kind: str
    question: str
    ids: tuple[str, ...]
    """The memories that it is after."""
    scope: Mapping[str, str]
    """The scope in which it was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchReport(Answer):
    """Recall measured on a store's own contents; what could not be measured is None."""

    preset: str
    limit: int
    memories: int
    """Facts that can be found now, in the scopes that were asked."""
    scopes: int
    all: ProbeScores
    kinds: dict[str, ProbeScores]
    """The scores of the probes made from `slots` and of those made from `messages`."""
    recall_2000: float | None = None
    """Mean share of what a message told that fits into 2,000 tokens of its results; probes of `messages` only."""
    stale: int = 0
    """Probes to which an earlier text of the memory that they are after came; should be 0."""
    foreign: int = 0
    """Results from another scope; must be 0."""
    duplicates: int = 0
    """Pairs of memories of one scope that say the same."""
    duplicate_pairs: tuple[tuple[str, str], ...] = ()
    """The ids of the first of them."""
    coverage_found: float | None = None
    coverage_missed: float | None = None
    """Mean `coverage` of the searches that found what they were after, and of those that did not."""
    search_p50_ms: float | None = None
    search_p95_ms: float | None = None
    """Milliseconds of a search without the embedding, once its scope has been read."""
    missed: tuple[MissedProbe, ...] = ()
    warnings: list[str] = field(default_factory=list)

    @property
    def walls_hold(self) -> bool:
        """Whether no result came from another scope."""
        return self.foreign == 0
