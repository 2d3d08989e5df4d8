"""The calls that are under way in one engine, so that closing it can wait for them."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from perdure.domain.errors import ClosedError

_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.02
"""Seconds between two looks at calls that have not ended."""


class Calls:
    """Counts calls from any thread and event loop; after `refuse` no more begin."""

    def __init__(self) -> None:
        self.refused = False
        self.reset()

    def reset(self) -> None:
        """Forget the calls of the process that this one was forked from."""
        self._guard = threading.Lock()
        self._numbers = itertools.count()
        self._loops: dict[int, asyncio.AbstractEventLoop] = {}

    @contextmanager
    def one(self) -> Iterator[None]:
        """Be a call under way; ClosedError after `refuse`."""
        with self._guard:
            if self.refused:
                raise ClosedError("this memory was closed: make a new one")
            number = next(self._numbers)
            self._loops[number] = asyncio.get_running_loop()
        try:
            yield
        finally:
            del self._loops[number]

    def refuse(self) -> None:
        """Let no more calls begin."""
        with self._guard:
            self.refused = True

    async def ended(self) -> None:
        """Return once every call has ended; one whose event loop has stopped will not, and is not waited for."""
        pause = _FIRST_PAUSE
        while any(loop.is_running() for loop in list(self._loops.values())):
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)
