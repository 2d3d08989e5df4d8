"""OpenAI's embedding models, and those of every service with the same API."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError

from perdure.backends.embedders._hosted import HostedEmbedder, known_dimension
from perdure.backends.http.service import RefusedError, ServiceSettings
from perdure.backends.shared.metering import embedded
from perdure.backends.shared.openai_service import OpenAIService, OpenAISettings, is_openai, openai_service
from perdure.domain.errors import EmbeddingError

if TYPE_CHECKING:
    import openai

MODELS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
"""Models whose dimension is known (OpenAI's guide to embeddings); those of the third generation can give fewer."""
_FIXED = "text-embedding-ada-002"
MOST_TEXTS = 2048  # texts in one request (OpenAI's reference of POST /embeddings)
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
    """The model, and the length of its vectors."""

    model: str = Field(default="text-embedding-3-small", min_length=1)
    """The model's name."""
    dimensions: int | None = Field(default=None, ge=1, le=65_536)
    """Length of the vectors; None: the model's own, where it is known."""
    batch_size: int = Field(default=MOST_TEXTS, ge=1, le=MOST_TEXTS)
    """Maximum texts in one request; for services that take fewer than OpenAI."""


class OpenAIEmbedder(HostedEmbedder):
    """Embedding models of OpenAI, or of any service at `base_url` with POST /embeddings; vectors of length 1.

    Construction sends nothing. ConfigError without a key (unless `base_url` is set), or without `dimensions` for an
    unknown model. Failures are EmbeddingError with the codes of the `openai` language model.
    """

    name: ClassVar[str] = "openai"
    package: ClassVar[str] = "openai"

    class Settings(OpenAISettings, VectorSettings):
        """The model, its address, and the length of its vectors."""

    def __init__(self, settings: Settings) -> None:
        self._prepare(settings, openai_service(self.name, settings, EmbeddingError, "embedder"), MOST_BYTES)
        self._asks_for_length |= settings.model not in MODELS and is_openai(settings.base_url)

    def _prepare(self, settings: VectorSettings, service: OpenAIService, batch_bytes: int) -> None:
        """Store the settings; ConfigError if the model cannot give vectors of this length."""
        self._service = service
        self._model = self._sent_as = settings.model
        own = MODELS.get(settings.model)
        fixed = settings.model == _FIXED
        self._dimension = known_dimension(own, settings.dimensions, MODELS, settings.model, exactly=fixed)
        self._batch_size, self._batch_bytes = settings.batch_size, batch_bytes
        self._asks_for_length = own is not None and self._dimension != own

    def _is_too_much(self, refused: RefusedError) -> bool:
        return bool(_TOO_LONG.search(refused.said))

    async def _ask(self, texts: list[str]) -> list[NDArray[np.float64]]:
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


def _in_order(items: list[_Item], count: int) -> list[NDArray[np.float64]]:
    """Return the vectors in the order of the texts; ValueError unless there is one for each."""
    by_index = {item.index: item.embedding for item in items}
    if len(items) != count or set(by_index) != set(range(count)):
        raise ValueError("not one vector for each text")
    return [_decoded(by_index[index]) for index in range(count)]


def _decoded(embedding: str | list[float]) -> NDArray[np.float64]:
    """Decode little-endian float32 in base64, or a list of numbers from a service without that encoding."""
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float64)
    return np.asarray(embedding, dtype=np.float64)
