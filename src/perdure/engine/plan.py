"""A plan: the changes that a batch of decided facts comes to, built in order, committed at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from perdure.backends.vector_stores.base import Vector
from perdure.domain.clock import iso
from perdure.domain.event import Change, MemoryEvent
from perdure.domain.fact import Decision, Fact
from perdure.domain.memory import MemoryItem, new_id, text_hash
from perdure.domain.scope import Scope
from perdure.engine.cascade import accounts_of
from perdure.engine.embedding import Embedded
from perdure.engine.kernel import Kernel
from perdure.engine.neighbours import Neighbourhood
from perdure.engine.rows import version_of
from perdure.pipeline.slots import read_slots

REFINES = "refine"
"""Prefix of the names of rules that only make a memory more exact: these apply however late they are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """What holds for all facts of one call."""

    scope: Scope
    metadata: Mapping[str, Any]
    actor: str
    type: str | None = None
    expires_at: str | None = None
    source: str = "conversation"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldFact:
    """A fact with its vector, when it was told and which episodes it came from."""

    fact: Fact
    vector: Vector | None
    told_at: str
    sources: tuple[str, ...]

    @property
    def valid_from(self) -> str:
        """When it became true, else when it was told."""
        return iso(self.fact.valid_from) if self.fact.valid_from is not None else self.told_at


