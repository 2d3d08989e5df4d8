"""The `pinecone` store where settings are wrong or the service fails."""

from __future__ import annotations

import asyncio
import socket

import pytest
from pydantic import ValidationError

from perdure.backends import registry
from perdure.backends.vector_stores.pinecone import PineconeVectorStore
from perdure.domain.errors import ConfigError, VectorStoreError
from perdure.domain.filter import eq
from tests.backends import pinecone_calls
from tests.backends.pinecone_calls import make
from tests.backends.wire.server import Reply
from tests.contracts.conftest import DIMENSION, Sync, ids, row, vector
from tests.engines.pinecone import KEY, Pinecone
from tests.engines.service import Server

loop, service, store = pinecone_calls.loop, pinecone_calls.service, pinecone_calls.store
ALICE = eq("user_id", "alice")

# ------------------------------------------------------------------ settings


def test_settings_fall_back_to_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINECONE_API_KEY", " pcsk_from_env ")
    monkeypatch.setenv("PINECONE_CONTROLLER_HOST", "http://localhost:5080")
    found = PineconeVectorStore.Settings()
    assert found.api_key is not None
    assert found.api_key.get_secret_value() == "pcsk_from_env"
    assert found.base_url == "http://localhost:5080"
    assert "pcsk" not in repr(found)


def test_a_missing_key_is_a_config_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PINECONE_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="PINECONE_API_KEY") as caught:
        registry.build("vector_stores", "pinecone", {})
    assert caught.value.field == "vector_store.config.api_key"


@pytest.mark.parametrize(
    "wrong",
    [
        {"api_key": "two words"}, {"api_key": "ünï"}, {"base_url": "localhost"}, {"cloud": "ibm"}, {"index": "Upper"},
        {"index": "-x"}, {"index": "x" * 31}, {"namespace": "a.b"}, {"namespace": ""}, {"region": ""}, {"host": "x"},
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_are_wrong(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError) as caught:
        PineconeVectorStore.Settings(**{"api_key": KEY, **wrong})
    assert "two words" not in str(caught.value)


# ------------------------------------------------------------------ failures


def test_a_wrong_key(service: Pinecone, loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(VectorStoreError, match="PINECONE_API_KEY") as caught:
        make(service, loop, api_key="pcsk_wrong").open()
    assert service.address in caught.value.message
    assert "pcsk" not in caught.value.message
    assert len(service.heard) == 1


def test_nobody_at_the_address(service: Pinecone, loop: asyncio.AbstractEventLoop) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(VectorStoreError, match="no connection") as caught:
        make(service, loop, base_url=address).open()
    assert address in caught.value.message


def error(status: int, message: str) -> Reply:
    return Reply.of({"code": 3, "message": message, "details": []}, status)


@pytest.mark.parametrize(
    ("fault", "said", "requests"),
    [
        (error(429, "Too many requests"), "429: Too many requests", 3),
        (error(503, "Unavailable"), "503: Unavailable", 3),
        (error(400, "Bad filter"), "400: Bad filter", 1),
        (error(403, "QUOTA_EXCEEDED"), "QUOTA_EXCEEDED.*plan", 1),
        (Reply(502, b"<html>Bad Gateway</html>"), "502", 3),
        (Reply(200, b"{"), "^pinecone: http://127", 1),
        (Reply(reset=True), "no connection", 3),
    ],
    ids=["429", "503", "400", "403", "502", "broken", "reset"],
)
def test_every_failure_is_told_and_tried_again_by_us_alone(
    service: Pinecone, store: Sync, fault: Reply, said: str, requests: int
) -> None:
    store.count("c")
    service.heard.clear()
    service.faults.extend([fault] * 30)
    with pytest.raises(VectorStoreError, match=said) as caught:
        store.search("c", vector(1), 5, ALICE)
    assert KEY not in str(caught.value)
    assert len(service.heard) == requests


def test_a_slow_service(service: Pinecone, loop: asyncio.AbstractEventLoop) -> None:
    opened = make(service, loop, timeout=1.0, retries=1)
    opened.open()
    opened.create_collection("c", DIMENSION)
    opened.count("c")
    service.heard.clear()
    service.faults.extend([Reply(wait=3.0)] * 2)
    with pytest.raises(VectorStoreError, match=r"no answer from .* within 1 s"):
        opened.count("c")
    opened.close()


def test_a_service_that_goes_down_and_comes_back(loop: asyncio.AbstractEventLoop) -> None:
    service = Pinecone()
    server = Server(service)
    server.start()
    opened = make(service, loop, retries=0)
    opened.open()
    opened.create_collection("c", DIMENSION)
    opened.apply("c", [row("a")])
    server.stop()
    with pytest.raises(VectorStoreError, match="no connection"):
        opened.search("c", vector(1), 5)
    server.start()
    assert ids(opened.search("c", vector(1), 5)) == ["a"]
    service.faults.extend([Reply(reset=True), error(503, "Unavailable")])
    opened.store._engine_settings = PineconeVectorStore.Settings(api_key=KEY, retry_delay=0.0)
    opened.apply("c", [row("b")])
    assert ids(opened.list("c")) == ["a", "b"]
    opened.close()
    server.stop()
