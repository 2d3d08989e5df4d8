"""Versions of a memory's files as they are told: what changed from one to the next, and from whose words (002 §2.4)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from perdure.domain.memory import Answer

What = Literal["learned", "changed", "deleted", "forgotten", "noted", "summarised", "heard", "unreadable", "mended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChange(Answer):
    """What became of one memory between two versions."""

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

    def model_dump(self) -> dict[str, Any]:
        """The change as plain values, without what it does not have."""
        told = {"change": self.change, "line": self.line, "id": self.id, "before": self.before, "after": self.after}
        dump = {name: value for name, value in told.items() if value is not None}
        return {**dump, "learned_from": [dict(each) for each in self.learned_from]} if self.learned_from else dump


@dataclass(frozen=True, slots=True, kw_only=True)
class Version(Answer):
    """One version of the whole memory: a commit."""

    id: str
    at: str
    """ISO 8601 UTC, to the second."""
    author: str
    title: str
    changes: tuple[VersionChange, ...] = ()

    def model_dump(self) -> dict[str, Any]:
        """The version as plain values."""
        head = {"id": self.id, "at": self.at, "author": self.author, "title": self.title}
        return {**head, "changes": [change.model_dump() for change in self.changes]}


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDiff(Answer):
    """What differs between two versions; `after` None is the memory as it stands."""

    before: str
    after: str | None
    results: list[VersionChange]

    def model_dump(self) -> dict[str, Any]:
        """The difference as plain values."""
        results = [change.model_dump() for change in self.results]
        return {"before": self.before, "after": self.after, "results": results}


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionBranch(Answer):
    """A line of versions."""

    name: str
    is_current: bool
    commit: str
    at: str

    def model_dump(self) -> dict[str, Any]:
        """The branch as plain values."""
        return asdict(self)


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

    def model_dump(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            "outcome": self.outcome,
            "commit": self.commit,
            "results": [change.model_dump() for change in self.results],
            "conflicts": [change.model_dump() for change in self.conflicts],
            "contradictions": [dict(each) for each in self.contradictions],
        }
