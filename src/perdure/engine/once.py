"""Doing something once, however many tasks, threads and event loops ask for it at the same time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future


class Once:
    """Runs an action for the first caller and lets the others wait for it; a failure is told to all and forgotten.

    Where the first caller is cancelled, one of those who wait begins anew; a waiter that is cancelled concerns nobody.
    """

    def __init__(self, action: Callable[[], Awaitable[None]]) -> None:
        self._action = action
        self._guard = threading.Lock()
        self._running: Future[bool] | None = None
        self.done = False

    async def __call__(self) -> None:
        """Return once the action has been done."""
        while not self.done:
            with self._guard:
                waiting = self._running
                if waiting is None:
                    mine = self._running = Future()
                    mine.set_running_or_notify_cancel()  # from now on a waiter's end cannot cancel it for all
            if waiting is None:
                await self._run(mine)
                return
            if await asyncio.wrap_future(waiting):
                return

    async def _run(self, mine: Future[bool]) -> None:
        try:
            await self._action()
        except BaseException as error:
            with self._guard:
                self._running = None
            if isinstance(error, Exception):
                mine.set_exception(error)
                mine.exception()  # seen: nobody else may be waiting for it
            else:
                mine.set_result(False)  # cancelled: it was not the action that failed
            raise
        self.done = True
        mine.set_result(True)

    def reset(self) -> None:
        """Forget that it was done, for a process that was forked from the one that did it."""
        self._guard = threading.Lock()
        self._running = None
        self.done = False
