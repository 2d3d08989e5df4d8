"""Access counts: how often memories were recalled, counted in memory and written to their rows from time to time.

A count is no belief: it makes no history, moves no `updated_at` and no index, and a crash may cost the last few. A
search never waits for it, and a store that cannot be written is searched all the same (ADR 28).
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from perdure.backends.vector_stores.base import Point
from perdure.domain.clock import iso
from perdure.domain.errors import ClosedError
from perdure.domain.memory import LIVE, MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.aio.calls import degrade, guarded, shielded
from perdure.engine.core.kernel import Kernel

PAUSE = 5.0
"""Seconds for which counts are gathered before they are written: one write of a row, however often it was recalled."""
REST = 300.0
"""Seconds without another try where they could not be written, as in a read-only folder."""
CLOSING = 2.0
"""Seconds that closing spends on them at most: another process may be writing in the same scope."""
MOST_WAITING = 100_000
"""Memories whose counts wait to be written; of more, those that have waited longest are dropped. 30 MB."""
ROWS = 500
"""Rows that are written under one lock: a few milliseconds."""
ANSWERING = 0.5
"""The share of the best score from which a result of a search without a threshold counts as recalled. In doubt it
counts: what is pruned by mistake is worse than what stays."""


def recalled(items: Sequence[MemoryItem], threshold: float | None) -> list[MemoryItem]:
    """Which results of a search count as recalled: all of them where the caller said what is good enough.

    Else those that come near the best: a search gives a hundred by default, and its tail is company, not an answer.
    Messages of the ledger are no memories, and stay whatever is recalled.
    """
    items = [item for item in items if not item.is_said]
    if threshold:
        return items
    best = max((item.score or 0.0 for item in items), default=0.0)
    return [item for item in items if (item.score or 0.0) >= best * ANSWERING]


@dataclass(frozen=True, slots=True)
class _Recalled:
    """How often a memory was recalled since its row was last written, and when last."""

    times: int
    last: str
    scope: Scope


class AccessCounts:
    """The counts of one engine."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._recalled: dict[str, _Recalled] = {}
        self._guard = threading.Lock()
        self._writing: asyncio.Task[None] | None = None
        self._rests_until = 0.0

    def note(self, items: Iterable[MemoryItem]) -> None:
        """These memories were recalled now; call it on an event loop, which writes the counts a little later."""
        if self._process != os.getpid():
            self._reset()  # a fork: what the parent counted is the parent's to write
        last = iso(self._kernel.clock.now())
        with self._guard:
            for item in items:
                before = self._recalled.pop(item.id, None)
                self._recalled[item.id] = _Recalled(1 + (before.times if before else 0), last, item.scope)
            while len(self._recalled) > MOST_WAITING:
                self._recalled.pop(next(iter(self._recalled)))
            waits = bool(self._recalled)
        task, loop = self._writing, asyncio.get_running_loop()
        if waits and not self._rests and (task is None or task.done() or task.get_loop() is not loop):
            self._writing = loop.create_task(self._write_later())

    def counted(self, item: MemoryItem) -> MemoryItem:
        """The memory with what its row does not tell yet."""
        if self._process != os.getpid():
            self._reset()
        with self._guard:
            recalled = self._recalled.get(item.id)
        if recalled is None:
            return item
        return item.with_(access_count=item.access_count + recalled.times, last_accessed_at=recalled.last)

    @property
    def waiting(self) -> bool:
        """Whether there are counts of this process that are not written yet."""
        return self._process == os.getpid() and bool(self._recalled)

    async def close(self) -> None:
        """Write what waits, as far as that takes no long time."""
        task, self._writing = self._writing, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if self.waiting and not self._rests:
            what = "how often some memories were recalled is lost"
            with suppress(TimeoutError), degrade(what, level=logging.INFO):
                await asyncio.wait_for(self.write(), CLOSING)

    @property
    def _rests(self) -> bool:
        return time.monotonic() < self._rests_until

    async def _write_later(self) -> None:
        await asyncio.sleep(PAUSE)
        written = False
        with degrade("how often memories were recalled is written later", level=logging.INFO):
            try:
                await self.write()
            except ClosedError:
                return  # closing has written them
            written = True
        if not written:
            self._rests_until = time.monotonic() + REST

    @guarded
    async def write(self) -> None:
        """Write the counts into the rows of the memories that still stand; one that has gone loses its own."""
        scopes: dict[Scope, list[str]] = {}
        with self._guard:
            for id, recalled in self._recalled.items():
                scopes.setdefault(recalled.scope, []).append(id)
        for scope, ids in scopes.items():
            for start in range(0, len(ids), ROWS):
                async with self._kernel.lock(scope):
                    await shielded(self._write(ids[start : start + ROWS]))

    async def _write(self, ids: Sequence[str]) -> None:
        kernel = self._kernel
        rows = await kernel.store.get_many(kernel.collection, ids)  # as they stand under the lock
        with self._guard:
            taken = {id: self._recalled[id] for id in ids if id in self._recalled}
        puts = [_recounted(row, taken[row.id]) for row in rows if row.id in taken and row.payload.get("state") == LIVE]
        if puts:
            await kernel.store.recount(kernel.collection, puts)
        with self._guard:
            for id, written in taken.items():
                now = self._recalled.pop(id, written)
                if now.times > written.times:  # recalled again meanwhile
                    self._recalled[id] = replace(now, times=now.times - written.times)


def _recounted(row: Point, recalled: _Recalled) -> Point:
    count = int(row.payload.get("access_count") or 0) + recalled.times
    return replace(row, payload={**row.payload, "access_count": count, "last_accessed_at": recalled.last})
