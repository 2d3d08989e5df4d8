"""Repair what the doctor found; each step checks again under the lock before it changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from perdure.backends.ledgers.base import Ledger
from perdure.backends.markdown.base import FileStore
from perdure.backends.vector_stores.base import Point
from perdure.domain.clock import iso
from perdure.domain.event import Change, Episode, Event, HistoryRecord
from perdure.domain.filter import Condition, Not, all_of, eq
from perdure.domain.memory import LIVE, MemoryItem, new_id
from perdure.domain.scope import SCOPE_FIELDS, Scope
from perdure.engine.aio.calls import degrade
from perdure.engine.core.embedding import wanting, with_derived
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.lookup import scan_episodes, tell_what_is_deleted
from perdure.engine.core.rows import episode_item
from perdure.engine.engine import Engine
from perdure.engine.maintenance.consistency import missing_episodes, rift_between
from perdure.engine.maintenance.last_events import history_pages, last_word, moment_of
from perdure.engine.transfer.backup_erasure import erase_from_backups
from perdure.pipeline.curation.rules.slots import read_slots
from perdure.pipeline.quarantine import suspect

# Rebuild rows that the vector store has lost from the changes that the ledger keeps.
#
# Only texts that the ledger still has come back; forgotten ones are erased there. Existing rows are not changed.

PAGE = 500  # records, messages and rows read at a time


@dataclass(slots=True)
class Rebuilt:
    """Number of restored rows."""

    memories: int = 0
    versions: int = 0
    messages: int = 0


@dataclass(slots=True)
class _Line:
    first: str  # when it was first recorded
    last: HistoryRecord
    whole: HistoryRecord | None = None  # the last record with a full change, with the memory after it

    @property
    def stands(self) -> bool:
        """Whether history ends with a readable text."""
        return self.last.event != "DELETE" and not self.last.erased

    def note_whole(self, record: HistoryRecord) -> None:
        """Note a record with a full change."""
        if record.event != "DELETE" and (self.whole is None or moment_of(record) > moment_of(self.whole)):
            self.whole = record


class Rebuilder:
    """Restores rows under the lock of all writers."""

    def __init__(self, kernel: Kernel, ledger: Ledger) -> None:
        self._kernel = kernel
        self._ledger = ledger
        self.done = Rebuilt()

    async def memories(self, lost: set[str]) -> None:
        """Restore memories that exist according to history, and earlier texts that the store has lost as well."""
        lines: dict[str, _Line] = {}
        erased: set[str] = set()
        async for records in history_pages(self._ledger):
            erased.update(record.memory_id for record in records if record.erased)
            for record in records:
                _note(lines, record)
        async for records in history_pages(self._ledger):
            changes = await self._ledger.events([record.id for record in records])
            for record in records:
                if record.id in changes and record.memory_id in lost:
                    lines[record.memory_id].note_whole(record)
            kept = [change.keep for change in changes.values() if change.keep is not None]
            self.done.versions += await self._put([item for item in kept if item.version_of not in erased])
        wanted = [line for id, line in sorted(lines.items()) if id in lost and line.stands]
        for start in range(0, len(wanted), PAGE):
            some = wanted[start : start + PAGE]
            changes = await self._ledger.events([line.whole.id for line in some if line.whole is not None])
            items = [_as_told(line, changes.get(line.whole.id) if line.whole else None) for line in some]
            self.done.memories += await self._put(items)

    async def messages(self) -> None:
        """Restore the messages that the configuration makes searchable, except those of deleted memories."""
        if not self._kernel.config.searches_messages:
            return
        async for episodes in scan_episodes(self._ledger, Scope()):
            away = await self._as_said(episodes)
            away |= await tell_what_is_deleted(self._kernel, episodes)
            self.done.messages += await self._put([episode_item(each) for each in episodes if each.id not in away])

    async def _as_said(self, episodes: Sequence[Episode]) -> set[str]:
        """Return the messages that are memories themselves, and need no row of their own."""
        ids = {episode.id for episode in episodes}
        if not ids:
            return ids
        filters = all_of(Condition("sources", "in", tuple(sorted(ids))), Not(eq("role", "memory")))
        found = (await self._kernel.store.list(self._kernel.collection, filters)).points
        return {source for point in found for source in point.payload.get("sources", ()) if point.id not in ids}

    async def _put(self, items: Sequence[MemoryItem]) -> int:
        """Write the rows that the store lacks; return how many."""
        kernel = self._kernel
        there = await kernel.store.get_many(kernel.collection, [item.id for item in items])
        standing = {point.id for point in there}
        missing = [item for item in items if item.id not in standing]
        if not missing:
            return 0
        missing = await self._without_forgotten_sources(missing)
        embedded = await kernel.embedding.texts([item.memory for item in missing])
        points = [
            Point(item.id, vector, item.to_payload()) for item, vector in zip(missing, embedded.vectors, strict=True)
        ]
        await kernel.put_rows(await with_derived(kernel.embedding, points))
        return len(points)

    async def _without_forgotten_sources(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Remove sources that were forgotten after the ledger recorded them."""
        if self._kernel.config.episodes == "off":
            return list(items)
        named = sorted({source for item in items for source in item.sources})
        kept = {episode.id for episode in await self._ledger.get_episodes(named)} if named else set()
        return [
            item.with_(sources=tuple(source for source in item.sources if source in kept)) if item.sources else item
            for item in items
        ]


