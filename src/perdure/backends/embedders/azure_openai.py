"""OpenAI's embedding models on Azure, where a model is reached by the name of its deployment."""

from __future__ import annotations

from typing import ClassVar

from perdure.backends.embedders.openai import MODELS, OpenAIEmbedder, VectorSettings
from perdure.backends.shared.openai_service import AzureSettings, azure_service
from perdure.domain.errors import EmbeddingError

MOST_BYTES = 8_192  # bytes of text in one request: Azure's guide allows 8,192 tokens, and a token is at least one byte


class AzureOpenAIEmbedder(OpenAIEmbedder):
    """Embedding models of an Azure OpenAI resource; vectors and errors as with `openai`."""

    name: ClassVar[str] = "azure_openai"

    # The port builds a provider from the settings of its own class, and Azure's are others than OpenAI's.
    class Settings(AzureSettings, VectorSettings):
        """The resource, the deployment, and the length of its vectors."""

    def __init__(self, settings: Settings) -> None:
        self._prepare(settings, azure_service(self.name, settings, EmbeddingError, "embedder"), MOST_BYTES)
        self._sent_as = settings.deployment or settings.model
        self._asks_for_length |= settings.model not in MODELS
