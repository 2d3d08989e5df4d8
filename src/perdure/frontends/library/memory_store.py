"""MemoryStore: the explicit store of spec 001 §8, for callers without an event loop."""

from __future__ import annotations

import builtins
import os
from collections.abc import Mapping, Sequence
from typing import Self

from perdure.domain.derived import Insight
from perdure.domain.errors import ConfigError
from perdure.domain.event import ErasureReport
from perdure.domain.scope import Scope
from perdure.domain.stored_memory import MemoryListing, RetrieveResult, StoredMemory
from perdure.domain.text import shown
from perdure.frontends.library.async_memory_store import (
    LIST_LIMIT,
    RETRIEVE_LIMIT,
    RETRIEVE_THRESHOLD,
    AsyncMemoryStore,
    Given,
)
from perdure.frontends.library.closing import Closing
from perdure.frontends.library.memory import Memory
from perdure.frontends.library.portal import PORTAL


class MemoryStore(Closing):
    """AsyncMemoryStore without `await`, over a Memory: usable from any thread, and inside a running event loop."""

    def __init__(self, memory: Memory) -> None:
        if not isinstance(memory, Memory):
            raise ConfigError(f"a MemoryStore stands on a Memory, not on {shown(memory)}", field="memory")
        self._store = AsyncMemoryStore(memory._memory)

    @classmethod
    def local(cls, path: str | os.PathLike[str] = "~/.memory") -> Self:
        """A store over the embedded set in one folder, which closes with it: no key, no server, no download."""
        self = cls.__new__(cls)
        self._store = AsyncMemoryStore.local(path)
        return self

    def store(
        self,
        memory: Given,
        *,
        user_id: str | None = None,
        project_id: str | None = None,
        type: str | None = None,
        source: str | None = None,
        importance: float | None = None,
        id: str | None = None,
    ) -> StoredMemory:
        """Keep a new memory as it is, without extraction; fields may stand in the object or beside it."""
        return PORTAL.call(
            self._store.store(
                memory,
                user_id=user_id,
                project_id=project_id,
                type=type,
                source=source,
                importance=importance,
                id=id,
            )
        )

    def update(
        self,
        id: str,
        memory: Given | None = None,
        *,
        type: str | None = None,
        source: str | None = None,
        importance: float | None = None,
    ) -> StoredMemory:
        """Set the fields that are given; the id stays, and what stood there stays as a version."""
        return PORTAL.call(self._store.update(id, memory, type=type, source=source, importance=importance))

    def forget(self, id: str, *, erase: bool = True) -> ErasureReport:
        """Delete a memory and erase its text from every place that held it; NotFoundError for an unknown id."""
        return PORTAL.call(self._store.forget(id, erase=erase))

    def forget_by_scope(
        self,
        *,
        user_id: str | None = None,
        project_id: str | None = None,
        types: Sequence[str] | None = None,
        erase: bool = True,
    ) -> ErasureReport:
        """Delete and erase all memories of a user, of one project of theirs, of some types."""
        return PORTAL.call(
            self._store.forget_by_scope(user_id=user_id, project_id=project_id, types=types, erase=erase)
        )

    def consolidate(self, memory_ids: Sequence[str]) -> StoredMemory:
        """Merge at least two memories of one user, project and type into one, which takes their place."""
        return PORTAL.call(self._store.consolidate(memory_ids))

    def reflect(
        self,
        scope: Scope | Mapping[str, str] | None = None,
        *,
        user_id: str | None = None,
        project_id: str | None = None,
        about: str | None = None,
    ) -> builtins.list[Insight]:
        """What a user's memories show together, each insight with the memories that it came from."""
        return PORTAL.call(self._store.reflect(scope, user_id=user_id, project_id=project_id, about=about))

    def retrieve(
        self,
        query: str,
        *,
        user_id: str | None = None,
        project_id: str | None = None,
        types: Sequence[str] | None = None,
        limit: int = RETRIEVE_LIMIT,
        threshold: float = RETRIEVE_THRESHOLD,
    ) -> builtins.list[RetrieveResult]:
        """A user's memories that answer a query and score at least `threshold`, best first."""
        return PORTAL.call(
            self._store.retrieve(
                query, user_id=user_id, project_id=project_id, types=types, limit=limit, threshold=threshold
            )
        )

    def get(self, id: str) -> StoredMemory:
        """The memory with this id; NotFoundError where there is none."""
        return PORTAL.call(self._store.get(id))

    def list(
        self,
        *,
        user_id: str | None = None,
        project_id: str | None = None,
        types: Sequence[str] | None = None,
        limit: int = LIST_LIMIT,
    ) -> MemoryListing:
        """A user's memories, newest first, at most 100 of them, and how many there are in all."""
        return PORTAL.call(self._store.list(user_id=user_id, project_id=project_id, types=types, limit=limit))

    def is_enabled(self) -> bool:
        """Whether memories can be had: not after `close`, nor where the store cannot be opened (V3)."""
        return PORTAL.call(self._store.is_enabled())

    def close(self) -> None:
        """Take no more calls, and close the memory that `local` opened; closing twice is no error."""
        return PORTAL.call(self._store.close())
