"""How often memories were recalled (V72): counted in memory, and written into their rows now and then.

A count is no belief: it makes no history, and a crash may cost the last few. A search never waits for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from perdure.backends.vector_stores.base import Point
from perdure.domain.clock import iso
from perdure.domain.errors import ClosedError
from perdure.domain.memory import LIVE, MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.calls import call
from perdure.engine.finish import finish
from perdure.engine.kernel import Kernel
from perdure.engine.soft import given_up

PAUSE = 2.0
"""Seconds for which counts are gathered before they are written: one write of a row, however often it was recalled."""


@dataclass(frozen=True, slots=True)
class _Recalled:
    """How often a memory was recalled since its row was last written, and when last."""

    times: int
    last: str


class Accesses:
    """The counts of one engine."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._recalled: dict[str, _Recalled] = {}
        self._guard = threading.Lock()
        self._writing: asyncio.Task[None] | None = None

    def note(self, items: Iterable[MemoryItem]) -> None:
        """These memories were recalled now; call it on an event loop, which writes the counts a little later."""
        last = iso(self._kernel.ticker.now())
        with self._guard:
            for item in items:
                before = self._recalled.get(item.id)
                self._recalled[item.id] = _Recalled(1 + (before.times if before else 0), last)
            waits = bool(self._recalled)
        task, loop = self._writing, asyncio.get_running_loop()
        if waits and (task is None or task.done() or task.get_loop() is not loop):
            self._writing = loop.create_task(self._write_later())

    def counted(self, item: MemoryItem) -> MemoryItem:
        """The memory with what its row does not tell yet."""
        with self._guard:
            recalled = self._recalled.get(item.id)
        if recalled is None:
            return item
        return item.with_(access_count=item.access_count + recalled.times, last_accessed_at=recalled.last)

    @property
    def waiting(self) -> bool:
        """Whether there are counts that are not written yet."""
        return bool(self._recalled)

    async def _write_later(self) -> None:
        await asyncio.sleep(PAUSE)
        with given_up("how often memories were recalled is written later"):
            try:
                await self.write()
            except ClosedError:
                return  # closing has written them

    @call
    async def write(self) -> None:
        """Write the counts into the rows of the memories that still stand; one that has gone loses its own."""
        kernel = self._kernel
        with self._guard:
            ids = list(self._recalled)
        if not ids:
            return
        scopes: dict[Scope, list[str]] = {}
        rows = await kernel.store.get_many(kernel.collection, ids)
        for row in rows:
            scopes.setdefault(MemoryItem.from_payload(row.payload).scope, []).append(row.id)
        for scope, of_scope in scopes.items():
            async with kernel.lock(scope):
                await finish(self._write(of_scope))
        there = {row.id for row in rows}
        with self._guard:
            for id in ids:
                if id not in there:
                    self._recalled.pop(id, None)

    async def _write(self, ids: Sequence[str]) -> None:
        kernel = self._kernel
        rows = await kernel.store.get_many(kernel.collection, ids)  # again: they may have changed
        with self._guard:
            taken = {id: self._recalled[id] for id in ids if id in self._recalled}
        puts = [_recounted(row, taken[row.id]) for row in rows if row.id in taken and row.payload.get("state") == LIVE]
        if puts:
            await kernel.store.apply(kernel.collection, puts)
        with self._guard:
            for id, written in taken.items():
                now = self._recalled.pop(id, written)
                if now.times > written.times:  # recalled again meanwhile
                    self._recalled[id] = replace(now, times=now.times - written.times)


def _recounted(row: Point, recalled: _Recalled) -> Point:
    count = int(row.payload.get("access_count") or 0) + recalled.times
    return replace(row, payload={**row.payload, "access_count": count, "last_accessed_at": recalled.last})
