"""Subscriptions: clients are told when a page of the caller's memory reads differently, whoever changed it.

A page is looked at again when the ledger has moved, and is compared with what it said: other people's changes move the
ledger too, and are told to nobody.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

import mcp_types as types
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.exceptions import MCPError

from perdure.domain.errors import NotFoundError
from perdure.frontends.mcp.consent import AccessProvider, RequestContext
from perdure.frontends.mcp.resources import is_followed, page_text, told_as_protocol_errors

if TYPE_CHECKING:
    from perdure.frontends.library.memory import AsyncMemory

LOOK_SECONDS = 0.5
"""Pause between two looks at the ledger."""
LONGEST_SECONDS = 3600
"""How long a stream lasts over HTTP, where credentials are checked when it begins."""
MOST_STREAMS = 256
MOST_PAGES = 50
"""Pages that one client may follow."""

Feed = Callable[[RequestContext, Sequence[str]], AbstractAsyncContextManager[AsyncIterator[str]]]
"""Follows pages for a request: entered when their present text is known, it yields the address of each that changed."""

logger = logging.getLogger("perdure.mcp")


@asynccontextmanager
async def changes_of(memory: AsyncMemory, pages: Sequence[str]) -> AsyncGenerator[AsyncIterator[str]]:
    """Follow pages of one memory, limited to its walls."""
    moved = await _moves(memory)
    texts = {page: await _said(memory, page) for page in pages}

    async def changed() -> AsyncIterator[str]:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not await moved():
                continue
            for page, before in texts.items():
                if (now := await _said(memory, page)) != before:
                    texts[page] = now
                    yield page

    yield changed()


async def _said(memory: AsyncMemory, page: str) -> bytes:
    """Return the digest of a page's text; nothing where there is none, before it is made or after it is forgotten."""
    try:
        return hashlib.sha256((await page_text(memory, page)).encode()).digest()
    except NotFoundError:
        return b""


async def _moves(memory: AsyncMemory) -> Callable[[], Awaitable[bool]]:
    """Return the question whether the ledger has moved since it was asked last."""
    ledger = memory._engine.kernel.ledger
    version = None if ledger is None else ledger.version()
    mark = None if ledger is None or version is not None else (await ledger.touched(memory._walls)).mark

    async def moved() -> bool:
        nonlocal version, mark
        if ledger is None:
            return True
        if (now := ledger.version()) is not None:
            version, before = now, version
            return now != before
        touched = await ledger.touched(memory._walls, mark)  # it does not report an erasure alone
        mark = touched.mark
        return bool(touched.written or touched.gone or touched.reset)

    return moved


def own_feed(access: AccessProvider) -> Feed:
    """Return the feed of the memory that a request may reach."""

    @asynccontextmanager
    async def follow(context: RequestContext, pages: Sequence[str]) -> AsyncGenerator[AsyncIterator[str]]:
        async with changes_of((await access.open(context)).memory, pages) as changed:
            yield changed

    return follow


class Subscriptions:
    """Serves `subscriptions/listen` and, where a session can carry them, `resources/subscribe` and `unsubscribe`."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._streams: set[ListenHandler] = set()
        self._followed: dict[str, asyncio.Task[None]] = {}

    async def listen(
        self, context: RequestContext, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve one stream until the client leaves; it is told first which of the pages are followed."""
        if len(self._streams) >= MOST_STREAMS:
            raise MCPError(code=types.INTERNAL_ERROR, message="too many clients listen")
        asked = params.notifications.resource_subscriptions or []
        pages = [page for page in dict.fromkeys(asked) if is_followed(page)][:MOST_PAGES]
        kept = params.model_copy(
            update={"notifications": types.SubscriptionFilter(resource_subscriptions=pages or None)}
        )
        bus = InMemorySubscriptionBus()
        stream = ListenHandler(bus)
        self._streams.add(stream)
        late = asyncio.get_running_loop().call_later(LONGEST_SECONDS, stream.close)
        try:
            with told_as_protocol_errors():
                async with self._feed(context, pages) as changed:
                    telling = asyncio.create_task(_tell(changed, bus, stream))
                    try:
                        return await stream(context, kept)
                    finally:
                        telling.cancel()
            raise AssertionError("either returned or raised")
        finally:
            late.cancel()
            self._streams.discard(stream)

    async def subscribe(self, context: RequestContext, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Follow one page for the session."""
        page = str(params.uri)
        if not is_followed(page):
            raise MCPError(code=types.INVALID_PARAMS, message=f"changes of {page!r} are not told", data={"uri": page})
        if len(self._followed) >= MOST_PAGES and page not in self._followed:
            raise MCPError(code=types.INVALID_PARAMS, message=f"a client may follow {MOST_PAGES} resources")
        if page not in self._followed:
            begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            following = self._followed[page] = asyncio.create_task(self._follow(context, page, begun))
            following.add_done_callback(lambda _: _settle(begun))
            with told_as_protocol_errors(uri=page):
                await begun
        return types.EmptyResult()

    async def unsubscribe(self, context: RequestContext, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        """Follow a page no longer."""
        task = self._followed.pop(str(params.uri), None)
        if task is not None:
            task.cancel()
        return types.EmptyResult()

    def close(self) -> None:
        """End every stream, and tell the client so."""
        for stream in list(self._streams):
            stream.close()
        for task in self._followed.values():
            task.cancel()

    async def _follow(self, context: RequestContext, page: str, begun: asyncio.Future[None]) -> None:
        try:
            async with self._feed(context, [page]) as changed:
                begun.set_result(None)
                async for uri in changed:
                    await context.session.send_resource_updated(uri)
        except Exception as error:
            self._followed.pop(page, None)
            if not begun.done():
                begun.set_exception(error)
            else:
                logger.exception("a page is no longer followed")


def _settle(begun: asyncio.Future[None]) -> None:
    """End the wait for a page that was unsubscribed before its text was known."""
    if not begun.done():
        begun.set_result(None)


async def _tell(changed: AsyncIterator[str], bus: InMemorySubscriptionBus, stream: ListenHandler) -> None:
    try:
        async for uri in changed:
            await bus.publish(ResourceUpdated(uri))
    except Exception:
        logger.exception("pages are no longer followed")
        stream.close()
