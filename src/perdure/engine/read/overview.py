"""Queries about a whole scope: owners, counts, events, results of idempotency keys."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from perdure.backends.ledgers.base import Ledger
from perdure.domain.clock import iso
from perdure.domain.errors import LedgerError
from perdure.domain.event import AddResult, Change, HistoryRecord
from perdure.domain.filter import Filter
from perdure.domain.memory import NOTES, OWNER_AXES, MemoryItem, Owner
from perdure.domain.scope import Scope
from perdure.engine.aio.calls import guarded
from perdure.engine.core.access import reaches, scope_of, visible
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.lookup import scan

PAGE = 500  # rows read at a time when a whole scope is processed


class Overview:
    """Answers queries about a whole scope; a team's memories appear only in that team's scope."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @guarded
    async def owners(self, walls: Scope) -> list[Owner]:
        """Return the owners of memories by scope field, the oldest first; reads every row of the scope."""
        kernel = self._kernel
        within = visible(walls, now=kernel.clock.now(), kinds=("facts", NOTES, "messages"), include_past=True)
        found: dict[tuple[str, str], Owner] = {}
        async for points in scan(kernel, within, page=PAGE):
            for point in points:
                item = MemoryItem.from_payload(point.payload)
                if reaches(walls, item.scope):
                    _note(found, item)
        return sorted(found.values(), key=lambda owner: (OWNER_AXES.index(owner.axis), owner.created_at))

    @guarded
    async def count(self, scope: Scope, filters: Filter | None = None, *, include_past: bool = False) -> int:
        """Return how many memories `get_all` would return in all pages."""
        kernel = self._kernel
        within = visible(scope, now=kernel.clock.now(), include_past=include_past, filters=filters)
        return await kernel.store.count(kernel.collection, within)

    @guarded
    async def events(self, scope: Scope, *, limit: int, after: int = 0) -> list[HistoryRecord]:
        """Return the events of a scope in order; pass the last one's `sequence` as the next page's `after`."""
        ledger = self._ledger()
        told: list[HistoryRecord] = []
        while len(told) < limit:
            page = await ledger.events_of_scope(scope, PAGE, after)
            told += [record for record in page if reaches(scope, scope_of(record))]
            if len(page) < PAGE:
                break
            after = page[-1].sequence
        return told[:limit]

    @guarded
    async def changes_since(self, scope: Scope, moment: datetime, *, limit: int) -> list[Change]:
        """Return the last changes of a scope after a time, newest first, without erased ones."""
        told = await self._ledger().events_since(scope, iso(moment))
        return [change for change in told if reaches(scope, change.item.scope)][:limit]

    @guarded
    async def event(self, id: str, walls: Scope) -> HistoryRecord | None:
        """Return one event by the id of its history record, if it happened inside the scope."""
        record = await self._ledger().history_record(id)
        return record if record is not None and reaches(walls, scope_of(record)) else None

    @guarded
    async def answer(self, idempotency_key: str, scope: Scope) -> AddResult | None:
        """Return the result of an `add` with this key in exactly this scope in the last 24 hours, or None."""
        return await self._kernel.remembered(idempotency_key, scope)

    def _ledger(self) -> Ledger:
        if self._kernel.ledger is None:
            raise LedgerError("there is no ledger: it could not be opened, so no history is kept (see the log)")
        return self._kernel.ledger


def _note(found: dict[tuple[str, str], Owner], item: MemoryItem) -> None:
    given = item.scope.given()
    for axis in OWNER_AXES:
        if (name := given.get(axis)) is None:
            continue
        known = found.get((axis, name))
        if known is None:
            created, updated = item.created_at, item.updated_at
            found[axis, name] = Owner(axis=axis, name=name, memories=1, created_at=created, updated_at=updated)
        else:
            last = max(known.updated_at, item.updated_at)
            found[axis, name] = replace(known, memories=known.memories + 1, updated_at=last)
