"""Changes, which are the only way to alter a memory, and the results that report them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from perdure.domain.memory import Answer, MemoryItem

# Usage of language models and embedders.


@dataclass(frozen=True, slots=True)
class Usage:
    """Number of answered calls of language models, tokens, and cost; `a + b` adds them up.

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


Event = Literal["ADD", "UPDATE", "DELETE", "NONE"]  # the outcome for a fact; NONE means that it was already known


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of one memory; history, versions, undo, rollback, `as_of`, erasure and replay all read it.

    `before` is None for an ADD, `after` for a DELETE. `keep` is the hidden row that preserves the old text.
    """

    id: str
    event: Literal["ADD", "UPDATE", "DELETE"]
    memory_id: str
    at: str
    """Clock time, ISO 8601 UTC."""
    told_at: str
    """The time at which it was said, ISO 8601 UTC."""
    before: MemoryItem | None = None
    after: MemoryItem | None = None
    keep: MemoryItem | None = None
    actor: str = "add"
    """The call that made it: add, add_facts, update, delete, undo, rollback, import."""
    reason: str = ""
    """The rule that decided."""
    confidence: float = 1.0
    sources: tuple[str, ...] = ()
    undoes: str | None = None
    """The event that this one reverses."""
    hides: tuple[str, ...] = ()
    """Episodes that a spoken "forget that" hides with the memory."""

    @property
    def item(self) -> MemoryItem:
        """The memory after the change, or before it if it was deleted."""
        item = self.after or self.before
        assert item is not None, "a change has a before or an after"
        return item


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEvent(Answer):
    """The effect of an `add` on one memory."""

    OMITTED_WHEN_EMPTY = ("replaced_id",)

    event: Event
    id: str
    memory: str = ""
    """The new text; for a DELETE the deleted text."""
    old_memory: str | None = None
    new_memory: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    confidence: float = 1.0
    event_id: str | None = None
    """The `id` of the history record, which `undo` takes; None for NONE."""
    replaced_id: str | None = None
    """The memory that this one replaces, if an UPDATE makes a new one (`updates="supersede"`)."""

    @classmethod
    def of(cls, change: Change) -> MemoryEvent:
        """Build the event that reports a change."""
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
    """When it was recorded, by the clock; `told_at` is when it was said."""
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
    """One message as it was said, stored beside the facts extracted from it."""

    id: str
    add_id: str
    """The call that stored it; `position` is its place in that call."""
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
    """Not extracted yet because the curator failed; `doctor --repair` extracts it."""
    brought: dict[str, Any] = field(default_factory=dict)
    """JSON of what the call brought for the facts of this message; a ledger keeps it as long as the message waits."""

    def as_message(self) -> dict[str, Any]:
        """Return the message as a caller would pass it, with the id of the episode."""
        named = {} if self.name is None else {"name": self.name}
        return {"id": self.id, "role": self.role, "content": self.content, "timestamp": self.told_at, **named}

    def hide(self, hidden: bool = True) -> Episode:
        """Return a copy that is hidden, or shown again."""
        return replace(self, hidden=hidden)


@dataclass(frozen=True, slots=True)
class AddResult(Answer):
    """The result of a write, one event for each memory; `warnings` list what failed, `usage` the cost of models."""

    results: list[MemoryEvent]
    warnings: list[str] = field(default_factory=list)
    bare: bool = False
    """Version "v1.0" of the interface: `model_dump` returns the bare list."""
    usage: Usage = field(default_factory=Usage)
    notes: int = 0
    """Number of sentences that were kept as they were said, because no fact says them."""
    waiting: int = 0
    """Number of messages that are kept and wait to be read: the model or the embedder failed, or is asked later."""

    def model_dump(self) -> Any:
        """Return `{"results": [...]}`, with warnings, notes, waiting messages and usage of models if there are any."""
        results = [event.model_dump() for event in self.results]
        if self.bare:
            return results
        dump: dict[str, Any] = {"results": results}
        if self.warnings:
            dump["warnings"] = list(self.warnings)
        if self.usage != Usage():
            dump["usage"] = asdict(self.usage)
        if self.notes:
            dump["notes"] = self.notes
        if self.waiting:
            dump["waiting"] = self.waiting
        return dump


@dataclass(frozen=True, slots=True)
class SearchResult(Answer):
    """The memories found, best first; `coverage` in [0, 1] estimates how much of the question they cover."""

    results: list[MemoryItem]
    coverage: float = 0.0
    warnings: list[str] = field(default_factory=list)
    held_back: int = 0
    """Number of texts left out because later ones replaced them or because they are no longer valid."""
    considered: int = 0
    """Candidates before the threshold and the later steps; 0 for presets that rank everything."""
    facets: dict[str, Any] = field(default_factory=dict)
    """How well the memories cover each part of the question: `words`, `names`, `time`; empty for presets that rank by
    cosine alone."""

    def model_dump(self) -> dict[str, Any]:
        """Return `{"results": [...], "coverage": ..., "held_back": ...}`, with facets and warnings if there are any."""
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
    """Why a search does not return a memory: the step it failed, as a code, as a sentence and in numbers."""

    reason: str
    """unknown, deleted, erased, not_told_yet, past, type, filter, kind, not_matched, retold, threshold, faint, limit or
    returned."""
    sentence: str
    numbers: dict[str, Any] = field(default_factory=dict)

    def model_dump(self) -> dict[str, Any]:
        """Return the reason as plain values."""
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
    """`found` in a dry run; `pending` until the file is free; `kept` if the request excluded it."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ErasureReport(Answer):
    """The memories that `forget` erased, and the result for each place that held their text."""

    results: list[MemoryItem]
    places: list[ErasedPlace]
    dry_run: bool = False
    erase: bool = True
    reasons: dict[str, str] = field(default_factory=dict)
    """Why each of `results` goes, by its id: `matched` the request; `value`, an older or newer value of a match;
    `sentence`, read out of a sentence that matches; `merged` with a match; `derived` from one; `message` of one."""
    unsourced: list[MemoryItem] = field(default_factory=list)
    """Memories that stay, and lose a message on which they rest, because it goes."""

    @property
    def pending(self) -> bool:
        """Whether bytes of the text may still be in some place."""
        return any(place.status == "pending" for place in self.places)
