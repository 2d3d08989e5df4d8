"""The `azure_ai_search` store where settings are wrong or the service fails."""

from __future__ import annotations

import asyncio
import socket

import pytest
from pydantic import ValidationError

from perdure.backends import registry
from perdure.backends.vector_stores.azure_ai_search import AzureSearchVectorStore
from perdure.domain.errors import ConfigError, VectorStoreError
from tests.backends import azure_search_calls
from tests.backends.azure_search_calls import make
from tests.backends.wire.server import Reply
from tests.contracts.conftest import DIMENSION, Sync, ids, row, vector
from tests.engines.azure_ai_search import KEY, AzureSearch
from tests.engines.service import Server

loop, service, store = azure_search_calls.loop, azure_search_calls.service, azure_search_calls.store
Settings = AzureSearchVectorStore.Settings

# ------------------------------------------------------------------ settings


def test_settings_fall_back_to_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_SEARCH_ENDPOINT", "https://name.search.windows.net")
    monkeypatch.setenv("AZURE_SEARCH_API_KEY", " SECRET-FROM-ENV ")
    found = Settings()
    assert found.endpoint == "https://name.search.windows.net"
    assert found.api_key is not None
    assert found.api_key.get_secret_value() == "SECRET-FROM-ENV"
    assert "SECRET" not in repr(found)


@pytest.mark.parametrize("missing", ["endpoint", "api_key"])
def test_what_is_missing_is_a_config_error(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variable = f"AZURE_SEARCH_{missing.upper()}"
    monkeypatch.delenv(variable, raising=False)
    given = {"endpoint": "https://name.search.windows.net", "api_key": KEY}
    del given[missing]
    with pytest.raises(ConfigError, match=variable) as caught:
        registry.build("vector_stores", "azure_ai_search", given)
    assert caught.value.field == f"vector_store.config.{missing}"


@pytest.mark.parametrize(
    "wrong",
    [
        {"api_key": "two words"}, {"endpoint": "name"}, {"endpoint": "https://u:p@host"}, {"api_version": "latest"},
        {"prefix": "Upper"}, {"prefix": "a--b"}, {"prefix": "a-"}, {"prefix": "x" * 41}, {"index": "x"},
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_are_wrong(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(**{"endpoint": "https://name.search.windows.net", "api_key": KEY, **wrong})
    assert "two words" not in str(caught.value)


# ------------------------------------------------------------------ failures


def test_a_wrong_key(service: AzureSearch, loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(VectorStoreError, match="AZURE_SEARCH_API_KEY") as caught:
        make(service, loop, api_key="WRONGKEY").open()
    assert service.address in caught.value.message
    assert "WRONGKEY" not in caught.value.message
    assert len(service.heard) == 1


def test_a_version_that_the_service_does_not_know(service: AzureSearch, loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(VectorStoreError, match="api-version"):
        make(service, loop, api_version="2020-06-30").open()


def test_nobody_at_the_address(service: AzureSearch, loop: asyncio.AbstractEventLoop) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(VectorStoreError, match="no connection") as caught:
        make(service, loop, endpoint=address).open()
    assert address in caught.value.message


def error(status: int, message: str) -> Reply:
    return Reply.of({"error": {"code": "", "message": message}}, status)


PARTLY = {"key": "k", "status": False, "errorMessage": "Out of storage", "statusCode": 422}
LATER = {**PARTLY, "errorMessage": "Try again", "statusCode": 503}


@pytest.mark.parametrize(
    ("fault", "said", "requests"),
    [
        (error(429, "Too many requests"), "429: Too many requests", 3),
        (error(503, "Busy"), "503: Busy", 3),
        (error(400, "Bad filter"), "400: Bad filter", 1),
        (Reply(403), "admin key", 1),
        (Reply(502, b"<html>Bad Gateway</html>"), "502", 3),
        (Reply(200, b"{", {"content-type": "application/json"}), "^azure_ai_search: http://127", 1),
        (Reply(reset=True), "no connection|no answer", 3),
        (Reply.of({"value": [PARTLY]}, 207), r"1 of 1 documents were refused \(422\): Out of storage", 1),
    ],
    ids=["429", "503", "400", "403", "502", "broken", "reset", "partly"],
)
def test_every_failure_is_told_and_tried_again_by_us_alone(
    service: AzureSearch, store: Sync, fault: Reply, said: str, requests: int
) -> None:
    store.count("c")
    service.heard.clear()
    service.faults.extend([fault] * 30)
    with pytest.raises(VectorStoreError, match=said) as caught:
        store.apply("c", [], ["absent"])
    assert KEY not in str(caught.value)
    assert len(service.heard) == requests


def test_documents_that_are_refused_for_a_while_are_sent_again(service: AzureSearch, store: Sync) -> None:
    store.count("c")
    service.faults.append(Reply.of({"value": [LATER]}, 207))
    store.apply("c", [row("a")])
    assert ids(store.list("c")) == ["a"]


def test_a_slow_service(service: AzureSearch, loop: asyncio.AbstractEventLoop) -> None:
    opened = make(service, loop, timeout=1.0, retries=1)
    opened.open()
    opened.create_collection("c", DIMENSION)
    opened.count("c")
    service.faults.extend([Reply(wait=3.0)] * 2)
    with pytest.raises(VectorStoreError, match=r"no answer from .* within 1 s"):
        opened.count("c")
    opened.close()


def test_a_service_that_goes_down_and_comes_back(loop: asyncio.AbstractEventLoop) -> None:
    service = AzureSearch()
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
    opened.close()
    patient = make(service, loop)
    patient.open()
    service.faults.extend([Reply(reset=True), error(503, "Busy")])
    patient.apply("c", [row("b")])
    assert ids(patient.list("c")) == ["a", "b"]
    patient.close()
    server.stop()
