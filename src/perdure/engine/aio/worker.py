"""Background tasks: `Worker` does due work while the engine is open, `BatchQueue` processes items in order."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Generic, TypeVar

from perdure.backends import sqlite_file as _sqlite_file  # noqa: F401 - of hooks before a fork the last made runs first
from perdure.backends.blocking import is_cancelled
from perdure.domain.errors import ClosedError

_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.02  # seconds between two checks whether a task has ended
FORK_WAIT_SECONDS = 2.0  # seconds that a fork waits for the current piece of work
PAUSE_POLL_SECONDS = 0.02  # seconds between two checks whether a pause is over


class Worker:
    """Runs `work` repeatedly on the event loop of the first caller of `wake`, or on a newer one after that has ended.

    `work` does some of the due work and returns the seconds until there may be more.
    """

    def __init__(self, work: Callable[[], Awaitable[float]]) -> None:
        self._work = work
        self.is_paused = False
        self._is_busy = False
        self.reset()
        _ALL.add(self)

    def reset(self) -> None:
        """Start afresh after a fork: the parent process keeps its task."""
        self._guard = threading.Lock()
        self._run: _Run | None = None
        self._is_stopped = self.is_paused = self._is_busy = False

    def pause(self) -> None:
        """Pause between two pieces of work before a fork, so that the child inherits no held lock.

        Waits at most `FORK_WAIT_SECONDS`, and not at all for work on the event loop that forks, which the wait blocks.
        """
        self.is_paused = True
        if self._run is not None and self._run.is_here:
            return
        until = time.monotonic() + FORK_WAIT_SECONDS
        while self._is_busy and time.monotonic() < until:
            time.sleep(_FIRST_PAUSE)

    def resume(self) -> None:
        """Continue after `pause`."""
        self.is_paused = False

    async def _turn(self) -> float:
        self._is_busy = True
        try:
            return PAUSE_POLL_SECONDS if self.is_paused else await self._work()
        finally:
            self._is_busy = False

    def wake(self) -> None:
        """Look for work now; call it on a running event loop."""
        with self._guard:
            if self._is_stopped:
                return
            if self._run is None or not self._run.is_alive:
                self._run = _Run(self._turn)
            else:
                self._run.wake()

    async def stop(self) -> None:
        """End the task and wait for it; it does not start again."""
        with self._guard:
            self._is_stopped = True
            run = self._run
        if run is not None:
            await run.end()


class _Run:
    """One task on one event loop."""

    def __init__(self, work: Callable[[], Awaitable[float]]) -> None:
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._ended: Future[None] = Future()
        self._task = self._loop.create_task(self._go(), name="perdure-graph")
        self._task.add_done_callback(lambda _: self._ended.set_result(None))

    @property
    def is_alive(self) -> bool:
        """Whether the task is running; its event loop may have stopped without cancelling it."""
        return not self._ended.done() and self._loop.is_running()

    @property
    def is_here(self) -> bool:
        """Whether it runs on the event loop of this thread."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def wake(self) -> None:
        with suppress(RuntimeError):  # the loop ended a moment ago
            self._loop.call_soon_threadsafe(self._woken.set)

    async def end(self) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._task.cancel)
        pause = _FIRST_PAUSE
        while self.is_alive:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _go(self) -> None:
        while True:
            self._woken.clear()
            try:
                pause = await self._work()
            except (RuntimeError, ClosedError) as error:
                if not is_ending(error):
                    raise
                return
            if pause > 0:
                with suppress(TimeoutError):  # not wait_for, which until 3.12 loses a cancellation that meets a waking
                    async with asyncio.timeout(pause):
                        await self._woken.wait()
            else:
                await asyncio.sleep(0)


def is_ending(error: BaseException) -> bool:
    """Whether the error says that the interpreter is shutting down and starts no more threads."""
    said = error.__cause__ if isinstance(error, ClosedError) else error  # as `run_blocking` tells it
    return isinstance(said, RuntimeError) and "after" in str(said) and "shutdown" in str(said)


_ALL: weakref.WeakSet[Worker] = weakref.WeakSet()


def _before_fork() -> None:
    for worker in list(_ALL):
        worker.pause()


def _after_fork() -> None:
    for worker in list(_ALL):
        worker.resume()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork)


T = TypeVar("T")
MAX_BATCH = 100  # items per batch at most
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
        self.size = 0  # sum of the sizes of the items that wait or are being processed

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
            batch: list[T] = []
            size = 0
            while self._waiting and len(batch) < MAX_BATCH and not (batch and self._apart(batch, self._waiting[0][0])):
                each, more = self._waiting.popleft()
                batch.append(each)
                size += more
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
