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

USER_HEADER = "x-authz-user-id"
"""By which a proxy that has authenticated somebody says who it is."""
SESSION_HEADER = "x-session-id"
"""By which a client says which sitting a request belongs to."""
_MARKED = 100
"""Characters of the first message by which a conversation without a name is known again."""


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
    """The conversation of a request; None where it must say whose it is and does not (`user_id_missing`).

    `first` is the text of the first message of the user, `session` what a chain of responses is called. ForbiddenError
    where the request names somebody outside of the caller's walls, InvalidInputError for a name that cannot be one.
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
    """Whom the request is of: a member of a team is who the token says, whatever the request does."""
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
        if each is not None and not isinstance(each, str):  # else it would be remembered among what nobody said
            raise InvalidInputError(f"{name} must be a text, not {shown(each)}", field=name, value=each)
    return next((each for each in named.values() if each), None)


def _shared(walls: Scope, scope: Scope) -> Scope | None:
    """The `global` bucket beside a conversation that has a name; none where the walls are one run's."""
    if scope.run_id in (None, GLOBAL) or walls.run_id is not None:
        return None
    return Scope(**{**scope.given(), "run_id": GLOBAL})


def _mark(user: str, first: str) -> str:
    text = f"{user}:{first[:_MARKED]}".encode("utf-8", "replace")
    return f"cc-{hashlib.sha256(text).hexdigest()[:16]}"


_WHO_ELSE = frozenset({"api-key", "x-api-key", "openai-organization", "openai-project"})
"""Headers beside Authorization that say who asks and pays, which a request of memory's own cannot say."""
_ERRAND_HEADER = "x-openwebui-task"
"""By which Open WebUI, told to, names what it asks for itself, as a chat's title."""
_LONGEST_NAME = 200
"""Characters of a model's name that memory asks by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """One authenticated request with a JSON body."""

    request: Request
    gateway: Gateway
    caller: Caller
    is_foreign: bool
    """Whether its credentials are not this server's, which has keys: no memory, and none of our upstream key."""
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
        return self.overrides.stores(self.gateway.settings) and may_store(self.caller)

    def barred(self, words: str) -> Recalled | None:
        """Why it passes without any memory; None where it may have it. `words` are those of the user's last message."""
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
        """The conversation that it is of; None where it would have to say whose."""
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
        """Send a body upstream by POST, with the request's headers and query string; without /v1 where it had none."""
        if not self.request.scope["path"].startswith("/v1/"):
            path = path.removeprefix("/v1")
        query = self.request.scope["query_string"].decode("latin-1")
        return await self.gateway.upstream.send("POST", path, query=query, headers=self.headers(), body=body)

    @property
    def grant(self) -> ModelGrant | None:
        """What memory may ask the same model with: the name, the place and the key that this goes upstream with.

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
        return ModelGrant(
            model=model,
            base_url=self.gateway.upstream.address(place).rstrip("/"),
            key=SecretStr(told[0][1]) if told else None,
        )

    def headers(self) -> Pairs:
        """The request's headers as they go upstream, for an answer that can be read."""
        return headers_up(self.request, self.gateway, identity=True)


async def read_request_context(request: Request) -> RequestContext:
    """The request as read; InvalidInputError for a body or an override that is wrong, NoUpstreamError for no server."""
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
    """The JSON object of a body; InvalidInputError for anything else."""
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
    """The authenticated caller of a request; AuthenticationError where there is none."""
    found: Caller | None = getattr(request.state, "caller", None)
    if found is None:
        raise AuthenticationError("this needs a key or a token: send Authorization: Bearer, or X-API-Key")
    return found


def _names_an_errand(headers: Headers) -> bool:
    """Whether Open WebUI says that this is an errand of its own; a placeholder that it left as it was says nothing."""
    told = headers.get(_ERRAND_HEADER, "").strip()
    return bool(told) and not told.startswith("{{") and told.lower() not in ("none", "null")


def is_foreign(request: Request) -> bool:
    """Whether the request passed with credentials that are not this server's."""
    return bool(getattr(request.state, "is_foreign", False))


def headers_up(request: Request, gateway: Gateway, *, identity: bool = False) -> Pairs:
    """A request's headers as they go upstream: a key of ours is replaced by the configured one."""
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
