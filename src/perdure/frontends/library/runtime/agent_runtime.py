"""AgentRuntime, the interface for agents written in Python (`await runtime.createMemory({...}, "messages")`)."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any, Self

from perdure.backends.vector_stores.base import Vector
from perdure.domain.errors import ConfigError, InvalidInputError
from perdure.domain.runtime import read_uuid
from perdure.domain.scope import Scope
from perdure.domain.text.readable import shown
from perdure.engine.agent_runtime.embedding_queue import EmbeddingQueue, read_priority
from perdure.engine.agent_runtime.memories import Memories, MemoryReader
from perdure.engine.agent_runtime.tables import Tables, Tasks, Worker
from perdure.engine.aio.calls import degrade
from perdure.engine.core.access import UNRESTRICTED, scoped
from perdure.engine.engine import Engine
from perdure.engine.requests import read_text
from perdure.frontends.library.closing import AsyncClosing
from perdure.frontends.library.memory import AsyncMemory, Memory
from perdure.frontends.library.runtime.memories import RuntimeDocuments
from perdure.frontends.library.runtime.shapes import Given, read_memory
from perdure.frontends.library.runtime.tables import RuntimeTables

logger = logging.getLogger("perdure")
EVENT = "EMBEDDING_GENERATION_"  # prefix of the queue's events: REQUESTED, COMPLETED, FAILED
Listener = Callable[[dict[str, Any]], Awaitable[None] | None]  # called with an event and its data


class AgentRuntime(RuntimeDocuments, RuntimeTables, AsyncClosing):
    """The memory of one agent, in a store that other agents and every other interface may share.

    Each method has a snake_case and a camelCase name, and takes its values as keywords in either case or in one
    dictionary. `entityId` is `user_id` elsewhere, `roomId` is `run_id`, `agentId` is `agent_id`.
    """

    def __init__(self, agent_id: str, memory: AsyncMemory | Memory | Engine) -> None:
        """Use a memory that is already open; closing the runtime leaves it open."""
        if isinstance(memory, Memory):
            memory = memory._memory
        if not isinstance(memory, (AsyncMemory, Engine)):
            raise ConfigError(
                f"an AgentRuntime stands on an AsyncMemory, a Memory or an Engine, not {shown(memory)}: or open one"
                " with AgentRuntime.local(path, agent_id=...)",
                field="memory",
            )
        self._own: AsyncMemory | None = None
        self._engine = memory if isinstance(memory, Engine) else memory._engine
        self._agent_id = read_text(agent_id, "agent_id")
        self._walls = UNRESTRICTED if isinstance(memory, Engine) else memory._walls
        scoped(self._walls, Scope(agent_id=self._agent_id))
        kernel = self._engine.kernel
        self._memories = Memories(kernel, self._wait)
        self._reading = MemoryReader(kernel, self._engine.access_counts)
        self._tables = Tables(kernel, self._memories, self._walls)
        self._tasks = Tasks(kernel, self._tables)
        self._workers: dict[str, Worker] = {}
        self._queue = EmbeddingQueue(self._embed, self._told)
        self._listeners: dict[str, list[Listener]] = {}

    @classmethod
    def local(cls, path: str | os.PathLike[str] = "~/.memory", *, agent_id: str) -> Self:
        """Open an agent's memory with the embedded providers in one folder: no key, no server, no download."""
        memory = AsyncMemory.local(path)
        runtime = cls(agent_id, memory)
        runtime._own = memory
        return runtime

    @property
    def agent_id(self) -> str:
        """The agent of this runtime."""
        return self._agent_id

    def register_event(self, event: str, handler: Listener) -> None:
        """Call a function, or coroutine function, at each event of a name."""
        if not callable(handler):
            raise InvalidInputError(f"handler must be callable, not {shown(handler)}", field="handler", value=handler)
        self._listeners.setdefault(read_text(event, "event"), []).append(handler)

    async def emit_event(self, event: str, payload: dict[str, Any] | None = None) -> None:
        """Call every listener of an event; a failure is logged, and the other listeners are still called."""
        for handler in self._listeners.get(read_text(event, "event"), []):
            try:
                answer = handler({} if payload is None else payload)
                if inspect.isawaitable(answer):
                    await answer
            except Exception as error:  # a listener's failure is not the memory's, and its text may contain event data
                logger.warning("a listener of %s failed: %s", event, type(error).__name__)

    async def settled(self) -> None:
        """Wait until no memory waits to be embedded."""
        await self._queue.settled()

    async def close(self) -> None:
        """Embed waiting memories of high priority, and close the memory that `local` opened; twice is no error."""
        await self._queue.stop()
        if self._own is not None:
            await self._own.close()

    async def queue_embedding_generation(self, memory: Given, priority: str = "normal") -> None:
        """Queue a stored memory for embedding: high before normal before low.

        Nothing happens if it has a vector already, or no text. It ends in the event EMBEDDING_GENERATION_COMPLETED or,
        after three more attempts, EMBEDDING_GENERATION_FAILED; in none if the memory is gone by then, or has another
        text.
        """
        chosen, read = read_priority(priority), read_memory(memory)
        if read.embedding is not None or not read.text.strip():
            return
        if read.id is None:
            raise InvalidInputError("id is required: only a memory that is kept can be embedded later", field="id")
        await self._told("requested", {"memory_id": read.id, "priority": chosen})
        self._queue.add(read_uuid(read.id), read.text, chosen)

    def _wait(self, id: str, text: str) -> None:
        self._queue.add(id, text)

    async def _embed(self, id: str, text: str) -> Vector | None:
        return await self._memories.embed(id, text, self._walls)

    async def _told(self, what: str, payload: dict[str, Any]) -> None:
        """Emit the event of an embedding; its result is also logged."""
        if what != "requested":
            body = {name: value for name, value in payload.items() if name != "embedding"}
            with degrade("an embedding is not in the log"):
                await self.log(type="embedding_event", body={"status": what, **body})
        await self.emit_event(f"{EVENT}{what.upper()}", payload)
