"""A store that caches the searches of another until something of that user changes.

A key contains marks of the user and of the collection from before the query, and every write renews the marks of the
users whose rows it touches: so no answer from before a write is found after it, not even one that was being computed.
Empty answers are cached too. Without the cache, the store behind answers.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from perdure.backends import registry
from perdure.backends.blocking import run_blocking, run_unit
from perdure.backends.caches.base import Cache, CacheError
from perdure.backends.vector_stores.base import Hit, Hits, Names, Point, Vector
from perdure.backends.vector_stores.common.filter_clauses import filter_plain
from perdure.backends.vector_stores.common.wrapper import Part, WrappingStore
from perdure.domain.filter import And, Condition, Filter, Moment, Not, matches

_log = logging.getLogger("perdure")
AWAY = 2.0  # seconds for which a cache that failed is not asked again


class Answers:
    """Stores answers for a limited time. Methods never fail: a missing cache is logged once and skipped."""

    def __init__(self, cache: Cache, seconds: float) -> None:
        self._cache = cache
        self._seconds = seconds
        self._guard = threading.Lock()
        self._unmarked: set[str] = set()
        self._away_until = 0.0

    def renew(self, marks: Sequence[str]) -> None:
        """Renew marks; while that fails, this store does not use the cache."""
        with self._guard:  # held while the cache is asked: a mark that fails must not be taken for one that was given
            self._unmarked.update(marks)
            pending = {mark: token_hex(8).encode() for mark in self._unmarked}
            if pending and self._put(pending, anyway=True):
                self._unmarked.clear()

    def seen(self, marks: Sequence[str]) -> list[bytes] | None:
        """Return the current marks, created if missing; None if the cache cannot be trusted."""
        if time.monotonic() < self._away_until:
            return None
        if self._unmarked:
            self.renew(())
            if self._unmarked:
                return None
        try:
            found = self._cache.get(marks)
        except CacheError as error:
            self._lose(error)
            return None
        missing = {mark: token_hex(8).encode() for mark, value in zip(marks, found, strict=True) if value is None}
        if missing and not self._put(missing):
            return None
        return [missing[mark] if value is None else value for mark, value in zip(marks, found, strict=True)]

    def find(self, key: str) -> bytes | None:
        """Return the answer of a key, if it is still cached."""
        try:
            return self._cache.get([key])[0]
        except CacheError as error:
            self._lose(error)
            return None

    def keep(self, key: str, answer: bytes) -> None:
        self._put({key: answer})

    def _put(self, values: Mapping[str, bytes], *, anyway: bool = False) -> bool:
        """Store values; return whether the cache took them. An unreachable cache is only asked if necessary."""
        if not anyway and time.monotonic() < self._away_until:
            return False
        try:
            self._cache.put(values, self._seconds)
        except CacheError as error:
            self._lose(error)
            return False
        self._away_until = 0.0
        return True

    def _lose(self, error: CacheError) -> None:
        if not self._away_until:
            _log.warning("%s: searches are answered by the store alone until it is back", error)
        self._away_until = time.monotonic() + AWAY


# Under which key a search is cached, and what of a cached one is still true later.
#
# The engine asks for rows that have not run out by now, so that no two of its filters are the same. Such a condition,
# "not past its time at T", only ever loses rows as T grows: the answer of an earlier T, finished by the filter of the
# later one, is right unless it has become too short. So these conditions are part of no key.

RUNNING_OUT = frozenset({"expires_at", "valid_to", "untold_at"})  # fields that say until when a row is to be found


@dataclass(frozen=True, slots=True)
class Question:
    """A filter without its expiry times, and these times in order."""

    text: str
    moments: tuple[str, ...]
    user: str | None  # the one user whose rows alone can match; None where others' can


def question(filter: Filter | None) -> Question:
    """Return what a filter asks, independent of the time."""
    parts: Sequence[Filter] = filter.parts if isinstance(filter, And) else () if filter is None else (filter,)
    moments: list[str] = []
    written: list[Any] = []
    user: str | None = None
    for part in parts:
        if isinstance(part, Not) and _is_running_out(part.part):
            assert isinstance(part.part, Condition)
            assert isinstance(part.part.value, Moment)
            moments.append(part.part.value.text)
            written.append(["runs out", part.part.field])
            continue
        if isinstance(part, Condition) and (part.field, part.operator) == ("user_id", "eq"):
            user = part.value if isinstance(part.value, str) else user
        written.append(filter_plain(part))
    return Question(json.dumps(written), tuple(moments), user)


def _is_running_out(part: Filter) -> bool:
    return (
        isinstance(part, Condition)
        and part.field in RUNNING_OUT
        and part.operator == "lte"
        and isinstance(part.value, Moment)
    )


def digest(*parts: bytes | str) -> str:
    """Return a digest of parts with their lengths, so that no two lists collide."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "big"))
        found.update(data)
    return found.hexdigest()[:32]


