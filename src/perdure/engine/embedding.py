"""Embedding with the failures that spec 000 §14.3 and U21 allow: one text that fails costs that text alone."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from perdure.backends.embedders.base import Embedder
from perdure.backends.vector_stores.base import Point, Vector, VectorStore
from perdure.domain.errors import EmbeddingError
from perdure.engine.soft import given_up

logger = logging.getLogger("perdure")

SERVICE_WIDE = frozenset({"connection", "authentication", "quota"})
"""Codes of failures that every text would meet: after the retries of the batch, no further ones are waited for."""

_NOT_STORED = "not stored, because it could not be embedded"


@dataclass(slots=True)
class Embedded:
    """Vectors in the order of the texts; None where there is none, with the texts whose embedding failed."""

    vectors: list[Vector | None]
    failed: set[int] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)
    down: EmbeddingError | None = None
    """Why none could be embedded, where that has to do with the service and with no text of these."""


class Embedding:
    """An embedder as the engine uses it: absent ones are said once and done without."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self._said = False
        self._found = False

    @property
    def available(self) -> bool:
        """Whether vectors can be had here; says once in the log what to install if not."""
        if self._found:
            return True
        reason = self.embedder.unavailable()
        self._found = reason is None
        if reason is not None and not self._said:
            self._said = True
            logger.warning("memories are searched by their words alone: %s", reason)
        return self._found

    async def query(self, text: str) -> Vector | None:
        """The vector of a query, or None where the embedder is absent; EmbeddingError if it fails."""
        return await self.embedder.embed(text) if self.available else None

    async def texts(self, texts: Sequence[str]) -> Embedded:
        """The vectors of texts in one batch; if the batch fails, one by one, and a text that fails is named.

        A blank text has none: what a model makes of it would be like anything.
        """
        places = [place for place, text in enumerate(texts) if text.strip()]
        if not places or not self.available:
            return Embedded([None] * len(texts))
        if len(places) == len(texts):
            return await self._all(texts)
        some = await self._all([texts[place] for place in places])
        vectors: list[Vector | None] = [None] * len(texts)
        for place, vector in zip(places, some.vectors, strict=True):
            vectors[place] = vector
        return Embedded(vectors, {places[place] for place in some.failed}, some.warnings)

    async def _all(self, texts: Sequence[str]) -> Embedded:
        try:
            return Embedded(list(await self.embedder.embed_batch(texts)))
        except EmbeddingError as error:
            if error.code in SERVICE_WIDE:
                return self._none(texts, error)
            return await self._one_by_one(texts)

    def _none(self, texts: Sequence[str], error: EmbeddingError) -> Embedded:
        result = Embedded([None] * len(texts), failed=set(range(len(texts))), down=error)
        for text in texts:
            with given_up(_NOT_STORED, result.warnings, text=text[:80]):
                raise error
        return result

    async def _one_by_one(self, texts: Sequence[str]) -> Embedded:
        result = Embedded([None] * len(texts))
        for position, text in enumerate(texts):
            result.failed.add(position)
            with given_up(_NOT_STORED, result.warnings, text=text[:80]):
                result.vectors[position] = await self.embedder.embed(text)
                result.failed.discard(position)
        return result


async def wanting(store: VectorStore, collection: str, most: int) -> list[Point]:
    """At most so many rows without a vector, of those that have a text to make one of."""
    asked = most
    while True:
        rows = await store.unembedded(collection, asked)
        found = [row for row in rows if str(row.payload.get("memory", "")).strip()]
        if len(found) >= most or len(rows) < asked:
            return found[:most]
        asked *= 2
