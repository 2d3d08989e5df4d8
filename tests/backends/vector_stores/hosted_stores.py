"""Stores of services that cannot be had here, opened on strict fakes in this process: fixtures for the tests of each.

A module that takes them has a fixture `hosted` besides, which says which store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from perdure.backends import registry
from tests.backends.wire.server import Reply
from tests.contracts.conftest import DIMENSION, Sync
from tests.engines import azure_ai_search, pinecone
from tests.engines.service import Server, Service

Make = Callable[..., Sync]


@dataclass(frozen=True)
class Hosted:
    """A store and the fake of its service."""

    name: str
    fake: ModuleType
    """Has the KEY that is right, and how LATE what was written is seen."""
    service: Callable[[], Service]
    address: str
    """The setting that takes the service's address."""
    variable: str
    """The environment variable that takes the key."""
    elsewhere: dict[str, str]
    """Settings of a store beside the usual one."""
    error: Callable[[int, str], Reply]
    """A refusal with this status and message, in the service's form."""
    broken_off: str
    """What the store says of a connection that breaks off."""

    def make(self, service: Service, loop: asyncio.AbstractEventLoop, **config: Any) -> Sync:
        """A store that is not open yet; keywords are settings."""
        given = {self.address: service.address, "api_key": self.fake.KEY, "retry_delay": 0.0, "retries": 2, **config}
        return Sync(registry.build("vector_stores", self.name, given), loop)


PINECONE = Hosted(
    name="pinecone",
    fake=pinecone,
    service=pinecone.Pinecone,
    address="base_url",
    variable="PINECONE_API_KEY",
    elsewhere={"namespace": "other"},
    error=lambda status, message: Reply.of({"code": 3, "message": message, "details": []}, status),
    broken_off="no connection",
)
AZURE_AI_SEARCH = Hosted(
    name="azure_ai_search",
    fake=azure_ai_search,
    service=azure_ai_search.AzureSearch,
    address="endpoint",
    variable="AZURE_SEARCH_API_KEY",
    elsewhere={"prefix": "perdure-c"},
    error=lambda status, message: Reply.of({"error": {"code": "", "message": message}}, status),
    broken_off="no answer",  # the client does not tell it from one that comes late
)


@pytest.fixture
def service(hosted: Hosted) -> Iterator[Service]:
    found = hosted.service()
    with Server(found):
        yield found


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    found = asyncio.new_event_loop()
    yield found
    found.close()


@pytest.fixture
def make(hosted: Hosted, service: Service, loop: asyncio.AbstractEventLoop) -> Make:
    """Makes stores on the service that are not open yet; keywords are settings."""
    return lambda **config: hosted.make(service, loop, **config)


@pytest.fixture
def store(make: Make, service: Service) -> Iterator[Sync]:
    """An open store with the collection "c"."""
    opened = make()
    opened.open()
    opened.create_collection("c", DIMENSION)
    service.heard.clear()
    yield opened
    opened.close()
