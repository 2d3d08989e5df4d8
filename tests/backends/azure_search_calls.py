"""The `azure_ai_search` store opened on a strict fake in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from perdure.backends.vector_stores.azure_ai_search import AzureSearchVectorStore
from tests.contracts.conftest import DIMENSION, Sync
from tests.engines.azure_ai_search import KEY, AzureSearch
from tests.engines.service import Server

Settings = AzureSearchVectorStore.Settings


@pytest.fixture
def service() -> Iterator[AzureSearch]:
    search = AzureSearch()
    with Server(search):
        yield search


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    found = asyncio.new_event_loop()
    yield found
    found.close()


def make(service: AzureSearch, loop: asyncio.AbstractEventLoop, **config: Any) -> Sync:
    given = {"endpoint": service.address, "api_key": KEY, "retry_delay": 0.0, "retries": 2, **config}
    return Sync(AzureSearchVectorStore(Settings(**given)), loop)


@pytest.fixture
def store(service: AzureSearch, loop: asyncio.AbstractEventLoop) -> Iterator[Sync]:
    """An open store with the collection "c"."""
    opened = make(service, loop)
    opened.open()
    opened.create_collection("c", DIMENSION)
    service.heard.clear()
    yield opened
    opened.close()
