"""The context of a request to a model route: the gateway, the caller, the body and its overrides."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.requests import Request

from perdure.backends.http.upstream import UpstreamAnswer
from perdure.domain.access import Caller
from perdure.domain.errors import AuthenticationError, InvalidInputError
from perdure.domain.scope import Scope
from perdure.domain.text.readable import shown, utf8_of
from perdure.engine.chat.caller_model import ModelGrant
from perdure.engine.chat.memory_reader import Recalled
from perdure.engine.chat.settings import DEFAULT, GLOBAL, Conversation, Dialect
from perdure.engine.core.access import scoped
from perdure.frontends.gateway.gateway import Gateway, may_store
from perdure.frontends.gateway.overrides import Overrides, read_overrides
from perdure.frontends.gateway.streaming import Pairs, upward
from perdure.pipeline.curation.chat import is_client_task

# Identity: the user of a request, by its credentials and its fields.

USER_HEADER = "x-authz-user-id"  # the header in which an authenticating proxy names the user
SESSION_HEADER = "x-session-id"  # the header in which a client names the session
_MARKED = 100  # characters of the first message that identify a conversation without a name


def conversation(
    *,
    caller: Caller,
    headers: Headers,
    body: Mapping[str, Any],
    overrides: Overrides,
    trust_client_user_id: bool,
    dialect: Dialect,
    first: str,
    session: str | None = None,
) -> Conversation | None:
    """Return the conversation of a request; None if it must name a user and does not (`user_id_missing`).

    `first` is the text of the user's first message, `session` the name of a chain of responses. ForbiddenError if the
    request names somebody outside of the caller's scope, InvalidInputError for an invalid name.
    """
    team = caller.walls.team_id
    walls = Scope(**{name: value for name, value in caller.walls.given().items() if name != "team_id"})
    user = _user(caller, headers, body, overrides, trust_client_user_id)
    if user is None and not trust_client_user_id and not walls.given():
        return None
    run = overrides.memory_id
    if user is None and run is None and walls.run_id is None:
        run = DEFAULT
    sitting = utf8_of(headers.get(SESSION_HEADER, ""), SESSION_HEADER)
    scope = scoped(walls, Scope(user_id=user, run_id=run, project_id=overrides.project_id))
    return Conversation(
        scope=scope,
        shared=_shared(walls, scope),
        session=sitting or overrides.memory_id or session or _mark(user or "", first),
        dialect=dialect,
        team=team,
        project=scope.project_id,
    )


def _user(caller: Caller, headers: Headers, body: Mapping[str, Any], overrides: Overrides, trust: bool) -> str | None:
    """Return the user of a request: for a team's member the one in the token, whatever the request says."""
    if caller.walls.team_id is not None:
        return caller.subject
    told = utf8_of(headers.get(USER_HEADER, ""), USER_HEADER) or caller.walls.user_id
    if told or not trust:
        return told or None
    if overrides.user_id is not None:
        return overrides.user_id
    metadata = body.get("metadata")
    named = {
        "metadata.user_id": metadata.get("user_id") if isinstance(metadata, dict) else None,
        "user": body.get("user"),
    }
    for name, each in named.items():
        if each is not None and not isinstance(each, str):  # else it would be stored with the messages of unnamed users
            raise InvalidInputError(f"{name} must be a text, not {shown(each)}", field=name, value=each)
    return next((each for each in named.values() if each), None)


def _shared(walls: Scope, scope: Scope) -> Scope | None:
    """Return the `global` run beside a named conversation; none if the scope is limited to one run."""
    if scope.run_id in (None, GLOBAL) or walls.run_id is not None:
        return None
    return Scope(**{**scope.given(), "run_id": GLOBAL})


def _mark(user: str, first: str) -> str:
    text = f"{user}:{first[:_MARKED]}".encode("utf-8", "replace")
    return f"cc-{hashlib.sha256(text).hexdigest()[:16]}"


