"""What an export and an import tell of themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from perdure.domain.event import Usage
from perdure.domain.memory import Answer

TOLD = 1000
"""Refused lines and warnings that a report names one by one; it counts them all."""
EXAMPLES = 5
"""Places that a report names for each reason why something was left out."""


@dataclass(slots=True)
class Tally(Answer):
    """How many lines of a kind brought something new, and how many were known already or not to be taken."""

    new: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Refusal(Answer):
    """A line that could not be taken, by its number from 1, and why."""

    line: int
    reason: str
    where: str = ""
    """Its place in another tool's export: the file, and what the thing is called there."""

    def model_dump(self) -> dict[str, Any]:
        """The line, the place if one is known, and the reason."""
        return {"line": self.line, **({"where": self.where} if self.where else {}), "reason": self.reason}


@dataclass(slots=True)
class Left(Answer):
    """How much of an export was left out for one reason, and where the first of it stands."""

    count: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ImportReport(Answer):
    """What an import read and what became of it."""

    lines: int = 0
    """Lines that were not blank; of another tool's export, items."""
    formats: dict[str, int] = field(default_factory=dict)
    """Items by the format that they were read as, where it was looked for."""
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
    left_out: dict[str, Left] = field(default_factory=dict)
    """By reason, what is sound and was not taken: tools' messages, images, what stands here already in other words."""
    usage: Usage = field(default_factory=Usage)
    """What models took for the conversations."""
    dry: bool = False
    """Whether nothing was written: then `new` is what would be taken if none of it is here yet."""

    def refuse(self, line: int, reason: str, where: str = "") -> None:
        """Note that a line could not be taken."""
        self.refused += 1
        if len(self.refusals) < TOLD:
            self.refusals.append(Refusal(line, reason, where))

    def leave(self, reason: str, where: str = "") -> None:
        """Note that something was left out."""
        left = self.left_out.setdefault(reason, Left())
        left.count += 1
        if where and len(left.examples) < EXAMPLES and where not in left.examples:
            left.examples.append(where)

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
            "formats": dict(self.formats),
            "new": self.new,
            "skipped": self.skipped,
            "refused": self.refused,
            "kinds": {kind: tally.model_dump() for kind, tally in self.kinds.items()},
            "events": dict(self.events),
            "refusals": [refusal.model_dump() for refusal in self.refusals],
            "left_out": {reason: left.model_dump() for reason, left in self.left_out.items()},
            "ignored": list(self.ignored),
            "warnings": list(self.warnings),
            **({"usage": asdict(self.usage)} if self.usage != Usage() else {}),
            **({"dry_run": True} if self.dry else {}),
        }


@dataclass(slots=True)
class ExportReport(Answer):
    """How much an export wrote."""

    memories: int = 0
    """Rows: memories and their earlier versions."""
    history: int = 0
    episodes: int = 0
