"""What remote embedders share: batches within limits, splitting of long texts, checked unit vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from perdure.backends.embedders.base import HINT, Embedder
from perdure.backends.extras import extra_line
from perdure.backends.http.service import RefusedError, Service, ServiceError, installed
from perdure.backends.shared.batches import bounded_batches
from perdure.domain.errors import ConfigError
from perdure.domain.text.readable import readable_texts

# What to do with texts that a service finds too much: ask in halves, and for a text alone by its beginning.

Row = TypeVar("Row")
_SHORTEST = 16  # characters; a text that is refused although it is no longer is refused for another reason


async def in_parts(
    texts: list[str], ask: Callable[[list[str]], Awaitable[Sequence[Row]]], too_much: Callable[[RefusedError], bool]
) -> list[Row]:
    """Return what `ask` gives for the texts, in order, asking in halves if the service finds them too much.

    A single text that is too long is cut, because some services refuse it instead of cutting it themselves. Any other
    refusal raises the error of its RefusedError.
    """
    try:
        return list(await ask(texts))
    except RefusedError as refused:
        problem: Exception = refused.error
        given_up = not too_much(refused) or (len(texts) == 1 and len(texts[0]) <= _SHORTEST)
    if given_up:
        raise problem  # outside of the handler, so that nothing is chained to it
    if len(texts) == 1:
        return await in_parts([texts[0][: len(texts[0]) // 2]], ask, too_much)
    half = len(texts) // 2
    return [*await in_parts(texts[:half], ask, too_much), *await in_parts(texts[half:], ask, too_much)]


def known_dimension(
    own: int | None, wanted: int | None, models: Iterable[str], model: str | None, *, exactly: bool = False
) -> int:
    """Return the length of the vectors; ConfigError if it is unknown, or the model cannot give the wanted one.

    `own` is the length of the model's own vectors (None for an unknown model), which can be shortened unless `exactly`.
    """
    field = "embedder.config.dimensions"
    if own is None and wanted is None:
        which = f"{model!r} is no known model" if model else "the model is not named"
        raise ConfigError(f"{field} is required: {which} ({', '.join(models)})", field=field)
    if own is not None and wanted is not None and (wanted > own or (exactly and wanted != own)):
        bound = "exactly" if exactly else "at most"
        raise ConfigError(f"{field}: {model} gives {bound} {own}, not {wanted}", field=field, value=wanted)
    return wanted or own or 0


def batches(texts: Sequence[str], most_texts: int, most_bytes: int) -> Iterator[list[str]]:
    """Yield the texts in order, in lists within both limits; a text with more bytes is alone in its list."""
    return bounded_batches(texts, lambda text: len(text.encode()), most_size=most_bytes, most_items=most_texts)


def unit_vectors(
    rows: Sequence[Any], count: int, dimension: int, model: str, broken: Callable[[str], ServiceError]
) -> NDArray[np.float32]:
    """Return the rows as float32 of length 1; raise `broken` unless there are `count` finite rows of `dimension`."""
    try:
        vectors = np.asarray(rows, dtype=np.float64)  # so that scaling to length 1 loses nothing
    except (ValueError, TypeError):
        vectors = np.empty(0)
    if vectors.ndim != 2 or len(vectors) != count:
        raise broken("the answer is not one vector for each text")
    if vectors.shape[1] != dimension:
        raise broken(f"{model} gives vectors of {vectors.shape[1]} dimensions, not {dimension} as configured")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise broken("the answer holds a vector without a direction")
    return np.asarray(vectors / lengths, dtype=np.float32)


class VectorRequests(ABC):
    """Requests vectors for texts in batches; a subclass makes a single request.

    If an unknown model gives longer vectors than wanted, it is asked for shorter ones from then on.
    """

    _service: Service[Any]
    _model: str
    _dimension: int
    _batch_size: int
    _batch_bytes: int
    _asks_for_length: bool

    @abstractmethod
    async def _ask(self, texts: list[str]) -> Sequence[Sequence[float] | NDArray[np.float64]]:
        """Send one request and return a row for each text; RefusedError if the service rejects it."""

    @abstractmethod
    def _is_too_much(self, refused: RefusedError) -> bool:
        """Whether the texts were refused because they are too long, together or alone."""

    async def _vectors_of(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return vectors of shape (len(texts), dimension) and length 1; an empty text is sent as a space."""
        found = [np.empty((0, self._dimension), dtype=np.float32)]
        for batch in batches([text or " " for text in texts], self._batch_size, self._batch_bytes):
            rows = await in_parts(batch, self._ask, self._is_too_much)
            if not self._asks_for_length and any(len(row) > self._dimension for row in rows):
                self._asks_for_length = True
                rows = await in_parts(batch, self._ask, self._is_too_much)
            found.append(unit_vectors(rows, len(batch), self._dimension, self._model, self._service.broken))
        return np.concatenate(found)

    async def close(self) -> None:
        await self._service.close()


class HostedEmbedder(VectorRequests, Embedder):
    """An embedder behind a service, called with the vendor's client."""

    package: ClassVar[str]
    """The name of the package that holds the vendor's client."""

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def label(self) -> str:
        return f"{self.name}-{self._model}-{self._dimension}"

    async def embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return vectors of shape (len(texts), dimension) and length 1, in several requests if needed."""
        return await self._vectors_of(readable_texts(texts, HINT))

    def unavailable(self) -> str | None:
        return None if installed(self._service.sdk) else f"{self.name} needs {self.package}: {extra_line(self.name)}"
