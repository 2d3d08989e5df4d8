"""Results of maintenance: merged memories, insights, and the recall benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from perdure.domain.memory import Answer, MemoryItem

MERGE = "consolidate"  # the actor of a merge: it adds the merged memory, and deletes each of its originals
CONSOLIDATION = "consolidation"  # the `source` of a memory that several were merged into
REFLECTION = "reflection"  # the `source` of a stored insight
Pattern = Literal["count", "issue", "approach", "style", "lesson"]
"""The kind of an insight: a frequent action, a recurring problem, a way of working, a style of answering, a lesson."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidation(Answer):
    """Several memories merged into one."""

    OMITTED_WHEN_EMPTY = ("warnings",)

    memory: MemoryItem
    removed: tuple[MemoryItem, ...]
    """The memories that it replaced, oldest first."""
    by: Literal["rules", "llm"] = "rules"
    """The author of its text."""
    dry_run: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Experience:
    """A memory as input of reflection."""

    id: str
    text: str
    type: str = "semantic"
    tellings: frozenset[str] = frozenset()
    """The ids of its source messages, or its own id if none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Insight(Answer):
    """A pattern that several memories show, or a lesson from one of them."""

    id: str | None = None
    """The stored memory of type `reflective`, if it is stored."""
    content: str
    pattern: Pattern
    count: int
    """How often it was said."""
    memory_ids: tuple[str, ...]
    """The source memories."""


@dataclass(slots=True, kw_only=True)
class Reflected(Answer):
    """The insights of one scope, and the changes of the stored ones."""

    OMITTED_WHEN_EMPTY = ("warnings",)

    insights: list[Insight] = field(default_factory=list)
    added: int = 0
    updated: int = 0
    removed: int = 0
    """Earlier insights that no longer hold."""
    by: Literal["rules", "llm"] = "rules"
    warnings: list[str] = field(default_factory=list)

    def model_dump(self) -> dict[str, Any]:
        """`{"results": [...], "added": ..., "updated": ..., "removed": ..., "by": ...}`, with warnings if any."""
        dump = Answer.model_dump(self)
        return {"results": dump.pop("insights"), **dump}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeScores(Answer):
    """Scores of the probes; all but the count are shares of the probes in [0, 1], 0 if there are none."""

    probes: int
    found_at_1: float
    found_at_5: float
    """At most `found_at_limit`, even if the limit is below 5."""
    found_at_limit: float
    mrr: float
    """Mean of 1 / rank of the first expected memory, 0 if it was not found."""
    interval_at_1: tuple[float, float] | None = None
    interval_at_limit: tuple[float, float] | None = None
    """95 % intervals of `found_at_1` and `found_at_limit` (Wilson 1927); None without probes."""


@dataclass(frozen=True, slots=True)
class MissedProbe(Answer):
    """A probe that did not find its memory; pass it to `why_not`."""

    kind: str
    question: str
    ids: tuple[str, ...]
    """The expected memories; of `told` the message."""
    scope: Mapping[str, str]
    """The scope of the search."""
    value: str | None = None
    """What the message told; of `told` only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchReport(Answer):
    """Recall measured on a store's own contents; a value that could not be measured is None."""

    preset: str
    limit: int
    memories: int
    """Number of current facts in the measured scopes."""
    messages: int
    """Number of stored messages of users in them."""
    scopes: int
    all: ProbeScores
    kinds: dict[str, ProbeScores]
    """The scores by what the probes were made from: values that users `told`, which measure recall; and the facts
    themselves, by their `slots` and by their source `messages`."""
    recall_2000: float | None = None
    """Mean share of a message's facts within the first 2,000 tokens of its results; probes of `messages` only."""
    stale: int = 0
    """Probes that returned an earlier text of the expected memory; should be 0."""
    foreign: int = 0
    """Results from another scope; must be 0."""
    duplicates: int = 0
    """Pairs of memories of one scope with the same meaning."""
    duplicate_pairs: tuple[tuple[str, str], ...] = ()
    """The ids of the first pairs."""
    coverage_found: float | None = None
    coverage_missed: float | None = None
    """Mean `coverage` of the searches that found their memory, and of those that did not."""
    search_p50_ms: float | None = None
    search_p95_ms: float | None = None
    """Milliseconds of a search without the embedding, after the scope has been loaded."""
    missed: tuple[MissedProbe, ...] = ()
    warnings: list[str] = field(default_factory=list)

    @property
    def told(self) -> ProbeScores:
        """The scores of what users told, asked for by other words of their sentences."""
        return self.kinds["told"]

    @property
    def walls_hold(self) -> bool:
        """Whether no result came from another scope."""
        return self.foreign == 0
