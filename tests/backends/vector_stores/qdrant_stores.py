"""Stores on the shared Qdrant server, directly or through a proxy that keeps every request; servers of a test's own."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from perdure.backends import registry
from tests.backends.wire.server import Heard, Reply, WireServer
from tests.contracts.conftest import Sync
from tests.contracts.stores.qdrant import served, server
from tests.engines.qdrant import Server

Open = Callable[..., Sync]

MARKS = [
    pytest.mark.xdist_group("qdrant"),
    # The client's own warning, and a true one; the servers of these tests are on loopback.
    pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection"),
]


class Proxy(WireServer):
    """Between a store and the shared server: keeps every request, and answers some itself."""

    def __init__(self) -> None:
        super().__init__()
        self.instead: Callable[[Heard], Reply | None] = lambda request: None

    def respond(self, request: Heard) -> Reply:
        own = self.instead(request)
        if own is not None:
            return own
        connection = http.client.HTTPConnection("127.0.0.1", server().port, timeout=60)
        query = urlencode(request.query, doseq=True)
        connection.request(
            request.method, f"{request.path}?{query}" if query else request.path, request.body, dict(request.headers)
        )
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return Reply(answer.status, body, {"content-type": answer.headers["content-type"]})

    def bodies(self, method: str, end: str) -> list[Any]:
        return [heard.json for heard in self.heard if heard.method == method and heard.path.endswith(end)]


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy() as found:
        yield found


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    found = asyncio.new_event_loop()
    yield found
    found.close()


@pytest.fixture
def make(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> Iterator[Open]:
    """Makes stores that are not open yet, on the shared server under a prefix of the test's own."""
    made: list[Sync] = []

    def make_one(**config: Any) -> Sync:
        settings = {**served(tmp_path), "retry_delay": 0, **config}
        store = Sync(registry.build("vector_stores", "qdrant", settings), loop)
        made.append(store)
        return store

    yield make_one
    for store in made:
        store.close()


@pytest.fixture
def open_store(make: Open) -> Open:
    def open_one(**config: Any) -> Sync:
        store = make(**config)
        store.open()
        return store

    return open_one


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers of the test's own."""
    started: list[Server] = []

    def start_one(**options: Any) -> Server:
        found = Server(tmp_path / f"server{len(started)}", **options)
        started.append(found)
        found.start()
        return found

    yield start_one
    for found in started:
        found.stop()
