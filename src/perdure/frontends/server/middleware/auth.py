"""Authentication, authorisation and rate limiting, as ASGI middleware in front of all routes."""

from __future__ import annotations

import hmac
import json
import logging
from dataclasses import replace
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from perdure.domain.access import Caller
from perdure.domain.errors import AuthenticationError, ForbiddenError, InvalidInputError, PerdureError
from perdure.domain.scope import OWNER_FIELDS
from perdure.domain.scope import Scope as Walls
from perdure.domain.text.readable import utf8_of
from perdure.engine import api_keys
from perdure.frontends.faults import BusyError
from perdure.frontends.gateway.gateway import Gateway
from perdure.frontends.gateway.request_context import USER_HEADER
from perdure.frontends.mcp import SCOPE_HEADER
from perdure.frontends.server.auth.api_keys import TEAM_HEADER, ApiKeyAuthenticator, Credential, credentials
from perdure.frontends.server.error_responses import send_error
from perdure.frontends.server.middleware.rate_limit import address_name
from perdure.frontends.server.state import Service

HEALTH_ROUTES = frozenset({"/healthz", "/readyz", "/v1/healthz"})
"""Routes that everybody may call, without a rate limit; they return no stored data."""
PUBLIC_SEARCH = "/v1/memory/search"  # the route that serves PUBLIC facts to everybody if the request names no team
READS = frozenset({"GET", "HEAD", "OPTIONS"})
READING_POSTS = frozenset(
    {
        "/search",
        "/v1/memories/search",
        "/v2/memories/search",
        "/v3/memories/search",
        "/v2/memories",
        "/v3/memories",
        "/v1/entities",
        "/v1/summary",
        "/v1/exports/get",
    }
)
"""POST routes that only read."""
TOOL_ROUTE = "/mcp"
"""The route whose tools check the role themselves: a reader may call those that only read."""
_NOBODYS = frozenset({"/metrics", "/openapi.json", "/docs", "/v1/ping"})
"""Routes that describe the server and return no memory."""
ANONYMOUS = Caller(name="anonymous", is_known=False)
ANONYMOUS_READER = Caller(name="anonymous", role="reader", is_known=False)
"""A caller without credentials that reads PUBLIC facts."""
UPSTREAM_CREDENTIALS = Caller(name="foreign", role="reader", is_known=False)
"""A caller of the model's server whose credentials are the upstream's, on a server that has API keys."""
UNVERIFIED = Caller(name="unsure", role="reader", is_known=False)
"""A caller of the model's server while API keys cannot be looked up because the ledger is down."""

logger = logging.getLogger("perdure.server")


