"""OpenAI's chat models on Azure, where a model is reached by the name of its deployment."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from perdure.backends.llms.openai import ChatSettings, OpenAILLM
from perdure.backends.shared.openai_service import AzureSettings, OpenAIService, azure_client, azure_key
from perdure.domain.errors import LLMError


class AzureOpenAILLM(OpenAILLM):
    """Chat models of an Azure OpenAI resource; fails as `openai` does."""

    name: ClassVar[str] = "azure_openai"

    # The port builds a provider from the settings of its own class, and Azure's are others than OpenAI's.
    class Settings(AzureSettings, ChatSettings):
        """Which deployment of which resource, and how it is asked."""

    def __init__(self, settings: Settings) -> None:
        key = azure_key(settings, "llm")
        make = partial(azure_client, settings=settings, key=key)
        service = OpenAIService(self.name, settings, make, LLMError, key)
        self._prepare(settings, service, settings.deployment or settings.model, "max_completion_tokens")
