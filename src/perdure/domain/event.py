"""What happened: the change that is the only way to alter a memory, and what is told of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from perdure.domain.memory import Answer, MemoryItem

# Usage: what a piece of work took from language models and embedders.


@dataclass(frozen=True, slots=True)
class Usage:
    """Calls of language models that were answered, tokens, and what they cost; `a + b` adds up.

    `cached_tokens` is the part of `input_tokens` that the service had in its cache. `embedding_tokens` were read by an
    embedder over a network. `cost` is in US dollars by the published prices; None if the price of a model is unknown.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    embedding_tokens: int = 0
    cost: float | None = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.embedding_tokens + other.embedding_tokens,
            None if self.cost is None or other.cost is None else self.cost + other.cost,
        )


Event = Literal["ADD", "UPDATE", "DELETE", "NONE"]
"""What became of a fact; NONE means that it was known already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One alteration of one memory: history, versions, undo, rollback, `as_of`, erasure and replay all read it.

    `before` is None for an ADD, `after` for a DELETE. `keep` is the hidden row that preserves the old text.
    """

    id: str
    event: Literal["ADD", "UPDATE", "DELETE"]
    memory_id: str
    at: str
    """When by the clock, ISO 8601 UTC."""
    told_at: str
    """When it had been told, ISO 8601 UTC."""
    before: MemoryItem | None = None
    after: MemoryItem | None = None
    keep: MemoryItem | None = None
    actor: str = "add"
    """Which call made it: add, add_facts, update, delete, undo, rollback, import."""
    reason: str = ""
    """The rule that decided."""
    confidence: float = 1.0
    sources: tuple[str, ...] = ()
    undoes: str | None = None
    """The event that this one takes back."""
    hides: tuple[str, ...] = ()
    """Episodes that a spoken "forget that" hides with the memory."""

    @property
    def item(self) -> MemoryItem:
        """The memory as it is after the change, or was before it was deleted."""
        item = self.after or self.before
        assert item is not None, "a change has a before or an after"
        return item


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEvent(Answer):
    """What an `add` did to one memory."""

    OMITTED_WHEN_EMPTY = ("replaced_id",)

    event: Event
    id: str
    memory: str = ""
    """The text that now stands; for a DELETE the text that went."""
    old_memory: str | None = None
    new_memory: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    confidence: float = 1.0
    event_id: str | None = None
    """The `id` of the history record, which `undo` takes; None for NONE."""
    replaced_id: str | None = None
    """The memory that this one replaces, where an UPDATE makes a new one (`updates="supersede"`)."""

    @classmethod
    def of(cls, change: Change) -> MemoryEvent:
        """The event that tells of a change."""
        return cls(
            event=change.event,
            id=change.memory_id,
            old_memory=change.before.memory if change.before else None,
            new_memory=change.after.memory if change.after else None,
            memory=change.item.memory,
            metadata=dict(change.item.metadata),
            reason=change.reason,
            confidence=change.confidence,
            event_id=change.id,
            replaced_id=change.before.id if change.before and change.before.id != change.memory_id else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRecord(Answer):
    """One row of a memory's history; `undo` takes its `id`. An erased row has no values."""

    id: str
    memory_id: str
    event: Literal["ADD", "UPDATE", "DELETE"]
    old_value: str | None
    new_value: str | None
    timestamp: str
    is_deleted: bool
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    project_id: str | None = None
    team_id: str | None = None
    room_id: str | None = None
    world_id: str | None = None
    sequence: int = 0
    actor: str = ""
    reason: str = ""
    confidence: float = 1.0
    told_at: str | None = None
    undoes: str | None = None
    erased: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One message as it was said, kept beside the facts drawn from it."""

    id: str
    add_id: str
    """Which call brought it; `position` is its place there."""
    position: int
    role: str
    content: str
    told_at: str
    created_at: str
    name: str | None = None
    message_id: str | None = None
    scope: dict[str, str] = field(default_factory=dict)
    hidden: bool = False
    """Hidden by a spoken "forget that"; `undo` shows it again."""
    pending: bool = False
    """Not extracted yet, because the curator failed; `doctor --repair` extracts it."""

    def as_message(self) -> dict[str, Any]:
        """The message as a caller gives one, with the id of the episode."""
        named = {} if self.name is None else {"name": self.name}
        return {"id": self.id, "role": self.role, "content": self.content, "timestamp": self.told_at, **named}

    def hide(self, hidden: bool = True) -> Episode:
        """A copy that is hidden, or shown again."""
        return replace(self, hidden=hidden)


@dataclass(frozen=True, slots=True)
class AddResult(Answer):
    """What a write did, event by event; `warnings` say what was given up, `usage` what models took for it."""

    results: list[MemoryEvent]
    warnings: list[str] = field(default_factory=list)
    bare: bool = False
    """Spec 000 §8.1 version "v1.0": `model_dump` answers with the bare list."""
    usage: Usage = field(default_factory=Usage)

    def model_dump(self) -> Any:
        """`{"results": [...]}`, with warnings where there are some, and with usage where a model was paid."""
        results = [event.model_dump() for event in self.results]
        if self.bare:
            return results
        dump: dict[str, Any] = {"results": results}
        if self.warnings:
            dump["warnings"] = list(self.warnings)
        if self.usage != Usage():
            dump["usage"] = asdict(self.usage)
        return dump


@dataclass(frozen=True, slots=True)
class SearchResult(Answer):
    """Memories found, best first; `coverage` in [0, 1] is how much of the question they seem to cover."""

    results: list[MemoryItem]
    coverage: float = 0.0
    warnings: list[str] = field(default_factory=list)
    held_back: int = 0
    """Texts that were left out because later ones have replaced them, or because they are no longer valid."""
    considered: int = 0
    """Candidates that a threshold and the steps after it chose from; 0 for presets that rank everything."""
    facets: dict[str, Any] = field(default_factory=dict)
    """What the question asks about, and which of it the memories hold: `words`, `names`, `time`; empty for presets that
    go by cosine alone."""

    def model_dump(self) -> dict[str, Any]:
        """`{"results": [...], "coverage": ..., "held_back": ...}`, with facets and warnings where there are some."""
        dump: dict[str, Any] = {
            "results": [item.model_dump() for item in self.results],
            "coverage": self.coverage,
            "held_back": self.held_back,
        }
        if self.facets:
            dump["facets"] = dict(self.facets)
        if self.warnings:
            dump["warnings"] = list(self.warnings)
        return dump


@dataclass(frozen=True, slots=True)
class Absence(Answer):
    """Why a search does not give a memory: the step that it did not pass, in a word, in a sentence and in numbers."""

    reason: str
    """unknown, deleted, erased, not_told_yet, past, type, filter, kind, not_matched, threshold, limit, or returned."""
    sentence: str
    numbers: dict[str, Any] = field(default_factory=dict)

    def model_dump(self) -> dict[str, Any]:
        """The reason as plain values."""
        return {"reason": self.reason, "sentence": self.sentence, **self.numbers}


@dataclass(frozen=True, slots=True)
class ListResult(Answer):
    """One page of memories, oldest first; `next_cursor` is None at the end."""

    results: list[MemoryItem]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class ErasedPlace(Answer):
    """How much of the forgotten text one place held, and whether its bytes are gone."""

    place: str
    """store, text_index, history, episodes, versions, journal, cache, jobs, promotions, sessions, chains, graph or
    backups."""
    count: int
    status: Literal["erased", "pending", "kept", "found", "none"]
    """`found` in a dry run; `pending` until the file is free; `kept` where nothing was to be erased by request."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ErasureReport(Answer):
    """Which memories `forget` took, and what became of each place that held their text."""

    results: list[MemoryItem]
    places: list[ErasedPlace]
    dry_run: bool = False
    erase: bool = True

    @property
    def pending(self) -> bool:
        """Whether bytes of the text may still stand in some place."""
        return any(place.status == "pending" for place in self.places)
