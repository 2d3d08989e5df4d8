"""Cohere's reranking models (https://docs.cohere.com/reference/rerank)."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from pydantic import Field, SecretStr

from perdure.backends.http.service import secret_from
from perdure.backends.rerankers._hosted import HostedReranker, HostedSettings


class CohereReranker(HostedReranker):
    """Cohere's models, or any service with a compatible POST `base_url`/rerank; scores lie between 0 and 1.

    The service cuts a long text to its first 4,096 tokens.
    """

    name: ClassVar[str] = "cohere"
    hosts: ClassVar[tuple[str, ...]] = ("cohere.com", "cohere.ai")
    variable: ClassVar[str] = "COHERE_API_KEY"
    most_bytes: ClassVar[int] = 2_000_000
    """The service names no bound on a request as a whole: this one is our own, so that none grows without end."""

    class Settings(HostedSettings):
        """The model and its address."""

        model: str = Field(default="rerank-v4.0-fast", min_length=1)
        """The model's name."""
        api_key: SecretStr | None = Field(default_factory=partial(secret_from, "COHERE_API_KEY", "CO_API_KEY"))
        """API key; falls back to COHERE_API_KEY or CO_API_KEY, which are sent only to Cohere's own addresses."""
        base_url: str = "https://api.cohere.com/v2"
        """Address of the service, with its version."""
