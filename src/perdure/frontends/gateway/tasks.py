"""Tasks: the work that an answer does not wait for; what is under way is finished when the server ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from perdure.engine.gateway.giving_way import GivingWay

T = TypeVar("T")


class Tasks:
    """Work in the background, in order within each line and behind recalls; it lasts as long as the server does."""

    def __init__(self, way: GivingWay) -> None:
        self._way = way
        self._under_way: set[asyncio.Task[Any]] = set()
        self._last: dict[str, asyncio.Task[Any]] = {}

    def spawn(self, work: Coroutine[Any, Any, T], line: str) -> asyncio.Task[T]:
        """Begin some work when what was begun before it in its line has ended, however it ended."""
        task = asyncio.create_task(self._after(self._last.get(line), work), name="perdure-gateway")
        self._under_way.add(task)
        self._last[line] = task
        task.add_done_callback(self._under_way.discard)
        task.add_done_callback(lambda done: self._last.pop(line) if self._last.get(line) is done else None)
        return task

    async def _after(self, before: asyncio.Task[Any] | None, work: Coroutine[Any, Any, T]) -> T:
        try:
            if before is not None:
                await asyncio.wait({before})
        except asyncio.CancelledError:
            work.close()
            raise
        return await self._way.behind(work)

    async def so_far(self) -> None:
        """Wait until what has been begun by now is done."""
        if self._under_way:
            await asyncio.wait(set(self._under_way))

    async def finish(self) -> None:
        """Wait until all of it is done, also what is begun meanwhile."""
        while self._under_way:
            await asyncio.wait(set(self._under_way))

    def __len__(self) -> int:
        return len(self._under_way)
