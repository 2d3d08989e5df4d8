"""Requests and answers between a client and the model's server: headers, streamed bodies, cancellation."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from perdure.backends.http.upstream import UpstreamAnswer
from perdure.domain.errors import UpstreamError
from perdure.domain.text.readable import utf8_of
from perdure.engine import api_keys

Pairs = list[tuple[str, str]]
_ONE_CONNECTION = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_OUR_KEY = re.compile(f"{api_keys.PREFIX}[0-9a-f]{{16}}", re.IGNORECASE)
_REWRITTEN = frozenset({"host", "content-length", "expect"})
OURS = ("x-memory-", "x-disable-router-memory", "x-authz-user-id", "x-team-scope")
"""Prefixes of headers that are meant for this server only."""


def upward(
    scope: Scope, *, consumed: Iterable[str] = (), authorization: str | None = None, identity: bool = False
) -> Pairs:
    """Return a request's headers for upstream.

    `consumed` are the names of those that contained a key of ours, `authorization` is the replacement; a key of ours in
    any other place is removed too. `identity` requests an uncompressed answer, so that it can be read.
    InvalidInputError for a value that is not UTF-8, which no client library could forward unchanged.
    """
    found = _decoded(scope["headers"])
    dropped = _ONE_CONNECTION | _REWRITTEN | _named(found) | {*consumed}
    kept = [
        (name, utf8_of(value, name))
        for name, value in found
        if name.lower() not in dropped
        and not name.lower().startswith(OURS)
        and not _OUR_KEY.search(value)
        and not (identity and name.lower() == "accept-encoding")
    ]
    if identity:
        kept.append(("accept-encoding", "identity"))
    if authorization is not None and not _carries(kept):
        kept.append(("authorization", authorization))
    return kept


def body_length(scope: Scope) -> str | None:
    """Return the announced length of a request's body; None if it is chunked, which overrides the length."""
    told = {name.lower(): value for name, value in _decoded(scope["headers"])}
    return None if "transfer-encoding" in told else told.get("content-length")


def downward(headers: Pairs, *, is_changed: bool = False) -> list[tuple[bytes, bytes]]:
    """Return an answer's headers for the client; `is_changed` if the length of its body has changed."""
    dropped = _ONE_CONNECTION | _named(headers) | {"date"} | ({"content-length"} if is_changed else set())
    return [
        (_down(name).encode("latin-1"), value.encode("latin-1"))
        for name, value in headers
        if name.lower() not in dropped
    ]


def _down(name: str) -> str:
    """Rename the upstream's X-Request-Id, because answers have our own."""
    return "x-upstream-request-id" if name.lower() == "x-request-id" else name


def _carries(headers: Pairs) -> bool:
    return any(name.lower() == "authorization" for name, _ in headers)


def _named(headers: Pairs) -> set[str]:
    return {
        each.strip().lower() for name, value in headers if name.lower() == "connection" for each in value.split(",")
    }


def _decoded(headers: Iterable[tuple[bytes, bytes]]) -> Pairs:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


RawHeaders = list[tuple[bytes, bytes]]
Tee = Callable[[bytes], None]
_WAITING = 16  # maximum pieces of a body that wait for the model's server
logger = logging.getLogger("perdure.gateway")


class Inflow:
    """The body of a request, piece by piece, and the client's disconnect after it."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING)

    async def watch(self, receive: Receive) -> None:
        """Receive pieces until the client disconnects; exceptions of `receive` pass through."""
        while (message := await receive())["type"] != "http.disconnect":
            if message.get("body"):
                await self._pieces.put(message["body"])
            if not message.get("more_body", False):
                await self._pieces.put(None)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body to its end."""
        while (piece := await self._pieces.get()) is not None:
            yield piece


class Relay(Response):
    """A response whose work starts when it is sent, and is cancelled when the client disconnects.

    Without an `inflow` the request's body must have been read. An exception before anything was sent becomes an error
    response.
    """

    def __init__(self, work: Callable[[Send], Awaitable[None]], inflow: Inflow | None = None) -> None:
        super().__init__()
        self._work = work
        self._inflow = inflow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the work until it is done, or the client disconnects."""
        work = asyncio.ensure_future(self._work(send))
        gone = asyncio.create_task(self._inflow.watch(receive) if self._inflow else _until_gone(receive))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                if work.cancelled():  # something that it waited for was cancelled, not the request itself
                    raise UpstreamError("the answer was given up before its end")
                work.result()
                return
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work
            gone.result()  # a body that is too large is not a disconnect
        finally:
            gone.cancel()
            if not work.done():  # the server itself cancels this request
                work.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await work


def is_events(answer: UpstreamAnswer) -> bool:
    """Whether an answer is a stream of server-sent events."""
    return (answer.header("content-type") or "").lower().startswith("text/event-stream")


async def begin(send: Send, status: int, headers: RawHeaders) -> None:
    """Send the head of an answer."""
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def whole(send: Send, status: int, headers: RawHeaders, body: bytes) -> None:
    """Send a complete answer."""
    await begin(send, status, headers)
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def stream(
    send: Send,
    answer: UpstreamAnswer,
    headers: RawHeaders,
    tee: Tee | None = None,
    ended: Callable[[], None] | None = None,
) -> bool:
    """Forward an answer piece by piece as it arrives; return whether it ended by itself.

    If it breaks off, the client's connection is closed without a proper end, so that nobody takes it for complete.
    `tee` gets each piece after it was sent; `ended` is called after the last one, before the client learns of the end.
    """
    await begin(send, answer.status, headers)
    try:
        async for chunk in answer.chunks():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            if tee is not None:
                tee(chunk)
    except UpstreamError as error:
        logger.warning("an answer broke off: %s", error.message)
        return False
    if ended is not None:
        ended()
    await send({"type": "http.response.body", "body": b"", "more_body": False})
    return True


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
