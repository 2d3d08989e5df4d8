"""A client is told when a page of its own memory reads differently: the SDK's client and real processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError

from perdure import Memory
from perdure.frontends.mcp import Serving
from perdure.frontends.mcp.subscriptions import Subscriptions
from tests.frontends.mcp.clients import ask, client_of
from tests.frontends.mcp.test_attached import NO_ENGINE, served
from tests.frontends.mcp.test_http import connected
from tests.frontends.server.running import Running, running

pytestmark = pytest.mark.anyio
RECENT, PROFILE = "perdure://recent", "perdure://profile"
MODERN = "2026-07-28"
"""Named, because a client that only asks falls back to 2025 if a busy server's first answer takes long."""
QUIET_SECONDS = 2.0
"""Longer than the server waits between two looks."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path / "memory") as found:
        yield found


class Told:
    """What a client of 2025 is told."""

    def __init__(self) -> None:
        self.pages: asyncio.Queue[str] = asyncio.Queue()

    async def __call__(self, message: Any) -> None:
        inner = getattr(message, "root", message)
        if getattr(inner, "method", "") == "notifications/resources/updated":
            self.pages.put_nowait(str(inner.params.uri))

    async def next(self) -> str:
        return await asyncio.wait_for(self.pages.get(), 60)

    async def nothing(self) -> bool:
        await asyncio.sleep(QUIET_SECONDS)
        return self.pages.empty()


async def subscribe(client: Client, page: str) -> None:
    """What `Client.subscribe_resource` does, which warns that 2026-07-28 has none."""
    request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=page))
    await client.session.send_request(request, types.EmptyResult)


async def unsubscribe(client: Client, page: str) -> None:
    request = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=page))
    await client.session.send_request(request, types.EmptyResult)


@asynccontextmanager
async def listening(client: Client, *pages: str) -> AsyncIterator[Any]:
    async with client.listen(resource_subscriptions=pages) as stream:
        yield stream


async def next_page(stream: Any) -> str:
    event = await asyncio.wait_for(anext(stream), 60)
    assert isinstance(event, ResourceUpdated)
    return event.uri


async def test_a_session_of_2025_is_told_until_it_unsubscribes(tmp_path: Path) -> None:
    told = Told()
    async with client_of(tmp_path, mode="legacy", message_handler=told) as client:
        capabilities = client.server_capabilities
        assert capabilities is not None and capabilities.resources is not None and capabilities.resources.subscribe
        await subscribe(client, RECENT)
        (home,) = (await ask(client, "remember", facts=["User lives in Lisbon"]))["results"]
        assert await told.next() == RECENT
        await subscribe(client, f"perdure://memory/{home['id']}")
        await unsubscribe(client, RECENT)
        await ask(client, "correct", id=home["id"], text="User lives in Porto")
        assert await told.next() == f"perdure://memory/{home['id']}"
        assert await told.nothing()
        for wrong in ("perdure://entity/Mia", "perdure://nothing", "x:"):
            with pytest.raises(MCPError, match="not told"):
                await subscribe(client, wrong)


async def test_a_stream_of_2026_has_what_it_asked_for_and_no_more(tmp_path: Path) -> None:
    async with client_of(tmp_path) as client:
        capabilities = client.server_capabilities
        assert capabilities is not None and capabilities.resources is not None and capabilities.resources.subscribe
        assert not capabilities.resources.list_changed and capabilities.tools is not None
        assert not capabilities.tools.list_changed
        async with listening(client, RECENT, PROFILE, "perdure://entity/Mia", "perdure://nothing") as stream:
            assert stream.honored.resource_subscriptions == [RECENT, PROFILE]
            await ask(client, "remember", facts=["The staging database is PostgreSQL 17"])
            assert await next_page(stream) == RECENT
            await ask(client, "remember", facts=["User lives in Lisbon"])
            assert {await next_page(stream), await next_page(stream)} == {RECENT, PROFILE}


async def test_changes_of_another_process_are_told_and_those_of_others_are_not(tmp_path: Path) -> None:
    told = Told()
    async with client_of(tmp_path, mode="legacy", message_handler=told) as client:
        await subscribe(client, RECENT)
        with Memory({"path": str(tmp_path), "embedder": {"provider": "hashed"}}) as memory:
            (theirs,) = memory.add_facts(["Zelda owns a submarine"], user_id="ben").results
            await subscribe(client, f"perdure://memory/{theirs.id}")
            memory.update(theirs.id, "Zelda owns a balloon")
            assert await told.nothing()
            memory.add_facts(["Mia owns a bicycle"], user_id="ana")
            assert await told.next() == RECENT


async def test_streams_over_http_are_each_of_their_own_user(server: Running) -> None:
    async with (
        connected(server, "/mcp/ana", mode=MODERN) as ana,
        connected(server, "/mcp/ben", mode=MODERN) as ben,
        listening(ana, RECENT) as of_ana,
        listening(ben, RECENT) as of_ben,
    ):
        await ask(ana, "remember", facts=["User lives in Lisbon"])
        assert await next_page(of_ana) == RECENT
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(of_ben), QUIET_SECONDS)


async def test_without_a_session_a_client_of_2025_is_promised_nothing(server: Running) -> None:
    async with connected(server, "/mcp/ana", mode="legacy") as client:
        capabilities = client.server_capabilities
        assert capabilities is not None and capabilities.resources is not None
        assert not capabilities.resources.subscribe
        with pytest.raises(MCPError, match="Method not found"):
            await subscribe(client, RECENT)


async def test_a_stream_needs_the_scope_that_reading_needs(server: Running) -> None:
    async with connected(server, "/mcp", mode=MODERN) as client:
        with pytest.raises(MCPError, match="connect to /mcp/USER"):
            async with listening(client, RECENT):
                pass


async def test_a_server_with_open_streams_ends_when_it_is_told_to(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    with served(folder, env={"PERDURE_SERVER__GRACEFUL_SECONDS": "100"}) as server:
        serving = Serving.at(folder)
        assert serving is not None
        address: Any = SimpleNamespace(url=serving.url)
        async with connected(address, "/mcp/ana", mode=MODERN) as client, listening(client, RECENT) as stream:
            server.terminate()
            with pytest.raises(StopAsyncIteration):
                await asyncio.wait_for(anext(stream), 60)
        await asyncio.to_thread(server.wait, 60)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_beside_a_server_its_changes_are_told(tmp_path: Path, mode: str) -> None:
    folder, told = tmp_path / "memory", Told()
    with served(folder):
        async with (
            client_of(folder, env=NO_ENGINE, user="ben") as ben,
            client_of(folder, mode=mode, env=NO_ENGINE, message_handler=told) as client,
            following(client, mode, told) as next_told,
        ):
            await ask(ben, "remember", facts=["User sells lamps"])
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(next_told(), QUIET_SECONDS)
            await ask(client, "remember", facts=["User lives in Lisbon"])
            assert await next_told() == RECENT


async def test_the_end_of_the_server_does_not_end_a_stream(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    with served(folder) as server:
        async with client_of(folder) as client, listening(client, RECENT) as stream:
            server.kill()
            server.wait()
            assert await next_page(stream) == RECENT  # what may have been missed
            await ask(client, "remember", facts=["User lives in Lisbon"])
            assert await next_page(stream) == RECENT


@asynccontextmanager
async def following(client: Client, mode: str, told: Told) -> AsyncIterator[Any]:
    """The next page that a client of either revision is told."""
    if mode == "legacy":
        await subscribe(client, RECENT)
        yield told.next
        return
    async with listening(client, RECENT) as stream:
        yield lambda: next_page(stream)


async def test_unsubscribing_before_the_page_is_known_leaves_nobody_waiting() -> None:
    @asynccontextmanager
    async def never(context: Any, pages: Any) -> AsyncIterator[AsyncIterator[str]]:
        await asyncio.Event().wait()
        yield aiter([])  # type: ignore[call-overload]  # not reached

    subscriptions = Subscriptions(never)
    context: Any = SimpleNamespace()
    waiting = asyncio.create_task(subscriptions.subscribe(context, types.SubscribeRequestParams(uri=RECENT)))
    await asyncio.sleep(0)
    await subscriptions.unsubscribe(context, types.UnsubscribeRequestParams(uri=RECENT))
    assert await asyncio.wait_for(waiting, 60) == types.EmptyResult()
