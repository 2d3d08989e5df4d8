"""Embedding models that run on a machine of one's own, by Ollama's POST /api/embed (spec 000 §9.3)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from perdure.backends.embedders._hosted import batches, in_parts, readable_texts, unit_vectors
from perdure.backends.embedders.base import Embedder
from perdure.backends.extras import extra_line
from perdure.backends.http.service import RefusedError
from perdure.backends.shared.metering import embedded
from perdure.backends.shared.ollama_service import LENGTH, PATH, OllamaService, OllamaSettings
from perdure.domain.errors import ConfigError, EmbeddingError

MODELS = {
    "nomic-embed-text": 768,
    "nomic-embed-text-v2-moe": 768,
    "mxbai-embed-large": 1024,
    "all-minilm": 384,
    "bge-m3": 1024,
    "bge-large": 1024,
    "snowflake-arctic-embed": 1024,
    "snowflake-arctic-embed:22m": 384,
    "snowflake-arctic-embed:33m": 384,
    "snowflake-arctic-embed:110m": 768,
    "snowflake-arctic-embed:137m": 768,
    "snowflake-arctic-embed2": 1024,
    "paraphrase-multilingual": 768,
    "granite-embedding:30m": 384,
    "granite-embedding:278m": 768,
    "embeddinggemma": 768,
    "qwen3-embedding:0.6b": 1024,
    "qwen3-embedding:4b": 2560,
    "qwen3-embedding:8b": 4096,
}
"""Models whose dimension is known (their pages in Ollama's library and the authors' own). A name without a size stands
for the tags that are not named."""
MOST_BYTES = 1_000_000
"""Bytes of text in one request; the server has no bound of its own, and reads all of them before it answers."""


class OllamaEmbedder(Embedder):
    """Embedding models of an Ollama server, by default on this machine; vectors of length 1.

    Construction needs `dimensions` for a model that is not known (ConfigError); it sends nothing. Failures are
    EmbeddingError with the codes of the `ollama` language model. A server from before /api/embed is asked by
    /api/embeddings, text by text.
    """

    name: ClassVar[str] = "ollama"

    class Settings(OllamaSettings):
        """Which model, where, and how long its vectors are."""

        model: str = Field(default="nomic-embed-text", min_length=1)
        """The model's name, as `ollama list` shows it."""
        dimensions: int | None = Field(default=None, ge=1, le=65_536)
        """Length of the vectors; None: the model's own, where it is known."""
        batch_size: int = Field(default=64, ge=1, le=2048)
        """Texts in one request at most: a bound on how long one request takes."""

    def __init__(self, settings: Settings) -> None:
        self._model = settings.model.removesuffix(":latest")
        self._batch_size = settings.batch_size
        own = _own_dimension(self._model)
        self._dimension = _dimension(settings.model, own, settings.dimensions)
        self._asks_for_length = own is not None and own != self._dimension
        self._old_server = False
        self._service = OllamaService(self.name, settings, settings.model, "embedder", EmbeddingError)

    @property
    def dimension(self) -> int:
        """As configured, else the model's own."""
        return self._dimension

    @property
    def label(self) -> str:
        """The provider, the model and the dimension."""
        return f"{self.name}-{self._model}-{self._dimension}"

    async def embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of shape (len(texts), dimension) and length 1; an empty text is read as one space.

        Long lists become several requests, one after the other; of a text that is too long for the model, a beginning
        is read.
        """
        readable = [text or " " for text in readable_texts(texts)]  # the server answers an empty text with no vector
        rows = [np.empty((0, self._dimension), dtype=np.float32)]
        for batch in batches(readable, self._batch_size, MOST_BYTES):
            rows.append(await self._embed(batch))
        return np.concatenate(rows)

    def unavailable(self) -> str | None:
        """The pip line if the vendor's client is not installed."""
        return None if find_spec("ollama") else f"{self.name} needs ollama: {extra_line(self.name)}"

    async def close(self) -> None:
        """Close the connections."""
        await self._service.close()

    async def _embed(self, texts: list[str]) -> NDArray[np.float32]:
        rows = await self._rows(texts)
        if any(len(row) > self._dimension for row in rows) and not self._asks_for_length:
            # A model that is not known, whose vectors are longer than wanted: it may give shorter ones when asked.
            self._asks_for_length = True
            rows = await self._rows(texts)
        return unit_vectors(rows, len(texts), self._dimension, self._model, self._service.broken)

    async def _rows(self, texts: list[str]) -> Sequence[Sequence[float]]:
        return await in_parts(texts, self._ask, lambda refused: refused.parameter == LENGTH)

    async def _ask(self, texts: list[str]) -> Sequence[Sequence[float]]:
        if not self._old_server:
            try:
                return await self._ask_for_all(texts)
            except RefusedError as refused:
                if refused.parameter != PATH:
                    raise
        rows = [await self._ask_for_one(text) for text in texts]
        self._old_server = True  # known only now: an address without either path is no old server
        return rows

    async def _ask_for_all(self, texts: list[str]) -> Sequence[Sequence[float]]:
        body: dict[str, Any] = {"model": self._model, "input": texts, "truncate": True}
        if self._asks_for_length:
            body["dimensions"] = self._dimension
        answer = await self._service.ask(lambda client: client.embed(**body), asks_otherwise=True)
        embedded(self.name, self._model, answer.prompt_eval_count or 0)
        if len(answer.embeddings) != len(texts):  # before halves of different requests are put together
            raise self._service.broken("the answer is not one vector for each text")
        return answer.embeddings

    async def _ask_for_one(self, text: str) -> Sequence[float]:
        """One vector by the older path, which neither counts tokens nor takes a length."""
        answer = await self._service.ask(
            lambda client: client.embeddings(model=self._model, prompt=text), asks_otherwise=True
        )
        embedded(self.name, self._model, 0)
        return answer.embedding


def _own_dimension(model: str) -> int | None:
    """The length of the model's own vectors, if it is known: by name and size, else by name."""
    name, _, tag = model.partition(":")
    return MODELS.get(f"{name}:{tag.partition('-')[0]}", MODELS.get(name))


def _dimension(model: str, own: int | None, dimensions: int | None) -> int:
    field = "embedder.config.dimensions"
    if dimensions is None and own is None:
        raise ConfigError(f"{field} is required: {model!r} is no known model ({', '.join(MODELS)})", field=field)
    if own is not None and dimensions is not None and dimensions > own:
        raise ConfigError(f"{field}: {model} gives at most {own}, not {dimensions}", field=field, value=dimensions)
    return dimensions or own or 0
