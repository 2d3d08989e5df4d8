"""The calls that are under way in one engine, so that closing it can wait for them."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from perdure.domain.errors import ClosedError, NoCollectionError, PerdureError

_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.02
"""Seconds between two looks at calls that have not ended."""


class Calls:
    """Knows the calls under way, of any thread and event loop; after `refuse` no more begin."""

    def __init__(self) -> None:
        self._refused = False
        self.reset()

    def reset(self) -> None:
        """Forget the calls of the process that this one was forked from."""
        self._guard = threading.Lock()
        self._numbers = itertools.count()
        self._loops: dict[int, asyncio.AbstractEventLoop] = {}

    @contextmanager
    def one(self) -> Iterator[None]:
        """Be a call under way; ClosedError after `refuse`."""
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
        """Let no more calls begin."""
        with self._guard:
            self._refused = True

    async def ended(self) -> None:
        """Return once every call has ended; one whose event loop has stopped never will, and is not waited for."""
        pause = _FIRST_PAUSE
        while self.are_under_way:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    @property
    def are_under_way(self) -> bool:
        """Whether there are any."""
        with self._guard:
            return any(loop.is_running() for loop in self._loops.values())


class Kernel(Protocol):
    """What a call needs of the kernel."""

    @property
    def calls(self) -> Calls:
        """Those under way."""

    @property
    def open(self) -> Callable[[], Awaitable[None]]:
        """Opens the backends once."""

    async def why_gone(self, error: NoCollectionError) -> PerdureError:
        """The error to tell a caller whose collection went while it was in use."""


class Path(Protocol):
    """What works through a kernel."""

    @property
    def _kernel(self) -> Kernel: ...


S = TypeVar("S", bound=Path)
P = ParamSpec("P")
T = TypeVar("T")


def call(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Make a path's method a call: it finds the backends open, and closing waits for it; ClosedError after that."""

    @wraps(method)
    async def counted(path: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        kernel = path._kernel
        with kernel.calls.one():
            await kernel.open()
            try:
                return await method(path, *args, **kwargs)
            except NoCollectionError as error:
                raise await kernel.why_gone(error) from error

    return counted
