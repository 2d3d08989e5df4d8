"""One thread pool for all blocking work, so that encoding delays neither short reads nor the interpreter's exit."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, ParamSpec, TypeVar

from perdure.domain.errors import ClosedError


def is_cancelled() -> bool:
    """Whether the running task itself was cancelled (ask after a CancelledError), not something that it awaited."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


P = ParamSpec("P")
T = TypeVar("T")
_PAUSE = 0.001  # seconds between two looks at a unit of work whose caller was cancelled


def _new_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=32, thread_name_prefix="perdure")


_pool = _new_pool()


def _after_fork() -> None:
    """Give a forked child a pool of its own: it has the parent's pool without its threads."""
    global _pool  # noqa: PLW0603 - there is one pool for a process, and this is a new process
    _pool = _new_pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


async def run_blocking(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function that only reads or computes in a thread; if the caller is cancelled, the function runs on.

    ClosedError while the interpreter exits: threads start no more.
    """
    try:
        running = asyncio.get_running_loop().run_in_executor(_pool, partial(function, *args, **kwargs))
    except RuntimeError as error:
        raise ClosedError("the program is ending") from error
    return await running


def start_blocking(function: Callable[[], None]) -> None:
    """Start a function that must not raise in a thread, without waiting; RuntimeError while the interpreter exits."""
    _pool.submit(function)


async def run_unit(function: Callable[[], T]) -> T:
    """Run a function in a thread; a cancelled caller waits for it, so that no write lands after its lock."""
    unit = _Unit(function)
    try:
        return await run_blocking(unit)
    except asyncio.CancelledError:
        while not unit.is_over():
            try:
                await asyncio.sleep(_PAUSE)
            except asyncio.CancelledError:
                continue  # cancelled again: the first time is told when it is over
        raise


class _Unit(Generic[T]):
    """A call that can be prevented from starting, but not stopped."""

    __slots__ = ("_begun", "_ended", "_function", "_given_up", "_guard")

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._guard = threading.Lock()
        self._given_up = self._begun = self._ended = False

    def __call__(self) -> T:
        with self._guard:
            if self._given_up:
                raise asyncio.CancelledError
            self._begun = True
        try:
            return self._function()
        finally:
            self._ended = True

    def is_over(self) -> bool:
        """Prevent it from starting if it has not started; return whether it is over."""
        with self._guard:
            self._given_up = True
            return self._ended or not self._begun
