"""The embedding queue: memories without a vector get one later, by priority."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from perdure.backends.vector_stores.base import Vector
from perdure.engine.agent_runtime.drafts import shown_vector
from perdure.engine.aio.calls import degrade
from perdure.engine.requests import invalid

logger = logging.getLogger("perdure")
PRIORITIES = ("high", "normal", "low")  # in the order of processing; within one, first come, first served
MOST = 1_000  # maximum waiting memories
DROPPED = 10  # memories that are dropped when it is full, of the lowest priority, the oldest first
PARALLEL = 10  # memories embedded at a time
PAUSE = 0.1  # seconds between two rounds; doubled after each failure
RETRIES = 3  # retries of a failed memory
Embed = Callable[[str, str], Awaitable[Vector | None]]
"""Embeds the text of a memory by its id; returns None if it is gone or has another text by now."""
Told = Callable[[str, dict[str, Any]], Awaitable[None]]
"""Called with `completed` or `failed`, and the memory's id and priority."""


@dataclass(slots=True)
class _Waiting:
    id: str
    text: str
    priority: str
    failures: int = 0


def read_priority(value: object) -> str:
    """Read high, normal or low."""
    if value not in PRIORITIES:
        raise invalid("priority", f"one of {', '.join(PRIORITIES)}", value)
    return str(value)


class EmbeddingQueue:
    """Embeds in a task of the running event loop; dropped and failed memories wait for the next opening."""

    def __init__(self, embed: Embed, told: Told) -> None:
        self._embed = embed
        self._told = told
        self._queues: dict[str, deque[_Waiting]] = {priority: deque() for priority in PRIORITIES}
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def add(self, id: str, text: str, priority: str = "normal") -> None:
        """Enqueue a memory; nothing happens after `stop`."""
        if self._stopped:
            return
        if len(self) >= MOST:
            self._drop()
        self._queues[priority].append(_Waiting(id, text, priority))
        task, loop = self._task, asyncio.get_running_loop()
        if task is None or task.done() or task.get_loop() is not loop:
            self._task = loop.create_task(self._work(), name="perdure-embedding-queue")

    async def settled(self) -> None:
        """Return once nothing waits any more."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    async def stop(self) -> None:
        """Accept no more, try those of high priority once more, and drop the rest."""
        self._stopped = True
        if self._task is not None and self._task.get_loop() is asyncio.get_running_loop():
            self._task.cancel()
            await asyncio.wait([self._task])
        high = self._queues["high"]
        while high:
            await asyncio.gather(*(self._once(high.popleft()) for _ in range(min(PARALLEL, len(high)))))
        for queue in self._queues.values():
            queue.clear()

    async def _work(self) -> None:
        pause = PAUSE
        while some := self._next():
            try:
                failed = [one for one in await asyncio.gather(*map(self._once, some)) if one is not None]
            except asyncio.CancelledError:
                self._again(some)
                raise
            self._again([one for one in failed if one.failures <= RETRIES])
            pause = 2 * pause if failed else PAUSE
            await asyncio.sleep(pause)

    def _next(self) -> list[_Waiting]:
        some: list[_Waiting] = []
        for queue in self._queues.values():
            while queue and len(some) < PARALLEL:
                some.append(queue.popleft())
        return some

    def _again(self, some: list[_Waiting]) -> None:
        for one in reversed(some):
            self._queues[one.priority].appendleft(one)

    async def _once(self, one: _Waiting) -> _Waiting | None:
        """Embed one memory; return the memory itself if that failed."""
        warnings: list[str] = []
        with degrade("a memory stays without its vector for now", warnings):
            vector = await self._embed(one.id, one.text)
            if vector is not None:
                await self._told(
                    "completed", {"memory_id": one.id, "priority": one.priority, "embedding": shown_vector(vector)}
                )
        if not warnings:
            return None
        one.failures += 1
        if one.failures > RETRIES or self._stopped:
            with degrade("a failed embedding is not on record"):
                await self._told("failed", {"memory_id": one.id, "priority": one.priority, "error": warnings[0]})
        return one

    def _drop(self) -> None:
        left = DROPPED
        for priority in reversed(PRIORITIES):
            queue = self._queues[priority]
            while queue and left:
                queue.popleft()
                left -= 1
        logger.warning("%d memories wait to be embedded: %d more are embedded at the next start", len(self), DROPPED)
