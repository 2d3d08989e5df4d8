"""Versions of a memory's files as they are told: what changed from one to the next, and from whose words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from perdure.domain.memory import Answer

What = Literal["learned", "changed", "deleted", "forgotten", "noted", "summarised", "heard", "unreadable", "mended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChange(Answer):
    """What became of one memory between two versions."""

    OMITTED_WHEN_EMPTY = ("before", "after", "learned_from")

    change: What
    """`noted`: it says the same, and something else is known of it; `heard`: a message; `forgotten` ones have no text;
    `unreadable`: somebody broke the file, and the memory stays as it was; `mended`: the file can be read again.
    """
    line: str
    """The change in words, on one line."""
    id: str
    before: str | None = None
    after: str | None = None
    learned_from: tuple[dict[str, Any], ...] = ()
    """The messages that it came from, as far as they are kept: role, content, timestamp."""


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
    """What differs between two versions; `after` None is the memory as it stands."""

    before: str
    after: str | None
    results: list[VersionChange]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionBranch(Answer):
    """A line of versions."""

    name: str
    is_current: bool
    commit: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReport(Answer):
    """What a merge, a pull or a switch brought."""

    outcome: Literal["merged", "forwarded", "nothing", "switched", "made"]
    """`forwarded`: nothing here that the other side had not; `made`: a new branch, with the same memories."""
    commit: str
    results: list[VersionChange] = field(default_factory=list)
    conflicts: list[VersionChange] = field(default_factory=list)
    """Memories that both sides changed: `before` gave way and is kept as a tombstone, `after` stands."""
    contradictions: list[dict[str, Any]] = field(default_factory=list)
    """Facts of both sides about one matter: `ours`, `theirs` (id and memory), and which `stands`: ours, theirs, both.
    """
