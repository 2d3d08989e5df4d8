"""A cache on a Redis server, which processes and machines share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import ClassVar, cast

import redis
from pydantic import BaseModel, ConfigDict, Field, SecretStr
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from perdure.backends.caches.base import Cache, CacheError


class RedisCache(Cache):
    """Stores values in Redis or a compatible server (Valkey); a slow server counts as down."""

    name: ClassVar[str] = "redis"

    class Settings(BaseModel):
        """Where the server is and how long it may take."""

        model_config = ConfigDict(
            extra="forbid", frozen=True, use_attribute_docstrings=True, validate_default=True, hide_input_in_errors=True
        )

        url: SecretStr = Field(
            default_factory=lambda: SecretStr(os.environ.get("REDIS_URL", "").strip() or "redis://localhost:6379/0")
        )
        """The server's address, with user and password if needed; by default REDIS_URL."""
        timeout: float = Field(0.25, gt=0, le=60)
        """Seconds that an answer may take: a cache slower than a search is of no use."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        try:
            self._client = redis.Redis.from_url(settings.url.get_secret_value())
        except ValueError as error:
            raise ValueError("cache.config.url must be as redis://host:6379/0") from error
        self._client.connection_pool.connection_kwargs.update(
            socket_timeout=settings.timeout,
            socket_connect_timeout=settings.timeout,
            retry=Retry(NoBackoff(), 0),
            retry_on_error=[],
            decode_responses=False,
        )

    def get(self, keys: Sequence[str]) -> list[bytes | None]:
        try:
            return cast("list[bytes | None]", self._client.mget(list(map(_encoded, keys))))
        except RedisError as error:
            raise self._down(error) from error

    def put(self, values: Mapping[str, bytes], seconds: float) -> None:
        try:
            with self._client.pipeline(transaction=True) as pipeline:
                for key, value in values.items():
                    pipeline.set(_encoded(key), value, px=max(1, round(seconds * 1000)))
                pipeline.execute()
        except RedisError as error:
            raise self._down(error) from error

    def _down(self, error: RedisError) -> CacheError:
        known = self._client.connection_pool.connection_kwargs
        place = f"{known.get('host', 'localhost')}:{known.get('port', 6379)}"
        return CacheError(f"the cache at {place} cannot be used ({type(error).__name__})")

    def close(self) -> None:
        self._client.close()


def _encoded(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")