def _note(lines: dict[str, _Line], record: HistoryRecord) -> None:
    line = lines.setdefault(record.memory_id, _Line(record.timestamp, record))
    line.first = min(line.first, record.timestamp)
    if moment_of(record) > moment_of(line.last):
        line.last = record


def _as_told(line: _Line, change: Change | None) -> MemoryItem:
    """Build a memory from history: complete if a change contains it, else from a record's data."""
    record, item = line.last, None if change is None else change.after
    text = record.new_value or ""
    if item is None:
        told = record.told_at or record.timestamp
        scope = Scope(**{name: getattr(record, name) for name in SCOPE_FIELDS})
        return MemoryItem.new(
            record.memory_id,
            text,
            scope,
            told,
            created_at=line.first,
            updated_at=record.timestamp,
            slots=read_slots(text),
            quarantined=suspect(text, None),
            state=LIVE,
        )
    if item.memory != text:  # a record from elsewhere is later than the last full change
        item = item.with_text(text, slots=read_slots(text), updated_at=record.timestamp)
    return item


BATCH = 256  # rows embedded, records written and messages read at a time


class Repairer:
    """Steps of a repair; `done`, `failed` and `remarks` collect sentences about their results."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kernel = engine.kernel
        self.done: list[str] = []
        self.failed: list[str] = []
        self.remarks: list[str] = []

    async def rebuild_store(self) -> None:
        """Have the store rebuild its text index and its file from its rows."""
        kernel = self._kernel
        rebuilt = False
        with degrade("the store could not be rebuilt", self.failed):
            rebuilt = await kernel.store.scrub()
            if not rebuilt:
                self.failed.append("the store is rebuilt when the other process that has it open closes it")
        if rebuilt:
            left = await kernel.store.check(kernel.collection)
            self.failed.extend(f"the store was rebuilt, but: {sentence}" for sentence in left)
            if not left:
                self.done.append("rebuilt the store's text index from its rows")

    async def embed_missing(self) -> None:
        """Embed rows without a vector."""
        kernel = self._kernel
        count = 0
        while kernel.embedding.available:
            points = await wanting(kernel.store, kernel.collection, BATCH)
            embedded = await kernel.embedding.texts([point.payload.get("memory", "") for point in points])
            step = 0
            for point, vector in zip(points, embedded.vectors, strict=True):
                if vector is not None:
                    with degrade(f"the row {point.id} went meanwhile"):
                        await kernel.store.update(kernel.collection, point.id, vector=vector)
                        step += 1
            count += step
            if not step:
                self.failed.extend(embedded.warnings)
                break
        if count:
            self.done.append(f"embedded {count} rows")

    async def look_again(self, memory_ids: set[str]) -> None:
        """Have the graph read memories again, and retry its failed jobs."""
        check = self._engine.graph_check
        assert check is not None, "without a graph nothing was found there"
        with degrade("the graph could not be mended", self.failed):
            left = await check.look_again(sorted(memory_ids - {""}))
            self.done.append("let the graph look again at its memories")
            if left:
                self.failed.append(f"{left} jobs of the graph are not done yet")

    async def bring_back(self, lost: set[str]) -> None:
        """Write rows that the store has lost again, from the ledger's data."""
        kernel, ledger = self._kernel, self._ledger()
        found = kernel.loss_check.store_place
        rebuilding, replayed, written = Rebuilder(kernel, ledger), 0, 0
        with degrade("what the store has lost could not be rebuilt", self.failed):
            async with kernel.lock(Scope()):
                written = await self._write_files()
                for identity in found.gone if found else ():
                    replayed += await kernel.replay(ledger, identity)
                await rebuilding.memories(lost)
                if kernel.loss_check.warning is not None:
                    await rebuilding.messages()
                await kernel.store.sync()
        for count, what in (
            (replayed, "applied {} batches of changes that were written for the store that is gone"),
            (written, "wrote the files of {} memories, versions and messages anew from the index"),
            (rebuilding.done.memories, "rebuilt {} memories from what the ledger has kept of them"),
            (rebuilding.done.versions, "rebuilt {} earlier versions"),
            (rebuilding.done.messages, "made {} messages searchable again"),
        ):
            if count:
                self.done.append(what.format(count))
        with degrade("it cannot be told whether all of it came back", self.failed):
            await kernel.loss_check.look(kernel.store, kernel.collection, ledger, kernel.identity)

    async def _write_files(self) -> int:
        """Write files again whose folder was gone, from the index; return how many."""
        kernel, count = self._kernel, 0
        if isinstance(kernel.store, FileStore) and kernel.store.lost is not None:
            async for points in kernel.store.stream(kernel.collection, with_vectors=True):
                await kernel.store.apply(kernel.collection, points)
                count += len(points)
            kernel.store.lost = None
        return count

    async def complete_history(self, memory_ids: set[str]) -> None:
        """Write missing history, so that it ends with the store's contents."""
        if not memory_ids:
            return
        ledger = self._ledger()
        count = 0
        async with self._kernel.lock(Scope()):
            rows = await self._rows_of(memory_ids)
            missing: list[HistoryRecord] = []
            for id in sorted(memory_ids):
                own = [record for record in await ledger.history(id) if record.memory_id == id]
                missing += missing_records(own, rows.get(id, []), iso(self._kernel.clock.now()))
            for start in range(0, len(missing), BATCH):
                count += await ledger.import_history(missing[start : start + BATCH])
        if count:
            self.done.append(
                f"wrote {count} history records of {len({record.memory_id for record in missing})} memories"
            )

    async def drop_sources(self, memory_ids: set[str]) -> None:
        """Remove ids of messages that are not stored from the rows that name them; their text stays."""
        if not memory_ids:
            return
        count = 0
        async with self._kernel.lock(Scope()):
            for items in (await self._rows_of(memory_ids)).values():
                missing = await missing_episodes(self._kernel, self._ledger(), items)
                for item in items:
                    if missing.intersection(item.sources):
                        left = tuple(source for source in item.sources if source not in missing)
                        payload = item.with_(sources=left).to_payload()
                        await self._kernel.store.update(self._kernel.collection, item.id, payload=payload)
                        count += 1
        if count:
            self.done.append(f"took names of messages that are not kept out of {count} rows")

    async def drop_messages(self, ids: set[str]) -> None:
        """Delete searchable messages from the store that the ledger does not have."""
        if not ids:
            return
        async with self._kernel.lock(Scope()):
            kept = {episode.id for episode in await self._ledger().get_episodes(sorted(ids))}
            gone = sorted(ids - kept)
            await self._kernel.store.apply(self._kernel.collection, (), gone)
        self.done.append(f"took {len(gone)} messages that are not kept out of the store")

    async def _rows_of(self, memory_ids: set[str]) -> dict[str, list[MemoryItem]]:
        """Return the rows of memories, versions too, found in one pass through the store."""
        rows: dict[str, list[MemoryItem]] = {}
        async for points in self._kernel.store.stream(self._kernel.collection):
            for point in points:
                item = MemoryItem.from_payload(point.payload)
                id = item.version_of or item.id
                if id in memory_ids:
                    rows.setdefault(id, []).append(item)
        return rows

    async def extract_pending(self) -> None:
        """Read messages whose extraction had failed, the messages of one call together."""
        tried: set[str] = set()
        read = events = notes = 0
        while True:
            limit = len(tried) + BATCH
            waiting = await self._ledger().pending_episodes(Scope(), limit)
            calls = [call for call in _calls(waiting, whole=len(waiting) < limit) if call[0].add_id not in tried]
            if not calls:
                break
            for call in calls:
                tried.add(call[0].add_id)
                with degrade(f"{len(call)} messages could not be read", self.failed):
                    result = await self._engine.write.extract_pending(call, Scope(**call[0].scope))
                    (self.failed if result.waiting else self.remarks).extend(result.warnings)
                    read += 0 if result.waiting else len(call)
                    events += sum(event.event != "NONE" for event in result.results)
                    notes += result.notes
        if read or events or notes:
            kept = f", {notes} notes kept" if notes else ""
            self.done.append(f"read {read} messages that had waited: {events} memories changed{kept}")

    async def erase_from_backups(self) -> None:
        """Erase from backups what could not be erased when it was forgotten."""
        place = await erase_from_backups(self._kernel, (), (), dry_run=False)
        if place is None:
            return
        if place.count:
            self.done.append(f"erased what was forgotten from backups: {place.count} lines")
        if place.note:
            self.failed.append(place.note)

    def _ledger(self) -> Ledger:
        ledger = self._kernel.ledger
        assert ledger is not None, "the caller has looked"
        return ledger


