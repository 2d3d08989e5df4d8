"""MCP over HTTP at `/mcp`, `/mcp/USER` and `/mcp/USER/PROJECT`, behind the same checks as every other route."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from perdure.backends.registry import missing_driver
from perdure.domain.errors import ClosedError, InvalidInputError, ScopeError
from perdure.domain.scope import OWNER_FIELDS
from perdure.frontends.faults import UnsupportedError
from perdure.frontends.gateway.request_context import caller_of
from perdure.frontends.library.team import AsyncTeamMemory
from perdure.frontends.server.dependencies import PersonalMemory, read_access
from perdure.frontends.server.routes.teams import member_of
from perdure.frontends.server.state import Service

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from perdure.frontends.mcp.consent import CallerAccess, RequestContext
    from perdure.frontends.mcp.subscriptions import Subscriptions

PATHS = ("/mcp", "/mcp/{user_id}", "/mcp/{user_id}/{project_id}")
METHODS = ["GET", "POST", "DELETE"]
NO_OWNER = f"{ScopeError.TEXT}: connect to /mcp/USER, or with a key that is bound to a user"


class HttpAccess:
    """Access by a request's credentials and path: a path narrows what the credentials allow, and never widens it."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def may_write(self, context: RequestContext) -> bool:
        """Return whether the role may write."""
        return caller_of(_request(context)).role != "reader"

    def caller(self, context: RequestContext) -> str:
        """Return the credentials' name with the scope."""
        request = _request(context)
        return f"{caller_of(request).name} {self._personal(request).walls!r}"

    async def open(self, context: RequestContext) -> CallerAccess:
        """Return the access; ScopeError if neither credentials nor path name an owner."""
        from perdure.frontends.mcp.consent import CallerAccess

        personal = self._personal(_request(context))
        if not any(getattr(personal.walls, axis) for axis in OWNER_FIELDS):
            raise ScopeError(NO_OWNER)
        return CallerAccess(memory=personal.memory, caller=self.caller(context))

    async def team(self, context: RequestContext) -> AsyncTeamMemory:
        """Return the memory of the team that X-Team-Scope names; PerdureError if it names none."""
        return member_of(_request(context))

    def _personal(self, request: Request) -> PersonalMemory:
        personal = read_access(request, self._service, caller_of(request))
        named = {axis: value for axis in ("user_id", "project_id") if (value := request.path_params.get(axis))}
        return personal.narrowed(**named) if named else personal


def _request(context: RequestContext) -> Request:
    request = context.request
    assert isinstance(request, Request), "the transport is HTTP"
    return request


class McpEndpoint:
    """The ASGI app of `/mcp`. The SDK is imported, and its task started, by the first request."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._manager: StreamableHTTPSessionManager | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._stop = asyncio.Event()
        self._subscriptions: Subscriptions | None = None

    def routes(self) -> list[Route]:
        """Return the routes to mount."""
        return [Route(path, endpoint=self, methods=METHODS, include_in_schema=False) for path in PATHS]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if b"%2f" in (scope.get("raw_path") or b"").lower():
            raise InvalidInputError("a user or project with a slash cannot be in the path", field="path")
        manager = await self._started()
        # Blanks around a value are no part of it (RFC 9110 §5.5). One of uvicorn's parsers keeps them, and the SDK
        # compares headers with the body.
        scope = {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}
        await manager.handle_request(scope, receive, send)

    def end_streams(self) -> None:
        """End the streams of changes, which have no end of their own: the server waits for its requests."""
        if self._subscriptions is not None:
            self._subscriptions.close()

    async def close(self) -> None:
        """End running calls and the task."""
        self._stop.set()
        if self._task is not None:
            await self._task

    async def _started(self) -> StreamableHTTPSessionManager:
        if self._stop.is_set():
            raise ClosedError("the server is shutting down")
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait({ready, self._task}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._manager is None:
            self._task.result()
            raise ClosedError("the server is shutting down")
        return self._manager

    async def _run(self) -> None:
        """Own the SDK's task group, which must be left by the task that entered it."""
        manager = await asyncio.to_thread(self._build)
        async with manager.run():
            self._manager = manager
            self._ready.set()
            await self._stop.wait()
        self._manager = None

    def _build(self) -> StreamableHTTPSessionManager:
        try:
            from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
        except ImportError as error:
            raise UnsupportedError(missing_driver("mcp", error).message) from error
        from perdure.frontends.mcp.consent import Consent
        from perdure.frontends.mcp.server import build_server
        from perdure.frontends.mcp.subscriptions import Subscriptions, own_feed
        from perdure.frontends.mcp.tool import tools_of

        settings, secret = self._service.settings, self._service.secrets.mcp_secret
        consent = Consent(None if secret is None else secret.get_secret_value().encode())
        access = HttpAccess(self._service)
        self._subscriptions = Subscriptions(own_feed(access))
        server = build_server(tools_of(settings.mcp_profiles), access, consent, self._subscriptions)
        # Host, Origin and size are checked by this server's own middleware; without sessions any worker may answer.
        # Answers may be streams: a long call then keeps its connection alive, and changes can be told.
        return StreamableHTTPSessionManager(server, stateless=True, max_request_body_size=settings.max_body_bytes)
