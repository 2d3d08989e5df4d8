"""The client of a model's server over httpcore2, the part of httpx2 that speaks HTTP.

httpx2 above it would send headers of its own, keep cookies and write addresses anew.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

import httpcore2

from perdure.backends.http.upstream import KEPT_SECONDS, LARGE, Body, Headers, UpstreamAnswer, UpstreamClient, failures

_FAILED = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
)
_REPEATED = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""Methods that HTTP allows to be repeated (RFC 9110 §9.2.2)."""
_BODYLESS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods whose request needs no length if it has no body (RFC 9110 §8.6)."""
_PIECE = 64 * 1024


class HttpcoreClient(UpstreamClient):
    """Connections of httpcore2."""

    def __init__(self, connect_seconds: float, silent_seconds: float) -> None:
        self._timeouts = {"connect": connect_seconds, "read": silent_seconds, "write": silent_seconds}
        self._pool: httpcore2.AsyncConnectionPool | None = None
        self._sending: set[asyncio.Timeout] = set()
        self._closing: set[asyncio.Task[None]] = set()

    async def send(self, method: str, address: str, headers: Headers, body: Body) -> UpstreamAnswer:
        """Send a request; UpstreamError if no head of an answer comes."""
        with failures(*_FAILED):
            split = urlsplit(address)
            url, pairs = _url(split), _headers(method, split, headers, body)
            async with asyncio.timeout(None) as ended:  # by `close`
                self._sending.add(ended)
                try:
                    return _Answer(await self._response(method, url, pairs, body), self._closing)
                finally:
                    self._sending.discard(ended)

    async def _response(
        self, method: str, url: httpcore2.URL, headers: list[tuple[bytes, bytes]], body: Body
    ) -> httpcore2.Response:
        is_repeated = method in _REPEATED and (body is None or isinstance(body, bytes))
        while True:
            content = _pieces(body) if isinstance(body, bytes) and len(body) > LARGE else body
            request = httpcore2.Request(
                method, url, headers=headers, content=content, extensions={"timeout": self._timeouts}
            )
            try:
                return await self._open(url).handle_async_request(request)
            except (httpcore2.ReadError, httpcore2.WriteError, httpcore2.RemoteProtocolError) as error:
                # The connection ended without an answer; with one that is no HTTP, the parser's error is inside.
                is_unread = not isinstance(error, httpcore2.RemoteProtocolError) or isinstance(error.args[0], str)
                if not (is_repeated and is_unread):
                    raise
                is_repeated = False

    def _open(self, url: httpcore2.URL) -> httpcore2.AsyncConnectionPool:
        if self._pool is None:
            context = ssl.create_default_context() if url.scheme == b"https" else None  # reads all authorities
            self._pool = httpcore2.AsyncConnectionPool(
                ssl_context=context, max_connections=None, keepalive_expiry=KEPT_SECONDS
            )
        return self._pool

    async def close(self) -> None:
        """Close all connections; a later request opens new ones."""
        pool, self._pool = self._pool, None
        for sending in self._sending:
            sending.reschedule(0)
        if self._closing:
            await asyncio.wait(self._closing)
        if pool is not None:
            await pool.aclose()


class _Answer(UpstreamAnswer):
    def __init__(self, response: httpcore2.Response, closing: set[asyncio.Task[None]]) -> None:
        super().__init__(response.status, response.headers)
        self._stream: Any = response.stream
        self._closing = closing
        self._is_closed = False

    async def read(self) -> bytes:
        return b"".join([piece async for piece in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        with failures(*_FAILED):
            async for piece in self._stream:
                if piece:
                    yield piece
            self._is_closed = True
            await self._stream.aclose()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            task = asyncio.get_running_loop().create_task(self._stream.aclose(), name="perdure-upstream")
            self._closing.add(task)  # a task that nobody holds may be lost
            task.add_done_callback(self._closing.discard)


def _url(split: SplitResult) -> httpcore2.URL:
    target = f"{split.path or '/'}{'?' if split.query else ''}{split.query}"
    host = split.hostname or ""
    return httpcore2.URL(
        scheme=split.scheme.encode("ascii"),
        host=host.encode("ascii" if host.isascii() else "idna"),
        port=split.port,
        target=target.encode("ascii"),
    )


def _headers(method: str, split: SplitResult, headers: Headers, body: Body) -> list[tuple[bytes, bytes]]:
    """Return the request's headers, with those that HTTP needs and that are not there."""
    told = {name.lower() for name, _ in headers}
    pairs = [(name.encode(), value.encode()) for name, value in headers]
    user, _, place = split.netloc.rpartition("@")
    if "host" not in told:
        pairs.insert(0, (b"Host", place.encode("ascii" if place.isascii() else "idna")))
    if user:
        if "authorization" in told:
            raise ValueError("the address has a password, and the request an Authorization")
        name, _, password = user.partition(":")
        basic = b64encode(unquote_to_bytes(name) + b":" + unquote_to_bytes(password))
        pairs.append((b"Authorization", b"Basic " + basic))
    if told.isdisjoint({"content-length", "transfer-encoding"}):
        if not (body is None or isinstance(body, bytes)):
            pairs.append((b"Transfer-Encoding", b"chunked"))
        elif body or method not in _BODYLESS:
            pairs.append((b"Content-Length", str(len(body or b"")).encode()))
    return pairs


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), _PIECE):
        yield body[start : start + _PIECE]
