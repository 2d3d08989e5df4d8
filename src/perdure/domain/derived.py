"""What is made of memories: several merged into one, and what they show when they are read together (V69 to V71)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from perdure.domain.memory import Answer, MemoryItem

CONSOLIDATION = "consolidation"
"""The `source` of a memory that several were merged into (B12)."""
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
    """What several memories show together, or what one of them teaches (001 §7, appendix A)."""

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
