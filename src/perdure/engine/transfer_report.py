"""What an export and an import tell of themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from perdure.domain.memory import Answer

TOLD = 1000
"""Refused lines and warnings that a report names one by one; it counts them all."""


@dataclass(slots=True)
class Tally(Answer):
    """How many lines of a kind brought something new, and how many were known already or not to be taken."""

    new: int = 0
    skipped: int = 0

    def model_dump(self) -> dict[str, Any]:
        """The two numbers."""
        return {"new": self.new, "skipped": self.skipped}


@dataclass(frozen=True, slots=True)
class Refusal(Answer):
    """A line that could not be taken, by its number from 1, and why."""

    line: int
    reason: str

    def model_dump(self) -> dict[str, Any]:
        """The line and the reason."""
        return {"line": self.line, "reason": self.reason}


@dataclass(slots=True)
class ImportReport(Answer):
    """What an import read and what became of it."""

    lines: int = 0
    """Lines that were not blank."""
    kinds: dict[str, Tally] = field(default_factory=dict)
    """memories (rows, versions too), history, episodes, conversations, facts."""
    events: dict[str, int] = field(default_factory=dict)
    """What the conversations did, by event."""
    refused: int = 0
    refusals: list[Refusal] = field(default_factory=list)
    """The first of the refused lines."""
    ignored: list[str] = field(default_factory=list)
    """Keys that some conversations or facts had and nobody reads, sorted."""
    warnings: list[str] = field(default_factory=list)

    def refuse(self, line: int, reason: str) -> None:
        """Note that a line could not be taken."""
        self.refused += 1
        if len(self.refusals) < TOLD:
            self.refusals.append(Refusal(line, reason))

    def warn(self, warnings: Iterable[str]) -> None:
        """Note what was given up."""
        self.warnings.extend(list(warnings)[: TOLD - len(self.warnings)])

    def count(self, kind: str, *, new: int = 0, skipped: int = 0) -> None:
        """Count lines of a kind."""
        tally = self.kinds.setdefault(kind, Tally())
        tally.new += new
        tally.skipped += skipped

    @property
    def new(self) -> int:
        """Lines that brought something new."""
        return sum(tally.new for tally in self.kinds.values())

    @property
    def skipped(self) -> int:
        """Lines whose content was there already, or was deleted or changed here since."""
        return sum(tally.skipped for tally in self.kinds.values())

    def model_dump(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            "lines": self.lines,
            "new": self.new,
            "skipped": self.skipped,
            "refused": self.refused,
            "kinds": {kind: tally.model_dump() for kind, tally in self.kinds.items()},
            "events": dict(self.events),
            "refusals": [refusal.model_dump() for refusal in self.refusals],
            "ignored": list(self.ignored),
            "warnings": list(self.warnings),
        }


@dataclass(slots=True)
class ExportReport(Answer):
    """How much an export wrote."""

    memories: int = 0
    """Rows: memories and their earlier versions."""
    history: int = 0
    episodes: int = 0

    def model_dump(self) -> dict[str, Any]:
        """The report as plain values."""
        return {"memories": self.memories, "history": self.history, "episodes": self.episodes}
