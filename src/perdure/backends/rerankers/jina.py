"""Jina AI's reranking models (https://api.jina.ai/redoc)."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from pydantic import Field, SecretStr

from perdure.backends.http.service import secret_from
from perdure.backends.rerankers._hosted import HostedReranker, HostedSettings


class JinaReranker(HostedReranker):
    """Jina AI's models, or any service with a compatible POST `base_url`/rerank (vLLM, Infinity).

    A model that reads all texts of a request together (jina-reranker-v3) gives scores that depend on them, so keep
    lists within `batch_size`.
    """

    name: ClassVar[str] = "jina"
    hosts: ClassVar[tuple[str, ...]] = ("jina.ai",)
    variable: ClassVar[str] = "JINA_API_KEY"
    most_bytes: ClassVar[int] = 2_000_000
    """The service names no bound on a request as a whole: this one is our own, so that none grows without end."""

    class Settings(HostedSettings):
        """The model and its address."""

        model: str = Field(default="jina-reranker-v2-base-multilingual", min_length=1)
        """The model's name."""
        api_key: SecretStr | None = Field(default_factory=partial(secret_from, "JINA_API_KEY"))
        """API key; falls back to JINA_API_KEY, which is sent only to Jina AI's own addresses."""
        base_url: str = "https://api.jina.ai/v1"
        """Address of the service, with its version."""

    def _body(self, query: str, texts: list[str]) -> dict[str, Any]:
        # Unless told not to, the service sends every text back.
        return {**super()._body(query, texts), "return_documents": False}
