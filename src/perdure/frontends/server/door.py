"""The door: no request gets to a route before it is known who asks, whether they may, and how often.

It stands before routing, so that a new route is behind it without a word of its own.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from perdure.domain.access import Caller
from perdure.domain.errors import AuthenticationError, ForbiddenError, PerdureError
from perdure.domain.scope import Scope as Walls
from perdure.domain.text import utf8_of
from perdure.engine import keys
from perdure.frontends.faults import BusyError
from perdure.frontends.gateway.gateway import Gateway
from perdure.frontends.gateway.identity import USER_HEADER
from perdure.frontends.server.credentials import TEAM_HEADER, Credential, credentials
from perdure.frontends.server.keyring import Keyring
from perdure.frontends.server.limits import address_name
from perdure.frontends.server.refusals import refuse
from perdure.frontends.server.service import Service

HEALTH_ROUTES = frozenset({"/healthz", "/readyz", "/v1/healthz"})
"""What answers everybody, uncounted: it holds nothing of anybody's."""
PUBLIC_SEARCH = "/v1/memory/search"
"""The route that serves PUBLIC facts to everybody where no team is named (X36)."""
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
"""What only reads, though it is asked for by POST."""
_NOBODYS = frozenset({"/metrics", "/openapi.json", "/docs", "/v1/ping"})
"""What tells of the server and of nobody's memory."""
ANONYMOUS = Caller(name="anonymous", is_known=False)
PASSER_BY = Caller(name="anonymous", role="reader", is_known=False)
"""Who reads what is PUBLIC."""
FOREIGNER = Caller(name="foreign", role="reader", is_known=False)
"""Who speaks to the model's server with credentials that are not ours, where we have keys (U25)."""
UNSURE = Caller(name="unsure", role="reader", is_known=False)
"""Who speaks to it while the ledger, and with it whose key is whose, cannot be read (001 §11)."""

logger = logging.getLogger("perdure.server")


