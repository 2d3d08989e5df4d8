"""The client of a model's server over aiohttp, which the extra `fast` brings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from io import BytesIO

import aiohttp
from yarl import URL

from perdure.backends.http.upstream import KEPT_SECONDS, LARGE, Body, Headers, UpstreamAnswer, UpstreamClient, failures

_LONGEST_HEADER = 65536
_OURS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
"""What the client would send of its own: a request goes up as it came."""


class AiohttpClient(UpstreamClient):
    """Connections of aiohttp."""

    def __init__(self, connect_seconds: float, silent_seconds: float) -> None:
        self._timeout = aiohttp.ClientTimeout(total=None, connect=connect_seconds, sock_read=silent_seconds)
        self._session: aiohttp.ClientSession | None = None

    async def send(self, method: str, address: str, headers: Headers, body: Body) -> UpstreamAnswer:
        """Send a request; UpstreamError if no head of an answer comes."""
        with failures(aiohttp.ClientError):
            response = await self._open().request(
                method,
                URL(address, encoded=True),
                headers=headers,
                data=BytesIO(body) if isinstance(body, bytes) and len(body) > LARGE else body,
                skip_auto_headers=_OURS,
                allow_redirects=False,
            )
        return _Answer(response)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=self._timeout,
                auto_decompress=False,
                trust_env=False,
                raise_for_status=False,
                max_line_size=_LONGEST_HEADER,
                max_field_size=_LONGEST_HEADER,
            )
        return self._session

    async def close(self) -> None:
        """Close all connections; a later request opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


class _Answer(UpstreamAnswer):
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        super().__init__(response.status, list(response.raw_headers))
        self._response = response
        self._lost: asyncio.Future[None] | None = None
        if (connection := response.connection) is not None and connection.protocol is not None:
            self._lost = connection.protocol.closed
            if self._lost is None:
                self._break_off()
            else:
                self._lost.add_done_callback(self._break_off)

    async def read(self) -> bytes:
        with failures(aiohttp.ClientError):
            return await self._response.read()

    async def chunks(self) -> AsyncIterator[bytes]:
        with failures(aiohttp.ClientError):
            async for chunk in self._response.content.iter_any():
                yield chunk

    def close(self) -> None:
        if self._lost is not None:
            self._lost.remove_done_callback(self._break_off)
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()

    def _break_off(self, lost: asyncio.Future[None] | None = None) -> None:
        """Tell the reader of an incomplete body that the connection is gone.

        aiohttp does so itself, except if the chunk framing breaks: then it closes the connection and its timeout, and
        the reader would wait for ever.
        """
        content = self._response.content
        if not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError("the framing of the body is broken"))
        if lost is not None and not lost.cancelled():
            lost.exception()  # asked for by nobody else, which asyncio would complain of
