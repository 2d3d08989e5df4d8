"""Finishing what was begun: a cancelled caller is told so only when its change stands whole."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Begun(asyncio.Task[T]):
    """A task that nobody can cancel, not even a loop that ends: such a loop waits for it."""

    def cancel(self, msg: Any | None = None) -> bool:
        """Refuse, as a task that has ended does."""
        return False


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """The result of the work, which runs to its end whatever becomes of the caller.

    A caller that is cancelled meanwhile waits for the end, and is cancelled then. For a few steps that belong together,
    each of which ends by itself: never for waiting.
    """
    task = _Begun(work, loop=asyncio.get_running_loop())
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
