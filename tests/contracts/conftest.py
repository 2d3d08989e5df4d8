"""Every vector store and ledger that there is, opened for its one contract suite.

A new vector store is one module in `stores/`, a new ledger one entry in `ledger_worker`.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from perdure.backends import registry
from perdure.backends.vector_stores.base import Point, Vector, VectorStore
from tests.contracts.ledgers.ledger_postgres import postgres_server  # noqa: F401 - a fixture
from tests.contracts.ledgers.ledger_worker import PROVIDERS as LEDGERS
from tests.contracts.ledgers.ledger_worker import Place
from tests.contracts.stores import Provider, all_providers
from tests.contracts.wire.anthropic import anthropic_llm_script  # noqa: F401
from tests.contracts.wire.google import google_embedder_config, google_llm_script  # noqa: F401
from tests.contracts.wire.huggingface import huggingface_embedder_config  # noqa: F401
from tests.contracts.wire.ollama import ollama_embedder_config, ollama_llm_script  # noqa: F401
from tests.contracts.wire.openai import (  # noqa: F401
    azure_openai_embedder_config,
    azure_openai_llm_script,
    openai_embedder_config,
    openai_llm_script,
)

DIMENSION = 8


PROVIDERS: Mapping[str, Provider] = all_providers()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a store on a server stay on one worker, which starts it once."""
    for item in items:
        provider = getattr(item, "callspec", None) and item.callspec.params.get("shelf")
        if provider in PROVIDERS and PROVIDERS[provider].server:
            item.add_marker(pytest.mark.xdist_group(provider))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note in each report which store it is about, so that it reaches the process that gathers them."""
    report = yield
    provider = getattr(item, "callspec", None) and item.callspec.params.get("shelf")
    if provider in PROVIDERS:
        report.user_properties.append(("store", provider))
    return report


@pytest.fixture
def scripted_llm_script() -> Callable[[list[Any]], dict[str, Any]]:
    return lambda answers: {"answers": answers}


class Sync:
    """A store whose methods are called without await, on one event loop of the test's own."""

    def __init__(self, store: VectorStore, loop: asyncio.AbstractEventLoop) -> None:
        self.store = store
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.store, name)
        if not inspect.iscoroutinefunction(attribute):
            return attribute
        return lambda *args, **kwargs: self._loop.run_until_complete(attribute(*args, **kwargs))


@dataclass
class Shelf:
    """A place where stores of one provider lie; `open` gives another instance on the same place."""

    provider: str
    folder: Path
    loop: asyncio.AbstractEventLoop

    @property
    def entry(self) -> Provider:
        return PROVIDERS[self.provider]

    @property
    def drawn(self) -> int:
        """Examples that a test draws, by Hypothesis's profile (`tests/conftest.py`)."""
        usual = settings.get_profile("perdure").max_examples
        return self.entry.examples * settings().max_examples // usual

    @property
    def durable(self) -> bool:
        return bool(registry.load("vector_stores", self.entry.name).durable)

    def make(self) -> Sync:
        return Sync(registry.build("vector_stores", self.entry.name, self.entry.settings(self.folder)), self.loop)

    def open(self) -> Sync:
        store = self.make()
        store.open()
        return store


@pytest.fixture(scope="module", params=sorted(PROVIDERS))
def shelf(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    loop = asyncio.new_event_loop()
    yield Shelf(request.param, tmp_path_factory.mktemp(request.param), loop)
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


@pytest.fixture(scope="module")
def store(shelf: Shelf) -> Iterator[Sync]:
    """An open store that the module's tests share, each with its own collection."""
    opened = shelf.open()
    yield opened
    opened.close()


_numbers = itertools.count()


@pytest.fixture
def collection(store: Sync) -> Iterator[str]:
    """The name of a fresh collection of DIMENSION numbers."""
    name = f"c{next(_numbers)}"
    store.create_collection(name, DIMENSION, model="test")
    yield name
    store.delete_collection(name)


@pytest.fixture(scope="module")
def common(store: Sync) -> str:
    """The name of a collection that drawn examples share; each empties it first by `reset`."""
    store.create_collection("common", DIMENSION)
    return "common"


# ------------------------------------------------------------------ ledgers


@pytest.fixture(params=list(LEDGERS))
def ledger_provider(request: pytest.FixtureRequest) -> str:
    """The name of a ledger's provider; its server runs, if it needs one."""
    if request.param == "postgres":
        request.getfixturevalue("postgres_server")
    return request.param


@pytest.fixture
def place(ledger_provider: str, tmp_path: Path) -> Place:
    """A place for a ledger of each provider."""
    return Place(ledger_provider, tmp_path)


# ------------------------------------------------------------------ rows


def vector(*numbers: float) -> Vector:
    """A vector of DIMENSION numbers, zeros behind those given."""
    return np.array([*numbers, *[0.0] * (DIMENSION - len(numbers))], np.float32)


def moment(second: int) -> str:
    """A fixed-width time."""
    return f"2026-01-01T{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}.000000+00:00"


def row(id: str, numbers: Sequence[float] | None = (1.0,), **fields: Any) -> Point:
    """A row that looks as the engine's do; `numbers` None for one without a vector."""
    payload = {
        "id": id,
        "memory": f"text of {id}",
        "kind": "facts",
        "state": "live",
        "created_at": moment(0),
        "user_id": "alice",
        **fields,
    }
    kept = {name: value for name, value in payload.items() if value is not ...}
    return Point(id, None if numbers is None else vector(*numbers), kept)


def ids(found: Any) -> list[str]:
    """The ids of points, hits or a page, in order."""
    return [each.id for each in getattr(found, "points", found)]
