"""Access counts: how often memories were recalled, counted in memory and periodically written to their rows.

A count is not a change: it makes no history, changes no `updated_at` and no index, and a crash may lose the last few. A
search never waits for it, and works if the store cannot be written (ADR 28).
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

PAUSE = 5.0  # seconds for which counts are collected before a write: one write of a row, however often it was recalled
REST = 300.0  # seconds before another attempt if they could not be written, as in a read-only folder
CLOSING = 2.0  # maximum seconds that closing spends on them: another process may be writing in the same scope
MOST_WAITING = 100_000  # maximum memories with unwritten counts; beyond it the oldest are dropped. 30 MB.
ROWS = 500  # rows written under one lock: a few milliseconds
ANSWERING = 0.5
"""The share of the best score from which a result of a search without a threshold counts as recalled. In doubt it
counts: a memory pruned by mistake is worse than one that stays."""


def recalled(items: Sequence[MemoryItem], threshold: float | None) -> list[MemoryItem]:
    """Return the results that count as recalled: all of them if the caller gave a threshold.

    Otherwise those that come near the best: a search returns a hundred by default, and most of these are no answers.
    Messages of the ledger are not memories, and never pruned.
    """
    items = [item for item in items if not item.is_said]
    if threshold:
        return items
    best = max((item.score or 0.0 for item in items), default=0.0)
    return [item for item in items if (item.score or 0.0) >= best * ANSWERING]


@dataclass(frozen=True, slots=True)
class _Recalled:
    """How often a memory was recalled since its row was last written, and the last time."""

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
        """Count these memories as recalled now; call it on an event loop, which writes the counts a little later."""
        if self._process != os.getpid():
            self._reset()  # a fork: the parent process writes its own counts
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
        """Return the memory with its unwritten counts."""
        if self._process != os.getpid():
            self._reset()
        with self._guard:
            recalled = self._recalled.get(item.id)
        if recalled is None:
            return item
        return item.with_(access_count=item.access_count + recalled.times, last_accessed_at=recalled.last)

    @property
    def waiting(self) -> bool:
        """Whether this process has unwritten counts."""
        return self._process == os.getpid() and bool(self._recalled)

    async def close(self) -> None:
        """Write the waiting counts, within a time limit."""
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
                return  # closing has written them, or the program ends
            written = True
        if not written:
            self._rests_until = time.monotonic() + REST

    @guarded
    async def write(self) -> None:
        """Write the counts into the rows of existing memories; those of deleted ones are dropped."""
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
