"""In time: looks into what may hang, of which nobody waits for longer than a request may."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from perdure.domain.errors import LedgerError

T = TypeVar("T")


@dataclass(slots=True)
class Late:
    """Looks that went on after their request; they are not cancelled, or their threads would go on uncounted."""

    tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    def note(self, task: asyncio.Task[Any]) -> None:
        """Count a look until it ends."""
        self.tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # nobody else asks for it


class InTime:
    """Waits for looks, and counts those that are under way after nobody waits for them any more: `at_once` at most."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._late = Late()

    async def __call__(self, look: Coroutine[Any, Any, T], seconds: float) -> T:
        """What a look comes to; LedgerError where that takes longer than so many seconds."""
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
