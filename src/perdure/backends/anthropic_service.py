"""The way to Anthropic, and to services that speak its Messages language: the client and its failures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from perdure.backends.retrying import retry_after
from perdure.backends.service import Service, code_of, host_of

if TYPE_CHECKING:
    import anthropic

ANTHROPIC_HOST = "api.anthropic.com"

_CODES = {
    "authentication_error": "authentication",
    "permission_error": "authentication",
    "billing_error": "quota",
    "rate_limit_error": "rate_limit",
    "overloaded_error": "server",
    "api_error": "server",
    "timeout_error": "server",
}
"""Types of errors (Anthropic's reference, "Errors"); in the middle of a stream no status tells them."""
_SPENT = ("spend_limit_reached", "credit balance")
"""An empty purse: in the error's own code, with the status of a rate limit, or in the words of a wrong request."""


def is_anthropic(base_url: str | None) -> bool:
    """Whether the address is Anthropic's own, which it is without one."""
    return base_url is None or host_of(base_url) == ANTHROPIC_HOST


class AnthropicService(Service["anthropic.AsyncAnthropic"]):
    """Sends requests by Anthropic's client."""

    sdk: ClassVar[str] = "anthropic"

    def _translated(self, sdk: Any, error: Exception) -> Exception | None:
        import httpx2  # what the client is built on: a stream that breaks off gives its errors as they are

        if isinstance(error, sdk.APITimeoutError | httpx2.TimeoutException):
            return self._timed_out()
        if isinstance(error, sdk.APIConnectionError):
            return self._unreachable(host_of(str(error.request.url)), error)
        if isinstance(error, sdk.APIStatusError):
            return self._meaning(error)
        if isinstance(error, httpx2.TransportError):
            return self.broken(f"the answer broke off ({type(error).__name__})", "connection")
        if isinstance(error, json.JSONDecodeError):  # an event of a stream
            return self.broken("the answer is not what the service documents")
        if isinstance(error, sdk.AnthropicError):
            return self.broken(f"the client failed ({type(error).__name__})")
        return None

    def _meaning(self, error: anthropic.APIStatusError) -> Exception:
        said = self._clean(str(error.api_message or "").strip())
        status = error.status_code
        code = _CODES.get(str(error.type)) if status < 400 else code_of(status)
        if status == 402 or any(word in f"{error.error_code} {said}".lower() for word in _SPENT):
            code = "quota"  # no waiting fills an empty purse
        if status < 400:  # told in the middle of a stream
            return self.broken(said or "the answer broke off", code or "server")
        return self._told(status, said, code=code, after=retry_after(error.response.headers))

    async def _closed(self, client: anthropic.AsyncAnthropic) -> None:
        await client.close()
