"""The vector store in a Redis server: RediSearch with a VECTOR field if loaded, else Redis 8's vector sets."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal, TypeVar

import redis
from pydantic import Field, SecretStr, model_validator
from redis import exceptions
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.retry import Retry

from perdure.backends.http.service import secret_from
from perdure.backends.vector_stores.base import Names, Shape, Vector
from perdure.backends.vector_stores.common.document_store import (
    DocumentStore,
    EngineSettings,
    Failure,
    MissingCollection,
)
from perdure.backends.vector_stores.common.documents import Document, Row
from perdure.backends.vector_stores.common.rows import Place
from perdure.backends.vector_stores.redis import rows as redis_rows
from perdure.backends.vector_stores.redis.collections import Collections
from perdure.domain.errors import ConfigError, VectorStoreError

_LOOK = 0.02  # seconds between two looks at a rewrite


def worries(client: Any) -> list[str]:
    """Return sentences about server settings that endanger memories; none if they cannot be read."""
    try:
        memory, kept = client.info("memory"), client.info("persistence")
    except (exceptions.NoPermissionError, exceptions.ResponseError):
        return []
    found = []
    if not kept.get("aof_enabled"):
        found.append("appendonly is off: rows written since its last snapshot are gone with the server")
    policy = str(memory.get("maxmemory_policy", ""))
    if memory.get("maxmemory") and policy.startswith("allkeys"):
        found.append(f"maxmemory-policy is {policy}: it may throw memories away, noeviction never does")
    return found


def sync(client: Any, key: str, timeout: float) -> None:
    """Return once all writes are on the server's disk: in its append-only file, else in a snapshot."""
    deadline = time.monotonic() + timeout
    try:
        with client.client() as connection:  # WAITAOF waits for what its own connection has written
            connection.incr(key)
            done, _ = connection.execute_command("WAITAOF", 1, 0, int(timeout * 900))
    except exceptions.ResponseError as error:
        if "appendonly" not in str(error) and "unknown command" not in str(error).lower():
            raise
        try:
            done = _rewrite(client, client.bgsave, deadline)
        except (exceptions.NoPermissionError, exceptions.ResponseError):
            return  # the server's operator alone decides what is kept
    if not done:
        raise VectorStoreError(f"redis: what was written was not on the server's disk within {timeout:g} s")


def scrub(client: Any, timeout: float) -> bool:
    """Rewrite the server's files without deleted data; False if that takes too long or is forbidden."""
    deadline = time.monotonic() + timeout
    try:
        if client.info("persistence").get("aof_enabled") and not _rewrite(client, client.bgrewriteaof, deadline):
            return False
        snapshots = any(client.config_get("save").values())
        return not snapshots or _rewrite(client, client.bgsave, deadline)
    except (exceptions.NoPermissionError, exceptions.ResponseError):
        return False


def _rewrite(client: Any, begin: Callable[[], object], deadline: float) -> bool:
    """Whether a rewrite that began after this call has succeeded; one already running proves nothing."""
    while _idle(client, deadline):
        try:
            begin()
        except exceptions.ResponseError as error:
            if "progress" not in str(error) and "child process" not in str(error):
                raise
            continue  # another process was faster: ours comes after it
        if not _idle(client, deadline):
            return False
        info = client.info("persistence")
        statuses = ("aof_last_bgrewrite_status", "rdb_last_bgsave_status")
        return all(info.get(status, "ok") == "ok" for status in statuses)
    return False


def _idle(client: Any, deadline: float) -> bool:
    """Whether no rewrite is running any more."""
    marks = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")
    while time.monotonic() < deadline:
        info = client.info("persistence")
        if not any(info.get(mark) for mark in marks):
            return True
        time.sleep(_LOOK)
    return False


_PASSING = ("BUSY ", "LOADING ", "MASTERDOWN ", "TRYAGAIN ", "READONLY ", "UNBLOCKED ", "STALE ")
"""First words of refusals that pass by themselves: a script under way, a start, a change of the primary."""

_REFUSED = ("NOAUTH", "WRONGPASS", "NOPERM")
_LONGEST = 200


