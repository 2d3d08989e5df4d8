"""Memory: the library, for callers without an event loop; each method is AsyncMemory's, run through one portal."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from perdure.backends.embedders.base import Embedder
from perdure.domain.bench import BenchReport
from perdure.domain.event import Absence, AddResult, ErasureReport, HistoryRecord, ListResult, SearchResult
from perdure.domain.memory import MemoryItem
from perdure.domain.message import Message
from perdure.engine.config import MemoryConfig, read_file
from perdure.engine.requests import Filters, Messages, Moment
from perdure.engine.search_requests import TimeWindow
from perdure.frontends.library.async_memory import AsyncMemory
from perdure.frontends.library.graph import Graph
from perdure.frontends.library.portal import PORTAL
from perdure.frontends.library.sync_tidying import SyncTidying
from perdure.frontends.library.sync_verdicts import SyncVerdicts
from perdure.frontends.library.versions import Versions


class SyncEmbedder:
    """The embedder in use, for callers without an event loop (spec 000 §9.1)."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def dimension(self) -> int:
        """Length of every vector."""
        return self._embedder.dimension

    @property
    def label(self) -> str:
        """Which model's vectors these are."""
        return self._embedder.label

    def get_dimension(self) -> int:
        """`dimension`, by the name that spec 000 §9.1 gives it."""
        return self._embedder.dimension

    def embed(self, text: str) -> NDArray[np.float32]:
        """The vector of one text, of shape (dimension,)."""
        return PORTAL.call(self._embedder.embed(text))

    def embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of texts, of shape (len(texts), dimension)."""
        return PORTAL.call(self._embedder.embed_batch(texts))

    def score(self, similarity: float) -> float:
        """A cosine as a score in [0, 1]."""
        return self._embedder.score(similarity)


class Memory(SyncVerdicts, SyncTidying):
    """AsyncMemory without `await`: usable from any thread, and inside a running event loop (which it blocks)."""

    _memory: AsyncMemory

    def __init__(self, config: MemoryConfig | dict[str, Any] | None = None) -> None:
        self._memory = AsyncMemory(config)

    @classmethod
    def local(cls, path: str | os.PathLike[str] = "~/.memory") -> Self:
        """The embedded set in one folder: no key, no server, no download (DESIGN §4)."""
        return cls._over(AsyncMemory.local(path))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """The configuration of a TOML file such as `perdure init` writes."""
        return cls(read_file(path))

    @classmethod
    def _over(cls, memory: AsyncMemory) -> Self:
        self = cls.__new__(cls)
        self._memory = memory
        return self

    @property
    def config(self) -> MemoryConfig:
        """The configuration in force."""
        return self._memory.config

    @property
    def embedder(self) -> SyncEmbedder:
        """The embedder in use: `embed`, `embed_batch`, `dimension` (spec 000 §9.1)."""
        return SyncEmbedder(self._memory.embedder)

    @property
    def graph(self) -> Graph:
        """The entities that memories name and the relations between them, where a `graph_store` is configured."""
        return Graph(self._memory.graph)

    @property
    def versions(self) -> Versions:
        """The versions of a memory whose records are files: log, diff, revert, branches, merges, and a remote."""
        return Versions(self._memory.versions)

    def within(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        project_id: str | None = None,
        room_id: str | None = None,
        world_id: str | None = None,
    ) -> Self:
        """This memory behind walls: each call sees and changes what stands inside alone, and writes there."""
        return self._over(
            self._memory.within(
                user_id=user_id,
                agent_id=agent_id,
                run_id=run_id,
                project_id=project_id,
                room_id=room_id,
                world_id=world_id,
            )
        )

    def add(
        self,
        messages: Messages,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        filters: Filters | None = None,
        prompt: str | None = None,
        infer: bool = True,
        timestamp: Moment | None = None,
        type: str | None = None,
        expires_at: Moment | None = None,
        idempotency_key: str | None = None,
    ) -> AddResult:
        """Read a conversation and keep its facts: each is added, updates or retires another, or was known."""
        return PORTAL.call(
            self._memory.add(
                messages,
                user_id=user_id,
                agent_id=agent_id,
                run_id=run_id,
                metadata=metadata,
                filters=filters,
                prompt=prompt,
                infer=infer,
                timestamp=timestamp,
                type=type,
                expires_at=expires_at,
                idempotency_key=idempotency_key,
            )
        )

    def add_facts(
        self,
        facts: Sequence[str],
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> AddResult:
        """Keep texts that are facts already: nothing is extracted, but each is reconciled with what is known."""
        return PORTAL.call(
            self._memory.add_facts(facts, user_id=user_id, agent_id=agent_id, run_id=run_id, metadata=metadata)
        )

    def update(self, id: str, text: str, *, metadata: dict[str, Any] | None = None) -> MemoryItem:
        """Overwrite a memory's text; the id stays, metadata is merged, the old text stays as a version."""
        return PORTAL.call(self._memory.update(id, text, metadata=metadata))

    def delete(self, id: str, *, erase: bool = False) -> None:
        """Remove a memory from every read of the present; with `erase` from history and versions too, like `forget`."""
        return PORTAL.call(self._memory.delete(id, erase=erase))

    def delete_all(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        erase: bool = False,
    ) -> None:
        """Remove every memory of a scope; with `erase` as `forget` does."""
        return PORTAL.call(self._memory.delete_all(user_id=user_id, agent_id=agent_id, run_id=run_id, erase=erase))

    def forget(
        self,
        *,
        id: str | None = None,
        query: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        threshold: float = 0.75,
        erase: bool = True,
        dry_run: bool = False,
    ) -> ErasureReport:
        """Forget one memory, what a query finds in a scope at a score of `threshold`, or all of a scope."""
        return PORTAL.call(
            self._memory.forget(
                id=id,
                query=query,
                user_id=user_id,
                agent_id=agent_id,
                run_id=run_id,
                threshold=threshold,
                erase=erase,
                dry_run=dry_run,
            )
        )

    def feedback(self, id: str, verdict: str | None, *, reason: str | None = None) -> MemoryItem:
        """Say what a memory is worth: positive, negative or very_negative; None takes back what was said."""
        return PORTAL.call(self._memory.feedback(id, verdict, reason=reason))

    def undo(self, event_id: str) -> AddResult:
        """Take back one event, named by its history record's `id`; ConflictError where a later one built on it."""
        return PORTAL.call(self._memory.undo(event_id))

    def rollback(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        to: Moment,
    ) -> AddResult:
        """Bring a scope back to how it stood at a moment of the clock, by inverse events; erased text stays gone."""
        return PORTAL.call(self._memory.rollback(user_id=user_id, agent_id=agent_id, run_id=run_id, to=to))

    def reset(self) -> None:
        """Clear all memories, history, episodes and journal of this memory."""
        return PORTAL.call(self._memory.reset())

    def search(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
        filters: Filters | None = None,
        threshold: float | None = None,
        types: Sequence[str] | None = None,
        rerank: bool = False,
        history: Sequence[Message | Mapping[str, Any]] | None = None,
        as_of: Moment | None = None,
        include_past: bool = False,
        preset: str | None = None,
        explain: bool = False,
        hydrate: bool = False,
        reference_time: Moment | None = None,
        time_window: TimeWindow | None = None,
    ) -> SearchResult:
        """The memories that answer a query, best first."""
        return PORTAL.call(
            self._memory.search(
                query,
                user_id=user_id,
                agent_id=agent_id,
                run_id=run_id,
                limit=limit,
                filters=filters,
                threshold=threshold,
                types=types,
                rerank=rerank,
                history=history,
                as_of=as_of,
                include_past=include_past,
                preset=preset,
                explain=explain,
                hydrate=hydrate,
                reference_time=reference_time,
                time_window=time_window,
            )
        )

    def why_not(
        self,
        id: str,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
        filters: Filters | None = None,
        threshold: float | None = None,
        types: Sequence[str] | None = None,
        history: Sequence[Message | Mapping[str, Any]] | None = None,
        as_of: Moment | None = None,
        include_past: bool = False,
        preset: str | None = None,
        reference_time: Moment | None = None,
        time_window: TimeWindow | None = None,
    ) -> Absence:
        """Why `search` with the same arguments does not give a memory: the first step that it did not pass."""
        return PORTAL.call(
            self._memory.why_not(
                id,
                query,
                user_id=user_id,
                agent_id=agent_id,
                run_id=run_id,
                limit=limit,
                filters=filters,
                threshold=threshold,
                types=types,
                history=history,
                as_of=as_of,
                include_past=include_past,
                preset=preset,
                reference_time=reference_time,
                time_window=time_window,
            )
        )

    def get(self, id: str) -> MemoryItem | None:
        """The memory with this id, or None."""
        return PORTAL.call(self._memory.get(id))

    def get_all(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
        filters: Filters | None = None,
        cursor: str | None = None,
        as_of: Moment | None = None,
        include_past: bool = False,
    ) -> ListResult:
        """A page of a scope's memories, oldest first; `next_cursor` of one page is the `cursor` of the next."""
        return PORTAL.call(
            self._memory.get_all(
                user_id=user_id,
                agent_id=agent_id,
                run_id=run_id,
                limit=limit,
                filters=filters,
                cursor=cursor,
                as_of=as_of,
                include_past=include_past,
            )
        )

    def history(self, id: str) -> list[HistoryRecord]:
        """Everything that happened to a memory, oldest first; empty for an id that never was."""
        return PORTAL.call(self._memory.history(id))

    def context(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        max_tokens: int = 2000,
    ) -> str:
        """What is remembered of a query as a block for a prompt: quoted data, delimited, within `max_tokens`."""
        return PORTAL.call(
            self._memory.context(query, user_id=user_id, agent_id=agent_id, run_id=run_id, max_tokens=max_tokens)
        )

    def bench(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        probes: int = 200,
        preset: str | None = None,
        limit: int = 10,
    ) -> BenchReport:
        """How well `search` finds what is held: at most `probes` questions made from the memories themselves."""
        return PORTAL.call(
            self._memory.bench(
                user_id=user_id, agent_id=agent_id, run_id=run_id, probes=probes, preset=preset, limit=limit
            )
        )

    def close(self) -> None:
        """Finish what is under way and let go of every file; closing twice is no error."""
        return PORTAL.call(self._memory.close())