class AuthMiddleware:
    """Authenticates and rate-limits each request, and puts its `Caller` on the request's state."""

    def __init__(self, app: ASGIApp, service: Service, gateway: Gateway) -> None:
        self._app = app
        self._service = service
        self._gateway = gateway
        self._keyring = ApiKeyAuthenticator(service)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass an authenticated request on, or answer with an error."""
        if scope["type"] != "http" or scope["path"] in HEALTH_ROUTES:
            await self._app(scope, receive, send)
            return
        try:
            scope["state"]["caller"] = await self._authenticate(scope)
        except PerdureError as error:
            await send_error(error, scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _authenticate(self, scope: Scope) -> Caller:
        headers = Headers(scope=scope)
        address = address_name(scope["client"][0] if scope.get("client") else None)
        is_for_model = self._gateway.takes(scope["path"])
        try:
            if is_for_model:
                caller = await self.model_caller(headers, scope["state"])
            else:
                caller = await self.caller(headers, scope["method"], scope["path"])
        except AuthenticationError:
            self._count(scope, address)  # guessing is counted too
            raise
        self._count(scope, f"caller {caller.name}" if caller.is_known else address)
        for name in (TEAM_HEADER, USER_HEADER):
            if len({*headers.getlist(name)}) > 1:  # the client may have sent one, and a proxy added the other
                raise ForbiddenError(f"{name} is there more than once, and names two")
        if caller.role == "reader" and not is_for_model and not _only_reads(scope["method"], scope["path"]):
            raise ForbiddenError("these credentials may only read")
        return caller

    def _count(self, scope: Scope, name: str) -> None:
        allowance = self._service.limit.take(name)
        if allowance is None:
            return
        scope["state"].setdefault("headers", {}).update(allowance.headers())
        if allowance.retry_after:
            raise BusyError(
                f"more than {allowance.limit} requests a minute: try again in {allowance.retry_after} seconds",
                retry_after=allowance.retry_after,
            )

    async def caller(self, headers: Headers, method: str, path: str) -> Caller:
        """Return the caller of a request; AuthenticationError or ForbiddenError if it may not make the request."""
        presented = credentials(headers)
        team = _team_of(headers)
        refusal: AuthenticationError | None = None
        for credential in presented:
            if path == TOOL_ROUTE and team is None and self._is_attached(credential):
                return Caller(name="attached", walls=_scope_told(headers))
            try:
                found = await self._known(credential)
            except AuthenticationError as error:
                refusal = refusal or error
                continue
            return _for_team(found, team) if team is not None else _for_oneself(found, method, path)
        if team is None:
            if _is_public(method, path):
                return ANONYMOUS_READER
            if self._service.is_open and not await self._keyring.any():
                return ANONYMOUS  # an open server ignores keys that it does not know
        raise refusal or AuthenticationError(
            "a team's memory needs a token or a key: send Authorization: Bearer"
            if team is not None
            else "this needs a key: send Authorization: Bearer, Authorization: Token or X-API-Key"
        )

    def _is_attached(self, credential: Credential) -> bool:
        """Whether it is a `perdure mcp` of this server's folder, which it could open itself."""
        token = self._service.secrets.attach_token
        return token is not None and hmac.compare_digest(
            token.get_secret_value().encode(), credential.secret.encode("utf-8", "replace")
        )

    async def model_caller(self, headers: Headers, state: dict[str, Any]) -> Caller:
        """Return the caller of a request to a model; headers with perdure's own keys are not forwarded, others are.

        On a server that has API keys, a request with none of them passes as UPSTREAM_CREDENTIALS. A team's memory needs
        credentials of that team. If the ledger is down, requests still reach the model: see `_unverified_caller`.
        """
        team = _team_of(headers)
        found: Caller | None = None
        refusal: AuthenticationError | None = None
        unread: PerdureError | None = None
        state["consumed"] = consumed = set[str]()
        presented = credentials(headers)
        for credential in presented:
            is_ours = credential.secret.startswith(api_keys.PREFIX)
            try:
                known = await self._known(credential, in_time=True)
            except AuthenticationError as error:
                refusal = error if is_ours or team is not None else refusal
            except PerdureError as error:
                if not is_ours:
                    raise
                unread = error
            else:
                found, is_ours = found or known, True
            if is_ours:
                consumed.add("x-api-key" if credential.scheme == "key" else "authorization")
        if found is not None:
            return _for_team(found, team) if team is not None else _for_oneself(found, "", "")
        if team is not None:
            raise refusal or unread or AuthenticationError("a team's memory needs a token or a key: send Authorization")
        if self._service.is_open and unread is None:
            try:
                if not await self._keyring.in_time(self._keyring.any()):
                    return ANONYMOUS
            except PerdureError as error:
                unread = error
        if unread is not None:
            return self._unverified_caller(unread, presented, state)
        if refusal is not None:
            raise refusal
        state["is_foreign"] = True
        return UPSTREAM_CREDENTIALS

    def _unverified_caller(self, error: PerdureError, presented: list[Credential], state: dict[str, Any]) -> Caller:
        """Return the caller of a request to a model while the ledger is down; the request gets no memory.

        The server's own upstream key is sent along only for a key that was valid at its last lookup, and on loopback
        while no key is known to exist. Any other key of perdure's raises the ledger's error. An open server whose last
        lookup found no keys works on as before.
        """
        exist = self._keyring.may_exist
        if self._service.is_open and exist is False:
            return ANONYMOUS
        lends = any(self._keyring.was_good(credential.secret) for credential in presented)
        lends = lends or (self._service.is_open and exist is None and self._service.settings.on_loopback)
        if state["consumed"] and not lends:
            raise error
        logger.error("keys cannot be looked up, memory disabled: %s", error.message)
        state |= {"is_foreign": True, "is_unsure": True, "lends_key": lends}
        return UNVERIFIED

    async def _known(self, credential: Credential, *, in_time: bool = False) -> Caller:
        """Return the caller of valid credentials; AuthenticationError, or LedgerError if too slow (`in_time`)."""
        tokens = self._service.tokens
        if credential.is_token and tokens.configured:
            return await tokens.verify(credential.secret)
        if not credential.secret.startswith(api_keys.PREFIX):
            raise AuthenticationError("the key is not known here")
        look = self._keyring.caller(credential.secret)
        return await (self._keyring.in_time(look) if in_time else look)


def _scope_told(headers: Headers) -> Walls:
    """Return the scope of a client that attaches; InvalidInputError if it names no owner."""
    try:
        told = json.loads(headers.get(SCOPE_HEADER, ""))
        walls = Walls(**{axis: str(told[axis]) for axis in told})
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"{SCOPE_HEADER} is no scope", field=SCOPE_HEADER) from error
    if not any(getattr(walls, axis) for axis in OWNER_FIELDS) or walls.team_id is not None:
        raise InvalidInputError(f"{SCOPE_HEADER} names no owner", field=SCOPE_HEADER)
    return walls


def _team_of(headers: Headers) -> str | None:
    """Return the team that a request names, or None; InvalidInputError if the header is not UTF-8."""
    told = headers.get(TEAM_HEADER)
    return None if told is None else utf8_of(told, TEAM_HEADER)


def _for_team(caller: Caller, team: str) -> Caller:
    """Restrict the caller to a team's memory, and to its project if it has one."""
    if team not in caller.teams:
        raise ForbiddenError(f"these credentials are not for the team that {TEAM_HEADER} names")
    return replace(caller, walls=Walls(team_id=team, project_id=caller.walls.project_id))


def _for_oneself(caller: Caller, method: str, path: str) -> Caller:
    """Check a request that names no team; a team's key then reads PUBLIC facts and server status only."""
    if _is_public(method, path):
        return replace(caller, walls=Walls())
    if caller.walls.team_id is not None and path not in _NOBODYS:
        raise ForbiddenError(f"these credentials are for a team's memory alone: name it in {TEAM_HEADER}")
    return caller


def _is_public(method: str, path: str) -> bool:
    return method == "GET" and path == PUBLIC_SEARCH


def _only_reads(method: str, path: str) -> bool:
    if method == "POST":
        return path in READING_POSTS or path == TOOL_ROUTE or path.startswith(f"{TOOL_ROUTE}/")
    return method in READS
