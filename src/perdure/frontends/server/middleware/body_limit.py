"""Size limit for request bodies, with or without Content-Length, as ASGI middleware."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perdure.frontends.server.error_responses import send_error


class _TooLargeError(HTTPException):
    """Raised where the body is read; FastAPI hands an HTTPException through."""


class BodyLimitMiddleware:
    """Refuses a body of more than so many bytes with 413, before more than those are read."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request whose body is within bounds."""
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
        # What is left of the body is not read, so the connection cannot be used for another request.
        return _TooLargeError(
            413,
            f"the body has more than {self._max} bytes, which server.max_body_bytes allows",
            {"Connection": "close"},
        )
