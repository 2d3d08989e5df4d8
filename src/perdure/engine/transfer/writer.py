"""The writing half of an import, a chunk of lines of one kind at a time, each chunk idempotent.

Rows are written first, then their history, then the messages: after a kill in between, the same import skips what
exists and writes the rest. Nothing that was changed, deleted or forgotten here after the archive was written comes
back: the target's state wins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Generic, TypeVar

from perdure.backends.vector_stores.base import Point
from perdure.domain.clock import SKEW, iso
from perdure.domain.errors import InvalidInputError
from perdure.domain.event import Change, Episode, HistoryRecord
from perdure.domain.filter import Condition, Not, all_of, eq, scope_filter
from perdure.domain.memory import LIVE, MemoryItem, new_id
from perdure.domain.scope import Scope
from perdure.engine.core.embedding import with_derived, with_kept
from perdure.engine.core.lookup import scan_episodes, tell_what_is_deleted
from perdure.engine.core.rows import episode_item
from perdure.engine.engine import Engine
from perdure.engine.transfer.archive import ConversationLine, Event, FactLine, Header, Line, Row, at_moment
from perdure.engine.transfer.report import ImportReport
from perdure.pipeline.curation.rules.slots import read_slots
from perdure.pipeline.quarantine import suspect

PAGE = 500  # episodes read at a time
Kept = Callable[[ImportReport], object]  # called with the report each time that more is stored
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Numbered(Generic[T]):
    """A line with its number in the file, from 1."""

    number: int
    line: T
    where: str = ""  # its place in another tool's export


class ImportWriter:
    """Writes lines into an engine, and keeps the state of one import."""

    def __init__(self, engine: Engine, report: ImportReport, kept: Kept | None = None) -> None:
        self._engine = engine
        self._kept = kept
        self._kernel = engine.kernel
        self._report = report
        self._has_past = False
        """Whether the ledger had history before: only then can anything have happened to a memory here."""
        self._seen: set[str] = set()  # live memories of the archive that now exist here too
        self._untold: set[str] = set()  # those of them without any history so far
        self._ahead: set[str] = set()  # memories that were changed, deleted or forgotten here since: left as they are
        self._forgotten: set[str] = set()  # messages that were erased here with their memories
        self._is_open = False
        self._repeats: Counter[str] = Counter()
        self._brings_vectors = False  # whether the rows have vectors of the current embedder

    def begin(self, header: Header) -> None:
        """Begin an archive: its vectors are used if they are of the current embedder."""
        self._brings_vectors = header.embedder == self._kernel.embedding.embedder.label

    async def _open(self) -> None:
        """Open the target and read its state, once and before the first line: a file without any makes no memory."""
        if self._is_open:
            return
        await self._kernel.ready()
        self._is_open = True
        if self._kernel.ledger is not None:
            self._has_past = (await self._kernel.ledger.stats())["history"] > 0
        else:
            self._report.warn(["there is no ledger (it could not be opened): history and messages are not imported"])

    async def known_messages(self, scope: Scope) -> set[str]:
        """Return the original ids of the scope's messages, hidden too, by which repeated exports are recognised."""
        await self._open()
        known: set[str] = set()
        async for episodes in scan_episodes(self._kernel.ledger, scope, include_hidden=True):
            known.update(each.message_id for each in episodes if each.message_id and each.scope == scope.given())
        return known

    async def take(self, chunk: Sequence[Numbered[Line]]) -> None:
        """Write lines of one kind; a rejected one does not affect the others."""
        if not chunk:
            return
        await self._open()
        try:
            await self._write([numbered.line for numbered in chunk])
        except InvalidInputError as error:
            if len(chunk) == 1:
                self._report.refuse(chunk[0].number, error.message, chunk[0].where)
                return
            for numbered in chunk:
                await self.take([numbered])

    async def finish(self) -> None:
        """Write a history for memories without one in the archive, and force all to the disk."""
        if self._is_open:
            await self._complete_history()
            await self._kernel.sync()

    async def _complete_history(self) -> None:
        ledger = self._kernel.ledger
        if ledger is None:
            return
        for ids in _pieces(sorted(self._untold), 500):
            async with self._kernel.lock(Scope()):
                points = await self._kernel.store.get_many(self._kernel.collection, ids)
                bare = [
                    MemoryItem.from_payload(point.payload) for point in points if not await ledger.history(point.id)
                ]
                await ledger.record([_import_of(item, item.created_at) for item in bare])

    async def _write(self, lines: Sequence[Line]) -> None:
        first = lines[0]
        if isinstance(first, Row):
            await self._rows([line for line in lines if isinstance(line, Row)])
        elif isinstance(first, Event):
            await self._events([line for line in lines if isinstance(line, Event)])
        elif isinstance(first, Episode):
            await self._episodes([line for line in lines if isinstance(line, Episode)])
        elif isinstance(first, FactLine):
            await self._stated([line for line in lines if isinstance(line, FactLine)])
        else:
            for line in lines:
                if isinstance(line, ConversationLine):
                    await self._said(line)
                    self._tell()
        self._tell()

    def _tell(self) -> None:
        if self._kept is not None:
            self._kept(self._report)

    async def _rows(self, rows: Sequence[Row]) -> None:
        kernel = self._kernel
        wanted = await self._fresh(rows)  # checked twice, so that nobody waits during the embedding
        bare = [row for row in wanted if not self._is_embedded(row)]
        embedded = await kernel.embedding.texts([row.payload["memory"] for row in bare])
        vectors = {row.id: vector for row, vector in zip(bare, embedded.vectors, strict=True)}
        async with kernel.lock(Scope()):
            fresh = await self._fresh(rows)
            made = [Point(row.id, vectors.get(row.id), row.payload) for row in fresh if not self._is_embedded(row)]
            dimension = kernel.embedding.embedder.dimension
            brought = [
                with_kept(Point(row.id, row.vector, row.payload), dimension) for row in fresh if self._is_embedded(row)
            ]
            points = [*brought, *await with_derived(kernel.embedding, made)]
            if points:  # the vectors of their words are computed at their first search
                await kernel.store.apply(kernel.collection, points)
        if kernel.change_observer is not None:
            live = [row for row in fresh if row.is_live and not row.is_message]
            await kernel.change_observer.arrived([MemoryItem.from_payload(row.payload) for row in live])
        self._note_live(row for row in fresh if row.is_live and not row.is_message)
        self._report.count("memories", new=len(fresh), skipped=len(rows) - len(fresh))

    def _is_embedded(self, row: Row) -> bool:
        dimension = self._kernel.embedding.embedder.dimension
        return self._brings_vectors and row.vector is not None and len(row.vector) == dimension

    async def _fresh(self, rows: Sequence[Row]) -> list[Row]:
        known = {point.id: point.payload for point in await self._stored([row.id for row in rows])}
        self._has_past = self._has_past or bool(known)  # another import may be running
        for row in rows:
            if row.is_live and not row.is_message and row.id in known and row.id not in self._ahead:
                if row.says_the_same(known[row.id]):
                    self._note_live([row])
                else:
                    self._ahead.add(row.id)
        await self._note_moved_on(row.memory_id for row in rows if not row.is_live)
        fresh: dict[str, Row] = {}
        for row in rows:
            if row.id not in known and not await self._is_obsolete(row):
                fresh[row.id] = row
        return list(fresh.values())

    async def _is_obsolete(self, row: Row) -> bool:
        if row.is_message:
            return row.id in self._forgotten
        return row.memory_id in self._ahead or await self._has_ended(row)

    async def _has_ended(self, row: Row) -> bool:
        """Whether a missing row's memory existed here once, and was deleted (a live row) or forgotten."""
        last = await self._last_event(row.memory_id)
        if last is None or not (last.erased or (row.is_live and last.event == "DELETE")):
            return False
        self._ahead.add(row.memory_id)
        if last.erased:
            self._forgotten.update(row.payload.get("sources", ()))
        return True

    async def _last_event(self, memory_id: str) -> HistoryRecord | None:
        ledger = self._kernel.ledger
        if ledger is None or not self._has_past:
            return None
        own = [record for record in await ledger.history(memory_id) if record.memory_id == memory_id]
        return own[-1] if own else None

    async def _note_moved_on(self, memory_ids: Iterable[str]) -> None:
        asked = sorted({id for id in memory_ids if id not in self._seen and id not in self._ahead})
        self._ahead.update(point.id for point in await self._stored(asked))

    def _note_live(self, rows: Iterable[Row]) -> None:
        for row in rows:
            if row.id not in self._seen:
                self._seen.add(row.id)
                self._untold.add(row.id)

    async def _stored(self, ids: Sequence[str]) -> list[Point]:
        return await self._kernel.store.get_many(self._kernel.collection, ids) if ids else []

    async def _events(self, events: Sequence[Event]) -> None:
        ledger = self._kernel.ledger
        if ledger is None:
            raise InvalidInputError("there is no ledger to keep history in")
        new = 0
        async with self._kernel.lock(Scope()):
            open_events = {event.record.id: event for event in await self._open_events(events)}
            fresh = [event for event in open_events.values() if not await self._is_known(event)]
            for run in _runs(fresh):
                changes = [event.change for event in run if event.change is not None]
                if changes:
                    await ledger.record(changes)
                    new += len(changes)
                else:
                    new += await ledger.import_history([event.record for event in run])
        self._untold.difference_update(event.record.memory_id for event in events)
        self._report.count("history", new=new, skipped=len(events) - new)

    async def _open_events(self, events: Sequence[Event]) -> list[Event]:
        """Return the events of memories whose state here equals the archive's."""
        await self._note_moved_on(event.record.memory_id for event in events)
        taken = [event for event in events if event.record.memory_id not in self._ahead]
        if not self._has_past:
            return taken
        for event in taken:
            last = await self._last_event(event.record.memory_id)
            if last is not None and last.erased:
                self._ahead.add(event.record.memory_id)
        for event in events:
            if event.record.memory_id in self._ahead and event.change is not None:
                await self._note_forgotten(event.change)
        return [event for event in taken if event.record.memory_id not in self._ahead]

    async def _note_forgotten(self, change: Change) -> None:
        last = await self._last_event(change.memory_id)
        if last is not None and last.erased:
            self._forgotten.update((*change.sources, *change.item.sources))

    async def _is_known(self, event: Event) -> bool:
        ledger = self._kernel.ledger
        assert ledger is not None, "the caller has looked"
        return self._has_past and await ledger.history_record(event.record.id) is not None

    async def _episodes(self, episodes: Sequence[Episode]) -> None:
        kernel = self._kernel
        if kernel.ledger is None:
            raise InvalidInputError("there is no ledger to keep messages in")
        kept = [episode for episode in episodes if episode.id not in self._forgotten]
        if kernel.config.episodes == "off":
            kept = []
        async with kernel.lock(Scope()):
            new = await kernel.ledger.insert_episodes(kept)
        if kernel.config.searches_messages:
            await self._make_searchable([episode for episode in kept if not episode.hidden])
        self._report.count("episodes", new=new, skipped=len(episodes) - new)

    async def _make_searchable(self, episodes: Sequence[Episode]) -> None:
        """Index messages of an archive written while messages were not searched, except those of deleted memories."""
        ids = [episode.id for episode in episodes]
        known = {point.id for point in await self._stored(ids)}
        as_said = all_of(Condition("sources", "in", tuple(ids)), Not(eq("role", "memory")))
        for point in (await self._kernel.store.list(self._kernel.collection, as_said)).points if ids else []:
            known.update(point.payload.get("sources", ()))  # these are memories themselves
        known |= await tell_what_is_deleted(self._kernel, [each for each in episodes if each.id not in known])
        missing = [episode for episode in episodes if episode.id not in known]
        embedded = await self._kernel.embedding.texts([episode.content for episode in missing])
        points = [
            Point(episode.id, vector, episode_item(episode).to_payload())
            for episode, vector in zip(missing, embedded.vectors, strict=True)
        ]
        if points:
            points = await with_derived(self._kernel.embedding, points)
            await self._kernel.put_rows(points)

    async def _stated(self, facts: Sequence[FactLine]) -> None:
        kernel = self._kernel
        here = {point.id: point.payload for point in await self._stored(sorted({fact.item.id for fact in facts}))}
        wanted: dict[str, FactLine] = {}
        for fact in facts:
            if fact.item.id in here:
                self._note_differing(fact, here[fact.item.id])
            else:
                self._note_differing(fact, wanted.setdefault(fact.item.id, fact).item.to_payload())
        embedded = await kernel.embedding.texts([fact.item.memory for fact in wanted.values()])
        vectors = dict(zip(wanted, embedded.vectors, strict=True))
        slots = {id: read_slots(fact.item.memory) for id, fact in wanted.items()}  # slow, so only for new ones
        async with kernel.lock(Scope()):
            known = {point.id for point in await self._stored(list(wanted))}
            said = await self._said_already([fact.item for fact in facts if not fact.has_own_id])
            changes, ahead = [], 0
            for id, fact in wanted.items():
                repeats = not fact.has_own_id and (fact.item.scope, fact.item.hash) in said
                if not (id in known or repeats or await self._was_deleted(id)):
                    moment = kernel.clock.tick()
                    item = fact.item.with_(slots=slots[id], quarantined=suspect(fact.item.memory, None))
                    changes.append(_import_of(at_moment(item, moment), moment))
                    ahead += item.told_at > iso(kernel.clock.now() + SKEW)
                    said.add((fact.item.scope, fact.item.hash))
            self._report.warn(await kernel.commit(changes, vectors))
        if ahead:
            told = "1 fact is" if ahead == 1 else f"{ahead} facts are"
            self._report.warn([f"{told} dated later than now: told now, and true from that date on"])
        self._note_ignored(facts)
        self._report.count("facts", new=len(changes), skipped=len(facts) - len(changes))

    def _note_differing(self, fact: FactLine, payload: Mapping[str, Any]) -> None:
        """Report a fact that is skipped because another exists under its id."""
        told = {"memory": fact.item.memory, **fact.item.scope.given()}
        if any(payload.get(name) != value for name, value in told.items()):
            self._report.leave("here already under its id, with another text or scope: that one stays", fact.where)

    async def _said_already(self, items: Sequence[MemoryItem]) -> set[tuple[Scope, str]]:
        """Return the scopes and hashes of texts that already exist here."""
        hashes: dict[Scope, list[str]] = {}
        for item in items:
            hashes.setdefault(item.scope, []).append(item.hash)
        found: set[tuple[Scope, str]] = set()
        for scope, some in hashes.items():
            same = all_of(scope_filter(scope), Condition("hash", "in", tuple(some)), eq("state", LIVE))
            page = await self._kernel.store.list(self._kernel.collection, same)
            found.update((scope, point.payload["hash"]) for point in page.points)
        return found

    async def _was_deleted(self, memory_id: str) -> bool:
        last = await self._last_event(memory_id)
        return last is not None and last.event == "DELETE"

    async def _said(self, said: ConversationLine) -> None:
        """Add one conversation; its key identifies the same line at the same place."""
        self._repeats[said.digest] += 1
        key = f"import:{said.digest}:{1 if said.is_part else self._repeats[said.digest]}"
        kind, count = ("messages", len(said.addition.messages)) if said.is_part else ("conversations", 1)
        self._note_ignored([said])
        if await self._kernel.remembered(key, said.addition.scope) is not None:
            self._report.count(kind, skipped=count)
            return
        result = await self._engine.write.add(replace(said.addition, idempotency_key=key, whole=True))
        for event in result.results:
            self._report.events[event.event] = self._report.events.get(event.event, 0) + 1
        self._report.warn(result.warnings)
        self._report.usage += result.usage
        self._report.count(kind, new=count)

    def _note_ignored(self, lines: Sequence[FactLine | ConversationLine]) -> None:
        new = {key for line in lines for key in line.ignored} - set(self._report.ignored)
        if new:
            self._report.ignored = sorted({*self._report.ignored, *new})


def _import_of(item: MemoryItem, moment: str) -> Change:
    return Change(
        id=new_id(), event="ADD", memory_id=item.id, at=moment, told_at=item.told_at, after=item,
        actor="import", reason="imported", sources=item.sources,
    )  # fmt: skip


def _runs(events: Sequence[Event]) -> list[list[Event]]:
    """Split events into runs that the ledger stores in the given order: with a change, or bare with ascending times."""
    runs: list[list[Event]] = []
    for has_change, group in groupby(events, key=lambda event: event.change is not None):
        for event in group:
            follows = runs and (runs[-1][-1].change is not None) == has_change
            if follows and (has_change or runs[-1][-1].record.timestamp <= event.record.timestamp):
                runs[-1].append(event)
            else:
                runs.append([event])
    return runs


def _pieces(values: Sequence[str], size: int) -> list[Sequence[str]]:
    return [values[start : start + size] for start in range(0, len(values), size)]
