"""Run the calls of one engine: counted while in flight, opened once, shielded, in the background, with a deadline.

`degrade` and `never_fail` are the only functions that swallow exceptions."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from perdure.domain.errors import ClosedError, LedgerError, NoCollectionError, PerdureError


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
_LONGEST_PAUSE = 0.02  # seconds between two looks at calls that have not ended


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


T = TypeVar("T")
S = TypeVar("S", bound=GuardedService)
P = ParamSpec("P")


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


@asynccontextmanager
async def background(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Run a coroutine as a task, given to the `with` block; cancel it when the block exits."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


@dataclass(slots=True)
class LateTasks:
    """Lookups that outlive their request; they are not cancelled, because their threads would go on uncounted."""

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
    """Run the work to its end even if the caller is cancelled, which then happens afterwards.

    Use it for a few short steps that belong together, never for waiting.
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


logger = logging.getLogger("perdure")


@contextmanager
def degrade(
    what: str, warnings: list[str] | None = None, *, text: str | None = None, level: int = logging.WARNING
) -> Iterator[None]:
    """Run the block; log a PerdureError as a warning, append it to `warnings` if given, and go on.

    `what` says what the caller does without. `text` is a memory's text: it goes into the warning, never into the log.
    `level` is the log level.
    """
    try:
        yield
    except PerdureError as error:
        logger.log(level, "%s: %s", what, error.message)
        if warnings is not None:
            warnings.append(f"{what}: {error.message}" if text is None else f"{what}: {text!r}: {error.message}")


@contextmanager
def never_fail(what: str, warnings: list[str]) -> Iterator[None]:
    """Run the block; log any exception as a fault of perdure, append it to `warnings`, and go on."""
    try:
        yield
    except Exception as error:  # whatever the fault is, the call goes on without the block
        logger.exception("a fault in perdure: %s", what)
        warnings.append(f"{what}: {type(error).__name__} in perdure's rules, please report it")
