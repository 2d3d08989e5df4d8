"""The `milvus` store when the server is away, slow, angry or gone for a moment."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from perdure.backends.vector_stores.milvus.store import MilvusVectorStore
from perdure.domain.errors import VectorStoreError
from tests.backends.vector_stores.milvus_server import Server, free_port
from tests.backends.vector_stores.milvus_wire import Fault, Opened, Wire, limited, point, slow, status

TOKEN = "root:hunter2"


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    opened = Wire(tmp_path / "data", token=TOKEN)
    yield opened
    opened.close()


def store_on(uri: str, **settings: Any) -> Opened:
    return Opened(MilvusVectorStore(MilvusVectorStore.Settings(uri=uri, **{"retry_delay": 0, **settings})))


def filled(wire: Wire, **settings: Any) -> Opened:
    store = store_on(wire.uri, token=TOKEN, **settings)
    store.open()
    store.create_collection("c", 4)
    store.apply("c", [point("a", 1)])
    wire.calls.clear()
    return store


def test_the_token_is_sent_and_never_shown(wire: Wire) -> None:
    store = filled(wire)
    assert store.count("c") == 1
    store.close()
    for token in ("root:swordfish", None):
        wrong = store_on(wire.uri, token=token)
        with pytest.raises(VectorStoreError, match="refused the token") as raised:
            wrong.open()
        assert wire.uri in str(raised.value)
        assert "swordfish" not in str(raised.value)
        assert "swordfish" not in repr(wrong.store.settings)
    assert "hunter2" not in repr(store.store.settings)


def test_an_address_where_nobody_listens() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(VectorStoreError, match=f"{address} cannot be reached: is Milvus running there"):
        store_on(address, retries=1, timeout=2).open()


def test_a_server_that_does_not_answer_in_time(wire: Wire) -> None:
    store = filled(wire, timeout=2, retries=0)
    wire.faults.append(("Query", slow(3)))
    with pytest.raises(VectorStoreError, match=r"did not answer within 2 seconds"):
        store.count("c")
    store.close()


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(status(grpc.StatusCode.UNAVAILABLE), id="unavailable"),
        pytest.param(status(grpc.StatusCode.RESOURCE_EXHAUSTED), id="exhausted"),
        pytest.param(limited, id="rate-limit"),
    ],
)
def test_what_passes_by_itself_is_tried_again(wire: Wire, fault: Fault) -> None:
    store = filled(wire)
    wire.faults += [("Query", fault)] * 2
    assert store.count("c") == 1
    assert len(wire.requests("Query")) == 3
    store.close()


def test_retries_come_to_an_end(wire: Wire) -> None:
    store = filled(wire, retries=2)
    wire.faults += [("Query", limited)] * 3
    with pytest.raises(VectorStoreError, match="rate limit exceeded"):
        store.count("c")
    assert len(wire.requests("Query")) == 3, "the driver makes no attempts of its own"
    assert store.count("c") == 1
    store.close()


def test_what_does_not_pass_is_not_tried_again(wire: Wire) -> None:
    store = filled(wire)
    wire.faults.append(("Query", status(grpc.StatusCode.INVALID_ARGUMENT)))
    with pytest.raises(VectorStoreError, match="INVALID_ARGUMENT") as raised:
        store.count("c")
    assert "secret-in-details" not in str(raised.value)
    assert len(wire.requests("Query")) == 1
    store.close()


def test_a_server_that_dies_and_comes_back(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    server.start()
    store = store_on(server.uri, retries=10, retry_delay=0.1)
    store.open()
    store.create_collection("c", 4)
    store.apply("c", [point("a", 1)])
    server.stop()
    impatient = store_on(server.uri, retries=0)
    with pytest.raises(VectorStoreError, match="cannot be reached"):
        impatient.open()
    starting = threading.Thread(target=server.start)
    starting.start()
    assert [hit.id for hit in store.search("c", np.ones(4), 3)] == ["a"], "tried again until it was there"
    starting.join()
    store.close()
    server.stop()


def test_a_collection_that_vanishes_is_named(wire: Wire) -> None:
    store, other = filled(wire), store_on(wire.uri, token=TOKEN)
    other.open()
    other.delete_collection("c")
    for ask in (lambda: store.count("c"), lambda: store.apply("c", [point("b", 1)])):
        with pytest.raises(VectorStoreError, match="'c'"):
            ask()
    store.close()
    other.close()


def test_a_store_that_was_closed_says_so(wire: Wire) -> None:
    store = filled(wire)
    store.close()
    with pytest.raises(VectorStoreError, match="not open"):
        asyncio.run(store.store.count("c"))