class Door:
    """Authenticates, counts, and holds off; what it lets in finds its `Caller` on the request's state."""

    def __init__(self, app: ASGIApp, service: Service, gateway: Gateway) -> None:
        self._app = app
        self._service = service
        self._gateway = gateway
        self._keyring = Keyring(service)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or refuse it."""
        if scope["type"] != "http" or scope["path"] in HEALTH_ROUTES:
            await self._app(scope, receive, send)
            return
        try:
            scope["state"]["caller"] = await self._let_in(scope)
        except PerdureError as error:
            await refuse(error, scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _let_in(self, scope: Scope) -> Caller:
        headers = Headers(scope=scope)
        address = address_name(scope["client"][0] if scope.get("client") else None)
        is_for_model = self._gateway.takes(scope["path"])
        try:
            if is_for_model:
                caller = await self.speaker(headers, scope["state"])
            else:
                caller = await self.caller(headers, scope["method"], scope["path"])
        except AuthenticationError:
            self._count(scope, address)  # guessing is counted too
            raise
        self._count(scope, f"caller {caller.name}" if caller.is_known else address)
        for name in (TEAM_HEADER, USER_HEADER):
            if len({*headers.getlist(name)}) > 1:  # one of them may be the client's own, before a proxy added the other
                raise ForbiddenError(f"{name} is there more than once, and names two")
        if caller.role == "reader" and not is_for_model and not _only_reads(scope["method"], scope["path"]):
            raise ForbiddenError("these credentials may only read")
        return caller

    def _count(self, scope: Scope, name: str) -> None:
        allowance = self._service.limit.take(name)
        if allowance is None:
            return
        scope["state"]["headers"] = allowance.headers()
        if allowance.retry_after:
            raise BusyError(
                f"more than {allowance.limit} requests a minute: try again in {allowance.retry_after} seconds",
                retry_after=allowance.retry_after,
            )

    async def caller(self, headers: Headers, method: str, path: str) -> Caller:
        """Who asks; AuthenticationError or ForbiddenError where they may not."""
        presented = credentials(headers)
        team = _team_of(headers)
        refusal: AuthenticationError | None = None
        for credential in presented:
            try:
                found = await self._known(credential)
            except AuthenticationError as error:
                refusal = refusal or error
                continue
            return _for_team(found, team) if team is not None else _for_oneself(found, method, path)
        if team is None:
            if _is_public(method, path):
                return PASSER_BY
            if self._service.is_open and not await self._keyring.any():
                return ANONYMOUS  # an open server ignores keys that it does not know
        raise refusal or AuthenticationError(
            "a team's memory needs a token or a key: send Authorization: Bearer"
            if team is not None
            else "this needs a key: send Authorization: Bearer, Authorization: Token or X-API-Key"
        )

    async def speaker(self, headers: Headers, state: dict[str, Any]) -> Caller:
        """Who asks for a model (U25): a key of ours ends here, whether good or not, and anything else goes on.

        Where there are keys, who brings none of them passes as a FOREIGNER. A team's memory needs its credentials. A
        ledger that is down keeps nobody from their model (001 §11), and gives nobody what is another's: see `_unsure`.
        """
        team = _team_of(headers)
        found: Caller | None = None
        refusal: AuthenticationError | None = None
        unread: PerdureError | None = None
        state["consumed"] = consumed = set[str]()
        presented = credentials(headers)
        for credential in presented:
            is_ours = credential.secret.startswith(keys.PREFIX)
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
            return self._unsure(unread, presented, state)
        if refusal is not None:
            raise refusal
        state["is_foreign"] = True
        return FOREIGNER

    def _unsure(self, error: PerdureError, presented: list[Credential], state: dict[str, Any]) -> Caller:
        """Who asks for a model while the ledger cannot be read: the request passes without memory.

        Our upstream key goes with it only where nobody else can have sent it: for a key that was good when it was last
        looked up, and on loopback as long as no key is known of. A key of ours that could not be replaced is refused by
        the ledger's error. An open server where the last look found no keys goes on as it did.
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
        return UNSURE

    async def _known(self, credential: Credential, *, in_time: bool = False) -> Caller:
        """The caller of credentials that are good; AuthenticationError for others.

        With `in_time` it is LedgerError where the ledger takes longer than a request to a model may wait.
        """
        tokens = self._service.tokens
        if credential.is_token and tokens.configured:
            return await tokens.verify(credential.secret)
        if not credential.secret.startswith(keys.PREFIX):
            raise AuthenticationError("the key is not known here")
        look = self._keyring.caller(credential.secret)
        return await (self._keyring.in_time(look) if in_time else look)


def _team_of(headers: Headers) -> str | None:
    """The team that a request names; None where it names none, InvalidInputError where that is no text."""
    told = headers.get(TEAM_HEADER)
    return None if told is None else utf8_of(told, TEAM_HEADER)


def _for_team(caller: Caller, team: str) -> Caller:
    """The caller in a team's memory: its walls are the team's, and the project's that it is held to."""
    if team not in caller.teams:
        raise ForbiddenError(f"these credentials are not for the team that {TEAM_HEADER} names")
    return replace(caller, walls=Walls(team_id=team, project_id=caller.walls.project_id))


def _for_oneself(caller: Caller, method: str, path: str) -> Caller:
    """The caller where no team is named; a team's key is good for what is nobody's memory, and for what is PUBLIC."""
    if _is_public(method, path):
        return replace(caller, walls=Walls())
    if caller.walls.team_id is not None and path not in _NOBODYS:
        raise ForbiddenError(f"these credentials are for a team's memory alone: name it in {TEAM_HEADER}")
    return caller


def _is_public(method: str, path: str) -> bool:
    return method == "GET" and path == PUBLIC_SEARCH


def _only_reads(method: str, path: str) -> bool:
    return method in READS or (method == "POST" and path in READING_POSTS)
