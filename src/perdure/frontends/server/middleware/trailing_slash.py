"""Remove one trailing slash from the path before routing, so that nothing is redirected."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


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
                scope.setdefault("state", {})["had_slash"] = True  # for what is passed on as it came
        await self._app(scope, receive, send)