_WHO_ELSE = frozenset({"api-key", "x-api-key", "openai-organization", "openai-project"})
"""Headers beside Authorization that affect identity or billing, which the memory's own request cannot send."""
_ERRAND_HEADER = "x-openwebui-task"
"""The header in which Open WebUI, if configured, names its own tasks, such as a chat's title."""
_LONGEST_NAME = 200  # maximum characters of a model's name that memory uses


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """One authenticated request with a JSON body."""

    request: Request
    gateway: Gateway
    caller: Caller
    is_foreign: bool
    """Whether its credentials are not this server's, which has keys: then no memory and no upstream key of ours."""
    raw: bytes
    body: dict[str, Any]
    overrides: Overrides
    began: float = field(default_factory=time.monotonic)  # when it came, by the monotonic clock

    @property
    def time_left(self) -> float:
        """Seconds for which memory may still delay it, at least 0."""
        return max(0.0, self.began + self.gateway.settings.recall_seconds - time.monotonic())

    @property
    def stores(self) -> bool:
        """Whether the turn is stored."""
        return self.overrides.stores(self.gateway.settings) and may_store(self.caller)

    def barred(self, words: str) -> Recalled | None:
        """Return why it gets no memory; None if it may have it. `words` are those of the user's last message."""
        settings, overrides = self.gateway.settings, self.overrides
        if not settings.enabled:
            return Recalled(status="disabled", reason="global_config")
        if getattr(self.request.state, "is_unsure", False):  # the ledger cannot tell now whose credentials these are
            return Recalled(status="unavailable", reason="store_unavailable")
        if self.is_foreign:
            return Recalled(status="policy_blocked", reason="foreign_credentials")
        if overrides.opted_out or overrides.enabled is False:
            return Recalled(status="policy_blocked", reason="request_opt_out")
        if self.body.get("model") in settings.disabled_models:
            return Recalled(status="policy_blocked", reason="model_config")
        is_errand = _names_an_errand(self.request.headers) or is_client_task(words)
        return Recalled(status="ignored", reason="query_ineligible") if is_errand else None

    def conversation(self, dialect: Dialect, first: str, session: str | None = None) -> Conversation | None:
        """Return its conversation; None if it does not name a required user."""
        return conversation(
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
        """POST a body upstream with the request's headers and query string; without /v1 if it had none."""
        if not self.request.scope["path"].startswith("/v1/"):
            path = path.removeprefix("/v1")
        query = self.request.scope["query_string"].decode("latin-1")
        return await self.gateway.upstream.send("POST", path, query=query, headers=self.headers(), body=body)

    @property
    def grant(self) -> ModelGrant | None:
        """Return the model, server and key with which memory may call the same model.

        None if that is off or nothing is stored, if no model is named, or if a call needs more than a bearer key.
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
        return ModelGrant(
            model=model,
            base_url=self.gateway.upstream.address(place).rstrip("/"),
            key=SecretStr(told[0][1]) if told else None,
        )

    def headers(self) -> Pairs:
        """Return the request's headers for upstream, for an uncompressed answer."""
        return headers_up(self.request, self.gateway, identity=True)


async def read_request_context(request: Request) -> RequestContext:
    """Read a request; InvalidInputError for a wrong body or override, NoUpstreamError without a server."""
    gateway = gateway_of(request)
    _ = gateway.upstream
    raw = await request.body()
    body = read_object(raw)
    return RequestContext(
        request=request,
        gateway=gateway,
        caller=caller_of(request),
        is_foreign=is_foreign(request),
        raw=raw,
        body=body,
        overrides=read_overrides(request.headers, body),
    )


def read_object(raw: bytes) -> dict[str, Any]:
    """Parse the JSON object of a body; InvalidInputError for anything else."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        raise InvalidInputError("the body is not valid JSON", field="body") from None
    if not isinstance(body, dict):
        raise InvalidInputError("the body must be a JSON object", field="body")
    return body


def gateway_of(request: Request) -> Gateway:
    """Return the gateway of a request's app."""
    found: Gateway = request.app.state.gateway
    return found


def caller_of(request: Request) -> Caller:
    """Return the authenticated caller of a request; AuthenticationError if there is none."""
    found: Caller | None = getattr(request.state, "caller", None)
    if found is None:
        raise AuthenticationError("this needs a key or a token: send Authorization: Bearer, or X-API-Key")
    return found


def _names_an_errand(headers: Headers) -> bool:
    """Whether Open WebUI declares this as its own task; an unfilled placeholder does not count."""
    told = headers.get(_ERRAND_HEADER, "").strip()
    return bool(told) and not told.startswith("{{") and told.lower() not in ("none", "null")


def is_foreign(request: Request) -> bool:
    """Whether the request passed with credentials that are not this server's."""
    return bool(getattr(request.state, "is_foreign", False))


def headers_up(request: Request, gateway: Gateway, *, identity: bool = False) -> Pairs:
    """Return a request's headers for upstream: a key of ours is replaced by the configured one."""
    lends = getattr(request.state, "lends_key", not is_foreign(request))
    return upward(
        request.scope,
        consumed=getattr(request.state, "consumed", ()),
        authorization=gateway.upstream.authorization if lends else None,
        identity=identity,
    )


def memory_headers(recalled: Recalled) -> list[tuple[bytes, bytes]]:
    """Return the memory headers of an answer."""
    return [
        (b"x-memory-status", recalled.status.encode("ascii")),
        (b"x-memory-reason", recalled.reason.encode("ascii", "replace")),
    ]
