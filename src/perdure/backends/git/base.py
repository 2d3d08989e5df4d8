"""Values of file versions: commits, branches and differences, in terms of memories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from perdure.domain.memory import MemoryItem

Stands = Literal["ours", "theirs", "both"]  # which of two facts about one matter stands after a merge


@dataclass(frozen=True, slots=True)
class Replaced:
    """A memory with a new text, under its own id or a new one."""

    before: MemoryItem
    after: MemoryItem


@dataclass(slots=True)
class Step:
    """The changes between two states of a memory's files."""

    learned: list[MemoryItem] = field(default_factory=list)
    replaced: list[Replaced] = field(default_factory=list)
    """Newest text last; a chain of replacements is one from its first to its last."""
    dropped: list[MemoryItem] = field(default_factory=list)
    """Deleted, with a tombstone."""
    erased: list[MemoryItem] = field(default_factory=list)
    """Memories that went without a tombstone: in a line of versions, what they said is told no more."""
    said: list[MemoryItem] = field(default_factory=list)
    """Messages that came."""
    unsaid: int = 0
    """Messages that went."""
    summaries: list[MemoryItem] = field(default_factory=list)
    """Summaries that were written, or written anew."""
    marked: list[Replaced] = field(default_factory=list)
    """Memories that say the same, of which something else is known: metadata, validity, who read them."""
    unread: list[MemoryItem] = field(default_factory=list)
    """Memories whose files were broken, and which stay as these said last."""
    mended: list[MemoryItem] = field(default_factory=list)
    """Memories whose files can be read again, and say what they said."""
    cleared: int = 0
    """Tombstones that went."""
    others: int = 0
    """Files that changed and are no memories."""

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)


BOOKKEEPING = ("updated_at", "told_at", "version", "access_count", "last_accessed_at")
"""Fields in which two states of a memory may differ and be the same to whoever reads its versions."""
Tell = Callable[[Step], str]  # words for a step: the message of its commit, its first line a title
Mark = tuple[int, int] | None  # what is another after a git of somebody's has moved files
Settle = Callable[[MemoryItem, MemoryItem], Stands | None]
"""Which of two facts stands, ours or theirs, that both came since the branches parted; None where they do not meet."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A version of the whole memory."""

    id: str
    parents: tuple[str, ...]
    at: str
    """When, ISO 8601 UTC, to the second."""
    author: str
    message: str


@dataclass(frozen=True, slots=True)
class Branch:
    """A line of versions."""

    name: str
    is_current: bool
    commit: str
    at: str


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two facts that contradict each other, one from each side of a merge."""

    ours: MemoryItem
    theirs: MemoryItem
    stands: Stands


@dataclass(slots=True)
class Merge:
    """The result of a merge."""

    outcome: Literal["merged", "forwarded", "nothing"]
    """`forwarded`: there was nothing of ours that the other side had not."""
    commit: str
    step: Step
    conflicts: list[Replaced] = field(default_factory=list)
    """Memories that both sides changed: what was given up, kept as a tombstone, and what stands."""
    contradictions: list[Contradiction] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    """Files that this wrote or removed."""
