"""A pass-through that does nothing else: what any HTTP server and client between the two cost (uvicorn and aiohttp).

The benchmarks run it as a process of its own: python -m benchmarks.gateway.bare PORT UPSTREAM_URL
"""

from __future__ import annotations

import sys
from typing import Any

import aiohttp
import uvicorn


class Bare:
    """The ASGI application."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Pass one request on, and its answer back piece by piece."""
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        headers = {"Content-Type": "application/json"}
        async with self._session.request(
            scope["method"], self._upstream + scope["path"], data=body, headers=headers
        ) as answer:
            told = [(b"content-type", answer.headers["content-type"].encode())]
            if "content-length" in answer.headers:
                told.append((b"content-length", answer.headers["content-length"].encode()))
            await send({"type": "http.response.start", "status": answer.status, "headers": told})
            async for chunk in answer.content.iter_any():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


if __name__ == "__main__":
    uvicorn.run(Bare(sys.argv[2]), port=int(sys.argv[1]), log_level="warning", lifespan="off", access_log=False)
