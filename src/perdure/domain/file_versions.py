"""Versions of a memory's files: what changed between them, and from which messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from perdure.domain.memory import Answer

What = Literal[
    "learned", "changed", "deleted", "forgotten", "left", "noted", "summarised", "heard", "unreadable", "mended"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChange(Answer):
    """The change of one memory between two versions."""

    OMITTED_WHEN_EMPTY = ("before", "after", "learned_from")

    change: What
    """`noted`: the text is the same and other data changed; `heard`: a message; `forgotten` ones have no text; `left`:
    it is in the first version and not in the second, of another branch; `unreadable`: the file is damaged and the
    memory keeps its text; `mended`: the file can be read again."""
    line: str
    """The change in words, on one line."""
    id: str
    before: str | None = None
    after: str | None = None
    learned_from: tuple[dict[str, Any], ...] = ()
    """Its source messages, as far as they are stored: role, content, timestamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version(Answer):
    """One version of the whole memory: a commit."""

    id: str
    at: str
    """ISO 8601 UTC, to the second."""
    author: str
    title: str
    changes: tuple[VersionChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDiff(Answer):
    """The difference between two versions; `before` None is the empty memory, `after` None the current one."""

    before: str | None
    after: str | None
    results: list[VersionChange]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionBranch(Answer):
    """A branch: a line of versions."""

    name: str
    is_current: bool
    commit: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReport(Answer):
    """The result of a merge, a pull or a switch."""

    outcome: Literal["merged", "forwarded", "nothing", "switched", "made"]
    """`forwarded`: this side had nothing that the other lacked; `made`: a new branch with the same memories."""
    commit: str
    results: list[VersionChange] = field(default_factory=list)
    conflicts: list[VersionChange] = field(default_factory=list)
    """Memories that both sides changed: `after` won, and `before` is kept as a tombstone."""
    contradictions: list[dict[str, Any]] = field(default_factory=list)
    """Facts of both sides about the same attribute: `ours`, `theirs` (id and memory), and which one `stands`: ours,
    theirs, both."""
