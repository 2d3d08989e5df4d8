"""The connection to a Redis server: its settings turned into a client, its failures into sentences without secrets."""

from __future__ import annotations

import redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ConnectionError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)
from redis.retry import Retry

from perdure.backends.vector_stores._document_engine import Failure
from perdure.domain.errors import ConfigError

_PASSING = ("BUSY ", "LOADING ", "MASTERDOWN ", "TRYAGAIN ", "READONLY ", "UNBLOCKED ", "STALE ")
"""First words of refusals that pass by themselves: a script under way, a start, a change of the primary."""

_REFUSED = ("NOAUTH", "WRONGPASS", "NOPERM")
_LONGEST = 200


def connect(url: str, timeout: float) -> redis.Redis:
    """A client with a pool that threads may share; connects with its first command."""
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
    """Make sure that the server answers; ConfigError if the address has a parameter that the client does not know."""
    try:
        client.ping()
    except TypeError:  # the client hands every parameter of an address to its connections
        raise ConfigError(f"{field} has a parameter that the Redis client does not know", field=field) from None


def address_of(client: redis.Redis) -> str:
    """Where the client connects to, without credentials."""
    known = client.connection_pool.connection_kwargs
    place = known.get("path") or f"{known.get('host', 'localhost')}:{known.get('port', 6379)}"
    return f"{place}/{known.get('db', 0)}"


def failure_of(error: Exception, address: str, timeout: float) -> Failure | None:
    """What an exception of the driver means; None for one that is not the driver's."""
    if not isinstance(error, RedisError):
        return None
    said = str(error)
    if isinstance(error, (AuthenticationError, AuthorizationError)) or said.startswith(_REFUSED[:2]):
        return Failure(f"{address} refuses the user or the password: check url (or REDIS_URL)")
    if isinstance(error, NoPermissionError) or said.startswith(_REFUSED[2]):
        return Failure(f"{address}: the user may not do this: {said[:_LONGEST]}")
    if isinstance(error, TimeoutError):
        return Failure(f"{address} gave no answer within {timeout:g} s", passing=True)
    if isinstance(error, (BusyLoadingError, TryAgainError, ReadOnlyError)) or said.startswith(_PASSING):
        return Failure(f"{address} cannot do this now: {said[:_LONGEST]}", passing=True)
    if isinstance(error, ConnectionError):
        return Failure(f"no connection to {address}: is Redis running there? See url (or REDIS_URL)", passing=True)
    if isinstance(error, OutOfMemoryError) or said.startswith("OOM"):
        return Failure(f"{address} is out of memory (maxmemory): nothing was written")
    if isinstance(error, ResponseError):
        return Failure(f"{address} refuses a command: {said[:_LONGEST]}")
    return Failure(f"{address}: {type(error).__name__}")
