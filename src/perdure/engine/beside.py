"""Beside: work that goes on while something else is done, and never for longer than that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Begin the work; the block awaits what is given here for its result, and where it is left before, it is ended."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
