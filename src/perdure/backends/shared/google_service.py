"""Client of Google's Gemini API, with a key, and its error mapping. Vertex AI is not supported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import SecretStr, ValidationError

from perdure.backends.http.service import Service, code_of, host_of, key_or_fail, retry_after

if TYPE_CHECKING:
    import httpx2
    from google import genai

GOOGLE_ADDRESS = "https://generativelanguage.googleapis.com"
KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""The variable that perdure documents, and the vendor's other name for it."""

_VERSION = "v1beta"  # the version of the interface that the vendor's client speaks
_REFUSED_KEYS = ("API_KEY_INVALID", "API_KEY_EXPIRED")
"""Reasons (google.rpc.ErrorInfo) that come with the status of a wrong request."""
_MISREAD = (ValidationError, json.JSONDecodeError, TypeError, AttributeError, KeyError)
"""What the client raises on an answer of another shape than it expects."""


@dataclass(frozen=True, slots=True)
class GoogleClient:
    """The vendor's client with its connections."""

    genai: genai.Client
    connections: httpx2.AsyncClient


def google_key(key: SecretStr | None, base_url: str | None, section: str) -> str:
    """Return the key in clear; ConfigError without one, unless `base_url` is set."""
    needed = base_url is None or host_of(base_url) == host_of(GOOGLE_ADDRESS)
    advice = ", or set base_url to a service of your own"
    return key_or_fail(key, needed=needed, section=section, variable=KEY_VARIABLES[0], advice=advice)


def google_client(sdk: Any, key: str, base_url: str | None) -> GoogleClient:
    """Make a client that sends the key in a header, without retries or time limits of its own."""
    import httpx2

    # Connections of our own: the client would otherwise take aiohttp where that is installed, and fail in its words.
    connections = httpx2.AsyncClient()
    options = {"base_url": base_url or GOOGLE_ADDRESS, "api_version": _VERSION, "httpx_async_client": connections}
    return GoogleClient(sdk.Client(api_key=key, vertexai=False, http_options=options), connections)


class GoogleService(Service[GoogleClient]):
    """Calls Google's client."""

    sdk: ClassVar[str] = "google.genai"

    def _translated(self, sdk: Any, error: Exception) -> Exception | None:
        import httpx2

        if isinstance(error, httpx2.TimeoutException):
            return self._timed_out()
        if isinstance(error, httpx2.TransportError):
            return self._unreachable(host_of(getattr(self._settings, "base_url", None) or GOOGLE_ADDRESS), error)
        if isinstance(error, sdk.errors.APIError):
            return self._meaning(error)
        if isinstance(error, (*_MISREAD, sdk.errors.UnknownApiResponseError)):
            return self.broken("the answer is not what the service documents")
        return None

    def _meaning(self, error: Any) -> Exception:
        details = _details(error.details)
        status = error.code if isinstance(error.code, int) else 500
        code = code_of(status)
        if any(detail.get("reason") in _REFUSED_KEYS for detail in details):
            code = "authentication"
        if code == "rate_limit" and any("PerDay" in name for detail in details for name in _quotas(detail)):
            code = "quota"  # no wait of a minute fills it
        asked = retry_after(getattr(error.response, "headers", None) or {})
        after = asked if asked is not None else _retry_info(details)
        return self._of_status(status, self._clean(str(error.message or "").strip()), code=code, after=after)

    async def _closed(self, client: GoogleClient) -> None:
        client.genai.close()
        await client.connections.aclose()


def _details(body: Any) -> list[Mapping[str, Any]]:
    """Return the details of a google.rpc.Status, or none."""
    status = body.get("error") if isinstance(body, dict) else None
    details = status.get("details") if isinstance(status, dict) else None
    return [each for each in details if isinstance(each, dict)] if isinstance(details, list) else []


def _quotas(detail: Mapping[str, Any]) -> list[str]:
    """Return the names of the quotas in a google.rpc.QuotaFailure."""
    violations = detail.get("violations")
    found = violations if isinstance(violations, list) else []
    return [str(each.get("quotaId") or "") for each in found if isinstance(each, dict)]


def _retry_info(details: list[Mapping[str, Any]]) -> float | None:
    """Return the seconds of a google.rpc.RetryInfo ("17s", "0.5s")."""
    for detail in details:
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and delay.endswith("s"):
            return retry_after({"retry-after": delay.removesuffix("s")})
    return None