def _calls(waiting: Sequence[Episode], *, whole: bool) -> list[list[Episode]]:
    """Group the messages by call; the last call is left out if the list may have cut it in two."""
    calls = [list(group) for _, group in groupby(waiting, key=lambda episode: episode.add_id)]
    return calls if whole or len(calls) < 2 else calls[:-1]


def missing_records(records: Sequence[HistoryRecord], rows: Sequence[MemoryItem], now: str) -> list[HistoryRecord]:
    """Return the records that complete a memory's history up to the state of its rows."""
    live = next((row for row in rows if row.state == LIVE), None)
    versions = sorted((row for row in rows if row.state != LIVE), key=lambda row: (row.version, row.updated_at))
    replaced = any(row.replaced_by for row in versions)
    if not records:
        return _whole_history(versions, live, now, replaced=replaced)
    if rift_between(live.memory if live else None, last_word(records), replaced=replaced) is None:
        return []
    last = records[-1]
    if live is None:
        return []  # a lost row is not a deletion: nobody requested one
    event: Event = "ADD" if last.event == "DELETE" else "UPDATE"
    old = None if event == "ADD" else last.new_value
    moment = max(live.updated_at, last.timestamp)
    return [_record(event, live.id, old, live.memory, moment, scope=live.scope, told_at=live.told_at)]