def connect(url: str, timeout: float) -> redis.Redis:
    """Return a client with a thread-safe pool; it connects with its first command."""
    pool = redis.ConnectionPool.from_url(url)
    # What follows is ours to say, whatever parameters the address has.
    pool.connection_kwargs.update(
        protocol=3,
        decode_responses=False,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        retry=Retry(NoBackoff(), 0),  # the store tries again itself
        retry_on_error=[],
        health_check_interval=30,
    )
    return redis.Redis.from_pool(pool)


def check_connection(client: redis.Redis, field: str) -> None:
    """Check that the server answers; ConfigError if the address has an unknown parameter."""
    try:
        client.ping()
    except TypeError:  # the client hands every parameter of an address to its connections
        raise ConfigError(f"{field} has a parameter that the Redis client does not know", field=field) from None


def address_of(client: redis.Redis) -> str:
    known = client.connection_pool.connection_kwargs
    place = known.get("path") or f"{known.get('host', 'localhost')}:{known.get('port', 6379)}"
    return f"{place}/{known.get('db', 0)}"


def failure_of(error: Exception, address: str, timeout: float) -> Failure | None:
    if not isinstance(error, exceptions.RedisError):
        return None
    said = str(error)
    if isinstance(error, (exceptions.AuthenticationError, exceptions.AuthorizationError)) or said.startswith(
        _REFUSED[:2]
    ):
        return Failure(f"{address} refuses the user or the password: check url (or REDIS_URL)")
    if isinstance(error, exceptions.NoPermissionError) or said.startswith(_REFUSED[2]):
        return Failure(f"{address}: the user may not do this: {said[:_LONGEST]}")
    if isinstance(error, exceptions.TimeoutError):
        return Failure(f"{address} gave no answer within {timeout:g} s", passing=True)
    if isinstance(
        error, (exceptions.BusyLoadingError, exceptions.TryAgainError, exceptions.ReadOnlyError)
    ) or said.startswith(_PASSING):
        return Failure(f"{address} cannot do this now: {said[:_LONGEST]}", passing=True)
    if isinstance(error, exceptions.ConnectionError):
        return Failure(f"no connection to {address}: is Redis running there? See url (or REDIS_URL)", passing=True)
    if isinstance(error, exceptions.OutOfMemoryError) or said.startswith("OOM"):
        return Failure(f"{address} is out of memory (maxmemory): nothing was written")
    if isinstance(error, exceptions.ResponseError):
        return Failure(f"{address} refuses a command: {said[:_LONGEST]}")
    return Failure(f"{address}: {type(error).__name__}")


T = TypeVar("T")
_log = logging.getLogger("perdure")
_TURNS = 20  # how often others may empty a collection, or make it anew, while one call is looking for it


