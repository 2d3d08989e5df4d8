"""The `elasticsearch` store where something fails: the way, the server, one document of many."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.backends.vector_stores.elasticsearch.store import ElasticsearchVectorStore
from perdure.domain.errors import ConfigError, VectorStoreError
from tests.backends.wire.elasticsearch import ElasticsearchWire, product, to, told
from tests.backends.wire.server import Heard, Reply
from tests.contracts.conftest import DIMENSION, Sync, ids, row, vector
from tests.contracts.stores.elasticsearch import server, settings

pytestmark = pytest.mark.xdist_group("elasticsearch")

SECRET = "hunter2"


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[ElasticsearchWire]:
    with ElasticsearchWire(settings(tmp_path)["url"]) as wire:
        yield wire


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    found = asyncio.new_event_loop()
    yield found
    found.close()


def made(folder: Path, loop: asyncio.AbstractEventLoop, **config: Any) -> Sync:
    given = {**settings(folder), "retry_delay": 0.01, **config}
    return Sync(ElasticsearchVectorStore(ElasticsearchVectorStore.Settings(**given)), loop)


@pytest.fixture
def store(tmp_path: Path, wire: ElasticsearchWire, loop: asyncio.AbstractEventLoop) -> Iterator[Sync]:
    """An open store with the collection "c" and one row in it, behind the wire."""
    opened = made(tmp_path, loop, url=wire.address, api_key=SECRET, retries=2)
    opened.open()
    opened.create_collection("c", DIMENSION)
    opened.apply("c", [row("a")])
    wire.heard.clear()
    yield opened
    wire.faults_to_come.clear()
    opened.close()


def failure(call: Any, *args: Any) -> str:
    """What the store says, which must be one of our errors and no secret."""
    with pytest.raises(VectorStoreError) as caught:
        call(*args)
    assert SECRET not in str(caught.value)
    return str(caught.value)


# ------------------------------------------------------------------ what passes, and what does not


@pytest.mark.parametrize(
    "fault",
    [
        told(503, "master_not_discovered_exception"),
        told(429, "circuit_breaking_exception"),
        Reply(502, b"<html>Bad Gateway</html>", {"content-type": "text/html"}),
        Reply(reset=True),
    ],
    ids=["503", "429", "502", "reset"],
)
def test_what_passes_by_itself_is_tried_again(store: Sync, wire: ElasticsearchWire, fault: Reply) -> None:
    wire.faults_to_come += [to("_search", fault) for _ in range(2)]
    assert store.count("c") == 1
    assert len(wire.asked("_search")) == 3


def test_one_layer_of_retries(store: Sync, wire: ElasticsearchWire) -> None:
    wire.faults_to_come += [told(503, "unavailable_shards_exception") for _ in range(3)]
    assert "503 unavailable_shards_exception" in failure(store.count, "c")
    assert len(wire.heard) == 3


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (told(401, "security_exception"), ("401", "api_key", "password")),
        (told(403, "security_exception"), ("403", "privilege")),
        (told(413, "too_large"), ("413", "size")),
        (told(400, "parsing_exception", "near 'my diary'"), ("400 parsing_exception",)),
        (Reply(200, b"{}", {"content-type": "application/json"}), ("not Elasticsearch",)),
        (Reply(200, b"[]", {"content-type": "application/json", **product()}), ("does not give",)),
        (Reply(200, b"{", {"content-type": "application/json", **product()}), ("does not give",)),
    ],
    ids=["401", "403", "413", "400", "product", "list", "broken"],
)
def test_what_does_not_pass_is_told_at_once(
    tmp_path: Path, wire: ElasticsearchWire, loop: asyncio.AbstractEventLoop, fault: Reply, said: tuple[str, ...]
) -> None:
    store = made(tmp_path, loop, url=wire.address, api_key=SECRET)
    wire.faults_to_come.append(fault)
    message = failure(store.open)
    for part in (*said, wire.address):
        assert part in message
    assert "diary" not in message, "a server's words may repeat what somebody said"
    assert len(wire.heard) == 1
    store.open()
    store.close()


def test_credentials_go_out_as_given(tmp_path: Path, wire: ElasticsearchWire, loop: asyncio.AbstractEventLoop) -> None:
    for config in ({"api_key": "a2V5"}, {"username": "elastic", "password": "pä:ss"}, {}):
        store = made(tmp_path, loop, url=wire.address, **config)
        store.open()
        store.close()
    sent = list(dict.fromkeys(request.headers.get("authorization") for request in wire.heard))
    assert sent == ["ApiKey a2V5", "Basic ZWxhc3RpYzpww6Q6c3M=", None]


def test_a_certificate_that_is_none(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("no certificate")
    store = made(tmp_path, loop, url="https://127.0.0.1:9", ca_certs=file)
    with pytest.raises(ConfigError, match="ca_certs"):
        store.open()


def test_a_server_without_encryption_is_told(
    tmp_path: Path, wire: ElasticsearchWire, loop: asyncio.AbstractEventLoop
) -> None:
    store = made(tmp_path, loop, url=wire.address.replace("http:", "https:"), retries=0)
    assert "no secure connection" in failure(store.open)


# ------------------------------------------------------------------ nobody there


def test_an_address_where_nobody_is(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
        store = made(tmp_path, loop, url=address, retries=1)
        message = failure(store.open)
    assert address in message
    assert "does Elasticsearch run there?" in message


def test_a_server_that_does_not_answer(store: Sync, wire: ElasticsearchWire, tmp_path: Path) -> None:
    impatient = made(tmp_path, asyncio.new_event_loop(), url=wire.address, timeout=0.5, retries=1)
    impatient.open()
    wire.heard.clear()
    wire.faults_to_come += [Reply(wait=60), Reply(wait=60)]
    message = failure(impatient.count, "c")
    assert "timeout" in message
    assert wire.address in message
    assert len(wire.heard) == 2
    assert impatient.count("c") == 1
    impatient.close()
    impatient._loop.close()


def test_a_server_that_dies_and_comes_back(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> None:
    """What was told as applied outlives a kill of the server; calls meanwhile wait for it or say what is wrong."""
    running = server()
    store = made(tmp_path, loop, retries=1)
    patient = made(tmp_path, loop, retries=10, retry_delay=1.0)
    for each in (store, patient):
        each.open()
    store.create_collection("c", DIMENSION)
    store.apply("c", [row("a"), row("b", [0, 1])])
    running.kill()
    assert "cannot be reached" in failure(store.count, "c")

    async def meanwhile() -> list[Any]:
        return await asyncio.gather(patient.store.search("c", vector(0, 1), 1), asyncio.to_thread(running.start))

    hits, _ = loop.run_until_complete(meanwhile())
    assert ids(hits) == ["b"]
    assert ids(store.list("c")) == ["a", "b"]
    for each in (store, patient):
        each.close()


# ------------------------------------------------------------------ one of many


def refusing(status: int, kind: str, reason: str = "") -> Any:
    """Answers a bulk request: its second document was refused."""

    def answer(request: Heard) -> Reply | None:
        if not request.path.endswith("/_bulk"):
            return None
        error = {"type": kind, "reason": reason}
        items = [{"index": {"status": 201}}, {"index": {"status": status, "error": error}}]
        return Reply.of({"errors": True, "items": items}, **product())

    return answer


def test_a_document_that_is_refused_for_now(store: Sync, wire: ElasticsearchWire) -> None:
    wire.faults_to_come.append(refusing(429, "es_rejected_execution_exception"))
    store.apply("c", [row("b"), row("c")])
    assert ids(store.list("c")) == ["a", "b", "c"]


def test_a_document_that_is_refused(store: Sync, wire: ElasticsearchWire) -> None:
    wire.faults_to_come.append(refusing(400, "document_parsing_exception", "preview: 'my diary'"))
    message = failure(store.apply, "c", [row("b"), row("c")])
    assert "400 document_parsing_exception" in message
    assert "diary" not in message
    assert len(wire.heard) == 1


def test_a_batch_that_lost_its_collection(store: Sync, wire: ElasticsearchWire) -> None:
    wire.faults_to_come.append(refusing(404, "index_not_found_exception"))
    assert "create it first" in failure(store.apply, "c", [row("b"), row("c")])


def test_a_search_that_missed_a_shard_is_no_answer(store: Sync, wire: ElasticsearchWire) -> None:
    """`allow_partial_search_results` is false, for which the server fails as a whole."""
    store.count("c")
    store.list("c")
    store.unembedded("c", 9)
    store.keyword_search("c", "text", 9)
    store.search("c", vector(1), 5)
    searches = [request for request in wire.heard if request.path.endswith("_search")]
    assert len(searches) >= 5
    assert all(request.query["allow_partial_search_results"] == ["false"] for request in searches)
