"""What the stores of hosted services have in common: wrong keys, failures, writes that show late, walls."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from perdure.domain.errors import VectorStoreError
from perdure.domain.filter import Condition, all_of, eq
from tests.backends.vector_stores import hosted_stores
from tests.backends.vector_stores.hosted_stores import AZURE_AI_SEARCH, PINECONE, Hosted, Make
from tests.backends.wire.server import Reply
from tests.contracts.conftest import DIMENSION, Sync, ids, row, vector
from tests.engines.service import Server, Service

loop, service, make, store = hosted_stores.loop, hosted_stores.service, hosted_stores.make, hosted_stores.store
ALICE = eq("user_id", "alice")
CALLS: dict[str, Callable[[Sync], object]] = {
    "search": lambda store: store.search("c", vector(1), 5, ALICE),
    "delete": lambda store: store.apply("c", [], ["absent"]),
    "put": lambda store: store.apply("c", [row("a")]),
}


@pytest.fixture(params=[PINECONE, AZURE_AI_SEARCH], ids=lambda hosted: hosted.name)
def hosted(request: pytest.FixtureRequest) -> Hosted:
    found: Hosted = request.param
    return found


# ------------------------------------------------------------------ failures


def test_a_wrong_key(hosted: Hosted, service: Service, make: Make) -> None:
    with pytest.raises(VectorStoreError, match=hosted.variable) as caught:
        make(api_key="pcsk_WRONG").open()
    assert service.address in caught.value.message
    assert "WRONG" not in caught.value.message
    assert len(service.heard) == 1


def test_nobody_at_the_address(hosted: Hosted, make: Make) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(VectorStoreError, match="no connection") as caught:
        make(**{hosted.address: address}).open()
    assert address in caught.value.message


FAULTS: dict[str, tuple[Callable[[Hosted], Reply], str, int]] = {
    "429": (lambda hosted: hosted.error(429, "Too many requests"), "429: Too many requests", 3),
    "503": (lambda hosted: hosted.error(503, "Unavailable"), "503: Unavailable", 3),
    "400": (lambda hosted: hosted.error(400, "Bad filter"), "400: Bad filter", 1),
    "502": (lambda hosted: Reply(502, b"<html>Bad Gateway</html>"), "502", 3),
    "broken": (
        lambda hosted: Reply(200, b"{", {"content-type": "application/json"}),
        "^{hosted.name}: http://127",
        1,
    ),
    "reset": (lambda hosted: Reply(reset=True), "{hosted.broken_off}", 3),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(("fault", "said", "requests"), FAULTS.values(), ids=FAULTS)
def test_every_failure_is_told_and_tried_again_by_us_alone(
    hosted: Hosted,
    service: Service,
    store: Sync,
    call: Callable[[Sync], object],
    fault: Callable[[Hosted], Reply],
    said: str,
    requests: int,
) -> None:
    store.count("c")
    service.heard.clear()
    service.faults.extend([fault(hosted)] * 30)
    with pytest.raises(VectorStoreError, match=said.format(hosted=hosted)) as caught:
        call(store)
    assert hosted.fake.KEY not in str(caught.value)
    assert len(service.heard) == requests


def test_a_slow_service(service: Service, make: Make) -> None:
    opened = make(timeout=1.0, retries=1)
    opened.open()
    opened.create_collection("c", DIMENSION)
    opened.count("c")
    service.heard.clear()
    service.faults.extend([Reply(wait=3.0)] * 2)
    with pytest.raises(VectorStoreError, match=r"no answer from .* within 1 s"):
        opened.count("c")
    opened.close()


def test_a_service_that_goes_down_and_comes_back(hosted: Hosted, loop: asyncio.AbstractEventLoop) -> None:
    service = hosted.service()
    server = Server(service)
    server.start()
    opened = hosted.make(service, loop, retries=0)
    opened.open()
    opened.create_collection("c", DIMENSION)
    opened.apply("c", [row("a")])
    server.stop()
    with pytest.raises(VectorStoreError, match="no connection"):
        opened.search("c", vector(1), 5)
    server.start()
    assert ids(opened.search("c", vector(1), 5)) == ["a"]
    opened.apply("c", [row("b")])
    opened.close()
    patient = hosted.make(service, loop)
    patient.open()
    patient.count("c")
    service.faults.extend([Reply(reset=True), hosted.error(503, "Unavailable")])
    patient.apply("c", [row("c")])
    assert ids(patient.list("c")) == ["a", "b", "c"]
    patient.close()
    server.stop()


# ------------------------------------------------------------------ reading


def test_what_the_service_cannot_tell_is_finished_here(store: Sync) -> None:
    """Every tenth row matches, and the nearest ones do not; more are asked for until there are enough."""
    store.apply("c", [row(f"{n:03}", [1, n / 500], memory=f"row {n % 10}", n=n % 10) for n in range(300)])
    hits = store.search("c", vector(1), 20, all_of(ALICE, Condition("memory", "contains", "row 9")))
    assert ids(hits) == [f"{n:03}" for n in range(9, 200, 10)]
    assert store.count("c", Condition("memory", "icontains", "ROW 9")) == 30


def test_a_write_returns_when_it_can_be_read(hosted: Hosted, store: Sync, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted.fake, "LATE", 0.15)
    store.apply("c", [row("a"), row("b")])
    assert ids(store.search("c", vector(1), 5, ALICE)) == ["a", "b"]
    store.apply("c", [row("b", [-1])], ["a"])
    (hit,) = store.search("c", vector(1), 5, ALICE)
    assert hit.score == pytest.approx(-1)
    store.delete("c", "b")
    assert ids(store.list("c")) == []


def test_a_write_that_does_not_show_is_told(hosted: Hosted, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = make(timeout=1.0)
    opened.open()
    opened.create_collection("c", DIMENSION)
    monkeypatch.setattr(hosted.fake, "LATE", 60)
    with pytest.raises(VectorStoreError, match=r"did not show it within 1 s"):
        opened.apply("c", [row("a")])
    opened.close()


# ------------------------------------------------------------------ collections


def test_a_store_elsewhere_sees_nothing_of_this_one(hosted: Hosted, make: Make, store: Sync) -> None:
    other = make(**hosted.elsewhere)
    other.open()
    assert other.identity() != store.identity()
    assert other.list_collections() == []
    other.create_collection("c", DIMENSION)
    other.apply("c", [row("theirs")])
    assert store.list_collections() == ["c"]
    assert store.count("c") == 0
    store.reset()
    store.delete_collection("c")
    assert ids(other.list("c")) == ["theirs"]
    other.close()


@pytest.mark.parametrize("name", ["search", "put"])
def test_a_collection_that_others_made_again_is_refused_by_the_service(
    hosted: Hosted, make: Make, store: Sync, name: str
) -> None:
    """What was known of its length is no more true, and nothing else tells so while it is empty."""
    other = make()
    other.open()
    CALLS[name](store)
    other.delete_collection("c")
    other.create_collection("c", 3)
    said = {"pinecone": "dimension of the index 3", "azure_ai_search": "400"}[hosted.name]
    with pytest.raises(VectorStoreError, match=said):
        CALLS[name](store)
    assert other.count("c") == 0
    other.close()
