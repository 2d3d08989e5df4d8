"""The write path: extract facts from messages, reconcile them with known memories, and commit the changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial, wraps
from itertools import groupby
from typing import Any, ParamSpec

from perdure.backends.blocking import run_blocking
from perdure.backends.shared.metering import metered
from perdure.backends.vector_stores.base import Vector
from perdure.domain.clock import iso, read_moment
from perdure.domain.errors import ConflictError
from perdure.domain.event import AddResult, Change, Episode, MemoryEvent
from perdure.domain.fact import Decision, Fact
from perdure.domain.filter import And, Filter, Not, all_of, eq
from perdure.domain.memory import NOTES, MemoryItem, new_id, new_ids, text_hash
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.aio.calls import degrade, guarded, shielded
from perdure.engine.core.access import TRUSTED, visible
from perdure.engine.core.batch import hide_messages
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.lookup import SESSION, told_in_words
from perdure.engine.read.profile import unnoted
from perdure.engine.requests import NOT_EVERYTHING, Addition, brought_by, date_warnings, read_brought, shared_of
from perdure.engine.write.change_set import (
    LLM_NEIGHBOURS,
    RULES_NEIGHBOURS,
    ChangeSet,
    FactContext,
    Neighbourhood,
    SourcedFact,
    told_at,
)
from perdure.engine.write.curator import Reading, ReadRequest, Renewed, by_bands
from perdure.engine.write.provenance import (
    explicit_fact,
    suspected,
    with_provenance,
    without_echoes,
    without_memory_blocks,
)
from perdure.pipeline.curation.rules.extraction.forget_target import asked_for, is_asked, may_be_everything
from perdure.pipeline.curation.rules.slots import read_slots
from perdure.pipeline.quarantine import INSTRUCTION, origin_of

# Dates of messages.


def given_dates(timestamp: datetime | None, messages: Sequence[Message]) -> frozenset[str]:
    """Return the times given with an addition: its own and its messages'."""
    given = (timestamp, *(message.timestamp for message in messages))
    return frozenset(iso(each) for each in given if each is not None)


# Usage of language models and embedders, added to the result of every write.

P = ParamSpec("P")


def counted(method: Callable[P, Coroutine[Any, Any, AddResult]]) -> Callable[P, Coroutine[Any, Any, AddResult]]:
    """Decorate a write so that its result contains its usage of models."""

    @wraps(method)
    async def with_usage(*args: P.args, **kwargs: P.kwargs) -> AddResult:
        with metered() as meter:
            result = await method(*args, **kwargs)
        return replace(result, usage=meter.usage)

    return with_usage


CONTEXT_MESSAGES = 24
"""Earlier messages that a curator may use as context: an earlier conversation often says who is who."""

REFERENCES = 10
"""Memories nearest to a conversation that a model is shown for reference."""
REFERENCE_CHARACTERS = 2_000
"""End of a conversation by which they are found."""

FORGOTTEN = "forgotten"
"""The code of the ConflictError for facts whose source messages have been forgotten or withdrawn."""


