"""The `pinecone` store opened on a strict fake in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from perdure.backends.vector_stores.pinecone import PineconeVectorStore
from tests.contracts.conftest import DIMENSION, Sync
from tests.engines.pinecone import KEY, Pinecone
from tests.engines.service import Server


@pytest.fixture
def service() -> Iterator[Pinecone]:
    project = Pinecone()
    with Server(project):
        yield project


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    found = asyncio.new_event_loop()
    yield found
    found.close()


def make(service: Pinecone, loop: asyncio.AbstractEventLoop, **config: Any) -> Sync:
    given = {"base_url": service.address, "api_key": KEY, "retry_delay": 0.0, "retries": 2, **config}
    return Sync(PineconeVectorStore(PineconeVectorStore.Settings(**given)), loop)


@pytest.fixture
def store(service: Pinecone, loop: asyncio.AbstractEventLoop) -> Iterator[Sync]:
    """An open store with the collection "c"."""
    opened = make(service, loop)
    opened.open()
    opened.create_collection("c", DIMENSION)
    service.heard.clear()
    yield opened
    opened.close()