def _whole_history(
    versions: Sequence[MemoryItem], live: MemoryItem | None, now: str, *, replaced: bool
) -> list[HistoryRecord]:
    line = [*versions, *([live] if live else [])]
    records: list[HistoryRecord] = []
    for position, row in enumerate(line):
        event: Event = "UPDATE" if position else "ADD"
        old = line[position - 1].memory if position else None
        moment = row.updated_at if position else row.created_at
        id = row.version_of or row.id
        records.append(_record(event, id, old, row.memory, moment, scope=row.scope, told_at=row.told_at))
    if records and live is None and not replaced:
        last = line[-1]
        records.append(_record("DELETE", records[-1].memory_id, last.memory, None, now, scope=last.scope))
    return records


def _record(
    event: Event,
    memory_id: str,
    old: str | None,
    new: str | None,
    moment: str,
    *,
    scope: Scope | HistoryRecord,
    told_at: str | None = None,
) -> HistoryRecord:
    assert event != "NONE", "nothing happened"
    return HistoryRecord(
        id=new_id(),
        memory_id=memory_id,
        event=event,
        old_value=old,
        new_value=new,
        timestamp=moment,
        is_deleted=event == "DELETE",
        **{name: getattr(scope, name) for name in SCOPE_FIELDS},
        actor="repair",
        reason="completed from the store",
        told_at=told_at or moment,
    )
