"""One trailing slash is as good as none: it is taken off before routing, so that nothing is ever redirected."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class Slashes:
    """Takes one trailing slash off the path of every request; one that is written %2F belongs to a name and stays."""

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
