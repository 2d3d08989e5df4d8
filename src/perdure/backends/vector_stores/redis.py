"""The vector store in a Redis server: RediSearch with a VECTOR field where it is loaded, else Redis 8's vector sets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import ClassVar, Literal, TypeVar

import redis
from pydantic import Field, SecretStr, model_validator
from redis.connection import parse_url

from perdure.backends.service import secret_from
from perdure.backends.vector_stores import _redis_care
from perdure.backends.vector_stores._document_engine import EngineSettings, Failure, MissingCollection, Shape
from perdure.backends.vector_stores._document_store import DocumentStore
from perdure.backends.vector_stores._documents import Document, Row
from perdure.backends.vector_stores._redis_client import address_of, check_connection, connect, failure_of
from perdure.backends.vector_stores._redis_collections import Collections
from perdure.backends.vector_stores._redis_filter import Clause, RedisGrammar
from perdure.backends.vector_stores._redis_rows import Rows, Scored, Scripts, SearchRows, Stale, VectorSetRows
from perdure.backends.vector_stores._rows import Place
from perdure.backends.vector_stores.base import Names, Vector
from perdure.domain.errors import VectorStoreError

T = TypeVar("T")

_log = logging.getLogger("perdure")

_TURNS = 20
"""How often others may empty a collection, or make it anew, while one call is looking for it."""


class RedisVectorStore(DocumentStore[Clause]):
    """Keeps rows in a Redis server (8 or newer, or Redis Stack), for any number of processes and machines.

    A batch is written by one script: nobody sees half of it. Search compares with every vector of the scope.
    """

    name: ClassVar[str] = "redis"
    grammar = RedisGrammar()

    class Settings(EngineSettings):
        """Where the server is, and what of it is ours."""

        url: SecretStr = Field(
            default_factory=lambda: secret_from("REDIS_URL") or SecretStr("redis://localhost:6379/0")
        )
        """`redis://user:password@host:6379/0`, `rediss://` for TLS, `unix://`; by default REDIS_URL, else localhost."""
        prefix: str = Field(default="perdure", pattern=r"^[A-Za-z0-9_.-]{1,64}$")
        """What the names of all our keys begin with; stores with different prefixes share a server unseen."""
        mode: Literal["auto", "search", "vectorset"] = "auto"
        """How new collections are searched: by the Search module, by a vector set, or by the best that there is."""

        @model_validator(mode="after")
        def _has_an_address(self) -> RedisVectorStore.Settings:
            # A complaint about the field itself would show its value, and with it the password.
            try:
                good = bool(parse_url(self.url.get_secret_value().strip()))  # type: ignore[no-untyped-call]
            except ValueError:
                good = False
            if not good:
                raise ValueError("url must be an address such as redis://user:password@host:6379/0")
            return self

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.settings = settings
        self._rows: dict[str, Rows] = {}
        self._client: redis.Redis
        self._collections: Collections
        self._scripts: Scripts

    # ------------------------------------------------------------------ life
    def _connect(self) -> None:
        self._client = connect(self.settings.url.get_secret_value().strip(), self.settings.timeout)
        self._collections = Collections(self._client, self.settings.prefix)
        self._scripts = Scripts(self._client)
        try:
            check_connection(self._client, "vector_store.config.url")
            self._collections.clean_up()
        except Exception:
            self._client.close()
            raise
        for worry in _redis_care.worries(self._client):
            _log.warning("the Redis server at %s is not set up to keep memories: %s", address_of(self._client), worry)

    def _disconnect(self) -> None:
        self._rows.clear()
        self._client.close()

    def _identity(self) -> str:
        return self._collections.identity()

    def _failure(self, error: Exception) -> Failure | None:
        return failure_of(error, address_of(self._client), self.settings.timeout)

    # ------------------------------------------------------------------ collections
    def _find(self, name: str) -> Shape | None:
        found = self._collections.find(name)
        return None if found is None else found.shape

    def _names(self) -> Names:
        return self._collections.names()

    def _make(self, name: str, shape: Shape) -> None:
        self._collections.add(name, shape, self._collections.best_mode(self.settings.mode))

    def _drop(self, name: str) -> None:
        self._collections.drop(name)

    def _clear(self, name: str) -> None:
        self._collections.empty(name)

    def _in(self, name: str, work: Callable[[Rows], T]) -> T:
        """What the work gives on the collection as it is now: what this process remembers of it may be over."""
        for _ in range(_TURNS):
            rows = self._rows.get(name)
            if rows is None:
                found = self._collections.find(name)
                if found is None:
                    raise MissingCollection
                kind = SearchRows if found.mode == "search" else VectorSetRows
                rows = kind(self._client, self._scripts, self._collections, name, found)
                self._rows[name] = rows
            try:
                return work(rows)
            except Stale:
                self._rows.pop(name, None)
        raise VectorStoreError(f"redis: others change the collection {name!r} all the time: try again")

    # ------------------------------------------------------------------ documents
    def _write(self, name: str, documents: Sequence[Document], deletes: Sequence[str]) -> None:
        def write(rows: Rows) -> None:
            sizes = {len(document.vector) for document in documents if document.vector is not None}
            if sizes - {rows.collection.dimension}:
                # Another process made it anew, for other vectors; what is remembered here may itself be over.
                raise MissingCollection if self._collections.find(name) == rows.collection else Stale
            rows.write(documents, deletes)

        self._in(name, write)

    def _fetch(self, name: str, ids: Sequence[str], *, with_vectors: bool) -> list[Row]:
        return self._in(name, lambda rows: rows.fetch(ids, with_vectors=with_vectors))

    def _nearest(self, name: str, query: Vector, limit: int, clause: Clause | None) -> Scored:
        return self._in(name, lambda rows: rows.nearest(query, limit, clause))

    def _scan(self, name: str, clause: Clause | None, *, with_vectors: bool) -> Iterator[list[Row]]:
        pages = self._in(name, lambda rows: _begun(rows.scan(clause, with_vectors=with_vectors)))
        try:
            yield from pages
        except Stale:
            self._rows.pop(name, None)
            raise VectorStoreError(f"redis: the collection {name!r} was emptied or dropped while it was read") from None

    def _count(self, name: str, clause: Clause | None) -> int:
        return self._in(name, lambda rows: rows.count(clause))

    def _ordered(
        self, name: str, clause: Clause | None, after: Place | None, limit: int, *, with_vectors: bool
    ) -> list[Row] | None:
        def read(rows: Rows) -> list[Row] | None:
            if clause is not None:
                # Rows are sorted all together. Of a large scope enough are found by passing over the others; of a
                # small one it is less work to read all its rows and sort them here.
                matching = rows.estimate(clause)
                if matching * matching < limit * rows.count(None):
                    return None
            return rows.walk(after, limit, with_vectors=with_vectors)

        return self._in(name, read)

    # ------------------------------------------------------------------ durability
    async def sync(self) -> None:
        """Return once everything applied so far is on the server's disk."""
        key = f"{self.settings.prefix}:syncs"
        await self._change(partial(self._synced, key))

    def _synced(self, key: str) -> None:
        _redis_care.sync(self._client, key, self.settings.timeout)

    async def scrub(self) -> bool:
        """Have the server write its files anew without what was deleted; False where it takes long or refuses."""
        return await self._read(lambda: _redis_care.scrub(self._client, self.settings.timeout))

    async def check(self, collection: str) -> Names:
        """What disagrees between the rows and what finds them, a sentence each."""
        return await self._read_in(collection, lambda: self._in(collection, Rows.audit))


def _begun(pages: Iterator[list[Row]]) -> Iterator[list[Row]]:
    """The same pages, the first of them read at once."""
    first = next(pages, None)

    def rest() -> Iterator[list[Row]]:
        if first is not None:
            yield first
            yield from pages

    return rest()
