"""Runtimes for tests: opened, closed, and awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from perdure import AgentRuntime, AsyncMemory
from perdure.frontends.library.runtime import RuntimeMemory

ANA, BEN = "ana", "ben"
ROOM = "room-1"


def awaited(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """An async test as pytest runs it."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


@asynccontextmanager
async def opened(path: Path, agent_id: str = "agent", *, store: str = "sqlite") -> AsyncIterator[AgentRuntime]:
    """A runtime over an embedded store, with the hashed embedder."""
    config = {"path": str(path), "embedder": {"provider": "hashed"}, "vector_store": {"provider": store}}
    async with AsyncMemory(config) as memory, AgentRuntime(agent_id, memory) as runtime:
        yield runtime


def said(text: str, **fields: Any) -> dict[str, Any]:
    """A memory of Ana's in the first room."""
    return {"content": {"text": text}, "entityId": ANA, "roomId": ROOM, **fields}


def texts(memories: list[RuntimeMemory]) -> list[str]:
    """What they say."""
    return [memory.content["text"] for memory in memories]
