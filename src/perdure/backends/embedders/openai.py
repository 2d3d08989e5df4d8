"""OpenAI's embedding models, and every service that speaks their language (spec 000 §9.2)."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError

from perdure.backends.embedders._hosted import batches, in_parts, known_dimension, readable_texts, unit_vectors
from perdure.backends.embedders.base import Embedder
from perdure.backends.extras import extra_line
from perdure.backends.http.service import ServiceSettings
from perdure.backends.shared.metering import embedded
from perdure.backends.shared.openai_service import OpenAIService, OpenAISettings, is_openai, openai_client, openai_key
from perdure.domain.errors import EmbeddingError

if TYPE_CHECKING:
    import openai

MODELS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
"""Models whose dimension is known (OpenAI's guide to embeddings); those of the third generation can give fewer."""
_FIXED = "text-embedding-ada-002"
MOST_TEXTS = 2048
"""Texts in one request (OpenAI's reference of POST /embeddings)."""
MOST_BYTES = 300_000
"""Bytes of text in one request. The service takes 300,000 tokens, and a token is at least one byte."""
_TOO_LONG = re.compile(
    r"maximum (?:context|input) length|context (?:length|window|size)|too (?:long|large)|tokens per request"
    r"|less than \d+ tokens",
    re.IGNORECASE,
)
"""How OpenAI, Azure, vLLM, llama.cpp and text-embeddings-inference refuse more tokens than they can read."""


class _Item(BaseModel):
    index: int
    embedding: str | list[float]


class _Tokens(BaseModel):
    prompt_tokens: int = 0


class _Embeddings(BaseModel):
    data: list[_Item]
    usage: _Tokens | None = None


class VectorSettings(ServiceSettings):
    """Which model, and how long its vectors are."""

    model: str = Field(default="text-embedding-3-small", min_length=1)
    """The model's name."""
    dimensions: int | None = Field(default=None, ge=1, le=65_536)
    """Length of the vectors; None: the model's own, where it is known."""
    batch_size: int = Field(default=MOST_TEXTS, ge=1, le=MOST_TEXTS)
    """Texts in one request at most; for services that take fewer than OpenAI."""


class OpenAIEmbedder(Embedder):
    """Embedding models of OpenAI, or of any service at `base_url` that answers POST /embeddings; vectors of length 1.

    Construction needs a key, unless `base_url` is one's own, and `dimensions` for a model that is not known
    (ConfigError); it sends nothing. Failures are EmbeddingError with the codes of the `openai` language model.
    """

    name: ClassVar[str] = "openai"

    class Settings(OpenAISettings, VectorSettings):
        """Which model, where, and how long its vectors are."""

    def __init__(self, settings: Settings) -> None:
        key = openai_key(settings, "embedder")
        make = partial(openai_client, settings=settings, key=key)
        self._prepare(settings, OpenAIService(self.name, settings, make, EmbeddingError, key), MOST_BYTES)
        self._asks_for_length |= settings.model not in MODELS and is_openai(settings.base_url)

    def _prepare(self, settings: VectorSettings, service: OpenAIService, batch_bytes: int) -> None:
        """Remember the settings; ConfigError if the model cannot give vectors of this length."""
        self._service = service
        self._model = self._sent_as = settings.model
        self._dimension = known_dimension(MODELS, settings.model, settings.dimensions, fixed=(_FIXED,))
        self._batch_size, self._batch_bytes = settings.batch_size, batch_bytes
        self._asks_for_length = settings.model in MODELS and self._dimension != MODELS[settings.model]

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

        Long lists become several requests, one after the other.
        """
        readable = [text or " " for text in readable_texts(texts)]  # the service refuses an empty text
        rows = [np.empty((0, self._dimension), dtype=np.float32)]
        for batch in batches(readable, self._batch_size, self._batch_bytes):
            rows.append(await self._embed(batch))
        return np.concatenate(rows)

    def unavailable(self) -> str | None:
        """The pip line if the vendor's client is not installed."""
        return None if find_spec("openai") else f"{self.name} needs openai: {extra_line(self.name)}"

    async def close(self) -> None:
        """Close the connections."""
        await self._service.close()

    async def _embed(self, texts: list[str]) -> NDArray[np.float32]:
        """The vectors of one batch; what a text's vector is depends on the text alone, not on its company."""
        rows = await in_parts(texts, self._vectors, lambda refused: bool(_TOO_LONG.search(refused.said)))
        return np.stack(rows)

    async def _vectors(self, texts: list[str]) -> list[NDArray[np.float32]]:
        vectors = await self._ask(texts)
        if vectors.shape[1] > self._dimension and not self._asks_for_length:
            # A model that is not known, whose vectors are longer than wanted: it may give shorter ones when asked.
            self._asks_for_length = True
            vectors = await self._ask(texts)
        return list(unit_vectors(vectors, len(texts), self._dimension, self._model, self._service.broken))

    async def _ask(self, texts: list[str]) -> NDArray[np.float64]:
        """One request; float64, so that scaling to length 1 loses nothing."""
        # Base64 keeps every bit of a float32 in a third of the bytes that decimal numbers take.
        body: dict[str, Any] = {"model": self._sent_as, "input": texts, "encoding_format": "base64"}
        if self._asks_for_length:
            body["dimensions"] = self._dimension
        content = await self._service.ask(partial(_content, body=body), asks_otherwise=True)
        try:
            answer = _Embeddings.model_validate_json(content)
            vectors = _in_order(answer.data, len(texts))
        except (ValidationError, ValueError):
            raise self._service.broken("the answer is not one vector for each text") from None
        embedded(self.name, self._model, (answer.usage or _Tokens()).prompt_tokens)
        return vectors


async def _content(client: openai.AsyncOpenAI, body: Mapping[str, Any]) -> bytes:
    answer: Any = await client.embeddings.with_raw_response.create(**body)
    content: bytes = answer.content
    return content


def _in_order(items: list[_Item], count: int) -> NDArray[np.float64]:
    """The vectors in the order of the texts; ValueError unless there is one of the same length for each."""
    by_index = {item.index: item.embedding for item in items}
    if len(items) != count or set(by_index) != set(range(count)):
        raise ValueError("not one vector for each text")
    return np.stack([_decoded(by_index[index]) for index in range(count)])


def _decoded(embedding: str | list[float]) -> NDArray[np.float64]:
    """Little-endian float32 in base64, or numbers from a service that does not know that form."""
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float64)
    return np.asarray(embedding, dtype=np.float64)