class WritePath:
    """Adds messages, and facts that are given as such."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @guarded
    @counted
    async def add(self, addition: Addition) -> AddResult:
        """Store the messages as episodes and their facts as memories; return an event for each fact."""
        remembered = await self._kernel.remembered(addition.idempotency_key, addition.scope)
        if remembered is not None:
            return remembered
        messages, forged = without_memory_blocks(addition.messages)
        clock = self._kernel.clock.moment()
        now = addition.timestamp or clock
        moments = [message.timestamp or now for message in messages]
        ahead = date_warnings(addition, messages, clock)
        episodes = self._episodes(addition, messages, [min(moment, clock) for moment in moments], forged)
        if not addition.infer:
            result = await self._store_as_said(addition, messages, moments, episodes, forged)
            return replace(result, warnings=[*ahead, *result.warnings])
        if addition.later and not forged and self._keeps_messages:
            return await self._store_for_later(addition, episodes, ahead)
        reading = Reading([])
        if messages:
            earlier = await self._context(addition.scope, min(*moments, clock))
            messages = await without_echoes(self._kernel, messages, addition.scope)
            request = ReadRequest(
                messages=messages,
                context=earlier,
                now=now,
                prompt=addition.prompt,
                answers=self._kernel.answers(addition.scope),
                whole=addition.whole,
                reference=partial(self._reference, addition.scope, addition.filters, messages),
            )
            reading = await self._kernel.curator.read(request)
        if reading.unread:
            episodes = [replace(episode, pending=True) for episode in episodes]
        sourced = [
            (fact, told_at(fact, moments, now), _sources(fact, episodes, self._kernel.config.episodes))
            for fact in await with_provenance(
                self._kernel, messages, unnoted(messages, reading.facts), addition.scope, forged
            )
        ]
        endings = await self._endings(reading, messages, episodes, addition.scope, now=now, forged=forged)
        context = FactContext(
            scope=addition.scope,
            metadata=addition.metadata,
            actor="add",
            type=addition.type,
            expires_at=addition.expires_at,
            dates=given_dates(addition.timestamp, addition.messages),
        )
        return await self._reconcile(
            sourced,
            context,
            addition.filters,
            endings=endings,
            episodes=episodes,
            idempotency_key=addition.idempotency_key,
            warnings=[*ahead, *reading.warnings],
        )

    @guarded
    @counted
    async def add_facts(self, facts: Sequence[str], scope: Scope, metadata: dict[str, Any]) -> AddResult:
        """Reconcile texts that are already facts."""
        now = self._kernel.clock.tick()
        read = [Fact(text=text, forget=is_asked(text), rule="given") for text in facts]
        context = FactContext(scope=scope, metadata=metadata, actor="add_facts", source="facts")
        return await self._reconcile([(fact, now, ()) for fact in read], context, None)

    @guarded
    @counted
    async def keep_facts(
        self,
        sourced: Sequence[tuple[Fact, str, tuple[str, ...]]],
        context: FactContext,
        *,
        banded: bool = False,
        idempotency_key: str | None = None,
        read: Sequence[str] = (),
    ) -> AddResult:
        """Reconcile facts that were extracted elsewhere, each with its time and its source episodes.

        Raises ConflictError with the code `FORGOTTEN`, and stores nothing, if one of the episodes in `read` has been
        forgotten or withdrawn since.

        With `banded`, a fact that the curator would add updates a nearly equal memory of its type about the same
        subject, by the bands of similarity of the gateway. Raises EmbeddingError, and stores nothing, if the embedder's
        service is down: the caller can retry. A fact that alone cannot be embedded is left out and named in `warnings`.
        """
        return await self._reconcile(
            sourced, context, None, banded=banded, idempotency_key=idempotency_key, again_later=True, read=read
        )

    @guarded
    @counted
    async def extract_pending(self, episodes: Sequence[Episode], scope: Scope, *, actor: str = "repair") -> AddResult:
        """Extract facts from stored messages that wait for it: extraction had failed, or was put off.

        Messages whose calls brought the same for their facts are read in one call, as their own calls would have been.
        """
        alike = groupby(episodes, lambda episode: shared_of(episode.brought))
        done = [await self._extract(list(some), scope, actor) for _, some in alike]
        return AddResult(
            [event for each in done for event in each.results],
            [warning for each in done for warning in each.warnings],
            self._kernel.bare,
            notes=sum(each.notes for each in done),
            waiting=sum(each.waiting for each in done),
        )

    async def _extract(self, episodes: Sequence[Episode], scope: Scope, actor: str) -> AddResult:
        brought = read_brought(episodes[0].brought, scope)
        messages = _messages(episodes)
        forged = {place for place, episode in enumerate(episodes) if episode.brought.get("forged")}
        now = self._kernel.clock.now()
        moments = [message.timestamp or now for message in messages]
        messages = await without_echoes(self._kernel, messages, scope)
        earlier = await self._kernel.recent_episodes(
            scope, CONTEXT_MESSAGES, before=min(episode.told_at for episode in episodes)
        )
        request = ReadRequest(
            messages=messages,
            context=_messages(earlier),
            now=max(moments, default=now),
            prompt=brought.prompt,
            answers=self._kernel.answers(scope),
            whole=True,
            reference=partial(self._reference, scope, brought.filters, messages),
        )
        reading = await self._kernel.curator.read(request)
        if reading.unread:
            return AddResult([], reading.warnings, waiting=len(episodes))
        sourced = [
            (fact, told_at(fact, moments, now), _sources(fact, episodes, self._kernel.config.episodes))
            for fact in await with_provenance(self._kernel, messages, unnoted(messages, reading.facts), scope, forged)
        ]
        endings = await self._endings(reading, messages, episodes, scope, now=now, forged=forged)
        context = FactContext(
            scope=scope,
            metadata=brought.metadata,
            actor=actor,
            type=brought.type,
            expires_at=brought.expires_at,
            dates=frozenset(each.brought["timestamp"] for each in episodes if "timestamp" in each.brought),
        )
        ids = [episode.id for episode in episodes]
        return await self._reconcile(
            sourced, context, brought.filters, endings=endings, pending=ids, read=ids, warnings=reading.warnings
        )

    async def _endings(
        self,
        reading: Reading,
        messages: Sequence[Message],
        episodes: Sequence[Episode],
        scope: Scope,
        *,
        now: datetime,
        forged: Collection[int] = (),
    ) -> list[tuple[MemoryItem, SourcedFact]]:
        """Return the memories that the user's own words end, each with these words."""
        endings, moments = [], [message.timestamp or now for message in messages]
        clock = iso(self._kernel.clock.moment())
        for item, fact in reading.endings:
            sources = _sources(fact, episodes, self._kernel.config.episodes)
            for proven in await with_provenance(self._kernel, messages, [fact], scope, forged):
                if proven.origin is None and proven.quarantined is None:
                    moment = told_at(fact, moments, now)
                    told = SourcedFact.by(clock, moment, fact=proven, vector=None, sources=sources)
                    endings.append((item, told))
        return endings

    @property
    def _keeps_messages(self) -> bool:
        """Whether messages are stored, so that they can wait to be read."""
        return self._kernel.ledger is not None and self._kernel.config.episodes != "off"

    async def _store_for_later(
        self, addition: Addition, episodes: Sequence[Episode], warnings: Sequence[str]
    ) -> AddResult:
        """Store the messages, which are searched by their words, to be read with later ones."""
        waiting = [replace(episode, pending=True) for episode in episodes]
        async with self._kernel.lock(addition.scope):
            late = await self._kernel.commit((), {}, episodes=waiting)
        return AddResult([], [*warnings, *late], self._kernel.bare, waiting=len(waiting))

    async def _store_as_said(
        self,
        addition: Addition,
        messages: list[Message],
        moments: list[datetime],
        episodes: list[Episode],
        forged: set[int],
    ) -> AddResult:
        embedded = await self._kernel.embedding.texts([message.content for message in messages])
        reasons = await suspected(messages)
        dates = given_dates(addition.timestamp, addition.messages)
        changes: list[Change] = []
        vectors: dict[str, Vector | None] = {}
        ids, event_ids = new_ids(len(messages)), new_ids(len(messages))
        for position, message in enumerate(messages):
            if position in embedded.failed:
                continue
            moment = self._kernel.clock.tick()
            dated = iso(moments[position])
            told = min(dated, moment)
            id = ids[position]
            item = MemoryItem(
                id=id,
                memory=message.content,
                hash=text_hash(message.content),
                scope=addition.scope,
                created_at=moment,
                updated_at=moment,
                told_at=told,
                first_told_at=dated if dated in dates else None,
                valid_from=dated,
                role=message.role,
                speaker=message.name,
                type=addition.type or "semantic",
                metadata=dict(addition.metadata),
                origin=origin_of(message.role),
                quarantined=reasons[position] or (INSTRUCTION if position in forged else None),
                sources=(episodes[position].id,) if self._kernel.config.episodes != "off" else (),
                expires_at=addition.expires_at,
                lineage_id=id if self._kernel.config.updates == "supersede" else None,
                position=position,
            )
            vectors[item.id] = embedded.vectors[position]
            changes.append(
                Change(
                    id=event_ids[position], event="ADD", memory_id=item.id, at=moment, told_at=told, after=item,
                    actor="add", reason="as said", sources=item.sources,
                )
            )  # fmt: skip
        result = AddResult([MemoryEvent.of(change) for change in changes], embedded.warnings, self._kernel.bare)
        key, scope = addition.idempotency_key, addition.scope
        async with self._kernel.lock(scope):
            remembered = await self._kernel.remembered(key, scope)
            if remembered is not None:  # by a call with the same key that came first
                return remembered
            remember = None if key is None else (key, scope, result)
            warnings = await self._kernel.commit(
                changes, vectors, episodes=episodes, remember=remember, said_until=addition.expires_at
            )
        return replace(result, warnings=[*result.warnings, *warnings])

    async def _reconcile(
        self,
        facts: Sequence[tuple[Fact, str, tuple[str, ...]]],
        context: FactContext,
        filters: Filter | None,
        *,
        endings: Sequence[tuple[MemoryItem, SourcedFact]] = (),
        episodes: Sequence[Episode] = (),
        pending: Sequence[str] = (),
        idempotency_key: str | None = None,
        warnings: Sequence[str] = (),
        banded: bool = False,
        again_later: bool = False,
        read: Sequence[str] = (),
    ) -> AddResult:
        """Store the results of reconciling the facts; `pending` are stored messages that have now been read.

        `endings` are memories that the messages end, each unless a fact has changed it.

        Raises ConflictError if a message in `read` has been forgotten or withdrawn: otherwise an erasure during a
        model's call would come back as a fact.

        A fact that could not be embedded is not stored: its messages wait to be read again. With `again_later`, an
        embedder that is down raises EmbeddingError instead.
        """
        kernel = self._kernel
        embedded = await kernel.embedding.texts([_meant(fact) for fact, _, _ in facts])
        if again_later and embedded.down is not None:
            raise embedded.down
        if embedded.failed:
            episodes = [replace(episode, pending=True) for episode in episodes]
        now = iso(kernel.clock.moment())
        sourced = [
            SourcedFact.by(now, moment, fact=explicit_fact(fact), vector=embedded.vectors[position], sources=sources)
            for position, (fact, moment, sources) in enumerate(facts)
            if position not in embedded.failed
        ]
        async with kernel.lock(context.scope):
            remembered = await kernel.remembered(idempotency_key, context.scope)
            if remembered is not None:  # by a call with the same key that came first
                return remembered
            if not await self._stand(read):
                raise ConflictError("what was read has been forgotten since", code=FORGOTTEN)
            within, noted = (self._within(context.scope, filters, kind) for kind in ("facts", NOTES))
            near = Neighbourhood(kernel.store, kernel.collection, within, noted)
            plan = ChangeSet(kernel, context, near, kernel.clock.now())
            plan.warnings += [*warnings, *embedded.warnings]
            await self._decide(plan, sourced, banded)
            for item, told in endings:
                await plan.end(told, item)
            waiting = len(pending) if embedded.failed else sum(episode.pending for episode in episodes)
            waiting = waiting if self._keeps_messages else 0
            result = AddResult(plan.events, plan.warnings, kernel.bare, notes=plan.notes, waiting=waiting)
            remember = None if idempotency_key is None else (idempotency_key, context.scope, result)
            unmet = await self._unmet(sourced, plan) if kernel.config.searches_messages else set[str]()
            late = await kernel.commit(
                plan.changes,
                plan.vectors,
                episodes=[each.hide() if each.id in unmet else each for each in episodes],
                remember=remember,
                said_until=context.expires_at,
            )
            if earlier := unmet.difference(each.id for each in episodes):
                await shielded(hide_messages(kernel, sorted(earlier)))
            if not embedded.failed:
                await kernel.mark_extracted(pending)
        return replace(result, warnings=[*plan.warnings, *late])

    def _within(self, scope: Scope, filters: Filter | None, kind: str) -> And:
        """Return the filter for the rows of a kind that an addition may compare with."""
        apart = all_of(filters, Not(eq("source", SESSION)))
        return visible(scope, now=self._kernel.clock.now(), kinds=(kind,), filters=apart)

    async def _reference(
        self, scope: Scope, filters: Filter | None, messages: Sequence[Message]
    ) -> Sequence[MemoryItem]:
        """Return the trusted facts nearest to what was said, nearest first; none if there are none, or no embedder."""
        kernel = self._kernel
        within = all_of(self._within(scope, filters, "facts"), TRUSTED)
        with degrade("a conversation is read without the memories near it"):
            if not (await kernel.store.list(kernel.collection, within, 1)).points:
                return []
            said = "\n".join(message.content for message in messages)[-REFERENCE_CHARACTERS:]
            (vector,) = (await kernel.embedding.texts([said])).vectors
            if vector is not None:
                hits = await kernel.store.search(kernel.collection, vector, REFERENCES, within)
                return [MemoryItem.from_payload(hit.payload) for hit in hits]
        return []

    async def _decide(self, plan: ChangeSet, sourced: list[SourcedFact], banded: bool) -> None:
        """Decide about each fact and carry it out: exact repeats directly, the others through the curator."""
        kernel = self._kernel
        notes = [each for each in sourced if each.fact.kind == NOTES]
        is_asked = any(each.fact.forget for each in sourced)
        if not is_asked:  # before the facts of the same message, which stand before it where both answer alike
            await self._take_notes(plan, notes)
        sourced = [each for each in sourced if each.fact.kind != NOTES]
        known = await plan.neighbourhood.same_text(
            text_hash(each.fact.text) for each in sourced if not each.fact.forget
        )
        seen: set[str] = set()
        open_facts: list[SourcedFact] = []
        for each in sorted(sourced, key=lambda each: each.fact.quarantined is not None):
            hash = text_hash(each.fact.text)
            if each.fact.forget and may_be_everything(_meant(each.fact)):  # a sentence is too little to erase all by
                plan.note_known(each, None, "everything is not forgotten by a sentence")
                plan.warnings.append(NOT_EVERYTHING)
            elif each.fact.quarantined is not None and each.fact.forget:
                plan.note_known(each, None, "not the user's to ask")
            elif hash in known and hash not in seen and _releases(each, known[hash]):
                seen.add(hash)
                await plan.release(each, known[hash])
            elif not each.fact.forget and (hash in known or hash in seen):
                plan.note_known(each, known[hash].id if hash in known else None, "exact repeat")
            else:
                seen.add(hash)
                if each.fact.quarantined is None:
                    open_facts.append(each)
                else:  # added without a comparison with known memories: it changes nothing, and no model reads it
                    await plan.carry_out(each, [Decision(event="ADD", rule=f"quarantined: {each.fact.quarantined}")])
        given: dict[str, set[int]] = {}  # the messages of this call that gave a memory its text
        for batch in [[each] for each in open_facts] if kernel.curator.one_at_a_time else [open_facts]:
            judged = await self._judge(plan, batch, given, banded)
            for each, first in zip(batch, judged, strict=True):
                decisions = first
                if kernel.curator.asks_again and any(plan.has_changed(decision.target) for decision in first):
                    (decisions,) = await self._judge(plan, [each], given, banded)
                done = len(plan.changes)
                await plan.carry_out(each, decisions)
                for change in plan.changes[done:]:
                    given.setdefault(change.after.id if change.after else "", set()).update(each.fact.sources)
        if is_asked:  # a request to forget takes nothing of what is told beside it
            await self._take_notes(plan, notes)

    async def _judge(
        self, plan: ChangeSet, batch: Sequence[SourcedFact], given: Mapping[str, set[int]], banded: bool
    ) -> list[list[Decision]]:
        limit = RULES_NEIGHBOURS if self._kernel.curator.one_at_a_time else LLM_NEIGHBOURS
        slots = await run_blocking(lambda: [read_slots(each.fact.text) for each in batch])
        near = [
            await plan.neighbourhood.near(each.fact, each.vector, told, limit)
            for each, told in zip(batch, slots, strict=True)
        ]
        near = [
            [replace(other, beside=not given.get(other.item.id, set()).isdisjoint(each.fact.sources)) for other in some]
            for each, some in zip(batch, near, strict=True)
        ]
        answers = self._kernel.answers(plan.context.scope)
        judged = await self._kernel.curator.judge([each.fact for each in batch], near, answers=answers)
        plan.warnings += judged.warnings
        decided = [
            [await self._linked(plan, each, decision) for decision in decisions]
            for each, decisions in zip(batch, judged.decisions, strict=True)
        ]
        if not banded:
            return decided
        return [
            [by_bands(each.fact, plan.context.type, decision, neighbours) for decision in decisions]
            for each, neighbours, decisions in zip(batch, near, decided, strict=True)
        ]

    async def _take_notes(self, plan: ChangeSet, notes: Sequence[SourcedFact]) -> None:
        """Add notes, each text once, linked to what they most likely replace."""
        if not notes:
            return
        known = set(await plan.neighbourhood.same_text((text_hash(each.fact.text) for each in notes), noted=True))
        for each in notes:
            if (hash := text_hash(each.fact.text)) not in known:
                known.add(hash)
                plan.take_note(each, (await self._renewed(plan, each)).links)

    async def _linked(self, plan: ChangeSet, sourced: SourcedFact, decision: Decision) -> Decision:
        """Return the decision with links to notes that it most likely replaces; a sure one is what it changes."""
        if decision.event not in ("ADD", "UPDATE") or sourced.fact.hedged:
            return decision
        renewed = await self._renewed(plan, sourced)
        if decision.event == "ADD" and renewed.over is not None:
            decision = replace(decision, event="UPDATE", target=renewed.over, rule="judged.note")
        links = tuple(id for id in renewed.links if id != decision.target)
        return replace(decision, links=(*decision.links, *links)) if links else decision

    async def _renewed(self, plan: ChangeSet, sourced: SourcedFact) -> Renewed:
        """Return the statements said earlier that a note most likely replaces, or the notes that a fact does."""
        find = partial(plan.neighbourhood.said_before, sourced.vector, sourced.told_at)
        return await self._kernel.curator.renewed(sourced.fact, find)

    async def _unmet(self, sourced: Sequence[SourcedFact], plan: ChangeSet) -> set[str]:
        """Return the messages with the user's requests to forget that changed nothing.

        A search would find there what is to be forgotten. In another language than English a sentence is often neither
        a fact nor a note: then the messages go that tell what such a request names.
        """
        met = {id for change in plan.changes for id in change.hides}
        open_ones = [
            each
            for each in sourced
            if each.fact.forget and each.fact.quarantined is None and met.isdisjoint(each.sources)
        ]
        found = {id for each in open_ones for id in each.sources}
        for each in open_ones:
            if language := each.fact.language:
                scope = plan.context.scope
                found |= await told_in_words(self._kernel, scope, _meant(each.fact), language, each.vector)
        return found

    async def _stand(self, ids: Sequence[str]) -> bool:
        """Whether all of the messages still exist and none was withdrawn."""
        ledger = self._kernel.ledger
        if ledger is None or not ids:
            return True
        standing = {episode.id for episode in await ledger.get_episodes(list(ids)) if not episode.hidden}
        return standing.issuperset(ids)

    def _episodes(
        self, addition: Addition, messages: list[Message], moments: list[datetime], forged: Collection[int]
    ) -> list[Episode]:
        add_id, ids = new_id(), new_ids(len(messages))
        return [
            Episode(
                id=ids[position],
                add_id=add_id,
                position=position,
                role=message.role,
                name=message.name,
                content=message.content,
                message_id=message.id,
                told_at=iso(moments[position]),
                created_at=self._kernel.clock.tick(),
                scope=addition.scope.given(),
                brought=brought_by(addition, message, forged=position in forged),
            )
            for position, message in enumerate(messages)
        ]

    async def _context(self, scope: Scope, moment: datetime) -> list[Message]:
        return _messages(await self._kernel.recent_episodes(scope, CONTEXT_MESSAGES, before=iso(moment)))


def _messages(episodes: Sequence[Episode]) -> list[Message]:
    """Return the messages as they were said, each with the time that was given with it, if that is known."""
    return [
        Message(each.role, each.content, each.name, read_moment(each.brought.get("timestamp") or each.told_at))
        for each in episodes
    ]


def _releases(sourced: SourcedFact, known: MemoryItem) -> bool:
    """Whether the user's or caller's own statement releases a memory from quarantine."""
    mine = sourced.fact.origin is None and sourced.fact.quarantined is None and not sourced.fact.forget
    return mine and known.quarantined is not None


def _meant(fact: Fact) -> str:
    """Return the content of a fact: of a request to forget only what is to be forgotten."""
    return asked_for(fact.text) if fact.forget else fact.text


def _sources(fact: Fact, episodes: Sequence[Episode], mode: str) -> tuple[str, ...]:
    return () if mode == "off" else tuple(episodes[position].id for position in fact.sources)