def dump(hits: Hits, moments: Sequence[str]) -> bytes:
    return json.dumps([list(moments), [[hit.id, hit.score, hit.payload] for hit in hits]]).encode()


def still_true(kept: bytes, asked: Question, limit: int, filters: Filter | None) -> Hits | None:
    """Return the cached answer at a later time; None if it may have changed."""
    moments, rows = json.loads(kept)
    if len(moments) != len(asked.moments) or any(now < then for then, now in zip(moments, asked.moments, strict=True)):
        return None
    hits = [Hit(id, score, payload) for id, score, payload in rows]
    left = [hit for hit in hits if matches(filters, hit.payload)]
    return left if len(left) == len(hits) or len(hits) < limit else None


Ask = Callable[[], Awaitable[Hits | None]]


class CachedVectorStore(WrappingStore):
    """Answers searches from a cache for a limited time, and everything else from the store behind it."""

    name: ClassVar[str] = "cached"

    class Settings(BaseModel):
        """The store behind, the cache, and the lifetime."""

        model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

        store: Part
        """The store behind: `provider` and `config`."""
        cache: Part = Part(provider="memory")
        """Where answers are kept: `memory` for one process, `redis` for several."""
        ttl: float = Field(300.0, gt=0, le=86_400)
        """Seconds for which a cached answer is used."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.store)
        self.settings = settings
        self._cache: Cache = registry.build("caches", settings.cache.provider, settings.cache.config)
        self._answers = Answers(self._cache, settings.ttl)
        self._identity = ""
        kept = f"answers in the cache, out of reach, keep it for at most {settings.ttl:g} seconds"
        self.scrub_note = "; ".join(note for note in (self.scrub_note, kept) if note)  # type: ignore[misc]  # a class constant of the port

    async def open(self) -> None:
        await super().open()
        self._identity = await self._store.identity()

    async def close(self) -> None:
        await super().close()
        await run_unit(self._cache.close)

    async def delete_collection(self, name: str) -> None:
        await self._writing([self._whole(name)], lambda: self._store.delete_collection(name))

    async def reset(self) -> None:
        names = await self._store.list_collections()
        await self._writing([self._whole(name) for name in names], self._store.reset)

    async def apply(self, collection: str, puts: Sequence[Point], deletes: Sequence[str] = ()) -> None:
        points = list(puts)
        users = await self._users_of(collection, [*(point.id for point in points), *deletes])
        users |= {_user(point.payload) for point in points}
        await self._writing(self._marks(collection, users), lambda: self._store.apply(collection, points, deletes))

    async def recount(self, collection: str, puts: Sequence[Point]) -> None:
        await self._store.recount(collection, puts)

    async def update(
        self, collection: str, id: str, vector: Vector | None = None, payload: Mapping[str, Any] | None = None
    ) -> None:
        users = await self._users_of(collection, [id])
        if payload is not None:
            users.add(_user(payload))
        await self._writing(self._marks(collection, users), lambda: self._store.update(collection, id, vector, payload))

    async def _users_of(self, collection: str, ids: Sequence[str]) -> set[str | None]:
        return {_user(point.payload) for point in await self._store.get_many(collection, ids)} if ids else set()

    async def search(self, collection: str, query_vector: Vector, limit: int, filters: Filter | None = None) -> Hits:
        numbers = np.ascontiguousarray(query_vector, dtype=np.float32)
        found = await self._cached(
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
        return await self._cached(
            ("words", text),
            collection,
            limit,
            filters,
            lambda: self._store.keyword_search(collection, text, limit, filters),
        )

    async def _cached(
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
        """Write with new marks before and after, so that no older or concurrent answer is found later."""
        await run_blocking(self._answers.renew, marks)
        try:
            await write()
        finally:
            await run_unit(lambda: self._answers.renew(marks))

    def _whole(self, collection: str) -> str:
        """Return the key of the mark that changes when all rows of a collection are deleted."""
        return f"memory_cache:c:{digest(self._identity, collection)}"

    def _mark(self, collection: str, user: str | None) -> str:
        """Return the key of the mark for a user's rows; of None for anybody's."""
        place = digest(self._identity, collection)
        return f"memory_cache:a:{place}" if user is None else f"memory_cache:u:{place}:{user}"

    def _marks(self, collection: str, users: Iterable[str | None]) -> Names:
        return [self._mark(collection, user) for user in {None, *users}]


def _user(payload: Mapping[str, Any]) -> str | None:
    user = payload.get("user_id")
    return user if isinstance(user, str) else None