@dataclass(slots=True)
class Plan:
    """Changes, their rows' vectors, the events that tell of them, and what had to be given up."""

    kernel: Kernel
    telling: Telling
    neighbourhood: Neighbourhood
    changes: list[Change] = field(default_factory=list)
    vectors: dict[str, Vector | None] = field(default_factory=dict)
    events: list[MemoryEvent] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _written: dict[str, MemoryItem] = field(default_factory=dict)
    _gone: set[str] = field(default_factory=set)

    async def carry_out(self, told: ToldFact, decisions: Sequence[Decision]) -> None:
        """Turn what was decided of one fact into changes."""
        kept = any(decision.event == "ADD" for decision in decisions)
        for decision in decisions:
            if decision.event == "NONE":
                self.note_known(told, decision.target, decision.rule, decision.confidence)
            elif decision.event == "ADD":
                if not told.fact.forget:  # nothing is stored of a request to forget
                    await self._add(told, decision)
            elif decision.target is not None:
                kept = await self._change(told, decision, kept)

    async def _change(self, told: ToldFact, decision: Decision, kept: bool) -> bool:
        """Update or delete a memory; answers whether the fact itself is kept somewhere by now."""
        before = await self._current(decision.target or "")
        if told.fact.forget:
            if before is not None:
                self._delete(told, decision, before, hides=_grown(before.sources, told.sources))
                for row in await accounts_of(self.kernel, [before], before.scope):
                    if (account := await self._current(row.id)) is not None:
                        self._delete(told, decision, account)
            return kept
        if before is None:
            # Taken by another fact of this batch, with which this one must not be lost.
            if not kept and decision.event == "UPDATE":
                await self._add(told, replace(decision, text="", slots=None))
            return kept or decision.event == "UPDATE"
        if _is_late(told, before) and not decision.rule.startswith(REFINES):
            if not kept:
                until = before.valid_from or before.told_at
                await self._add(told, replace(decision, text="", slots=None), until=until)
            return True
        if decision.event == "DELETE":
            self._delete(told, decision, before)
            return kept
        await self._update(told, decision, before)
        return True

    def has_changed(self, id: str | None) -> bool:
        """Whether this batch has changed or removed the memory."""
        return id in self._written or id in self._gone

    def note_known(self, told: ToldFact, target: str | None, rule: str, confidence: float = 1.0) -> None:
        """Record that a fact was known already: no change."""
        self.events.append(
            MemoryEvent(
                event="NONE",
                id=target or "",
                memory=told.fact.text,
                metadata=dict(self.telling.metadata),
                reason=rule,
                confidence=confidence,
            )
        )

    async def release(self, told: ToldFact, before: MemoryItem) -> None:
        """Trust a memory from now on that was kept out of prompts: the user has said the same."""
        current = await self._current(before.id)
        if current is None:
            await self._add(told, Decision(event="ADD", rule="told again"))
        else:
            await self._update(told, Decision(event="UPDATE", rule="released"), current)

    async def _add(self, told: ToldFact, decision: Decision, *, until: str | None = None) -> None:
        text = decision.text or told.fact.text
        embedded = await self._embedded(told, text)
        if embedded.failed:
            return
        moment = self.kernel.ticker.tick()
        id = new_id()
        item = MemoryItem(
            id=id,
            memory=text,
            hash=text_hash(text),
            scope=self.telling.scope,
            created_at=moment,
            updated_at=moment,
            told_at=told.told_at,
            valid_from=told.valid_from,
            valid_to=until,
            type=self.telling.type or told.fact.type,
            metadata=dict(self.telling.metadata),
            sources=told.sources,
            source=self.telling.source,
            expires_at=self.telling.expires_at,
            slots=decision.slots or read_slots(text),
            confidence=told.fact.confidence,
            older=decision.links,
            origin=told.fact.origin,
            quarantined=told.fact.quarantined,
            lineage_id=id if self.kernel.config.updates == "supersede" else None,
        )
        rule = f"late:{decision.rule}" if until else decision.rule
        self._record(
            Change(
                id=new_id(),
                event="ADD",
                memory_id=id,
                at=moment,
                told_at=told.told_at,
                after=item,
                actor=self.telling.actor,
                reason=rule,
                confidence=decision.confidence,
                sources=told.sources,
            ),
            embedded.vectors[0],
        )

    async def _update(self, told: ToldFact, decision: Decision, before: MemoryItem) -> None:
        text = decision.text or told.fact.text
        embedded = await self._embedded(told, text)
        if embedded.failed:
            return
        moment = self.kernel.ticker.tick()
        told_at = max(told.told_at, before.told_at)
        supersede = self.kernel.config.updates == "supersede"
        id = new_id() if supersede else before.id
        after = before.with_(
            id=id,
            memory=text,
            hash=text_hash(text),
            created_at=moment if supersede else before.created_at,
            updated_at=moment,
            told_at=told_at,
            valid_from=max(told.valid_from, before.valid_from or before.told_at),
            metadata={**before.metadata, **self.telling.metadata},
            sources=_grown(before.sources, told.sources),
            expires_at=self.telling.expires_at or before.expires_at,
            slots=decision.slots or read_slots(text),
            confidence=told.fact.confidence,
            origin=told.fact.origin,
            quarantined=told.fact.quarantined,
            version=before.version + 1,
            older=tuple(dict.fromkeys((*before.older, *decision.links))),
            # The first of a line may have been made while updates still kept their id.
            lineage_id=before.lineage_id or (before.id if supersede else None),
        )
        self._record(
            Change(
                id=new_id(),
                event="UPDATE",
                memory_id=id,
                at=moment,
                told_at=told_at,
                before=before,
                after=after,
                keep=version_of(before, untold_at=told_at, replaced_by=id if supersede else None),
                actor=self.telling.actor,
                reason=decision.rule,
                confidence=decision.confidence,
                sources=told.sources,
            ),
            embedded.vectors[0],
        )

    def _delete(self, told: ToldFact, decision: Decision, before: MemoryItem, *, hides: tuple[str, ...] = ()) -> None:
        moment = self.kernel.ticker.tick()
        told_at = max(told.told_at, before.told_at)
        self._record(
            Change(
                id=new_id(),
                event="DELETE",
                memory_id=before.id,
                at=moment,
                told_at=told_at,
                before=before,
                keep=version_of(before, untold_at=told_at),
                actor=self.telling.actor,
                reason=decision.rule,
                confidence=decision.confidence,
                sources=told.sources,
                hides=hides,
            ),
            None,
        )

    def _record(self, change: Change, vector: Vector | None) -> None:
        if change.keep is not None and change.before is not None:
            self.vectors[change.keep.id] = self.vectors.get(change.before.id)
        if change.before is not None and (change.after is None or change.after.id != change.before.id):
            self._written.pop(change.before.id, None)
            self._gone.add(change.before.id)
            self.neighbourhood.remove(change.before.id)
        if change.after is not None:
            self.vectors[change.after.id] = vector
            self._written[change.after.id] = change.after
            self.neighbourhood.overlay(change.after, vector)
        self.changes.append(change)
        self.events.append(MemoryEvent.of(change))

    async def _embedded(self, told: ToldFact, text: str) -> Embedded:
        """The vector of the text that is stored, which need not be the fact's own; where it fails that is noted."""
        if text == told.fact.text:
            return Embedded([told.vector])
        embedded = await self.kernel.embedding.texts([text])
        self.warnings += embedded.warnings
        return embedded

    async def _current(self, id: str) -> MemoryItem | None:
        if id in self._written:
            return self._written[id]
        if id in self._gone:
            return None
        point = await self.kernel.store.get(self.kernel.collection, id)
        if point is None:
            return None
        self.vectors[id] = point.vector
        return MemoryItem.from_payload(point.payload)


def told_at(fact: Fact, moments: Sequence[datetime], fallback: datetime) -> str:
    """When a fact had been told: with the last of the messages that it came from."""
    own = [moments[position] for position in fact.sources if position < len(moments)]
    return iso(max(own) if own else fallback)


def _is_late(told: ToldFact, before: MemoryItem) -> bool:
    """Whether the fact was told before the memory was: then it must not overwrite it (DESIGN §3)."""
    return told.told_at < before.told_at


def _grown(before: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*before, *more)))
