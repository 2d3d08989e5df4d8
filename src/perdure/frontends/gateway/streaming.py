"""Requests and answers between a client and the model's server: headers, bodies piece by piece, cancelled requests.

Headers for one connection alone, or for this server, end here; all others pass.
"""

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
"""What headers begin with that speak to this server alone."""


def upward(
    scope: Scope, *, consumed: Iterable[str] = (), authorization: str | None = None, identity: bool = False
) -> Pairs:
    """A request's headers as they go upstream.

    `consumed` are the names of those that held a key of ours, `authorization` is what stands in their place, or where
    there was none; a key of ours in any other place ends here too. `identity` asks for an answer that is not
    compressed, so that it can be read. InvalidInputError for a value that is no UTF-8: no client library sends it on
    as it came.
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
    """The length that a request's body was announced with; None where it comes in chunks, which overrule that."""
    told = {name.lower(): value for name, value in _decoded(scope["headers"])}
    return None if "transfer-encoding" in told else told.get("content-length")


def downward(headers: Pairs, *, is_changed: bool = False) -> list[tuple[bytes, bytes]]:
    """An answer's headers as they go to the client; `is_changed` where its body no longer has the length it had."""
    dropped = _ONE_CONNECTION | _named(headers) | {"date"} | ({"content-length"} if is_changed else set())
    return [
        (_down(name).encode("latin-1"), value.encode("latin-1"))
        for name, value in headers
        if name.lower() not in dropped
    ]


def _down(name: str) -> str:
    """Answers have our own X-Request-Id: the upstream's stands beside it."""
    return "x-upstream-request-id" if name.lower() == "x-request-id" else name


def _carries(headers: Pairs) -> bool:
    return any(name.lower() == "authorization" for name, _ in headers)


def _named(headers: Pairs) -> set[str]:
    """What Connection says is for one connection alone."""
    return {
        each.strip().lower() for name, value in headers if name.lower() == "connection" for each in value.split(",")
    }


def _decoded(headers: Iterable[tuple[bytes, bytes]]) -> Pairs:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


RawHeaders = list[tuple[bytes, bytes]]
Tee = Callable[[bytes], None]
_WAITING = 16
"""Pieces of a body that may wait for the model's server to take them."""

logger = logging.getLogger("perdure.gateway")


class Inflow:
    """The body of a request, piece by piece as it comes, and behind it the word that the client has gone."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING)

    async def watch(self, receive: Receive) -> None:
        """Take what comes, until the client has gone; what `receive` raises goes through."""
        while (message := await receive())["type"] != "http.disconnect":
            if message.get("body"):
                await self._pieces.put(message["body"])
            if not message.get("more_body", False):
                await self._pieces.put(None)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body, to its end."""
        while (piece := await self._pieces.get()) is not None:
            yield piece


class Relay(Response):
    """A response whose work begins when it is sent, and is cancelled as soon as the client has gone.

    Without an `inflow` the request's body must have been read. What the work raises before it has sent anything is
    told as an error.
    """

    def __init__(self, work: Callable[[Send], Awaitable[None]], inflow: Inflow | None = None) -> None:
        super().__init__()
        self._work = work
        self._inflow = inflow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Do the work until it is done, or nobody waits for it any more."""
        work = asyncio.ensure_future(self._work(send))
        gone = asyncio.create_task(self._inflow.watch(receive) if self._inflow else _until_gone(receive))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                if work.cancelled():  # by something that it waited for: the request itself is wanted as before
                    raise UpstreamError("the answer was given up before its end")
                work.result()
                return
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work
            gone.result()  # a body that is too large is no client that left
        finally:
            gone.cancel()
            if not work.done():  # the server itself is giving this request up
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
    """Send an answer that is all here."""
    await begin(send, status, headers)
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def stream(
    send: Send,
    answer: UpstreamAnswer,
    headers: RawHeaders,
    tee: Tee | None = None,
    ended: Callable[[], None] | None = None,
) -> bool:
    """Send an answer on piece by piece, each as it comes; whether it came to its end.

    Where it breaks off, the client's connection is closed in the middle too, so that nobody takes it for whole. `tee`
    sees each piece after it was sent; `ended` is called when all have been, before the client is told so.
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
