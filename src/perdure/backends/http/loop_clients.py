"""One client per event loop: a connection belongs to the loop that opened it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, TypeVar

C = TypeVar("C")


class LoopClients(Generic[C]):
    """The clients of all loops, each made on its first use there.

    A loop that is shut down in the ordinary way (asyncio.run) closes its client first.
    """

    def __init__(self, closed: Callable[[C], Awaitable[None]]) -> None:
        """`closed` closes a client's connections."""
        self._closed = closed
        self._guard = threading.Lock()
        self._kept: dict[asyncio.AbstractEventLoop, tuple[C, AsyncGenerator[C, None]]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    async def of_this_loop(self, make: Callable[[], Awaitable[C]]) -> C:
        """The client of the running loop, made if there is none."""
        loop = asyncio.get_running_loop()
        if kept := self._kept.get(loop):
            return kept[0]
        client = await make()
        with self._guard:
            for dead in [other for other in self._kept if other.is_closed()]:
                del self._kept[dead]
            kept = self._kept.setdefault(loop, (client, self._closing_with_the_loop(client)))
        if kept[0] is client:
            await anext(kept[1])  # from now on the loop knows of it
        else:  # another task was faster
            await self._closed(client)
        return kept[0]

    async def close(self) -> None:
        """Close the clients of every loop that still runs."""
        with self._guard:
            kept, self._kept = self._kept, {}
        here = asyncio.get_running_loop()
        for loop, (_, keeper) in kept.items():
            if loop is here:
                await keeper.aclose()
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_ended(keeper), loop))

    async def _closing_with_the_loop(self, client: C) -> AsyncGenerator[C, None]:
        """Holds the client open: a loop that shuts down ends its asynchronous generators, and so closes it."""
        try:
            yield client
        finally:
            await self._closed(client)


async def _ended(keeper: AsyncGenerator[C, None]) -> None:
    await keeper.aclose()
