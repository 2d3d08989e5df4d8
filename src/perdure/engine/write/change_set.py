"""The change set of a batch of reconciled facts, built in order and committed at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perdure.backends.vector_stores.base import Hit, Vector, VectorStore
from perdure.domain.clock import SKEW, iso
from perdure.domain.event import Change, MemoryEvent
from perdure.domain.fact import Decision, Fact, Neighbour
from perdure.domain.filter import And, Condition, Filter, Or, all_of, eq
from perdure.domain.memory import NOTES, MemoryItem, Slots, new_id, text_hash
from perdure.domain.scope import Scope
from perdure.engine.core.access import TRUSTED
from perdure.engine.core.embedding import Embedded
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.lookup import retellings, summaries_of
from perdure.engine.core.rows import version_of
from perdure.pipeline.curation.rules.extraction.forget_target import is_of_others
from perdure.pipeline.curation.rules.slots import read_slots
from perdure.pipeline.retrieval.words import tokens

# The neighbours of a fact: memories of the store, and the batch's own uncommitted rows.

_FIRST_ROWS = 16


class FreshRows:
    """Uncommitted rows of one batch; each search costs one product of matrix and vector."""

    def __init__(self) -> None:
        self._items: list[MemoryItem | None] = []
        self._words: list[frozenset[str]] = []
        self._units: NDArray[np.float32] | None = None
        self._places: dict[str, int] = {}
        self._slots: dict[tuple[str, str], dict[int, None]] = {}

    def __contains__(self, id: object) -> bool:
        return id in self._places

    def put(self, item: MemoryItem, vector: Vector | None) -> None:
        """Insert a row, or replace the one with its id."""
        self.drop(item.id)
        place = self._places[item.id] = len(self._items)
        self._items.append(item)
        self._words.append(frozenset(tokens(item.memory)))
        if vector is not None:
            norm = float(np.linalg.norm(vector))
            self._room(place, len(vector))[place] = vector / norm if norm > 0 else vector
        if item.slots is not None:
            self._slots.setdefault((item.slots.subject, item.slots.attribute), {})[place] = None

    def drop(self, id: str) -> None:
        """Remove a row, if there is one."""
        place = self._places.pop(id, None)
        if place is None:
            return
        item, self._items[place] = self._items[place], None
        if item is not None and item.slots is not None:
            self._slots[item.slots.subject, item.slots.attribute].pop(place)

    def near(
        self, text: str, vector: Vector | None, slots: Slots | None, *, limit: int, same_slot: int
    ) -> list[Neighbour]:
        """Return the `limit` rows most similar in meaning (in words without a vector), and some of the same slot."""
        if not self._places:
            return []
        cosines = self._cosines(vector)
        order = self._by_words(text) if cosines is None else np.argsort(-cosines, kind="stable")
        places = dict.fromkeys(self._living(order, limit))
        if slots is not None:
            places.update(dict.fromkeys(list(self._slots.get((slots.subject, slots.attribute), ()))[-same_slot:]))
        return [self._neighbour(place, cosines) for place in places]

    def _living(self, order: Iterable[int], limit: int) -> list[int]:
        found: list[int] = []
        for place in order:
            if len(found) == limit:
                break
            if self._items[place] is not None:
                found.append(int(place))
        return found

    def _neighbour(self, place: int, cosines: NDArray[np.float32] | None) -> Neighbour:
        item = self._items[place]
        assert item is not None, "dropped rows are nobody's neighbours"
        return Neighbour(item=item, similarity=None if cosines is None else float(np.clip(cosines[place], -1.0, 1.0)))

    def _cosines(self, vector: Vector | None) -> NDArray[np.float32] | None:
        if vector is None or self._units is None:
            return None
        norm = float(np.linalg.norm(vector))
        rows = self._room(len(self._items) - 1, len(vector))[: len(self._items)]
        return np.asarray(rows @ (vector / norm if norm > 0 else vector), dtype=np.float32)

    def _by_words(self, text: str) -> list[int]:
        asked = frozenset(tokens(text))
        shared = [(len(asked & words), place) for place, words in enumerate(self._words)]
        return [place for count, place in sorted(shared, reverse=True) if count]

    def _room(self, place: int, dimension: int) -> NDArray[np.float32]:
        """Return the matrix of unit vectors, grown to contain the place; a row without a vector is 0."""
        if self._units is None or place >= len(self._units):
            grown = np.zeros((max(_FIRST_ROWS, 2 * (place + 1)), dimension), dtype=np.float32)
            if self._units is not None:
                grown[: len(self._units)] = self._units
            self._units = grown
        return self._units


LLM_NEIGHBOURS = 5
"""Most similar memories shown to a model for each fact."""
RULES_NEIGHBOURS = 15
"""Most similar memories given to the rules, for which more cost nothing."""
FORGET_NEIGHBOURS = 40
"""Most similar memories examined for a request to forget, which may mean several."""
RENEWABLE = 4
"""Nearest earlier statements among which it is looked for what a new one replaces."""
SAME_SLOT = 10
"""Memories of the same subject and attribute that are examined however different their words are."""
HASHES_AT_ONCE = 200
"""Exact repeats looked up in one query."""


class Neighbourhood:
    """Memories similar to facts inside one scope: those of the store, and the changes of the batch so far.

    Quarantined memories are left out, except for a request to forget: they are neither updated nor shown to a model.
    """

    def __init__(self, store: VectorStore, collection: str, within: And, noted: And) -> None:
        """`within` is the filter for facts, `noted` the one for notes."""
        self._store = store
        self._collection = collection
        self._within = within
        self._noted = noted
        self._gone: set[str] = set()
        self._fresh = FreshRows()

    async def near(self, fact: Fact, vector: Vector | None, slots: Slots | None, limit: int) -> list[Neighbour]:
        """Return the memories near a fact, nearest first, then those that only share its subject and attribute."""
        limit = FORGET_NEIGHBOURS if fact.forget else limit
        within: Filter = Or((self._within, self._noted)) if fact.forget else all_of(self._within, TRUSTED)
        found: dict[str, Neighbour] = {}
        for neighbour in await self._stored(fact, vector, limit, within):
            found.setdefault(neighbour.item.id, neighbour)
        if slots is not None:
            for neighbour in await self._same_slot(slots, vector, within):
                found.setdefault(neighbour.item.id, neighbour)
        stored = [neighbour for id, neighbour in found.items() if id not in self._gone and id not in self._fresh]
        fresh = self._fresh.near(fact.text, vector, slots, limit=limit, same_slot=SAME_SLOT)
        fresh = [each for each in fresh if fact.forget or each.item.quarantined is None]
        return sorted(
            [*stored, *fresh], key=lambda near: -2.0 if near.similarity is None else near.similarity, reverse=True
        )

    async def said_before(self, vector: Vector | None, moment: str) -> list[Neighbour]:
        """Return trusted facts and notes of the store that were said before a moment, nearest in meaning first."""
        if vector is None:
            return []
        within = all_of(Or((self._within, self._noted)), TRUSTED)
        found = _neighbours(await self._store.search(self._collection, vector, RENEWABLE, within))
        return [each for each in found if each.item.told_at < moment and each.item.id not in self._gone]

    async def same_text(self, hashes: Iterable[str], *, noted: bool = False) -> dict[str, MemoryItem]:
        """Return facts (or notes) of the store whose text has one of the hashes, preferring trusted ones."""
        within = self._noted if noted else self._within
        found: dict[str, MemoryItem] = {}
        asked = list(dict.fromkeys(hashes))
        for start in range(0, len(asked), HASHES_AT_ONCE):
            some = Condition("hash", "in", tuple(asked[start : start + HASHES_AT_ONCE]))
            page = await self._store.list(self._collection, all_of(within, some))
            for point in page.points:
                item = MemoryItem.from_payload(point.payload)
                if item.hash not in found or found[item.hash].quarantined is not None:
                    found[item.hash] = item
        return found

    def overlay(self, item: MemoryItem, vector: Vector | None) -> None:
        """Add a memory that the batch has written."""
        self._fresh.put(item, vector)
        self._gone.discard(item.id)

    def remove(self, id: str) -> None:
        """Remove a memory that the batch has removed."""
        self._fresh.drop(id)
        self._gone.add(id)

    async def noted_in(self, messages: Sequence[str]) -> list[MemoryItem]:
        """Return the notes of these messages."""
        if not messages:
            return []
        page = await self._store.list(
            self._collection, all_of(self._noted, Condition("sources", "in", tuple(messages))), with_vectors=False
        )
        return [MemoryItem.from_payload(point.payload) for point in page.points]

    async def _stored(self, fact: Fact, vector: Vector | None, limit: int, within: Filter) -> Sequence[Neighbour]:
        found: list[Neighbour] = []
        if vector is not None:
            found += _neighbours(await self._store.search(self._collection, vector, limit, within))
        if vector is None or fact.forget:
            hits = await self._store.keyword_search(self._collection, fact.text, limit, within)
            found += [replace(each, similarity=None) for each in _neighbours(hits or [])]
        return found

    async def _same_slot(self, slots: Slots, vector: Vector | None, within: Filter) -> Sequence[Neighbour]:
        same = all_of(within, eq("subject", slots.subject), eq("attribute", slots.attribute))
        page = await self._store.list(self._collection, same, SAME_SLOT, with_vectors=True)
        return [
            Neighbour(item=MemoryItem.from_payload(point.payload), similarity=cosine(vector, point.vector))
            for point in page.points
        ]


def _neighbours(hits: Sequence[Hit]) -> list[Neighbour]:
    return [Neighbour(item=MemoryItem.from_payload(hit.payload), similarity=hit.score) for hit in hits]


def cosine(left: Vector | None, right: Vector | None) -> float | None:
    """Return the cosine of two vectors in [-1, 1], or None if one is missing; 0 for a zero vector."""
    if left is None or right is None:
        return None
    norm = float(np.linalg.norm(left) * np.linalg.norm(right))
    return float(np.clip(float(left @ right) / norm, -1.0, 1.0)) if norm > 0 else 0.0


REFINES = "refine"
"""Prefix of rules that only make a memory more precise: they apply however late the fact arrives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactContext:
    """Values shared by all facts of one call."""

    scope: Scope
    metadata: Mapping[str, Any]
    actor: str
    type: str | None = None
    expires_at: str | None = None
    source: str = "conversation"
    dates: frozenset[str] = frozenset()
    """The times given with the messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedFact:
    """A fact with its vector, its time and its source episodes."""

    fact: Fact
    vector: Vector | None
    told_at: str
    """When it was said, and never later than now: a future date must not win against later messages."""
    dated: str
    """The date that was given with it."""
    sources: tuple[str, ...]

    @classmethod
    def by(cls, now: str, dated: str, *, fact: Fact, vector: Vector | None, sources: tuple[str, ...]) -> SourcedFact:
        """Build a fact from the date given with it and the time of the call."""
        return cls(fact=fact, vector=vector, told_at=min(dated, now), dated=dated, sources=sources)

    @property
    def valid_from(self) -> str:
        """When it became true, else the date given with it."""
        return iso(self.fact.valid_from) if self.fact.valid_from is not None else self.dated


@dataclass(slots=True)
class ChangeSet:
    """Changes, their rows' vectors, the events that report them, and warnings."""

    kernel: Kernel
    context: FactContext
    neighbourhood: Neighbourhood
    now: datetime
    """The time of the call, by the clock."""
    changes: list[Change] = field(default_factory=list)
    vectors: dict[str, Vector | None] = field(default_factory=dict)
    events: list[MemoryEvent] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: int = 0
    """Number of notes that are added."""
    _written: dict[str, MemoryItem] = field(default_factory=dict)
    _gone: set[str] = field(default_factory=set)
    _retold: set[str] = field(default_factory=set)
    """Memories that this batch has changed or removed: links to their old text are void."""

    async def carry_out(self, sourced: SourcedFact, decisions: Sequence[Decision]) -> None:
        """Turn the decision about one fact into changes."""
        kept = any(decision.event == "ADD" for decision in decisions)
        for decision in decisions:
            if decision.event == "NONE":
                self.note_known(sourced, decision.target, decision.rule, decision.confidence)
            elif decision.event == "ADD":
                if not sourced.fact.forget:  # a request to forget is not stored itself
                    await self._add(sourced, decision)
            elif decision.target is not None:
                kept = await self._change(sourced, decision, kept)

    async def _change(self, sourced: SourcedFact, decision: Decision, kept: bool) -> bool:
        """Update or delete a memory; return whether the fact itself is now stored somewhere."""
        before = await self._current(decision.target or "")
        if sourced.fact.forget:
            if before is not None:
                hidden = _grown(before.sources, sourced.sources)
                again = await retellings(self.kernel, before, sourced.vector)
                self._delete(sourced, decision, before, hides=_grown(hidden, again))
                if decision.text:
                    await self._keep(sourced, decision, before)
                for note in await self.neighbourhood.noted_in(hidden):
                    of_others = not sourced.fact.language and is_of_others(note.memory, sourced.fact.text)
                    if not of_others and await self._current(note.id) is not None:
                        self._delete(sourced, decision, note)
                for row in await summaries_of(self.kernel, [before], before.scope):
                    if (account := await self._current(row.id)) is not None:
                        self._delete(sourced, decision, account)
            return kept
        if before is None:
            # Another fact of this batch has changed the memory, and this one must not be lost.
            if not kept and decision.event == "UPDATE":
                await self._add(sourced, replace(decision, text="", slots=None))
            return kept or decision.event == "UPDATE"
        if self._is_late(sourced, before) and not decision.rule.startswith(REFINES):
            if not kept:
                until = min(before.valid_from or before.told_at, iso(self.now))
                await self._add(sourced, replace(decision, text="", slots=None), until=until)
            return True
        if decision.event == "DELETE":
            self._delete(sourced, decision, before)
            return kept
        await self._update(sourced, decision, before)
        return True

    async def _keep(self, sourced: SourcedFact, decision: Decision, before: MemoryItem) -> None:
        """Add what a memory that is deleted told of somebody else, as it was known of them."""
        embedded = await self._embedded(sourced, decision.text)
        if embedded.failed:
            return
        moment, id = self.kernel.clock.tick(), new_id()
        after = before.with_(
            id=id,
            memory=decision.text,
            hash=text_hash(decision.text),
            created_at=moment,
            updated_at=moment,
            slots=read_slots(decision.text),
            version=1,
            lineage_id=id if self.kernel.config.updates == "supersede" else None,
        )
        self._record(self._added(sourced, after, f"rest:{decision.rule}", decision.confidence), embedded.vectors[0])

    def has_changed(self, id: str | None) -> bool:
        """Whether this batch has changed or removed the memory."""
        return id in self._written or id in self._gone

    def note_known(self, sourced: SourcedFact, target: str | None, rule: str, confidence: float = 1.0) -> None:
        """Record that a fact was already known: no change."""
        self.events.append(
            MemoryEvent(
                event="NONE",
                id=target or "",
                memory=sourced.fact.text,
                metadata=dict(self.context.metadata),
                reason=rule,
                confidence=confidence,
            )
        )

    def take_note(self, sourced: SourcedFact, renewed: tuple[str, ...]) -> None:
        """Add a sentence as the user said it, linked to what it most likely replaces; no event tells of it."""
        moment, id = self.kernel.clock.tick(), new_id()
        item = replace(
            self._row(sourced, sourced.fact.text, id, moment),
            kind=NOTES,
            derived_from=sourced.sources,
            older=renewed,
        )
        self.notes += 1
        self.vectors[id] = sourced.vector
        self.changes.append(self._added(sourced, item, sourced.fact.rule, sourced.fact.confidence))

    async def end(self, sourced: SourcedFact, known: MemoryItem) -> None:
        """Delete a memory that was said to have ended, unless it has changed since then or was told later."""
        before = await self._current(known.id)
        if before is None or before.hash != known.hash or self.has_changed(known.id) or self._is_late(sourced, before):
            return
        self._delete(sourced, Decision(event="DELETE", rule=sourced.fact.rule), before)

    async def release(self, sourced: SourcedFact, before: MemoryItem) -> None:
        """Release a memory from quarantine, because the user has said the same."""
        current = await self._current(before.id)
        if current is None:
            await self._add(sourced, Decision(event="ADD", rule="told again"))
        else:
            await self._update(sourced, Decision(event="UPDATE", rule="released"), current)

    async def _add(self, sourced: SourcedFact, decision: Decision, *, until: str | None = None) -> None:
        text = decision.text or sourced.fact.text
        embedded = await self._embedded(sourced, text)
        if embedded.failed:
            return
        moment, id = self.kernel.clock.tick(), new_id()
        item = replace(
            self._row(sourced, text, id, moment),
            valid_to=until,
            slots=decision.slots or read_slots(text),
            older=self._links(decision),
            lineage_id=id if self.kernel.config.updates == "supersede" else None,
        )
        rule = f"late:{decision.rule}" if until else decision.rule
        self._record(self._added(sourced, item, rule, decision.confidence), embedded.vectors[0])

    def _row(self, sourced: SourcedFact, text: str, id: str, moment: str) -> MemoryItem:
        """Return a new row with what is known of it from its source."""
        return MemoryItem(
            id=id,
            memory=text,
            hash=text_hash(text),
            scope=self.context.scope,
            created_at=moment,
            updated_at=moment,
            told_at=sourced.told_at,
            first_told_at=sourced.dated if sourced.dated in self.context.dates else None,
            valid_from=sourced.valid_from,
            type=self.context.type or sourced.fact.type,
            metadata=dict(self.context.metadata),
            sources=sourced.sources,
            source=self.context.source,
            expires_at=self.context.expires_at,
            confidence=sourced.fact.confidence,
            origin=sourced.fact.origin,
            quarantined=sourced.fact.quarantined,
        )

    def _added(self, sourced: SourcedFact, item: MemoryItem, rule: str, confidence: float) -> Change:
        return Change(
            id=new_id(),
            event="ADD",
            memory_id=item.id,
            at=item.created_at,
            told_at=item.told_at,
            after=item,
            actor=self.context.actor,
            reason=rule,
            confidence=confidence,
            sources=item.sources,
        )

    async def _update(self, sourced: SourcedFact, decision: Decision, before: MemoryItem) -> None:
        text = decision.text or sourced.fact.text
        embedded = await self._embedded(sourced, text)
        if embedded.failed:
            return
        moment = self.kernel.clock.tick()
        told_at = self._latest(sourced.told_at, before.told_at)
        supersede = self.kernel.config.updates == "supersede"
        id = new_id() if supersede else before.id
        after = before.with_(
            id=id,
            kind="facts",  # it may take the place of a note, which follows its message
            derived_from=() if before.kind == NOTES else before.derived_from,
            memory=text,
            hash=text_hash(text),
            created_at=moment if supersede else before.created_at,
            updated_at=moment,
            told_at=told_at,
            valid_from=self._latest(sourced.valid_from, before.valid_from or before.told_at),
            metadata={**before.metadata, **self.context.metadata},
            sources=_grown(before.sources, sourced.sources),
            expires_at=self.context.expires_at or before.expires_at,
            slots=decision.slots or read_slots(text),
            confidence=sourced.fact.confidence,
            origin=sourced.fact.origin,
            quarantined=sourced.fact.quarantined,
            version=before.version + 1,
            older=tuple(dict.fromkeys((*before.older, *self._links(decision)))),
            # The first of a line may date from when updates kept their id.
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
                actor=self.context.actor,
                reason=decision.rule,
                confidence=decision.confidence,
                sources=sourced.sources,
            ),
            embedded.vectors[0],
        )

    def _delete(
        self, sourced: SourcedFact, decision: Decision, before: MemoryItem, *, hides: tuple[str, ...] = ()
    ) -> None:
        moment = self.kernel.clock.tick()
        told_at = self._latest(sourced.told_at, before.told_at)
        self._record(
            Change(
                id=new_id(),
                event="DELETE",
                memory_id=before.id,
                at=moment,
                told_at=told_at,
                before=before,
                keep=version_of(before, untold_at=told_at),
                actor=self.context.actor,
                reason=decision.rule,
                confidence=decision.confidence,
                sources=sourced.sources,
                hides=hides,
            ),
            None,
        )

    def _record(self, change: Change, vector: Vector | None) -> None:
        if change.keep is not None and change.before is not None:
            self.vectors[change.keep.id] = self.vectors.get(change.before.id)
        if change.before is not None:
            self._unlink(change.before.id)
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

    def _links(self, decision: Decision) -> tuple[str, ...]:
        return tuple(id for id in decision.links if id not in self._retold)

    def _unlink(self, id: str) -> None:
        """Remove the links that this batch has set to a memory that it now changes."""
        self._retold.add(id)
        for place, change in enumerate(self.changes):
            after, before = change.after, change.before
            if after is not None and id in after.older and (before is None or id not in before.older):
                left = tuple(each for each in after.older if each != id)
                self.changes[place] = replace(change, after=after.with_(older=left))
                if after.id in self._written:
                    self._written[after.id] = self._written[after.id].with_(older=left)

    async def _embedded(self, sourced: SourcedFact, text: str) -> Embedded:
        """Return the vector of the stored text, which may differ from the fact's own; a failure becomes a warning."""
        if text == sourced.fact.text:
            return Embedded([sourced.vector])
        embedded = await self.kernel.embedding.texts([text])
        self.warnings += embedded.warnings
        return embedded

    def _is_late(self, sourced: SourcedFact, before: MemoryItem) -> bool:
        """Whether the fact was said before the memory was, and so must not overwrite it.

        A memory with a future time comes from a wrong clock: nobody knows when it was said, but it was before this
        call.
        """
        last = before.told_at if before.told_at <= iso(self.now) else iso(self.now - SKEW)
        return sourced.told_at < last

    def _latest(self, moment: str, known: str) -> str:
        """Return the later of two times; a known time in the future comes from a wrong clock and is reduced."""
        return max(moment, known) if known <= iso(self.now) else moment

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
    """Return when a fact was said: the time of the last of its source messages."""
    own = [moments[position] for position in fact.sources if position < len(moments)]
    return iso(max(own) if own else fallback)


def _grown(before: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*before, *more)))
