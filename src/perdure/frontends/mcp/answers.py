"""Parts of answers that several tools share."""

from __future__ import annotations

from pydantic import Field

from perdure.domain.event import AddResult, HistoryRecord, MemoryEvent
from perdure.domain.memory import MemoryItem
from perdure.frontends.mcp.tool import ToolAnswer

WITHHELD = "(in quarantine; a person releases it with `perdure trust`)"


class Known(ToolAnswer):
    """A memory in an answer."""

    id: str
    memory: str
    score: float | None = None
    told_at: str
    type: str
    valid_from: str | None = None
    valid_to: str | None = None
    origin: str | None = None

    @classmethod
    def of(cls, item: MemoryItem) -> Known:
        """Build it from a memory."""
        return cls(
            id=item.id,
            memory=item.memory,
            score=None if item.score is None else round(item.score, 3),
            told_at=item.told_at or item.created_at or "",
            type=item.type,
            valid_from=item.valid_from,
            valid_to=item.valid_to,
            origin=item.origin,
        )


class Named(ToolAnswer):
    """A memory by id and text."""

    id: str
    memory: str

    @classmethod
    def of(cls, item: MemoryItem) -> Named:
        """Build it from a memory; a quarantined one does not show its text."""
        return cls(id=item.id, memory=WITHHELD if item.quarantined is not None else item.memory)


class Changed(ToolAnswer):
    """What a write did to one memory."""

    event: str
    id: str
    memory: str
    old_memory: str | None = None
    event_id: str | None = None
    reason: str | None = None

    @classmethod
    def of(cls, event: MemoryEvent) -> Changed:
        """Build it from an event."""
        return cls(
            event=event.event,
            id=event.id,
            memory=event.memory,
            old_memory=event.old_memory,
            event_id=event.event_id,
            reason=event.reason or None,
        )


class Changes(ToolAnswer):
    """What a write did; it is durable and can be recalled at once."""

    results: list[Changed] = Field(description="done")
    note: str | None = Field(None, description="warnings")

    @classmethod
    def of(cls, result: AddResult, *, nothing: str | None = None) -> Changes:
        """Build it from the engine's result; `nothing` is the note for an empty one."""
        told = "; ".join(result.warnings) or (nothing if not result.results else None)
        return cls(results=[Changed.of(event) for event in result.results], note=told)


class Recorded(ToolAnswer):
    """One event of a memory's history."""

    event_id: str
    id: str
    at: str
    told_at: str | None = None
    event: str
    old: str | None = None
    new: str | None = None
    actor: str
    reason: str | None = None
    undoes: str | None = None
    erased: bool | None = None

    @classmethod
    def of(cls, record: HistoryRecord, *, withheld: bool = False) -> Recorded:
        """Build it from a history record; `withheld` hides the texts of a quarantined memory."""
        old, new = record.old_value, record.new_value
        if withheld:
            old, new = (None if text is None else WITHHELD for text in (old, new))
        return cls(
            event_id=record.id,
            id=record.memory_id,
            at=record.timestamp,
            told_at=record.told_at,
            event=record.event,
            old=old,
            new=new,
            actor=record.actor,
            reason=record.reason or None,
            undoes=record.undoes,
            erased=True if record.erased else None,
        )
