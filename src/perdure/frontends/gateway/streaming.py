"""Relay: answers on their way to the client, which is watched meanwhile: who leaves is worked for no longer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from perdure.backends.http.upstream import UpstreamAnswer
from perdure.domain.errors import UpstreamError

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
