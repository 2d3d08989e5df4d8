"""Client of an Ollama server: its address and its error mapping."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError

from perdure.backends.http import service
from perdure.domain.errors import ConfigError, EmbeddingError, LLMError

if TYPE_CHECKING:
    import httpx
    import ollama

LOCAL = "http://localhost:11434"  # where the server listens unless it is told otherwise (OLLAMA_HOST in Ollama's FAQ)
PORT = 11434
HOSTED = "ollama.com"  # Ollama's own service, the only place where a key is demanded
PATH, LENGTH = "path", "length"
"""What a RefusedError names: an address that the server does not have, a text that the model cannot hold."""

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - a server listens there, nobody can call it
_TOO_LONG = re.compile(r"(?:input|prompt).*(?:context|too long)", re.IGNORECASE)
_ANSWERS = ("ChatResponse", "EmbedResponse", "EmbeddingsResponse")


def server_address() -> str:
    """Return the address in OLLAMA_HOST, else LOCAL; ConfigError for an invalid one."""
    host = service.text_from("OLLAMA_HOST")
    return LOCAL if host is None else address_of(host)


def address_of(host: str) -> str:
    """Return the address from any form of OLLAMA_HOST: `host`, `host:port`, `:port`, `http://host`, or with a path.

    Port 11434 without a scheme, else the scheme's own, as in Ollama; an address to listen on everywhere becomes this
    machine's. ConfigError for anything else.
    """
    scheme, separator, rest = host.partition("://")
    if not separator:
        scheme, rest = "http", host
    try:
        parts = urlsplit(f"{scheme}://{rest}")
        name, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError:
        scheme = ""
    if scheme not in ("http", "https"):
        raise ConfigError(f"OLLAMA_HOST is no address: {host!r}", field="OLLAMA_HOST", value=host)
    name = _ANY_ADDRESS.get(name, name)
    if ":" in name:
        name = f"[{name}]"
    if port is None and not separator:
        port = PORT
    return f"{scheme}://{name}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


class OllamaSettings(service.ServiceSettings):
    """Settings of Ollama's LLM and embedder."""

    timeout: float = Field(default=300.0, gt=0, le=3600)
    """Seconds that one attempt may take. The first one includes loading the model."""
    api_key: SecretStr | None = Field(default_factory=partial(service.secret_from, "OLLAMA_API_KEY"))
    """API key; falls back to OLLAMA_API_KEY; only needed at ollama.com."""
    base_url: str = Field(default_factory=server_address)
    """Address of the server, without /api; falls back to OLLAMA_HOST, then to http://localhost:11434."""


class _StatusError(Exception):
    def __init__(self, status: int, body: str, path: str, after: float | None) -> None:
        super().__init__(status)
        self.status = status
        self.path = path
        self.after = after
        try:
            parsed = json.loads(body)
        except ValueError:
            parsed = None
        error = parsed.get("error") if isinstance(parsed, dict) else None
        if isinstance(error, dict):
            error = error.get("message")
        self.by_ollama = isinstance(error, str)
        """Whether the text is Ollama's, not that of something on the way or of a path that does not exist."""
        self.said = (error if isinstance(error, str) else body).strip()


async def _stop_at_failure(response: httpx.Response) -> None:
    """Raise errors with their headers: the vendor's error keeps only the text, without `Retry-After`."""
    if response.is_error:
        await response.aread()
        after = service.retry_after(response.headers)
        raise _StatusError(response.status_code, response.text, response.request.url.path, after)


class OllamaService(service.Service["ollama.AsyncClient"]):
    """Calls Ollama's client; a RefusedError names PATH or LENGTH. ConfigError for ollama.com without a key."""

    sdk: ClassVar[str] = "ollama"

    def __init__(
        self,
        provider: str,
        settings: OllamaSettings,
        model: str,
        section: str,
        failure: type[LLMError] | type[EmbeddingError],
    ) -> None:
        host = service.host_of(settings.base_url)
        needed = host == HOSTED or host.endswith(f".{HOSTED}")
        key = service.key_or_fail(settings.api_key, needed=needed, section=section, variable="OLLAMA_API_KEY")
        headers = {"authorization": f"Bearer {key}"} if settings.api_key else {}

        def make(sdk: Any) -> ollama.AsyncClient:
            client: ollama.AsyncClient = sdk.AsyncClient(
                host=settings.base_url,
                timeout=settings.timeout,
                headers=headers,
                event_hooks={"response": [_stop_at_failure]},
            )
            return client

        super().__init__(provider, settings, make, failure, key)
        self._model = model
        self._place = urlsplit(settings.base_url).netloc.rpartition("@")[2]

    def _translated(self, sdk: Any, error: Exception) -> Exception | None:
        import httpx  # comes with the vendor's client

        if isinstance(error, _StatusError):
            return self._refused(error)
        if isinstance(error, sdk.ResponseError):  # told in the middle of a stream
            return self.broken(str(error.error) or "the answer broke off", "server")
        if isinstance(error, httpx.TimeoutException):
            return self._timed_out()
        if isinstance(error, ConnectionError | httpx.ConnectError):
            advice = "is it running? `ollama serve` starts it"
            return service.RetryLater(
                self.broken(f"no connection to the server at {self._place}: {advice}", "connection")
            )
        if isinstance(error, httpx.TransportError):
            return service.RetryLater(self.broken(f"the connection broke ({type(error).__name__})", "connection"))
        # The client reads answers without looking: what is no JSON, or JSON of another shape, fails in these ways.
        unread = json.JSONDecodeError, UnicodeDecodeError, httpx.RequestError, TypeError, AttributeError
        if isinstance(error, unread) or (isinstance(error, ValidationError) and error.title in _ANSWERS):
            return self.broken("the answer is not what the service documents")
        return None

    def _refused(self, error: _StatusError) -> Exception:
        said = self._clean(error.said)
        if error.status == 404 and error.by_ollama:
            return self.broken(f"{said}: `ollama pull {self._model}` fetches the model")
        if error.status == 404:
            problem = f"no Ollama answers at {error.path} (status 404): base_url is its address without /api"
            return service.RefusedError(self.broken(problem), PATH, said)
        if error.by_ollama and _TOO_LONG.search(said):  # its status was 400, 413 or 500 in different versions
            return service.RefusedError(self.broken(f"status {error.status}: {said}", "length"), LENGTH, said)
        return self._of_status(error.status, said, code=service.code_of(error.status), after=error.after)

    async def _closed(self, client: ollama.AsyncClient) -> None:
        await client.close()  # type: ignore[no-untyped-call]  # its `close` has no types
