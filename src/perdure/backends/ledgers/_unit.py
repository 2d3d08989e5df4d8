"""A unit of work in a thread that is over when its caller goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from perdure.backends.blocking import run_blocking

T = TypeVar("T")

_PAUSE = 0.001
"""Seconds between two looks at a unit whose caller was cancelled."""


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
