"""A queue whose items are processed in order and in batches, by one task that runs while items wait."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from perdure.backends.blocking import is_cancelled

T = TypeVar("T")

MAX_BATCH = 100
"""Items per batch at most."""

logger = logging.getLogger("perdure")


class BatchQueue(Generic[T]):
    """Processes items in order; the more wait, the larger the batches.

    `work` processes a batch and must report its own failures. `apart(batch, item)` says whether the item may not join
    the batch. For one event loop at a time.
    """

    def __init__(
        self,
        work: Callable[[list[T]], Awaitable[None]],
        *,
        apart: Callable[[list[T], T], bool] = lambda before, each: False,
    ) -> None:
        self._work = work
        self._apart = apart
        self._waiting: deque[tuple[T, int]] = deque()
        self._came = self._gone = 0
        self._looking: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        self.size = 0
        """Sum of the sizes of the items that wait or are being processed."""

    def put(self, each: T, size: int = 0) -> None:
        """Enqueue an item; call it on a running event loop."""
        self._waiting.append((each, size))
        self._came += 1
        self.size += size
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._task = loop.create_task(self._go(), name="perdure-gateway-line")

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until `holds()` is true; it is checked after each batch."""
        while not holds():
            look = asyncio.get_running_loop().create_future()
            self._looking.append(look)
            await look

    async def so_far(self) -> None:
        """Wait until all items enqueued so far have been processed."""
        target = self._came
        await self.until(lambda: self._gone >= target)

    def __len__(self) -> int:
        return self._came - self._gone

    async def _go(self) -> None:
        while self._waiting:
            batch, size = self._next()
            try:
                await self._work(batch)
            except asyncio.CancelledError:  # of something inside it, unless the whole loop ends
                if is_cancelled():
                    raise
                logger.exception("a fault in perdure: what waits in a line")
            except Exception:  # whatever it is, it must not stop those that wait behind it
                logger.exception("a fault in perdure: what waits in a line")
            finally:
                self._gone += len(batch)
                self.size -= size
                looking, self._looking = self._looking, []
                for look in looking:
                    if not look.done():
                        look.set_result(None)

    def _next(self) -> tuple[list[T], int]:
        batch: list[T] = []
        sizes = 0
        while self._waiting and len(batch) < MAX_BATCH and not (batch and self._apart(batch, self._waiting[0][0])):
            each, size = self._waiting.popleft()
            batch.append(each)
            sizes += size
        return batch, sizes
