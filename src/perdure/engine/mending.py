"""Mending what the doctor found; each step looks again under the lock, and does nothing where all is well by then."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from perdure.backends.ledgers.base import Ledger
from perdure.domain.clock import iso
from perdure.domain.event import Episode, Event, HistoryRecord
from perdure.domain.memory import LIVE, MemoryItem, new_id
from perdure.domain.scope import SCOPE_FIELDS, Scope
from perdure.engine.agreement import last_word, missing_episodes, pages, rift_between
from perdure.engine.embedding import wanting
from perdure.engine.engine import Engine
from perdure.engine.soft import given_up

BATCH = 256
"""Rows embedded, records written and messages read at a time."""


class Mending:
    """Steps of a repair; `done` and `failed` tell in sentences what they did and could not do."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kernel = engine.kernel
        self.done: list[str] = []
        self.failed: list[str] = []

    # ------------------------------------------------------------------ the store
    async def rebuild_store(self) -> None:
        """Let the store make its text index and its file anew from its rows."""
        kernel = self._kernel
        rebuilt = False
        with given_up("the store could not be rebuilt", self.failed):
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
                    with given_up(f"the row {point.id} went meanwhile"):
                        await kernel.store.update(kernel.collection, point.id, vector=vector)
                        step += 1
            count += step
            if not step:
                self.failed.extend(embedded.warnings)
                break
        if count:
            self.done.append(f"embedded {count} rows")

    async def look_again(self, memory_ids: set[str]) -> None:
        """Let the graph look again at memories, and at what its jobs failed of."""
        check = self._engine.graph_check
        assert check is not None, "without a graph nothing was found there"
        with given_up("the graph could not be mended", self.failed):
            left = await check.look_again(sorted(memory_ids - {""}))
            self.done.append("let the graph look again at its memories")
            if left:
                self.failed.append(f"{left} jobs of the graph are not done yet")

    # ------------------------------------------------------------------ history
    async def complete_history(self, memory_ids: set[str]) -> None:
        """Write the history that is missing, so that it ends with what the store holds."""
        if not memory_ids:
            return
        ledger = self._ledger()
        count = 0
        async with self._kernel.lock(Scope()):
            rows = await self._rows_of(memory_ids)
            missing: list[HistoryRecord] = []
            for id in sorted(memory_ids):
                own = [record for record in await ledger.history(id) if record.memory_id == id]
                missing += missing_records(own, rows.get(id, []), iso(self._kernel.ticker.now()))
            for start in range(0, len(missing), BATCH):
                count += await ledger.import_history(missing[start : start + BATCH])
        if count:
            self.done.append(
                f"wrote {count} history records of {len({record.memory_id for record in missing})} memories"
            )

    async def drop_sources(self, memory_ids: set[str]) -> None:
        """Take names of messages that are not kept out of the rows that bear them; their text stays."""
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
        """Take searched messages out of the store that the ledger does not keep."""
        if not ids:
            return
        async with self._kernel.lock(Scope()):
            kept = {episode.id for episode in await self._ledger().get_episodes(sorted(ids))}
            gone = sorted(ids - kept)
            await self._kernel.store.apply(self._kernel.collection, (), gone)
        self.done.append(f"took {len(gone)} messages that are not kept out of the store")

    async def _rows_of(self, memory_ids: set[str]) -> dict[str, list[MemoryItem]]:
        """The rows of memories, versions too, found in one walk through the store."""
        rows: dict[str, list[MemoryItem]] = {}
        async for points in pages(self._kernel):
            for point in points:
                item = MemoryItem.from_payload(point.payload)
                id = item.version_of or item.id
                if id in memory_ids:
                    rows.setdefault(id, []).append(item)
        return rows

    # ------------------------------------------------------------------ messages
    async def extract_pending(self) -> None:
        """Read the messages whose extraction had failed, the messages of one call together."""
        tried: set[str] = set()
        read = events = 0
        while True:
            limit = len(tried) + BATCH
            waiting = await self._ledger().pending_episodes(Scope(), limit)
            calls = [call for call in _calls(waiting, whole=len(waiting) < limit) if call[0].add_id not in tried]
            if not calls:
                break
            for call in calls:
                tried.add(call[0].add_id)
                with given_up(f"{len(call)} messages could not be read", self.failed):
                    result = await self._engine.write.extract_pending(call, Scope(**call[0].scope))
                    self.failed.extend(result.warnings)
                    read += 0 if await self._still_wait(call) else len(call)
                    events += sum(event.event != "NONE" for event in result.results)
        if read:
            self.done.append(f"read {read} messages that had waited: {events} memories changed")

    async def _still_wait(self, call: Sequence[Episode]) -> bool:
        """Whether reading failed again: then the messages go on waiting."""
        return any(episode.pending for episode in await self._ledger().get_episodes([call[0].id]))

    def _ledger(self) -> Ledger:
        ledger = self._kernel.ledger
        assert ledger is not None, "the caller has looked"
        return ledger


def _calls(waiting: Sequence[Episode], *, whole: bool) -> list[list[Episode]]:
    """The messages of each call; the last call is left out if the list may have cut it in two."""
    calls = [list(group) for _, group in groupby(waiting, key=lambda episode: episode.add_id)]
    return calls if whole or len(calls) < 2 else calls[:-1]


def missing_records(records: Sequence[HistoryRecord], rows: Sequence[MemoryItem], now: str) -> list[HistoryRecord]:
    """What must be added to a memory's history so that it ends with what its rows say; nothing where it does.

    A memory without any history gets the whole of it: how its text came to be, as far as its versions tell.
    """
    live = next((row for row in rows if row.state == LIVE), None)
    versions = sorted((row for row in rows if row.state != LIVE), key=lambda row: (row.version, row.updated_at))
    replaced = any(row.replaced_by for row in versions)
    if not records:
        return _whole_history(versions, live, now, replaced=replaced)
    if rift_between(live.memory if live else None, last_word(records), replaced=replaced) is None:
        return []
    last = records[-1]
    if live is None:
        return [_record("DELETE", last.memory_id, last.new_value, None, max(now, last.timestamp), scope=last)]
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
