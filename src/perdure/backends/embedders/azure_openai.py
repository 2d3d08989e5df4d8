"""OpenAI's embedding models on Azure, where a model is reached by the name of its deployment."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from perdure.backends.embedders.openai import MODELS, OpenAIEmbedder, VectorSettings
from perdure.backends.shared.openai_service import AzureSettings, OpenAIService, azure_client, azure_key
from perdure.domain.errors import EmbeddingError

MOST_BYTES = 8_192
"""Bytes of text in one request: Azure's guide allows 8,192 tokens, and a token is at least one byte."""


class AzureOpenAIEmbedder(OpenAIEmbedder):
    """Embedding models of an Azure OpenAI resource; vectors and failures as `openai` has them."""

    name: ClassVar[str] = "azure_openai"

    # The port builds a provider from the settings of its own class, and Azure's are others than OpenAI's.
    class Settings(AzureSettings, VectorSettings):
        """Which deployment of which resource, and how long its vectors are."""

    def __init__(self, settings: Settings) -> None:
        key = azure_key(settings, "embedder")
        make = partial(azure_client, settings=settings, key=key)
        self._prepare(settings, OpenAIService(self.name, settings, make, EmbeddingError, key), MOST_BYTES)
        self._sent_as = settings.deployment or settings.model
        self._asks_for_length |= settings.model not in MODELS
