"""A store in front of another: searches are answered from a cache until something of that user changes (V67, B17).

A key holds marks of the user and of the collection as they were before the question was asked, and every write gives
the users whose rows it touches new marks: so an answer from before a write is never found after it, not even one that
was under way meanwhile. Empty answers are kept too. Without the cache, the store behind answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from perdure.backends import registry
from perdure.backends.blocking import run_blocking, run_unit
from perdure.backends.caches.base import Cache
from perdure.backends.vector_stores._cached_answers import Answers
from perdure.backends.vector_stores._cached_keys import digest, dump, question, still_true
from perdure.backends.vector_stores._wrapping import Part, WrappingStore
from perdure.backends.vector_stores.base import (
    Hits,
    Names,
    Point,
    Vector,
)
from perdure.domain.filter import Filter

Ask = Callable[[], Awaitable[Hits | None]]


class CachedVectorStore(WrappingStore):
    """Answers searches from a cache for a while, and everything else from the store behind it."""

    name: ClassVar[str] = "cached"

    class Settings(BaseModel):
        """The store behind, the cache, and for how long."""

        model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

        store: Part
        """The store behind: `provider` and `config`."""
        cache: Part = Part(provider="memory")
        """Where answers are kept: `memory` for one process, `redis` for several."""
        ttl: float = Field(300.0, gt=0, le=86_400)
        """Seconds for which an answer may be given again."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.store)
        self.settings = settings
        self._cache: Cache = registry.build("caches", settings.cache.provider, settings.cache.config)
        self._answers = Answers(self._cache, settings.ttl)
        self._identity = ""
        kept = f"answers in the cache, out of reach, keep it for at most {settings.ttl:g} seconds"
        self.scrub_note = "; ".join(note for note in (self.scrub_note, kept) if note)  # type: ignore[misc]  # as durable

    # ------------------------------------------------------------------ life
    async def open(self) -> None:
        """Open the store behind."""
        await super().open()
        self._identity = await self._store.identity()

    async def close(self) -> None:
        """Close both."""
        await super().close()
        await run_unit(self._cache.close)

    # ------------------------------------------------------------------ collections
    async def delete_collection(self, name: str) -> None:
        """Remove a collection, and what was cached of it."""
        await self._writing([self._whole(name)], lambda: self._store.delete_collection(name))

    async def reset(self) -> None:
        """Remove every row of every collection, and all that was cached."""
        names = await self._store.list_collections()
        await self._writing([self._whole(name) for name in names], self._store.reset)

    # ------------------------------------------------------------------ rows
    async def apply(self, collection: str, puts: Sequence[Point], deletes: Sequence[str] = ()) -> None:
        """Write and delete rows; the users that they had and that they have get new marks."""
        points = list(puts)
        users = await self._users_of(collection, [*(point.id for point in points), *deletes])
        users |= {_user(point.payload) for point in points}
        await self._writing(self._marks(collection, users), lambda: self._store.apply(collection, points, deletes))

    async def update(
        self, collection: str, id: str, vector: Vector | None = None, payload: Mapping[str, Any] | None = None
    ) -> None:
        """Replace a row's vector or payload; the users that it had and has get new marks."""
        users = await self._users_of(collection, [id])
        if payload is not None:
            users.add(_user(payload))
        await self._writing(self._marks(collection, users), lambda: self._store.update(collection, id, vector, payload))

    async def _users_of(self, collection: str, ids: Sequence[str]) -> set[str | None]:
        return {_user(point.payload) for point in await self._store.get_many(collection, ids)} if ids else set()

    # ------------------------------------------------------------------ reading
    async def search(self, collection: str, query_vector: Vector, limit: int, filters: Filter | None = None) -> Hits:
        """The nearest rows, from the cache if it is known that they are still these."""
        numbers = np.ascontiguousarray(query_vector, dtype=np.float32)
        found = await self._reading(
            ("vector", numbers.tobytes(), str(numbers.shape)),
            collection,
            limit,
            filters,
            lambda: self._store.search(collection, query_vector, limit, filters),
        )
        return found or []

    async def keyword_search(
        self, collection: str, text: str, limit: int, filters: Filter | None = None
    ) -> Hits | None:
        """The rows that share words, from the cache if it is known that they are still these."""
        return await self._reading(
            ("words", text),
            collection,
            limit,
            filters,
            lambda: self._store.keyword_search(collection, text, limit, filters),
        )

    # ------------------------------------------------------------------ the cache
    async def _reading(
        self, what: Sequence[bytes | str], collection: str, limit: int, filters: Filter | None, ask: Ask
    ) -> Hits | None:
        asked = question(filters)
        marks = [self._whole(collection), self._mark(collection, asked.user)]
        seen = await run_blocking(self._answers.seen, marks)
        if seen is None:
            return await ask()
        user = "*" if asked.user is None else asked.user
        key = f"memory_cache:v:{user}:{digest(*marks, *seen, *what, str(limit), asked.text)}"
        kept = await run_blocking(self._answers.find, key)
        hits = None if kept is None else still_true(kept, asked, limit, filters)
        if hits is None:
            hits = await ask()
            if hits is not None:
                await run_blocking(self._answers.keep, key, dump(hits, asked.moments))
        return hits

    async def _writing(self, marks: Sequence[str], write: Callable[[], Awaitable[None]]) -> None:
        """Write with new marks before and after: no answer that was under way then, or is older, is found later."""
        await run_blocking(self._answers.renew, marks)
        try:
            await write()
        finally:
            await run_unit(lambda: self._answers.renew(marks))

    def _whole(self, collection: str) -> str:
        """The key of the mark that changes when all rows of a collection go."""
        return f"memory_cache:c:{digest(self._identity, collection)}"

    def _mark(self, collection: str, user: str | None) -> str:
        """The key of the mark that changes with the rows of a user; of None with those of anybody."""
        place = digest(self._identity, collection)
        return f"memory_cache:a:{place}" if user is None else f"memory_cache:u:{place}:{user}"

    def _marks(self, collection: str, users: Iterable[str | None]) -> Names:
        return [self._mark(collection, user) for user in {None, *users}]


def _user(payload: Mapping[str, Any]) -> str | None:
    user = payload.get("user_id")
    return user if isinstance(user, str) else None
