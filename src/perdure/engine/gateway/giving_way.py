"""Giving way: work that nobody waits for stands back while a request waits for memory (V63).

Both need the interpreter, which runs one thread at a time: what a turn leaves behind is some thirty steps of one to ten
milliseconds, and each of them that runs beside a recall makes it as much slower.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

BREATH: Final = 0.002
"""Seconds after a recall in which its request goes out, before the work goes on."""
PATIENCE: Final = 0.1
"""Seconds that one piece of work stands back in all: a server that always recalls must keep what is said, too."""


class GivingWay:
    """Knows the recalls that are under way on one event loop, and lets work wait for their end."""

    def __init__(self) -> None:
        self._under_way = 0
        self._clear_at = 0.0
        self._waiting: set[asyncio.Future[None]] = set()

    @contextmanager
    def first(self) -> Iterator[None]:
        """Be a recall under way."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._clear_at = time.monotonic() + BREATH
                if self._waiting:
                    asyncio.get_running_loop().call_later(BREATH, self._go_on)

    def behind(self, work: Awaitable[T]) -> Awaitable[T]:
        """The work, which stands back wherever it has awaited something and a recall is under way, and as it begins.

        What it holds then it goes on holding: no recall may wait for that. It ends as it would by itself, and is
        cancelled at once.
        """
        return _Behind(self, work)

    @property
    def is_clear(self) -> bool:
        """Whether no recall is under way, nor was a moment ago."""
        return not self._under_way and time.monotonic() >= self._clear_at

    async def clear(self, seconds: float) -> None:
        """Return once no recall is under way, or after so many seconds."""
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
    """Drives the work from one point where it awaits something to the next, and waits in between."""

    __slots__ = ("_left", "_way", "_work")

    def __init__(self, way: GivingWay, work: Awaitable[T]) -> None:
        self._way = way
        self._work = work
        self._left = PATIENCE

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