class RedisVectorStore(DocumentStore[redis_rows.Clause]):
    """Stores rows in a Redis server (8 or newer, or Redis Stack), for any number of processes and machines.

    A batch is written by one script, so nobody sees half of it. Search compares with every vector of the scope.
    """

    name: ClassVar[str] = "redis"
    grammar = redis_rows.GRAMMAR
    settings: Settings

    class Settings(EngineSettings):
        """The server's address, and the prefix of our keys."""

        url: SecretStr = Field(
            default_factory=lambda: secret_from("REDIS_URL") or SecretStr("redis://localhost:6379/0")
        )
        """`redis://user:password@host:6379/0`, `rediss://` for TLS, `unix://`; by default REDIS_URL, else localhost."""
        prefix: str = Field(default="perdure", pattern=r"^[A-Za-z0-9_.-]{1,64}$")
        """Prefix of all keys; stores with different prefixes share a server and see nothing of each other."""
        mode: Literal["auto", "search", "vectorset"] = "auto"
        """How new collections are searched: by the Search module, by a vector set, or by the best available."""

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
        self._rows: dict[str, redis_rows.Rows] = {}
        self._client: redis.Redis
        self._collections: Collections
        self._scripts: redis_rows.Scripts

    def _connect(self) -> None:
        self._client = connect(self.settings.url.get_secret_value().strip(), self.settings.timeout)
        self._collections = Collections(self._client, self.settings.prefix)
        self._scripts = redis_rows.Scripts(self._client)
        try:
            check_connection(self._client, "vector_store.config.url")
            self._collections.clean_up()
        except Exception:
            self._client.close()
            raise
        for worry in worries(self._client):
            _log.warning("the Redis server at %s is not set up to keep memories: %s", address_of(self._client), worry)

    def _disconnect(self) -> None:
        self._rows.clear()
        self._client.close()

    def _identity(self) -> str:
        return self._collections.identity()

    def _failure(self, error: Exception) -> Failure | None:
        return failure_of(error, address_of(self._client), self.settings.timeout)

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

    def _in(self, name: str, work: Callable[[redis_rows.Rows], T]) -> T:
        """Return the result of work on the current collection, looked up again if the known one is outdated."""
        for _ in range(_TURNS):
            rows = self._rows.get(name)
            if rows is None:
                found = self._collections.find(name)
                if found is None:
                    raise MissingCollection
                kind = redis_rows.SearchRows if found.mode == "search" else redis_rows.VectorSetRows
                rows = kind(self._client, self._scripts, self._collections, name, found)
                self._rows[name] = rows
            try:
                return work(rows)
            except redis_rows.Stale:
                self._rows.pop(name, None)
        raise VectorStoreError(f"redis: others change the collection {name!r} all the time: try again")

    def _write(self, name: str, documents: Sequence[Document], deletes: Sequence[str]) -> None:
        def write(rows: redis_rows.Rows) -> None:
            sizes = {len(document.vector) for document in documents if document.vector is not None}
            if sizes - {rows.collection.dimension}:
                # Another process made it anew, for other vectors; what is remembered here may itself be over.
                raise MissingCollection if self._collections.find(name) == rows.collection else redis_rows.Stale
            rows.write(documents, deletes)

        self._in(name, write)

    def _fetch(self, name: str, ids: Sequence[str], *, with_vectors: bool) -> list[Row]:
        return self._in(name, lambda rows: rows.fetch(ids, with_vectors=with_vectors))

    def _nearest(self, name: str, query: Vector, limit: int, clause: redis_rows.Clause | None) -> redis_rows.Scored:
        return self._in(name, lambda rows: rows.nearest(query, limit, clause))

    def _scan(self, name: str, clause: redis_rows.Clause | None, *, with_vectors: bool) -> Iterator[list[Row]]:
        pages = self._in(name, lambda rows: _begun(rows.scan(clause, with_vectors=with_vectors)))
        try:
            yield from pages
        except redis_rows.Stale:
            self._rows.pop(name, None)
            raise VectorStoreError(f"redis: the collection {name!r} was emptied or dropped while it was read") from None

    def _count(self, name: str, clause: redis_rows.Clause | None) -> int:
        return self._in(name, lambda rows: rows.count(clause))

    def _ordered(
        self, name: str, clause: redis_rows.Clause | None, after: Place | None, limit: int, *, with_vectors: bool
    ) -> list[Row] | None:
        def read(rows: redis_rows.Rows) -> list[Row] | None:
            if clause is not None:
                # Rows are sorted all together. Of a large scope enough are found by passing over the others; of a
                # small one it is less work to read all its rows and sort them here.
                matching = rows.estimate(clause)
                if matching * matching < limit * rows.count(None):
                    return None
            return rows.walk(after, limit, with_vectors=with_vectors)

        return self._in(name, read)

    async def sync(self) -> None:
        key = f"{self.settings.prefix}:syncs"
        await self._change(lambda: sync(self._client, key, self.settings.timeout))

    async def scrub(self) -> bool:
        return await self._read(lambda: scrub(self._client, self.settings.timeout))

    async def check(self, collection: str) -> Names:
        return await self._read_in(collection, lambda: self._in(collection, redis_rows.Rows.audit))


def _begun(pages: Iterator[list[Row]]) -> Iterator[list[Row]]:
    """Return the same pages, with the first already read."""
    first = next(pages, None)

    def rest() -> Iterator[list[Row]]:
        if first is not None:
            yield first
            yield from pages

    return rest()
