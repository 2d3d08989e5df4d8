"""Stores, clients and servers of Redis for the tests of its store: fixtures that they import."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from perdure.backends import registry
from tests.contracts.conftest import Sync
from tests.contracts.stores import redis as shared
from tests.engines.redis import Server, Unavailable

MODES = ("search", "vectorset")
Open = Callable[..., Sync]


@pytest.fixture(name="loop")
def own_loop() -> Iterator[asyncio.AbstractEventLoop]:
    found = asyncio.new_event_loop()
    yield found
    found.close()


@pytest.fixture(name="open_store")
def opening_stores(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> Iterator[Open]:
    """Opens stores on the shared server, under a prefix of the test's own; keywords are settings."""
    opened: list[Sync] = []

    def open_one(**config: Any) -> Sync:
        mode = config.pop("mode", "auto")
        store = Sync(registry.build("vector_stores", "redis", {**shared.settings(mode, tmp_path), **config}), loop)
        store.open()
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture(name="client")
def plain_client() -> Iterator[redis.Redis]:
    """A plain client of the shared server."""
    with redis.Redis.from_url(shared.server().url(), protocol=3) as found:
        yield found


@pytest.fixture(name="start")
def starting_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    """Starts servers of the test's own."""
    started: list[Server] = []

    def start_one(**options: Any) -> Server:
        try:
            server = Server(tmp_path_factory.mktemp("redis"), **options)
            started.append(server)
            server.start()
        except Unavailable as error:
            pytest.skip(str(error))
        return server

    yield start_one
    for server in started:
        server.stop()


def keys(client: redis.Redis, tmp_path: Path) -> list[str]:
    """The keys of the test's store, without its prefix."""
    prefix = shared.settings("auto", tmp_path)["prefix"]
    return sorted(key.decode().removeprefix(f"{prefix}:") for key in client.scan_iter(f"{prefix}:*", count=10_000))
