"""OpenAI's chat models on Azure, where a model is reached by the name of its deployment."""

from __future__ import annotations

from typing import ClassVar

from perdure.backends.llms.openai import ChatSettings, OpenAILLM
from perdure.backends.shared.openai_service import AzureSettings, azure_service
from perdure.domain.errors import LLMError


class AzureOpenAILLM(OpenAILLM):
    """Chat models of an Azure OpenAI resource; errors as with `openai`."""

    name: ClassVar[str] = "azure_openai"

    # The port builds a provider from the settings of its own class, and Azure's are others than OpenAI's.
    class Settings(AzureSettings, ChatSettings):
        """The resource, the deployment, and its parameters."""

    def __init__(self, settings: Settings) -> None:
        service = azure_service(self.name, settings, LLMError, "llm")
        self._prepare(settings, service, settings.deployment or settings.model, "max_completion_tokens")
