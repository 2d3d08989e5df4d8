"""How Azure's OpenAI resources are reached: the address of the resource, a deployment, a version of the interface."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import Field, SecretStr

from perdure.backends.openai_service import imported
from perdure.backends.service import ServiceSettings, host_of, key_or_fail, secret_from, text_from
from perdure.domain.errors import ConfigError

if TYPE_CHECKING:
    import openai

VERSION = "2024-10-21"
"""The newest dated version of the interface that is out of preview."""
_AZURE = (".azure.com", ".azure.us", ".azure.cn")


class AzureSettings(ServiceSettings):
    """What both of Azure's providers are told."""

    deployment: str | None = Field(default=None, min_length=1)
    """The name of the deployment; None: it is named like the model."""
    base_url: str | None = Field(default_factory=partial(text_from, "AZURE_OPENAI_ENDPOINT"))
    """Address of the resource, https://NAME.openai.azure.com; falls back to AZURE_OPENAI_ENDPOINT."""
    api_version: str = Field(default_factory=lambda: text_from("OPENAI_API_VERSION") or VERSION, min_length=1)
    """Version of the interface; falls back to OPENAI_API_VERSION."""
    api_key: SecretStr | None = Field(default_factory=partial(secret_from, "AZURE_OPENAI_API_KEY"))
    """Falls back to AZURE_OPENAI_API_KEY; not needed at an address that is not Azure's."""


def azure_key(settings: AzureSettings, section: str) -> str:
    """The key in clear; ConfigError without an address, or without a key at an address of Azure's."""
    if settings.base_url is None:
        field = f"{section}.config.base_url"
        raise ConfigError(f"{field} is missing: give it there or in AZURE_OPENAI_ENDPOINT", field=field)
    needed = host_of(settings.base_url).endswith(_AZURE)
    return key_or_fail(settings.api_key, needed=needed, section=section, variable="AZURE_OPENAI_API_KEY")


def azure_client(sdk: Any, settings: AzureSettings, key: str) -> openai.AsyncOpenAI:
    """A client that puts the request's model into the path, as the name of the deployment."""
    return imported(
        sdk.AsyncAzureOpenAI(
            api_key=key,
            azure_endpoint=settings.base_url,
            api_version=settings.api_version,
            timeout=settings.timeout,
            max_retries=0,
        )
    )
