"""What the tests of embedders behind an address share: calls of a provider at a wire server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import numpy as np
import pytest

from perdure.backends.embedders.base import Embedder
from perdure.domain.errors import EmbeddingError
from tests.backends.wire.server import Heard, Reply, WireServer

T = TypeVar("T")
E = TypeVar("E", bound=Embedder)

JSON = {"content-type": "application/json"}


class Calls(Generic[E]):
    """Calls of the provider that `make` gives for an address and settings."""

    def __init__(self, make: Callable[..., E]) -> None:
        self._make = make

    def at(self, wire: WireServer, work: Callable[[E], Awaitable[T]], **config: Any) -> T:
        """What the work gives with a provider at the server, which is closed again."""

        async def whole() -> T:
            embedder = self._make(wire.address, **config)
            try:
                return await work(embedder)
            finally:
                await embedder.close()

        return asyncio.run(whole())

    def embed(self, wire: WireServer, *texts: str, **config: Any) -> np.ndarray:
        return self.at(wire, lambda embedder: embedder.embed_batch(texts), **config)

    def fails(self, wire: WireServer, *texts: str, **config: Any) -> EmbeddingError:
        with pytest.raises(EmbeddingError) as caught:
            self.embed(wire, *(texts or ("tea",)), **config)
        assert caught.value.__cause__ is None
        return caught.value


def replies(*replies: Reply | None) -> Callable[[Heard], Reply | None]:
    """These first, in order; None for the server's own."""
    left = list(replies)
    return lambda request: left.pop(0) if left else None


def always(reply: Reply) -> Callable[[Heard], Reply | None]:
    return lambda request: reply
