"""Voyage AI's reranking models (https://docs.voyageai.com/reference/reranker-api)."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from pydantic import Field, SecretStr

from perdure.backends.http.service import secret_from
from perdure.backends.rerankers._hosted import HostedReranker, HostedSettings


class VoyageReranker(HostedReranker):
    """Voyage AI's models, at its own address or at MongoDB's (https://ai.mongodb.com/v1).

    Scores lie between 0 and 1. The service cuts what is longer than its model reads.
    """

    name: ClassVar[str] = "voyage"
    hosts: ClassVar[tuple[str, ...]] = ("voyageai.com", "ai.mongodb.com")
    variable: ClassVar[str] = "VOYAGE_API_KEY"
    most_bytes: ClassVar[int] = 300_000
    """The service takes 300,000 tokens with its older models and 600,000 with the others, the query's counted once for
    each text; a token is at least one byte."""

    class Settings(HostedSettings):
        """The model and its address."""

        model: str = Field(default="rerank-2.5", min_length=1)
        """The model's name."""
        api_key: SecretStr | None = Field(default_factory=partial(secret_from, "VOYAGE_API_KEY"))
        """API key; falls back to VOYAGE_API_KEY, which is sent only to Voyage AI's own addresses."""
        base_url: str = "https://api.voyageai.com/v1"
        """Address of the service, with its version."""

    def _body(self, query: str, texts: list[str]) -> dict[str, Any]:
        return {**super()._body(query, texts), "truncation": True}
