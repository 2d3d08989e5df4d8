"""What a request to a model's route stands on: the gateway, who asks, and the body as it came."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr
from starlette.requests import Request

from perdure.backends.upstreams.http import UpstreamAnswer
from perdure.domain.access import Caller
from perdure.domain.errors import AuthenticationError, InvalidInputError
from perdure.engine.gateway.borrowing import Loan
from perdure.engine.gateway.conversation import Conversation, Dialect
from perdure.engine.gateway.recalling import Recalled
from perdure.frontends.gateway import identity
from perdure.frontends.gateway.gateway import Gateway, may_store
from perdure.frontends.gateway.headers import Pairs, upward
from perdure.frontends.gateway.overrides import Overrides, barred, read_overrides

_WHO_ELSE = frozenset({"api-key", "x-api-key", "openai-organization", "openai-project"})
"""Headers beside Authorization that say who asks and pays, which a request of memory's own cannot say."""
_LONGEST_NAME = 200
"""Characters of a model's name that memory asks by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """One request with a JSON body, as the door let it in."""

    request: Request
    gateway: Gateway
    caller: Caller
    is_foreign: bool
    """Whether its credentials are not this server's, which has keys: no memory, and none of our upstream key (U25)."""
    raw: bytes
    body: dict[str, Any]
    overrides: Overrides
    began: float = field(default_factory=time.monotonic)
    """When it came, by the monotonic clock."""

    @property
    def time_left(self) -> float:
        """Seconds for which memory may still delay it, 0 at least."""
        return max(0.0, self.began + self.gateway.settings.recall_seconds - time.monotonic())

    @property
    def stores(self) -> bool:
        """Whether what is said is kept."""
        return self.overrides.stores(self.gateway.settings) and self.may_store

    @property
    def may_store(self) -> bool:
        """Whether the caller may change memory at all."""
        return may_store(self.caller)

    def barred(self) -> Recalled | None:
        """Why it passes without any memory; None where it may have it."""
        model = self.body.get("model")
        is_unsure = bool(getattr(self.request.state, "is_unsure", False))
        return barred(self.gateway.settings, self.overrides, model, is_foreign=self.is_foreign, is_unsure=is_unsure)

    def conversation(self, dialect: Dialect, first: str, session: str | None = None) -> Conversation | None:
        """The conversation that it is of; None where it would have to say whose."""
        return identity.conversation(
            caller=self.caller,
            headers=self.request.headers,
            body=self.body,
            overrides=self.overrides,
            trust_client_user_id=self.gateway.trust_client_user_id,
            dialect=dialect,
            first=first,
            session=session,
        )

    async def send(self, path: str, body: bytes) -> UpstreamAnswer:
        """Send a body upstream by POST, with the request's headers and query string; without /v1 where it had none."""
        if not self.request.scope["path"].startswith("/v1/"):
            path = path.removeprefix("/v1")
        query = self.request.scope["query_string"].decode("latin-1")
        return await self.gateway.upstream.send("POST", path, query=query, headers=self.headers(), body=body)

    @property
    def loan(self) -> Loan | None:
        """What memory may ask the same model with: the name, the place and the key that this goes upstream with (U24).

        None where that is not set or nothing is stored, where no model is named, and where it takes more than a bearer
        key to ask.
        """
        model = self.body.get("model")
        if not (self.gateway.remembering.borrows and self.stores):
            return None
        if not isinstance(model, str) or not 0 < len(model.strip()) <= _LONGEST_NAME:
            return None
        found = [(name.lower(), value) for name, value in self.headers()]
        told = [value.split() for name, value in found if name == "authorization"]
        is_bearer = len(told) <= 1 and all(len(each) == 2 and each[0].lower() == "bearer" for each in told)
        if not is_bearer or self.request.scope["query_string"] or any(name in _WHO_ELSE for name, _ in found):
            return None
        place = "/v1" if self.request.scope["path"].startswith("/v1/") else "/"
        return Loan(
            model=model,
            base_url=self.gateway.upstream.address(place).rstrip("/"),
            key=SecretStr(told[0][1]) if told else None,
        )

    def headers(self) -> Pairs:
        """The request's headers as they go upstream, for an answer that can be read."""
        return headers_up(self.request, self.gateway, identity=True)


async def read_asking(request: Request) -> Asking:
    """The request as read; InvalidInputError for a body or an override that is wrong, NoUpstreamError for no server."""
    gateway = gateway_of(request)
    _ = gateway.upstream
    raw = await request.body()
    body = read_object(raw)
    return Asking(
        request=request,
        gateway=gateway,
        caller=caller_of(request),
        is_foreign=is_foreign(request),
        raw=raw,
        body=body,
        overrides=read_overrides(request.headers, body),
    )


def read_object(raw: bytes) -> dict[str, Any]:
    """The JSON object of a body; InvalidInputError for anything else (K7)."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        raise InvalidInputError("the body is not valid JSON", field="body") from None
    if not isinstance(body, dict):
        raise InvalidInputError("the body must be a JSON object", field="body")
    return body


def gateway_of(request: Request) -> Gateway:
    """The gateway of the app that a request came to."""
    found: Gateway = request.app.state.gateway
    return found


def caller_of(request: Request) -> Caller:
    """Who asks, as the door has made sure of."""
    found: Caller | None = getattr(request.state, "caller", None)
    if found is None:
        raise AuthenticationError("this needs a key or a token: send Authorization: Bearer, or X-API-Key")
    return found


def is_foreign(request: Request) -> bool:
    """Whether the door let the request pass with credentials that are not this server's."""
    return bool(getattr(request.state, "is_foreign", False))


def headers_up(request: Request, gateway: Gateway, *, identity: bool = False) -> Pairs:
    """A request's headers as they go upstream: a key of ours is replaced by the configured one (U25)."""
    lends = getattr(request.state, "lends_key", not is_foreign(request))
    return upward(
        request.scope,
        consumed=getattr(request.state, "consumed", ()),
        authorization=gateway.upstream.authorization if lends else None,
        identity=identity,
    )


def memory_headers(recalled: Recalled) -> list[tuple[bytes, bytes]]:
    """What an answer tells of its memory."""
    return [
        (b"x-memory-status", recalled.status.encode("ascii")),
        (b"x-memory-reason", recalled.reason.encode("ascii", "replace")),
    ]
