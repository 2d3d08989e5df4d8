"""Where blocking work runs: one pool of threads for all of perdure, beside the event loop.

A pool of our own, because asyncio's default one has few threads on small machines, and a long encoding must not keep
a short read waiting. Its idle threads never hold up the interpreter's exit.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, ParamSpec, TypeVar


def is_cancelled() -> bool:
    """Whether the running task itself was cancelled; ask after catching a CancelledError.

    If not, something that it awaited was cancelled elsewhere: a client that is closed during a name lookup cancels the
    tasks that wait for it.
    """
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


P = ParamSpec("P")
T = TypeVar("T")

_PAUSE = 0.001
"""Seconds between two looks at a unit of work whose caller was cancelled."""


def _new_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=32, thread_name_prefix="perdure")


_pool = _new_pool()


def _after_fork() -> None:
    """A forked child has the pool but not its threads: it needs one of its own."""
    global _pool  # noqa: PLW0603 - there is one pool for a process, and this is a new process
    _pool = _new_pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


async def run_blocking(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run the function in a thread and await its result; a cancelled caller leaves, and the function runs on.

    For reading and computing. What writes belongs into `run_unit`.
    """
    return await asyncio.get_running_loop().run_in_executor(_pool, partial(function, *args, **kwargs))


def start_blocking(function: Callable[[], None]) -> None:
    """Start the function in a thread and do not wait; it must not raise. RuntimeError while the interpreter exits."""
    _pool.submit(function)


async def run_unit(function: Callable[[], T]) -> T:
    """Run the function in a thread; a cancelled caller waits until it has ended, or keeps it from beginning.

    Otherwise a write could still land after the lock that it was made under had been given up.
    """
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
    """A call that can be kept from beginning, but not stopped."""

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
        """Keep it from beginning if it has not begun; whether it is over, then."""
        with self._guard:
            self._given_up = True
            return self._ended or not self._begun
