"""Google's Gemini embedding models."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, ClassVar

from pydantic import Field, SecretStr

from perdure.backends.embedders._hosted import HostedEmbedder, known_dimension
from perdure.backends.http.service import RefusedError, ServiceSettings, secret_from
from perdure.backends.shared.google_service import KEY_VARIABLES, GoogleService, google_client, google_key
from perdure.backends.shared.metering import embedded
from perdure.domain.errors import EmbeddingError

MODELS = {"gemini-embedding-001": 3072, "gemini-embedding-2": 3072}
"""Models whose dimension is known (Google's guide to embeddings); both can give fewer."""
MOST_TEXTS = 100  # texts in one request (batchEmbedContents refuses more)
MOST_BYTES = 1_000_000
"""Bytes of text in one request: no limit is published, and what turns out to be too much goes in halves."""
_TOO_MUCH = re.compile(r"payload size|too (?:long|large)|exceeds", re.IGNORECASE)
"""How the service says that texts are too long, together or alone ("Request payload size exceeds the limit")."""
_BYTES_PER_TOKEN = 4  # about as many as a token has, by Google's guide to tokens; for answers that do not count them


class GoogleEmbedder(HostedEmbedder):
    """Embedding models of Google, or of any compatible service at `base_url`; vectors of length 1.

    Construction sends nothing. ConfigError without a key (unless `base_url` is set), or without `dimensions` for an
    unknown model. Failures are EmbeddingError with the codes of the `google` language model.
    """

    name: ClassVar[str] = "google"
    package: ClassVar[str] = "google-genai"

    class Settings(ServiceSettings):
        """The model, its address, and the length of its vectors."""

        model: str = Field(default="gemini-embedding-001", min_length=1)
        """The model's name."""
        dimensions: int | None = Field(default=None, ge=1, le=65_536)
        """Length of the vectors (Google recommends 768, 1536 or 3072); None: the model's own, where it is known."""
        api_key: SecretStr | None = Field(default_factory=partial(secret_from, *KEY_VARIABLES))
        """API key; falls back to GOOGLE_API_KEY, then to GEMINI_API_KEY; not needed with your own `base_url`."""
        base_url: str | None = None
        """Address of the service, without its version; None: Google's own."""
        batch_size: int = Field(default=MOST_TEXTS, ge=1, le=MOST_TEXTS)
        """Maximum texts in one request."""

    def __init__(self, settings: Settings) -> None:
        key = google_key(settings.api_key, settings.base_url, "embedder")
        make = partial(google_client, key=key, base_url=settings.base_url)
        self._service = GoogleService(self.name, settings, make, EmbeddingError, key)
        self._model = settings.model
        self._batch_size, self._batch_bytes = settings.batch_size, MOST_BYTES
        own = MODELS.get(settings.model)
        self._dimension = known_dimension(own, settings.dimensions, MODELS, settings.model)
        self._asks_for_length = self._dimension != own

    def _is_too_much(self, refused: RefusedError) -> bool:
        return _TOO_MUCH.search(refused.said) is not None

    async def _ask(self, texts: list[str]) -> list[list[float]]:
        request: dict[str, Any] = {
            "model": self._model,
            # Whole contents: of bare texts the client would make one, and one vector, for a model of several media.
            "contents": [{"parts": [{"text": text}]} for text in texts],
            "config": {"output_dimensionality": self._dimension} if self._asks_for_length else None,
        }
        answer = await self._service.ask(
            lambda client: client.genai.aio.models.embed_content(**request), asks_otherwise=True
        )
        counted = answer.usage_metadata.prompt_token_count if answer.usage_metadata else None
        embedded(self.name, self._model, counted or sum(len(text.encode()) for text in texts) // _BYTES_PER_TOKEN)
        rows = [embedding.values or [] for embedding in answer.embeddings or []]
        if len(rows) != len(texts):
            raise self._service.broken("the answer is not one vector for each text")
        return rows
