"""Explicit changes by the caller: update, delete, undo and rollback."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from perdure.backends.vector_stores.base import Point
from perdure.domain.clock import iso
from perdure.domain.errors import ConflictError, NotFoundError, PerdureError
from perdure.domain.event import AddResult, Change, HistoryRecord, MemoryEvent
from perdure.domain.filter import And, all_of, eq
from perdure.domain.maintenance import MERGE
from perdure.domain.memory import MemoryItem, new_id, text_hash
from perdure.domain.scope import Scope, shared_walls
from perdure.engine.aio.calls import guarded, shielded
from perdure.engine.core.access import UNRESTRICTED, reaches, visible
from perdure.engine.core.batch import Batch, edit, messages_of
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.lookup import cut_from, derived_from, kept_hidden, live_row, summaries_of
from perdure.engine.maintenance.consistency import FROM_FILES
from perdure.pipeline.curation.rules.slots import read_slots
from perdure.pipeline.quarantine import suspect

UNDO = "undo"  # the actor of its events
PAGE = 500  # memories read at a time when a whole scope is processed


@dataclass(slots=True)
class _TakenBack:
    """The reverted changes of one memory, or of one line of memories."""

    first: Change  # the earliest change: the memory is restored to its state before it
    id: str  # the current id, if the memory exists
    hidden: dict[str, bool] = field(default_factory=dict)
    """Messages that the changes touched, and whether the earliest change hid or showed each."""


class Revise:
    """Changes requested by the caller."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @guarded
    async def update(
        self,
        id: str,
        text: str | None,
        metadata: dict[str, Any],
        walls: Scope = UNRESTRICTED,
        times: Mapping[str, str | None] | None = None,
    ) -> MemoryItem:
        """Overwrite a memory's text, unless it is None, keeping its id; the old text stays as a version.

        `times` sets `valid_from`, `valid_to` or `expires_at`, or clears it if it is None.
        """

        def changed(before: MemoryItem) -> MemoryItem:
            after = before.with_(metadata={**before.metadata, **metadata}, **(times or {}))
            if text is None:
                return after
            slots, quarantined = read_slots(text), suspect(text, None)  # from now on it is the caller's statement
            hash = text_hash(text)
            return after.with_(
                memory=text, hash=hash, slots=slots, confidence=1.0, origin=None, quarantined=quarantined
            )

        return await edit(
            self._kernel, id, walls, changed, actor="update", reason="explicit", text=text, even_if_same=True
        )

    @guarded
    async def delete(self, id: str, walls: Scope = UNRESTRICTED) -> None:
        """Delete a memory from all current reads, with the messages that it came from; an `undo` brings them back.

        Its text stays as a version until it is erased.

        A document's fragments are deleted with it, and so are episodic memories that describe it.
        """
        kernel = self._kernel
        standing = (await live_row(kernel, id, walls))[0]
        is_document = standing.meta_type == "document"
        async with kernel.lock(walls if is_document else standing.scope):  # they may be in any room
            before, row = await live_row(kernel, id, walls)
            batch = Batch(kernel.clock)
            hides = await messages_of(kernel, before, row.vector)
            batch.remove(before, row.vector, actor="delete", reason="explicit", hides=hides)
            for row in [*await cut_from(kernel, [before], walls), *await summaries_of(kernel, [before], before.scope)]:
                batch.remove(MemoryItem.from_payload(row.payload), row.vector, actor="delete", reason="derived")
            await kernel.commit(batch.changes, batch.vectors)

    @guarded
    async def delete_all(self, scope: Scope, walls: Scope = UNRESTRICTED) -> int:
        """Delete every memory of the scope, whatever its kind or validity; return how many.

        Fragments of its documents are deleted with it, in any room.
        """
        kernel = self._kernel
        documents = all_of(_everything(kernel, scope), eq("meta_type", "document"))
        found = (await kernel.store.list(kernel.collection, documents)).points
        cut = await cut_from(kernel, [MemoryItem.from_payload(row.payload) for row in found], walls)
        scopes = [MemoryItem.from_payload(row.payload).scope for row in cut]
        async with kernel.lock(shared_walls([scope, *scopes])):
            return await shielded(self._remove_all(scope, walls))

    async def _remove_all(self, scope: Scope, walls: Scope) -> int:
        kernel = self._kernel
        everything = _everything(kernel, scope)
        count = 0
        while True:
            page = await kernel.store.list(kernel.collection, everything, PAGE, with_vectors=True)
            if not page.points:
                return count
            items = {row.id: MemoryItem.from_payload(row.payload) for row in page.points}
            cut = [row for row in await cut_from(kernel, items.values(), walls) if row.id not in items]
            batch = Batch(kernel.clock)
            for row in page.points:
                batch.remove(items[row.id], row.vector, actor="delete_all", reason="explicit")
            for row in cut:
                batch.remove(MemoryItem.from_payload(row.payload), row.vector, actor="delete_all", reason="derived")
            try:
                await kernel.commit(batch.changes, batch.vectors)
            except PerdureError as error:
                if count:
                    error.amend(f"before that {count} memories of the scope were deleted, and stay so")
                raise
            count += len(batch.changes)

    @guarded
    async def undo(self, event_id: str, walls: Scope = UNRESTRICTED) -> AddResult:
        """Revert one event by its inverse; ConflictError if a later event built on it.

        Nothing happens if it has been reverted already, and a warning says so. A merge is reverted whole: the merged
        memory goes and its originals come back, those excepted that were changed since, which stay as they are. A
        deleted document comes back with its fragments.
        """
        kernel = self._kernel
        item = (await kernel.event(event_id))[0].item
        scope = item.scope
        if not reaches(walls, scope):
            raise NotFoundError(f"there is no event with the id {event_id!r}")
        async with kernel.lock(walls if item.meta_type == "document" else scope):  # its fragments are in any room
            change, sequence = await kernel.event(event_id)  # again: it may have been erased meanwhile
            later = await self._later(change, sequence)
            if any(record.undoes == change.id for record in later):
                return self._result(
                    Batch(kernel.clock), f"event {event_id} had been undone already: nothing is changed"
                )
            if later:
                raise ConflictError(
                    f"event {event_id} cannot be undone: {await self._what_followed(later[0])}; undo that one first"
                )
            batch = Batch(kernel.clock)
            lines = {
                part.id: _TakenBack(part, part.item.id, dict.fromkeys(part.hides, part.event == "DELETE"))
                for part in (
                    change,
                    *await self._rest_of_merge(change),
                    *await self._rest_of_deletion(change, sequence, walls),
                )
            }
            await self._leave_hidden(lines.values(), scope)
            into = change.memory_id if change.event == "DELETE" else None
            for id, line in lines.items():
                reason = f"takes back {change.id}"  # of each part: an undo of this undo finds them all by it
                await self._restore(batch, line, actor=UNDO, reason=reason, undoes=id, replaced_by=into)
            await kernel.commit(batch.changes, batch.vectors)
        return self._result(batch)

    async def _later(self, change: Change, sequence: int) -> list[HistoryRecord]:
        """Return later changes of the same memory or its line that still hold, newest first.

        An event and the one that undid it are both left out; what undid this event or an earlier one is not. So are
        the two of a memory in files that left with a branch and came back with it, or came and left again.
        """
        later = [record for record in await self._kernel.history(change.memory_id) if record.sequence > sequence]
        ids = {record.id for record in later}
        standing: list[HistoryRecord] = []
        taken_back: set[str] = set()
        for record in sorted(later, key=lambda record: -record.sequence):  # newest first: an undo may be undone
            if record.id in taken_back:
                continue
            if record.undoes in ids:
                taken_back.add(record.undoes)
            elif standing and _went_and_came(record, standing[-1]):
                standing.pop()
            else:
                standing.append(record)
        return standing

    async def _what_followed(self, later: HistoryRecord) -> str:
        """Say which later event changed a memory; for a merge, the event whose undo reverts the whole of it."""
        deleted: Change | None = None
        if later.actor == MERGE and later.event == "DELETE":
            with suppress(ConflictError):  # imported without its change
                deleted = (await self._kernel.event(later.id))[0]
        into = None if deleted is None or deleted.keep is None else deleted.keep.replaced_by
        for record in [] if into is None else await self._kernel.history(into):
            if record.memory_id == into and record.actor == MERGE and record.event == "ADD":
                return f"event {record.id} merged the same memory into another after it"
        return f"event {later.id} changed the same memory after it"

    async def _rest_of_merge(self, change: Change) -> list[Change]:
        """Return what a merge, or the undo of one, did to the originals, unless they were changed since.

        `change` is what the same act did to the merged memory. ConflictError if the text of an original was erased, or
        if none of them would be left.
        """
        kernel, merged = self._kernel, change.item
        is_merge = change.actor == MERGE and change.event == "ADD"
        found: list[Change] = []
        stands = not is_merge
        for id in merged.derived_from if is_merge or change.actor == UNDO else ():
            records = await kernel.history(id)
            stands = stands or (bool(records) and not records[-1].is_deleted)
            for record in records:
                of_merge = is_merge and record.actor == MERGE and record.event == "DELETE"
                of_undo = not is_merge and record.actor == UNDO and record.reason == change.reason
                if record.memory_id != id or not (of_merge or of_undo):
                    continue
                try:
                    part, sequence = await kernel.event(record.id)
                except ConflictError as error:
                    error.amend(
                        f"it was merged into memory {merged.id}: undo the deletion of each of the others that is to"
                        f" come back, and delete that memory"
                    )
                    raise
                of_another = is_merge and part.keep is not None and part.keep.replaced_by != merged.id
                if not of_another and not await self._later(part, sequence):
                    found.append(part)
        if not (found or stands):
            raise ConflictError(
                f"event {change.id} cannot be undone: all that it merged was deleted otherwise since, and nothing would"
                f" be left; delete memory {merged.id} if it is to go"
            )
        return found

    async def _rest_of_deletion(self, change: Change, sequence: int, walls: Scope) -> list[Change]:
        """Return what a document's deletion, or the undo of one, did to its fragments, unless they changed since."""
        kernel, document = self._kernel, change.item
        if document.meta_type != "document" or not (change.event == "DELETE" or change.actor == UNDO):
            return []
        rows = await derived_from(kernel, [document.id], [document.scope], walls)
        how = (UNDO, change.reason) if change.actor == UNDO else (change.actor, "derived")
        found: list[Change] = []
        for id in dict.fromkeys(str(row.payload.get("version_of", row.id)) for row in rows):
            for record in await kernel.history(id):
                if record.sequence > sequence and (record.actor, record.reason) == how:
                    part, moment = await kernel.event(record.id)
                    if not await self._later(part, moment):
                        found.append(part)
        return found

    @guarded
    async def rollback(self, scope: Scope, to: datetime) -> AddResult:
        """Restore the scope's memories to their state at a clock time, by inverse events."""
        kernel = self._kernel
        async with kernel.lock(scope):
            lines: dict[str, _TakenBack] = {}
            for change in await kernel.events_since(scope, iso(to)):  # newest first
                line = lines.setdefault(change.item.lineage_id or change.memory_id, _TakenBack(change, change.item.id))
                line.first = change
                line.hidden.update(dict.fromkeys(change.hides, change.event == "DELETE"))
            await self._ask_files(lines, scope, to)
            await self._leave_hidden(lines.values(), scope)
            batch = Batch(kernel.clock)
            for line in lines.values():
                await self._restore(batch, line, actor="rollback", reason="rollback")
            await kernel.commit(batch.changes, batch.vectors)
        return self._result(batch)

    async def _ask_files(self, lines: dict[str, _TakenBack], scope: Scope, to: datetime) -> None:
        """For memories that arrived as files after that time, take the state from the files' own versions."""
        came = [line for line in lines.values() if line.first.event == "ADD" and line.first.actor == FROM_FILES]
        stood = (
            await self._kernel.file_observer.state_at(scope, to)
            if came and self._kernel.file_observer is not None
            else {}
        )
        for line in came:
            line.first = replace(line.first, before=stood.pop(line.first.memory_id, None))
        for id, item in stood.items():
            later = lines.get(item.lineage_id or id)
            if later is not None and later in came and later.first.before is None:
                later.first = replace(later.first, before=item)  # the current memory replaced it
            elif later is None and await self._point(id) is None and not await self._kernel.history(id):
                moment = self._kernel.clock.tick()
                gone = Change(id=new_id(), event="DELETE", memory_id=id, at=moment, told_at=moment, before=item)
                lines[id] = _TakenBack(gone, id)

    async def _leave_hidden(self, lines: Collection[_TakenBack], scope: Scope) -> None:
        """Drop the messages that would be shown again, but of which another memory was deleted and stays so."""
        restored = {line.id for line in lines if line.first.before is not None}
        shown = {id for line in lines if line.id in restored for id, hidden in line.hidden.items() if hidden}
        for id in await kept_hidden(self._kernel, shown, restored, [scope], UNRESTRICTED):
            for line in lines:
                line.hidden.pop(id, None)

    async def _restore(
        self,
        batch: Batch,
        taken_back: _TakenBack,
        *,
        actor: str,
        reason: str,
        undoes: str | None = None,
        replaced_by: str | None = None,
    ) -> None:
        """Restore a memory's earlier state (or its absence) from its current state."""
        target, standing = taken_back.first.before, await self._point(taken_back.id)
        now = None if standing is None else MemoryItem.from_payload(standing.payload)
        old = None if standing is None else standing.vector
        if now is not None and target is None:
            hides = tuple(id for id, hidden in taken_back.hidden.items() if not hidden)
            batch.remove(now, old, actor=actor, reason=reason, undoes=undoes, hides=hides, replaced_by=replaced_by)
        elif now is None and target is not None:
            vector = await self._kernel.embedding.query(target.memory)
            shows = tuple(id for id, hidden in taken_back.hidden.items() if hidden)
            batch.revive(target, vector, actor=actor, reason=reason, undoes=undoes, hides=shows)
        elif now is not None and target is not None and not _says_the_same(now, target):
            vector = await self._kernel.embedding.query(target.memory)
            target = target.with_(access_count=now.access_count, last_accessed_at=now.last_accessed_at)
            batch.replace(now, target, old, vector, actor=actor, reason=reason, undoes=undoes)

    async def _point(self, id: str) -> Point | None:
        point = await self._kernel.store.get(self._kernel.collection, id)
        return None if point is None or point.payload.get("state") != "live" else point

    def _result(self, batch: Batch, *warnings: str) -> AddResult:
        events: Sequence[MemoryEvent] = [MemoryEvent.of(change) for change in batch.changes]
        return AddResult(list(events), list(warnings), bare=self._kernel.bare)


def _everything(kernel: Kernel, scope: Scope) -> And:
    """All that stands in a scope, valid still or not."""
    return visible(scope, now=kernel.clock.now(), kinds=(), include_past=True)


def _says_the_same(now: MemoryItem, target: MemoryItem) -> bool:
    """Whether a memory is unchanged except for its time and its recall counts."""
    return now == target.with_(
        updated_at=now.updated_at,
        told_at=now.told_at,
        version=now.version,
        access_count=now.access_count,
        last_accessed_at=now.last_accessed_at,
    )


def _went_and_came(earlier: HistoryRecord, later: HistoryRecord) -> bool:
    """Whether a memory's file went and came back, or came and went, with one text: as by switching branches."""
    by_files = earlier.actor == later.actor == FROM_FILES and earlier.memory_id == later.memory_id
    if not by_files or earlier.erased or {earlier.event, later.event} != {"ADD", "DELETE"}:
        return False
    return (earlier.new_value or earlier.old_value) == (later.new_value or later.old_value)
