"""Reports of exports and imports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from perdure.domain.event import Usage
from perdure.domain.memory import Answer

TOLD = 1000  # maximum rejected lines and warnings that a report lists; it counts them all
EXAMPLES = 5  # maximum places listed for each reason why something was left out


@dataclass(slots=True)
class Tally(Answer):
    """How many lines of a kind were new, and how many were known already or skipped."""

    new: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Refusal(Answer):
    """A rejected line, by its number from 1, and the reason."""

    line: int
    reason: str
    where: str = ""  # its place in another tool's export: the file, and the item's name there

    def model_dump(self) -> dict[str, Any]:
        """Return the line, the place if it is known, and the reason."""
        return {"line": self.line, **({"where": self.where} if self.where else {}), "reason": self.reason}


@dataclass(slots=True)
class Left(Answer):
    """How much of an export was left out for one reason, with examples of the places."""

    count: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ImportReport(Answer):
    """What an import read, and the result."""

    lines: int = 0  # non-blank lines; in another tool's export, items
    formats: dict[str, int] = field(default_factory=dict)  # items by their detected format
    kinds: dict[str, Tally] = field(default_factory=dict)
    """memories (rows, versions too), history, episodes, conversations, facts."""
    events: dict[str, int] = field(default_factory=dict)  # events from the conversations, by kind
    refused: int = 0
    refusals: list[Refusal] = field(default_factory=list)  # the first rejected lines
    ignored: list[str] = field(default_factory=list)  # unknown keys of conversations or facts, sorted
    warnings: list[str] = field(default_factory=list)
    left_out: dict[str, Left] = field(default_factory=dict)
    """Valid items that were not imported, by reason: tools' messages, images, differing facts under the same id."""
    usage: Usage = field(default_factory=Usage)  # usage of models for the conversations
    dry: bool = False  # whether nothing was written: then `new` counts everything as new

    def refuse(self, line: int, reason: str, where: str = "") -> None:
        """Note a rejected line."""
        self.refused += 1
        if len(self.refusals) < TOLD:
            self.refusals.append(Refusal(line, reason, where))

    def leave(self, reason: str, where: str = "") -> None:
        """Note a left-out item."""
        left = self.left_out.setdefault(reason, Left())
        left.count += 1
        if where and len(left.examples) < EXAMPLES and where not in left.examples:
            left.examples.append(where)

    def warn(self, warnings: Iterable[str]) -> None:
        """Note warnings."""
        self.warnings.extend(list(warnings)[: TOLD - len(self.warnings)])

    def count(self, kind: str, *, new: int = 0, skipped: int = 0) -> None:
        """Count lines of a kind."""
        tally = self.kinds.setdefault(kind, Tally())
        tally.new += new
        tally.skipped += skipped

    @property
    def new(self) -> int:
        """Lines with something new."""
        return sum(tally.new for tally in self.kinds.values())

    @property
    def skipped(self) -> int:
        """Lines whose content existed already, or was deleted or changed here since."""
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
    """The size of an export."""

    memories: int = 0  # rows: memories and their earlier versions
    history: int = 0
    episodes: int = 0
