"""Embedding models run by an Ollama server, with POST /api/embed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import Field

from perdure.backends.embedders._hosted import HostedEmbedder, known_dimension
from perdure.backends.http.service import RefusedError
from perdure.backends.shared.metering import embedded
from perdure.backends.shared.ollama_service import LENGTH, PATH, OllamaService, OllamaSettings
from perdure.domain.errors import EmbeddingError

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


class OllamaEmbedder(HostedEmbedder):
    """Embedding models of an Ollama server, by default on this machine; vectors of length 1.

    Construction sends nothing; ConfigError without `dimensions` for an unknown model. Failures are EmbeddingError with
    the codes of the `ollama` language model. Servers without /api/embed are asked by /api/embeddings, text by text.
    """

    name: ClassVar[str] = "ollama"
    package: ClassVar[str] = "ollama"

    class Settings(OllamaSettings):
        """The model, its address, and the length of its vectors."""

        model: str = Field(default="nomic-embed-text", min_length=1)
        """The model's name, as `ollama list` shows it."""
        dimensions: int | None = Field(default=None, ge=1, le=65_536)
        """Length of the vectors; None: the model's own, where it is known."""
        batch_size: int = Field(default=64, ge=1, le=2048)
        """Maximum texts in one request, which limits how long one request takes."""

    def __init__(self, settings: Settings) -> None:
        self._model = settings.model.removesuffix(":latest")
        self._batch_size, self._batch_bytes = settings.batch_size, MOST_BYTES
        own = _own_dimension(self._model)
        self._dimension = known_dimension(own, settings.dimensions, MODELS, settings.model)
        self._asks_for_length = own is not None and own != self._dimension
        self._old_server = False
        self._service = OllamaService(self.name, settings, settings.model, "embedder", EmbeddingError)

    def _is_too_much(self, refused: RefusedError) -> bool:
        return refused.parameter == LENGTH

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
        rows: Sequence[Sequence[float]] = answer.embeddings
        return rows

    async def _ask_for_one(self, text: str) -> Sequence[float]:
        """Return one vector by the older path, which neither counts tokens nor takes a length."""
        answer = await self._service.ask(
            lambda client: client.embeddings(model=self._model, prompt=text), asks_otherwise=True
        )
        embedded(self.name, self._model, 0)
        row: Sequence[float] = answer.embedding
        return row


def _own_dimension(model: str) -> int | None:
    """Return the length of the model's own vectors if known, by name and size, else by name."""
    name, _, tag = model.partition(":")
    return MODELS.get(f"{name}:{tag.partition('-')[0]}", MODELS.get(name))
