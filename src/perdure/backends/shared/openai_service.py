"""Clients of OpenAI, Azure and compatible services, and their error mapping."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, SecretStr

from perdure.backends.http import service
from perdure.domain.errors import ConfigError, EmbeddingError, LLMError

if TYPE_CHECKING:
    import openai

Failure = type[LLMError] | type[EmbeddingError]
OPENAI_HOST = "api.openai.com"
_CODES = {"insufficient_quota": "quota", "content_filter": "refused", "content_policy_violation": "refused"}
"""Codes of the service that say more than the status: an empty purse has the status of a rate limit, but no waiting
fills it, and a filter's refusal that of a wrong request."""


def is_openai(base_url: str | None) -> bool:
    """Whether the address is OpenAI's own (also a region such as eu.api.openai.com), which is the default."""
    return base_url is None or f".{service.host_of(base_url)}".endswith(f".{OPENAI_HOST}")


class OpenAISettings(service.ServiceSettings):
    """Settings of OpenAI's LLM and embedder."""

    api_key: SecretStr | None = Field(default_factory=partial(service.secret_from, "OPENAI_API_KEY"))
    """API key; falls back to OPENAI_API_KEY; not needed with your own `base_url`."""
    base_url: str | None = Field(default_factory=partial(service.text_from, "OPENAI_BASE_URL"))
    """Address of the service, with its /v1; falls back to OPENAI_BASE_URL, then to OpenAI's own."""
    account: Literal["environment", "none"] = "environment"
    """Whether OPENAI_ORG_ID, OPENAI_PROJECT_ID and OPENAI_CUSTOM_HEADERS are sent; `none` for somebody else's key."""


def _openai_client(sdk: Any, settings: OpenAISettings, key: str) -> openai.AsyncOpenAI:
    """Make a client without its own retries that takes nothing from the environment but what it is given."""
    client = sdk.AsyncOpenAI(api_key=key, base_url=settings.base_url, timeout=settings.timeout, max_retries=0)
    if settings.account == "none":  # the client takes what it is not given from the environment, and nothing less
        client.organization = client.project = None
        client._custom_headers = {}
    return _imported(client)


def _imported(client: openai.AsyncOpenAI) -> openai.AsyncOpenAI:
    """Load the client's resources, which are imported on first use, before any time limit counts."""
    _ = client.chat.completions, client.embeddings
    return client


class OpenAIService(service.Service["openai.AsyncOpenAI"]):
    """Calls OpenAI's client."""

    sdk: ClassVar[str] = "openai"

    def _translated(self, sdk: Any, error: Exception) -> Exception | None:
        if isinstance(error, sdk.APITimeoutError):
            return self._timed_out()
        if isinstance(error, sdk.APIConnectionError):
            return self._unreachable(service.host_of(str(error.request.url)), error)
        if isinstance(error, sdk.APIStatusError):
            return self._of_status(
                error.status_code,
                self._clean(_words(error.body)),
                code=_CODES.get(error.code or "") or service.code_of(error.status_code),
                after=service.retry_after(error.response.headers),
                parameter=str(error.param or ""),
            )
        if isinstance(error, sdk.APIError):  # told in the middle of a stream
            return self.broken(error.message, _CODES.get(error.code or "", "server"))
        if isinstance(error, sdk.OpenAIError):
            return self.broken(f"the client failed ({type(error).__name__})")
        return None

    async def _closed(self, client: openai.AsyncOpenAI) -> None:
        await client.close()


def openai_service(name: str, settings: OpenAISettings, failure: Failure, section: str) -> OpenAIService:
    """Make a provider's service; ConfigError without a key, unless `base_url` is set."""
    key = service.key_or_fail(
        settings.api_key,
        needed=is_openai(settings.base_url),
        section=section,
        variable="OPENAI_API_KEY",
        advice=", or set base_url to a service of your own",
    )
    return OpenAIService(name, settings, partial(_openai_client, settings=settings, key=key), failure, key)


def _words(body: object) -> str:
    """Return the service's error message: OpenAI's `message`, or the bare text of smaller services."""
    if isinstance(body, dict):
        return str(body.get("message") or "").strip()
    return body.strip() if isinstance(body, str) and not body.lstrip().startswith("<") else ""  # no proxy's web page


VERSION = "2024-10-21"  # the newest dated version of the interface that is out of preview
_AZURE = (".azure.com", ".azure.us", ".azure.cn")


class AzureSettings(service.ServiceSettings):
    """Settings of Azure's LLM and embedder."""

    deployment: str | None = Field(default=None, min_length=1)
    """The name of the deployment; None: the model's name."""
    base_url: str | None = Field(default_factory=partial(service.text_from, "AZURE_OPENAI_ENDPOINT"))
    """Address of the resource, https://NAME.openai.azure.com; falls back to AZURE_OPENAI_ENDPOINT."""
    api_version: str = Field(default_factory=lambda: service.text_from("OPENAI_API_VERSION") or VERSION, min_length=1)
    """Version of the interface; falls back to OPENAI_API_VERSION."""
    api_key: SecretStr | None = Field(default_factory=partial(service.secret_from, "AZURE_OPENAI_API_KEY"))
    """API key; falls back to AZURE_OPENAI_API_KEY; not needed at an address other than Azure's."""


def azure_service(name: str, settings: AzureSettings, failure: Failure, section: str) -> OpenAIService:
    """Make a provider's service; ConfigError without an address, or without a key at Azure's."""
    if settings.base_url is None:
        field = f"{section}.config.base_url"
        raise ConfigError(f"{field} is missing: give it there or in AZURE_OPENAI_ENDPOINT", field=field)
    needed = service.host_of(settings.base_url).endswith(_AZURE)
    key = service.key_or_fail(settings.api_key, needed=needed, section=section, variable="AZURE_OPENAI_API_KEY")
    return OpenAIService(name, settings, partial(_azure_client, settings=settings, key=key), failure, key)


def _azure_client(sdk: Any, settings: AzureSettings, key: str) -> openai.AsyncOpenAI:
    """Make a client that puts the request's model into the path, as the deployment's name."""
    return _imported(
        sdk.AsyncAzureOpenAI(
            api_key=key,
            azure_endpoint=settings.base_url,
            api_version=settings.api_version,
            timeout=settings.timeout,
            max_retries=0,
        )
    )
