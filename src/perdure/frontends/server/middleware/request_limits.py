"""Limits on the size of request bodies and on the time that heads and bodies may take, as ASGI middleware.

A request has a fixed time for its head, and the same for its body plus one second for each kilobyte that came: a large
upload over a slow line succeeds, and a byte now and then does not. uvicorn itself waits for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from perdure.frontends.server.error_responses import send_error

try:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError:  # uvicorn without its extra uses h11
    HttpToolsProtocol = None  # type: ignore[assignment, misc]  # a class, or none


class _TooLargeError(HTTPException):
    """Raised where the body is read; FastAPI passes an HTTPException through."""


class BodyLimitMiddleware:
    """Rejects a body above a number of bytes with 413, before more than those are read."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request whose body is within the limit."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "")
        if length.isdigit() and int(length) > self._max:
            await send_error(self._error(), scope, receive, send)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._max:
                raise self._error()
            return message

        await self._app(scope, counted, send)

    def _error(self) -> HTTPException:
        # The rest of the body is not read, so the connection cannot serve another request.
        return _TooLargeError(
            413,
            f"the body has more than {self._max} bytes, which server.max_body_bytes allows",
            {"Connection": "close"},
        )


SLOWEST = 1000  # minimum bytes a second of a body
_GIVEN_UP = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class BodyTimeoutMiddleware:
    """Answers 408 for a body that takes too long to arrive."""

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request whose body arrives in time; only waiting counts, not processing between two pieces."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_whole = False
        waited = seen = 0.0
        clock = asyncio.get_running_loop().time

        async def in_time() -> Message:
            nonlocal is_whole, waited, seen
            if is_whole:  # the next message says that the client has disconnected
                return await receive()
            began = clock()
            try:
                async with asyncio.timeout(max(0.0, self._seconds + seen / SLOWEST - waited)):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(
                    408, "the body took too long to arrive: server.request_seconds", {"Connection": "close"}
                ) from None
            waited += clock() - began
            seen += len(message.get("body", b""))
            is_whole = message["type"] != "http.request" or not message.get("more_body", False)
            return message

        await self._app(scope, in_time, send)


AT_SHUTDOWN = "perdure_at_shutdown"
"""The key, in the state of the app's life, of what is called before the server waits for running requests."""


class Config(uvicorn.Config):
    """uvicorn's settings, plus the seconds that the head of a request may take."""

    def __init__(self, *arguments: Any, request_seconds: float, **settings: Any) -> None:
        chosen = settings.pop("http", "auto")
        settings["http"] = _Heads if chosen == "h11" or HttpToolsProtocol is None else _FastHeads
        super().__init__(*arguments, **settings)
        self.request_seconds = request_seconds


class _HeadTimeout(asyncio.Protocol):
    """Closes a connection, also a new silent one, whose next request has begun without completing its head."""

    config: uvicorn.Config
    cycle: Any
    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    app_state: dict[str, Any]
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._await(self._close)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before or (self.cycle is not None and not self.cycle.response_complete):
            self._arrived()  # a head is complete, or a body follows it
        else:
            self._await(self._give_up, again=False)

    def connection_lost(self, error: Exception | None) -> None:
        self._arrived()
        super().connection_lost(error)

    def shutdown(self) -> None:
        super().shutdown()  # type: ignore[misc]  # uvicorn's
        if (begin := self.app_state.get(AT_SHUTDOWN)) is not None:
            begin()

    def _await(self, then: Callable[[], None], *, again: bool = True) -> None:
        """Start waiting for the end of a head, unless that is already waited for."""
        if self._deadline is not None and not again:
            when = self._deadline.when()
            self._deadline.cancel()
            self._deadline = self.loop.call_at(when, then)
            return
        self._arrived()
        self._deadline = self.loop.call_later(self.config.request_seconds, then)  # type: ignore[attr-defined]  # ours

    def _arrived(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(_GIVEN_UP)
        self._close()

    def _close(self) -> None:
        self._deadline = None
        self.transport.close()


class _Heads(_HeadTimeout, H11Protocol):
    """The same for uvicorn's own parser."""


if HttpToolsProtocol is not None:

    class _FastHeads(_HeadTimeout, HttpToolsProtocol):
        """The same for uvicorn's parser in C."""
