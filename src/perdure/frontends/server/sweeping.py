"""Sweeping: as long as a server runs, it deletes what has expired in the memories of teams (004, X38)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from perdure.engine.soft import given_up
from perdure.frontends.library.async_memory import AsyncMemory
from perdure.frontends.library.async_team import sweep

logger = logging.getLogger("perdure.server")

EVERY = 3600.0
"""Seconds between two sweeps: no read shows what has expired, so that nobody waits for one."""


@asynccontextmanager
async def sweeping(memory: AsyncMemory, every: float = EVERY) -> AsyncIterator[None]:
    """Sweep at once, and again every so many seconds, until the block ends."""
    task = asyncio.create_task(_sweep(memory, every), name="perdure-sweep")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _sweep(memory: AsyncMemory, every: float) -> None:
    while True:
        with given_up("what has expired is deleted by the next sweep"):
            removed = await sweep(memory)
            if removed:
                logger.info("deleted %d memories of teams that had expired", removed)
        await asyncio.sleep(every)
