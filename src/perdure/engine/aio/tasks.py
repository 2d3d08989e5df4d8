"""Ways to run a coroutine: shielded from cancellation, concurrently with a block, or with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from perdure.domain.errors import LedgerError

T = TypeVar("T")


@asynccontextmanager
async def background(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Run a coroutine concurrently with the `with` block; cancel it when the block exits.

    The block receives the task and may await it for the result.
    """
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


@dataclass(slots=True)
class LateTasks:
    """Lookups that are still running after their request stopped waiting.

    They are not cancelled, because their threads would go on uncounted.
    """

    tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    def note(self, task: asyncio.Task[Any]) -> None:
        """Count a task until it ends."""
        self.tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # nobody else asks for it


class Deadline:
    """Run lookups with a deadline; late ones keep running but are counted, and at most `at_once` of them may run."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._late = LateTasks()

    async def __call__(self, look: Coroutine[Any, Any, T], seconds: float) -> T:
        """Return the result of a lookup; raise LedgerError if it takes longer than `seconds`."""
        if len(self._late.tasks) >= self._at_once:
            look.close()
            raise LedgerError("the ledger does not answer")
        task = asyncio.create_task(look)
        try:
            await asyncio.wait((task,), timeout=max(0.0, seconds))
        finally:
            if not task.done():
                self._late.note(task)
        if not task.done():
            raise LedgerError("the ledger does not answer in time")
        return task.result()


class _ShieldedTask(asyncio.Task[T]):
    """A task that cannot be cancelled; an event loop that shuts down waits for it."""

    def cancel(self, msg: Any | None = None) -> bool:
        """Refuse, as a task that has ended does."""
        return False


async def shielded(work: Coroutine[Any, Any, T]) -> T:
    """Run the work to its end even if the caller is cancelled, and return its result.

    A caller that is cancelled meanwhile is cancelled once the work has ended. Use it for a few short steps that belong
    together, never for waiting.
    """
    task = _ShieldedTask(work, loop=asyncio.get_running_loop())
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    task.exception()  # seen: the caller hears of its cancellation instead
    raise cancelled
