"""Host, Origin and Content-Type checks as ASGI middleware in front of all routes, against other sites' web pages.

It runs before authentication, all routes and forwarding to the model's server. It uses three headers that a page cannot
set: Host, Origin and Sec-Fetch-Site. A page cannot send a JSON Content-Type without a preflight request, so bodies that
are read as JSON must have one.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from perdure.domain.errors import ForbiddenError, InvalidInputError, PerdureError
from perdure.frontends.faults import MediaTypeError, MisdirectedError
from perdure.frontends.gateway.gateway import Gateway, is_model_route
from perdure.frontends.server.error_responses import send_error
from perdure.frontends.server.settings import ANY, ServerSettings, is_loopback, plain_host

_HOST = re.compile(r"(?P<name>\[[^\]]*\]|[^:\[\]@/?#\s]+)(?::(?P<port>[0-9]*))?")
_ORIGIN = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<host>[^/?#\s]*)")
_PORTS = {"http": "80", "https": "443"}
_ELSEWHERE = ("cross-site", "same-site")
"""Sec-Fetch-Site values of requests from another origin; another port of this machine is another origin."""
_WITH_BODY = ("POST", "PUT", "PATCH", "DELETE")
_JSON = re.compile(r"application/(?:[a-z0-9.!#$&^_-]+\+)?json")
_METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
_TOLD = "X-Request-Id, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset"
"""Response headers that an allowed page may read."""
_REMEMBERED_SECONDS = "600"  # how long a browser caches the answer to a preflight request
_LONGEST = 100  # maximum characters of an unknown header value in an error message
_POLICY_VIOLATION = 1008


class OriginCheckMiddleware:
    """Rejects requests of other sites' pages: 421 for a wrong host, 403 for an origin, 415 for a content type."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, gateway: Gateway) -> None:
        self._app = app
        self._settings = settings
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, answer a preflight request, or reject the request."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            self._check_host(headers, scope)
            origin = self._allowed_origin(headers)
            if origin is not None:
                scope.setdefault("state", {}).setdefault("headers", {}).update(_shared(origin))
            if scope["type"] == "http":
                if origin is not None and _asks_beforehand(scope, headers):
                    await Response(status_code=204, headers=_beforehand(headers))(scope, receive, send)
                    return
                self._check_body(scope, headers)
        except PerdureError as error:
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": error.code})
            else:
                await send_error(error, scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check_host(self, headers: Headers, scope: Scope) -> None:
        """Raise MisdirectedError unless every Host is a name of this server (against DNS rebinding)."""
        told = headers.getlist("host")
        for value in told:
            found = _HOST.fullmatch(value)
            if found is None or not self._is_ours(plain_host(found["name"]), scope):
                raise MisdirectedError(
                    f"this server is not {_quoted(value)}: if it is to answer by that name, put the host into "
                    "server.allowed_hosts of perdure.toml, or into PERDURE_SERVER__ALLOWED_HOSTS"
                )
        if len(told) > 1:
            raise InvalidInputError("Host must be there once", field="host", value=len(told))

    def _is_ours(self, name: str, scope: Scope) -> bool:
        allowed = self._settings.allowed_hosts
        if is_loopback(name) or name == plain_host(self._settings.host) or ANY in allowed or name in allowed:
            return True
        if any(each.startswith("*.") and name.endswith(each[1:]) for each in allowed):
            return True
        # A server on 0.0.0.0 accepts the address that was used: a page cannot rebind an address.
        server = scope.get("server")
        return bool(server and _is_address(name) and name == plain_host(server[0]))

    def _allowed_origin(self, headers: Headers) -> str | None:
        """Return the origin that may read the answer; ForbiddenError for a request of another site's page."""
        allowed = self._settings.allowed_origins
        told = headers.getlist("origin")
        for origin in told:
            if _is_same(origin, headers.get("host", "")) or ANY in allowed or origin.lower() in allowed:
                continue
            raise ForbiddenError(
                f"a page of {_quoted(origin)} may not ask this server: if it may, put that origin into "
                "server.allowed_origins of perdure.toml, or into PERDURE_SERVER__ALLOWED_ORIGINS"
            )
        if len(told) > 1:
            raise InvalidInputError("Origin must be there at most once", field="origin", value=len(told))
        if told:
            return None if _is_same(told[0], headers.get("host", "")) else ANY if ANY in allowed else told[0]
        if headers.get("sec-fetch-site", "").strip().lower() in _ELSEWHERE and ANY not in allowed:
            raise ForbiddenError(
                "a page of another origin may not ask this server: open the address itself, or let the page ask by "
                "CORS and name its origin in server.allowed_origins"
            )
        return None

    def _check_body(self, scope: Scope, headers: Headers) -> None:
        """Raise MediaTypeError for a body read as JSON without that content type, which pages cannot forge."""
        if scope["method"] not in _WITH_BODY or not _has_body(headers) or self._passes(scope["path"]):
            return
        told = headers.getlist("content-type")
        if len(told) == 1 and _JSON.fullmatch(told[0].partition(";")[0].strip().lower()):
            return
        sent = _quoted(told[0]) if told else "without a Content-Type"
        raise MediaTypeError(
            f"the body must say that it is JSON, and came as {sent}: send Content-Type: application/json"
        )

    def _passes(self, path: str) -> bool:
        """Whether the body is forwarded to the model's server unchanged: uploads are forms."""
        return self._gateway.takes(path) and not is_model_route(path)


def _is_same(origin: str, host: str) -> bool:
    """Whether a page belongs to this server; the scheme may differ behind a proxy that speaks TLS."""
    found = _ORIGIN.fullmatch(origin.lower())
    if found is None or found["scheme"] not in _PORTS:
        return False
    page, here = _HOST.fullmatch(found["host"]), _HOST.fullmatch(host.lower())
    if page is None or here is None:
        return False
    default = _PORTS[found["scheme"]]
    return (plain_host(page["name"]), page["port"] or default) == (plain_host(here["name"]), here["port"] or default)


def _has_body(headers: Headers) -> bool:
    length = headers.get("content-length", "0").strip()
    return "transfer-encoding" in headers or length.strip("0") != ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _asks_beforehand(scope: Scope, headers: Headers) -> bool:
    return scope["method"] == "OPTIONS" and "access-control-request-method" in headers


def _beforehand(headers: Headers) -> Mapping[str, str]:
    """Return the headers that answer a preflight request; callers authenticate by keys, so no cookies are allowed."""
    told = {"Access-Control-Allow-Methods": _METHODS, "Access-Control-Max-Age": _REMEMBERED_SECONDS}
    if wanted := headers.get("access-control-request-headers"):
        told["Access-Control-Allow-Headers"] = wanted
    if headers.get("access-control-request-private-network") == "true":
        told["Access-Control-Allow-Private-Network"] = "true"
    return told


def _shared(origin: str) -> Mapping[str, str]:
    """Return the headers that let a page of that origin read the answer."""
    told = {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": _TOLD}
    return told if origin == ANY else {**told, "Vary": "Origin"}


def _quoted(value: str) -> str:
    return repr(value if len(value) <= _LONGEST else f"{value[:_LONGEST]}...")
