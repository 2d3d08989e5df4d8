"""Outermost ASGI middleware: trailing slashes, request id, trace span, metrics, log line, error responses."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from opentelemetry import trace
from opentelemetry.propagate import extract
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perdure.domain.errors import ClosedError
from perdure.frontends.server.error_responses import send_error
from perdure.frontends.server.logging import REQUEST_ID
from perdure.frontends.server.metrics import Metrics


class TrailingSlashMiddleware:
    """ASGI middleware that removes one trailing slash; an encoded one (%2F) belongs to a name and stays."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request without the slash."""
        if scope["type"] == "http" and len(scope["path"]) > 1 and scope["path"].endswith("/"):
            raw: bytes = scope.get("raw_path") or scope["path"].encode()
            if raw.endswith(b"/"):
                scope["path"] = scope["path"][:-1]
                scope["raw_path"] = raw[:-1]
                scope.setdefault("state", {})["had_slash"] = True  # for requests that are forwarded unchanged
        await self._app(scope, receive, send)


REQUEST_ID_HEADER = "X-Request-Id"
_SANE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=-]{0,127}")
_GONE = 499  # the status, in log and metrics, of a request whose client disconnected before the answer
logger = logging.getLogger("perdure.server.requests")


class RequestContextMiddleware:
    """The outermost middleware; it answers every error that a route raises."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, and record it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = _request_id(headers)
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        status = 0

        async def tell(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                out = MutableHeaders(scope=message)
                out[REQUEST_ID_HEADER] = request_id
                for name, value in state.get("headers", {}).items():
                    if name == "Vary":
                        out.add_vary_header(value)
                    else:
                        out[name] = value
            await send(message)

        began = time.perf_counter()
        self._metrics.began()
        token = REQUEST_ID.set(request_id)
        try:
            with request_span(scope["method"], headers) as span:
                try:
                    await self._app(scope, receive, tell)
                except ClientDisconnect:
                    pass  # during its own request: there is nobody to answer
                except asyncio.CancelledError:
                    if not status:  # the server stops, and no longer waits for this request
                        state["headers"] = {**state.get("headers", {}), "Connection": "close"}
                        await send_error(ClosedError("the server is shutting down"), scope, receive, tell)
                    raise
                except Exception as error:
                    if status:
                        raise  # the answer has begun: all that is left is to close the connection
                    await send_error(error, scope, receive, tell)
                finally:
                    record_response(span, scope["method"], _template(scope), status or _GONE)
        finally:
            seconds = time.perf_counter() - began
            route, fault = _template(scope), state.get("fault")
            self._metrics.ended(scope["method"], route, status or _GONE, seconds, fault)
            caller = state.get("caller")
            line = {
                "method": scope["method"],
                "route": route,
                "status": status or _GONE,
                "ms": round(seconds * 1000, 3),
                "caller": caller.name if caller else None,
                "error": fault,
            }
            logger.info("request", extra={"fields": {name: value for name, value in line.items() if value is not None}})
            REQUEST_ID.reset(token)


def _request_id(headers: Headers) -> str:
    given = headers.get(REQUEST_ID_HEADER, "")
    return given if _SANE.fullmatch(given) else uuid4().hex


def _template(scope: Scope) -> str | None:
    """Return the path template of the request's route, with parameter names instead of values."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else None


@contextmanager
def request_span(method: str, headers: Headers) -> Iterator[Span]:
    """Open the span of one request, inside the trace that its `traceparent` names."""
    tracer = trace.get_tracer("perdure.server")
    with tracer.start_as_current_span(
        method,
        context=extract(dict(headers.items())),
        kind=SpanKind.SERVER,
        record_exception=False,  # its text may be what somebody said
        set_status_on_exception=False,
    ) as span:
        yield span


def record_response(span: Span, method: str, route: str | None, status: int) -> None:
    """Record the result of a request: method, route template and status, without any content."""
    span.set_attribute("http.request.method", method)
    span.set_attribute("http.response.status_code", status)
    if route is not None:
        span.update_name(f"{method} {route}")
        span.set_attribute("http.route", route)
    if status >= 500:
        span.set_status(Status(StatusCode.ERROR))
