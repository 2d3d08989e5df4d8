"""A gate that lets recalls run before background work of the same event loop.

The work after a turn takes some thirty steps of one to ten milliseconds. Python runs one thread at a time, so each step
that runs during a recall makes the recall that much slower.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
GRACE_SECONDS: Final = 0.002
"""Seconds after a recall before the work goes on, so that the recall's request goes out first."""
MAX_WAIT_SECONDS: Final = 0.1
"""Seconds that one piece of work waits in total; a server that always recalls must keep its turns too."""


class PriorityGate:
    """Counts the recalls in flight on one event loop, and makes other work wait for their end."""

    def __init__(self) -> None:
        self._under_way = 0
        self._clear_at = 0.0
        self._waiting: set[asyncio.Future[None]] = set()

    @contextmanager
    def first(self) -> Iterator[None]:
        """Count one recall for the length of the block."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._clear_at = time.monotonic() + GRACE_SECONDS
                if self._waiting:
                    asyncio.get_running_loop().call_later(GRACE_SECONDS, self._go_on)

    def behind(self, work: Awaitable[T]) -> Awaitable[T]:
        """Wrap work so that it pauses during recalls, at its start and after each await.

        It keeps its locks while it pauses, so no recall may wait for one of them. Results, errors and cancellation pass
        through unchanged.
        """
        return _Behind(self, work)

    @property
    def is_clear(self) -> bool:
        """Whether no recall is in flight, nor was `GRACE_SECONDS` ago."""
        return not self._under_way and time.monotonic() >= self._clear_at

    async def clear(self, seconds: float) -> None:
        """Wait until no recall is in flight, at most `seconds`."""
        until = time.monotonic() + seconds
        while not self.is_clear and (left := until - time.monotonic()) > 0:
            freed = asyncio.get_running_loop().create_future()
            self._waiting.add(freed)
            if not self._under_way:
                left = min(left, max(0.0, self._clear_at - time.monotonic()))
            try:
                await asyncio.wait((freed,), timeout=left)
            finally:
                self._waiting.discard(freed)

    def _go_on(self) -> None:
        if not self._under_way:  # where another has begun meanwhile, its end will tell
            for freed in self._waiting:
                if not freed.done():
                    freed.set_result(None)


class _Behind(Generic[T]):
    """Drives the work from one await to the next, and waits for the gate in between."""

    __slots__ = ("_left", "_way", "_work")

    def __init__(self, way: PriorityGate, work: Awaitable[T]) -> None:
        self._way = way
        self._work = work
        self._left = MAX_WAIT_SECONDS

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._work.__await__()
        failure: BaseException | None = None
        while True:
            try:
                if failure is None:
                    yield from self._stand_back()
            except BaseException as error:  # the work hears of it, as if it had waited here itself
                failure = error
            try:
                awaited = next(steps) if failure is None else steps.throw(failure)
            except StopIteration as ended:
                result: T = ended.value
                return result
            failure = None
            try:
                yield awaited
            except BaseException as error:
                failure = error

    def _stand_back(self) -> Generator[Any, Any, None]:
        if self._left > 0 and not self._way.is_clear:
            began = time.monotonic()
            try:
                yield from self._way.clear(self._left).__await__()
            finally:
                self._left -= time.monotonic() - began
