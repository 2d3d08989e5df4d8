"""In time: looks into a ledger that may hang, of which nobody waits for longer than a request may."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from perdure.domain.errors import LedgerError

T = TypeVar("T")


class InTime:
    """Waits for looks, and counts those that are under way after nobody waits for them any more: `at_once` at most."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._late: set[asyncio.Task[Any]] = set()

    async def __call__(self, look: Coroutine[Any, Any, T], seconds: float) -> T:
        """What a look comes to; LedgerError where that takes longer than so many seconds."""
        if len(self._late) >= self._at_once:
            look.close()
            raise LedgerError("the ledger does not answer")
        task = asyncio.create_task(look)
        try:
            await asyncio.wait((task,), timeout=max(0.0, seconds))
        finally:
            if not task.done():  # it is not cancelled, or its thread would go on uncounted
                self._late.add(task)
                task.add_done_callback(self._ended)
        if not task.done():
            raise LedgerError("the ledger does not answer in time")
        return task.result()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._late.discard(task)
        if not task.cancelled():
            task.exception()  # nobody else asks for it
