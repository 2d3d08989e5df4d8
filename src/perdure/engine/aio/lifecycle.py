"""Track the calls in flight of one engine, so that closing can wait for them; run its opening and closing once."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from perdure.domain.errors import ClosedError, NoCollectionError, PerdureError


class RunOnce:
    """Runs an action once, whichever tasks, threads and event loops ask for it at the same time.

    The first caller runs it and the others wait; a failure is raised to all of them, and the next call tries again. If
    the first caller is cancelled, one of the waiting ones starts the action again.
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
        """Forget that the action was done; for a process forked from the one that did it."""
        self._guard = threading.Lock()
        self._running = None
        self.done = False


_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.02
"""Seconds between two looks at calls that have not ended."""


class Lifecycle:
    """Counts the calls in flight in all threads and event loops; after `refuse`, new calls raise ClosedError."""

    def __init__(self) -> None:
        self._refused = False
        self.reset()

    def reset(self) -> None:
        """Forget the calls of the parent process, after a fork."""
        self._guard = threading.Lock()
        self._numbers = itertools.count()
        self._loops: dict[int, asyncio.AbstractEventLoop] = {}

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """Count one call for the length of the block; raise ClosedError after `refuse`."""
        number = next(self._numbers)
        with self._guard:
            if self._refused:
                raise ClosedError("this memory was closed: make a new one")
            self._loops[number] = asyncio.get_running_loop()
        try:
            yield
        finally:
            with self._guard:
                del self._loops[number]

    def refuse(self) -> None:
        """Refuse new calls."""
        with self._guard:
            self._refused = True

    async def wait_until_idle(self) -> None:
        """Wait until every call has ended; calls whose event loop has stopped are not waited for."""
        pause = _FIRST_PAUSE
        while self.is_busy:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    @property
    def is_busy(self) -> bool:
        """Whether any call is in flight."""
        with self._guard:
            return any(loop.is_running() for loop in self._loops.values())


class GuardedKernel(Protocol):
    """The part of the kernel that `guarded` uses."""

    @property
    def lifecycle(self) -> Lifecycle:
        """The calls in flight."""

    @property
    def open(self) -> Callable[[], Awaitable[None]]:
        """Opens the backends once."""

    async def why_gone(self, error: NoCollectionError) -> PerdureError:
        """The error to tell a caller whose collection went while it was in use."""


class GuardedService(Protocol):
    """An object whose methods run through a kernel."""

    @property
    def _kernel(self) -> GuardedKernel: ...


S = TypeVar("S", bound=GuardedService)
P = ParamSpec("P")
T = TypeVar("T")


def guarded(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Wrap a method: it opens the backends first, closing waits for it, and after closing it raises ClosedError."""

    @wraps(method)
    async def counted(path: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        kernel = path._kernel
        with kernel.lifecycle.in_flight():
            await kernel.open()
            try:
                return await method(path, *args, **kwargs)
            except NoCollectionError as error:
                raise await kernel.why_gone(error) from error

    return counted
