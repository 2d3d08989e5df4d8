"""A line: what waits to be done in order, several at a time, by one task that is there while something waits."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from perdure.backends.cancelling import is_cancelled

T = TypeVar("T")

AT_ONCE = 100
"""What is done together at most."""

logger = logging.getLogger("perdure")


class Line(Generic[T]):
    """Does what comes in, in order; the more waits, the more is done at a time.

    `work` takes some of what waits and must tell of its own failures. `apart` says whether one cannot be done together
    with those before it, which are given. For one event loop at a time.
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
        """Of all that waits, or is being done."""

    def put(self, each: T, size: int = 0) -> None:
        """Let something wait; to be called on a running event loop."""
        self._waiting.append((each, size))
        self._came += 1
        self.size += size
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._task = loop.create_task(self._go(), name="perdure-gateway-line")

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once something holds that what is done may bring about."""
        while not holds():
            look = asyncio.get_running_loop().create_future()
            self._looking.append(look)
            await look

    async def so_far(self) -> None:
        """Return once all that has come by now is done."""
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
        while self._waiting and len(batch) < AT_ONCE and not (batch and self._apart(batch, self._waiting[0][0])):
            each, size = self._waiting.popleft()
            batch.append(each)
            sizes += size
        return batch, sizes
