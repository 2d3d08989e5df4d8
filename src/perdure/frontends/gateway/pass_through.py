"""Pass-through: requests that are neither perdure's own nor a model route are forwarded unchanged."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Send

from perdure.backends.http.upstream import HttpUpstream
from perdure.domain.errors import InvalidInputError
from perdure.frontends.gateway.gateway import climbs
from perdure.frontends.gateway.request_context import caller_of, gateway_of, headers_up
from perdure.frontends.gateway.streaming import Inflow, Pairs, Relay, body_length, downward, stream

ANYTHING = "/{path:path}"
METHODS = ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH"]
router = APIRouter()


@router.api_route(ANYTHING, methods=METHODS, include_in_schema=False)
async def pass_on(request: Request) -> Response:
    """Forward a request and its answer, both piece by piece; never for a path of our own.

    InvalidInputError (400) for a path with a `.` or `..` segment, in any spelling, because servers disagree on its
    target.
    """
    gateway = gateway_of(request)
    scope = request.scope
    if gateway.passes and climbs(scope["path"]):
        request.state.dialect = "openai"
        raise InvalidInputError("the path must not hold . or .. as a part", field="path", value=scope["path"])
    if not gateway.takes(scope["path"]):
        _refuse(request)
    request.state.dialect = "openai"  # the request is meant for the model's server
    caller_of(request)
    upstream = gateway.upstream
    headers = headers_up(request, gateway)
    length = body_length(scope)
    has_body = length not in (None, "0") or "transfer-encoding" in request.headers
    if length is not None and has_body:
        headers.append(("content-length", length))
    if not has_body:
        return Relay(lambda send: _exchange(send, upstream, request, headers, None))
    inflow = Inflow()
    return Relay(lambda send: _exchange(send, upstream, request, headers, inflow.pieces()), inflow)


async def _exchange(
    send: Send, upstream: HttpUpstream, request: Request, headers: Pairs, body: AsyncIterator[bytes] | None
) -> None:
    scope = request.scope
    path = scope.get("raw_path") or scope["path"].encode()
    slash = "/" if getattr(request.state, "had_slash", False) else ""
    answer = await upstream.send(
        request.method,
        path.decode("latin-1") + slash,
        query=scope["query_string"].decode("latin-1"),
        headers=headers,
        body=body,
    )
    try:
        await stream(send, answer, downward(answer.headers))
    finally:
        answer.close()


def _refuse(request: Request) -> None:
    """Reject a path of our own without a matching route: 405 if another method would match, else 404."""
    routes = request.app.router.routes
    partial = any(route.matches(request.scope)[0] == Match.PARTIAL for route in routes)
    raise HTTPException(405 if partial else 404)
