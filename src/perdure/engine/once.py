"""Doing something once, however many tasks, threads and event loops ask for it at the same time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future


class Once:
    """Runs an action for the first caller and lets the others wait for it; a failure is told to all and forgotten."""

    def __init__(self, action: Callable[[], Awaitable[None]]) -> None:
        self._action = action
        self._guard = threading.Lock()
        self._running: Future[None] | None = None
        self.done = False

    async def __call__(self) -> None:
        """Return once the action has been done."""
        if self.done:
            return
        with self._guard:
            waiting = self._running
            if waiting is None:
                mine = self._running = Future()
        if waiting is not None:
            await asyncio.wrap_future(waiting)
            return
        try:
            await self._action()
        except BaseException as error:
            with self._guard:
                self._running = None
            mine.set_exception(error if isinstance(error, Exception) else RuntimeError("opening was cancelled"))
            mine.exception()  # seen: nobody else may be waiting for it
            raise
        self.done = True
        mine.set_result(None)

    def reset(self) -> None:
        """Forget that it was done."""
        with self._guard:
            self._running = None
            self.done = False
