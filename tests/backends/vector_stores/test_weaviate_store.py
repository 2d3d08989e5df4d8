"""The weaviate store on a real server: what the contract suite cannot see of it."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from weaviate.proto.v1 import aggregate_pb2

from perdure.backends.vector_stores.base import CollectionInfo, Point, Shape
from perdure.backends.vector_stores.weaviate.objects import class_name
from perdure.backends.vector_stores.weaviate.store import PAGE, Client, TooLarge, WeaviateVectorStore
from perdure.domain.errors import NoCollectionError, VectorStoreError
from perdure.domain.filter import Condition, all_of, eq
from tests.contracts.stores.weaviate import settings as shared_settings
from tests.engines.weaviate import Server, Unavailable

pytestmark = pytest.mark.xdist_group("weaviate")

T = TypeVar("T")
KEY = "s3cret-key-of-the-tests"


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def made(**config: Any) -> WeaviateVectorStore:
    return WeaviateVectorStore(WeaviateVectorStore.Settings(**config))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WeaviateVectorStore]:
    """An open store with a collection `c` of two numbers."""
    opened = made(**shared_settings(tmp_path))
    run(opened.open())
    run(opened.create_collection("c", 2))
    yield opened
    run(opened.delete_collection("c"))
    run(opened.close())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server of the test's own."""
    try:
        started = Server(tmp_path / "server")
        started.start()
    except Unavailable as error:
        pytest.skip(str(error))
    yield started
    started.kill()


def row(id: str, numbers: tuple[float, float] | None = (1, 0), **fields: Any) -> Point:
    vector = None if numbers is None else np.array(numbers, np.float32)
    return Point(id, vector, {"id": id, "memory": f"text of {id}", "user_id": "alice", **fields})


def ids(found: Any) -> list[str]:
    return [each.id for each in getattr(found, "points", found)]


QUERY = np.array([1, 0], np.float32)
ALICE = eq("user_id", "alice")

# ------------------------------------------------------------------ what is asked


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every request to search, as it is sent."""
    requests: list[Any] = []
    search = Client.search

    def spy(client: Client, request: Any) -> Any:
        requests.append(request)
        return search(client, request)

    monkeypatch.setattr(Client, "search", spy)
    return requests


def test_a_search_is_asked_inside_its_scope(store: WeaviateVectorStore, asked: list[Any]) -> None:
    run(store.apply("c", [row("a"), row("b", user_id="bob")]))
    asked.clear()
    assert ids(run(store.search("c", QUERY, 5, ALICE))) == ["a"]
    (request,) = asked
    assert request.filters.target.property == "user_id"
    assert list(request.filters.value_text_array.values) == ["alice"]
    assert list(request.properties.non_ref_properties) == ["record"]
    asked.clear()
    assert ids(run(store.search("c", QUERY, 5))) == ["a", "b"]
    (request,) = asked
    assert request.filters.target.property == "slot"  # without a filter Weaviate would walk its graph, and miss rows


def test_words_are_asked_as_stems(store: WeaviateVectorStore, asked: list[Any]) -> None:
    run(store.apply("c", [row("a", memory="She runs, daily"), row("b", memory="x" * 300_000)]))
    assert ids(run(store.keyword_search("c", "running OR *", 5, ALICE))) == ["a"]
    assert asked[-1].bm25_search.query == "run or"
    assert list(asked[-1].bm25_search.properties) == ["stems"]
    assert ids(run(store.keyword_search("c", "x" * 300_000, 5))) == ["b"]


def test_what_weaviate_cannot_say_is_asked_for_again_until_the_limit_is_full(
    store: WeaviateVectorStore, asked: list[Any]
) -> None:
    points = [row(f"{n:03}", (1, n / 100), memory="tea" if n >= 150 else "coffee") for n in range(200)]
    run(store.apply("c", points))
    asked.clear()
    found = run(store.search("c", QUERY, 5, all_of(ALICE, Condition("memory", "contains", "tea"))))
    assert ids(found) == ["150", "151", "152", "153", "154"]
    assert [request.limit for request in asked] == sorted({request.limit for request in asked})
    assert len(asked) > 1


def test_white_space_around_a_scope_is_another_scope(store: WeaviateVectorStore) -> None:
    users = ["alice", " alice", "alice ", "alice\n", "\talice", "", "\u00a0alice"]
    run(store.apply("c", [row(str(n), user_id=user) for n, user in enumerate(users)]))
    for n, user in enumerate(users):
        assert ids(run(store.list("c", eq("user_id", user)))) == [str(n)]
        assert run(store.count("c", eq("user_id", user))) == 1
        assert run(store.count("c", Condition("user_id", "ne", user))) == len(users) - 1


# ------------------------------------------------------------------ many and large rows


def test_more_rows_than_one_answer_holds(store: WeaviateVectorStore) -> None:
    names = [f"r{n}" for n in range(2 * PAGE + 500)]
    run(store.apply("c", [row(name, None) for name in names]))
    assert sorted(ids(run(store.list("c", ALICE)))) == sorted(names)
    assert run(store.count("c")) == len(names)
    assert sorted(ids(run(store.get_many("c", names)))) == sorted(names)
    run(store.apply("c", [], names[: PAGE + 1]))
    assert sorted(ids(run(store.list("c")))) == sorted(names[PAGE + 1 :])
    run(store.reset())
    assert run(store.get_collection_info("c")) == CollectionInfo("c", 0, 2, "")
    run(store.apply("c", [row("a")]))
    assert ids(run(store.search("c", QUERY, 5, ALICE))) == ["a"]


def test_answers_that_are_too_large_are_asked_for_in_parts(
    store: WeaviateVectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"r{n}" for n in range(40)]
    run(store.apply("c", [row(name) for name in names]))
    search = Client.search

    def tight(client: Client, request: Any) -> Any:
        found = search(client, request)
        if len(found) > 7:
            raise TooLarge("message larger than max")
        return found

    monkeypatch.setattr(Client, "search", tight)
    assert sorted(ids(run(store.get_many("c", names)))) == sorted(names)
    assert sorted(ids(run(store.list("c")))) == sorted(names)
    with pytest.raises(VectorStoreError, match="ask for fewer rows"):
        run(store.search("c", QUERY, 20))


# ------------------------------------------------------------------ the schema


def classes(store: WeaviateVectorStore) -> dict[str, dict[str, Any]]:
    return {found["class"]: found for found in store._client.classes()}


def test_the_classes_that_stand_in_weaviate(store: WeaviateVectorStore) -> None:
    run(store.create_collection("C", 3, model="minilm"))
    namespace = store.settings.namespace
    found = classes(store)
    small, large = (found[class_name(namespace, name)] for name in ("c", "C"))
    assert small["class"].lower() != large["class"].lower()
    user = next(kept for kept in small["properties"] if kept["name"] == "user_id")
    assert (user["indexFilterable"], user["tokenization"]) == (True, "field")
    index = small["vectorConfig"]["default"]["vectorIndexConfig"]
    assert (index["distance"], index["flatSearchCutoff"]) == ("dot", 2**31 - 1)
    assert not any(index[kind]["enabled"] for kind in ("pq", "bq", "sq", "rq"))
    assert run(store.list_collections()) == ["C", "c"]
    run(store.delete_collection("C"))
    assert run(store.list_collections()) == ["c"]


def test_stores_of_other_namespaces_and_classes_of_others_are_left_alone(
    store: WeaviateVectorStore, tmp_path: Path
) -> None:
    namespace = store.settings.namespace
    foreign = f"{namespace.capitalize()}_notes_of_mine"
    store._client.make_class({"class": foreign, "description": "mine"})
    other = made(**{**shared_settings(tmp_path), "namespace": namespace + "x"})
    run(other.open())
    run(other.create_collection("theirs", 2))
    assert run(store.list_collections()) == ["c"]
    assert run(other.list_collections()) == ["theirs"]
    assert run(other.identity()) != run(store.identity())
    run(store.reset())
    run(other.delete_collection("theirs"))
    run(other.close())
    assert foreign in classes(store)
    store._client.drop_class(foreign)


def test_a_class_that_weaviate_made_by_itself_gives_way(store: WeaviateVectorStore) -> None:
    """As it does for objects that reach it after their class is gone."""
    kept = class_name(store.settings.namespace, "ghost")
    store._client.make_class({"class": kept})
    assert "ghost" not in run(store.list_collections())
    run(store.create_collection("ghost", 2))
    run(store.insert("ghost", "a", QUERY, {"user_id": "alice"}))
    assert ids(run(store.search("ghost", QUERY, 5, ALICE))) == ["a"]
    run(store.delete_collection("ghost"))


def test_two_processes_may_make_a_collection_at_one_time(store: WeaviateVectorStore) -> None:
    store._make("twice", Shape(2, "first"))
    store._make("twice", Shape(2, "second"))
    assert run(store.get_collection_info("twice")).model == "first"
    run(store.delete_collection("twice"))


def test_a_collection_that_another_process_took_away_is_not_written(store: WeaviateVectorStore, tmp_path: Path) -> None:
    other = made(**shared_settings(tmp_path))
    run(other.open())
    run(store.apply("c", [row("a")]))
    run(other.delete_collection("c"))
    with pytest.raises(NoCollectionError, match="'c'"):
        run(store.apply("c", [row("b")]))
    assert class_name(store.settings.namespace, "c") not in classes(store)
    run(other.create_collection("c", 2))
    run(store.apply("c", [row("b")]))
    run(other.delete_collection("c"))
    run(other.create_collection("c", 3))
    run(other.close())
    with pytest.raises(VectorStoreError, match="'c'"):
        run(store.apply("c", [row("c")]))
    assert run(store.count("c")) == 0
    run(store.insert("c", "b", np.ones(3, np.float32), {}))
    assert run(store.get_collection_info("c")).dimension == 3


# ------------------------------------------------------------------ failures


def at(server: Server, **config: Any) -> WeaviateVectorStore:
    return made(url=server.url, grpc_address=server.grpc_address, **{"retries": 0, "retry_delay": 0.1, **config})


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_nobody_at_the_address() -> None:
    port = free_port()
    with pytest.raises(VectorStoreError, match=f"no connection to http://127.0.0.1:{port}: is Weaviate running there"):
        run(made(url=f"http://127.0.0.1:{port}", retries=0).open())


def test_nobody_at_the_address_for_grpc(store: WeaviateVectorStore) -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(VectorStoreError, match=rf"no connection to {address} \(gRPC\)"):
        run(made(url=store.settings.url, grpc_address=address, retries=0).open())


def test_a_server_that_is_no_weaviate(store: WeaviateVectorStore) -> None:
    """Weaviate's own gRPC port, asked over HTTP."""
    url = f"http://{store._grpc_address}"
    with pytest.raises(VectorStoreError, match=url):
        run(made(url=url, retries=0).open())


def test_a_store_that_is_closed_meanwhile(store: WeaviateVectorStore) -> None:
    """What the drivers say of their closed connections is no failure of the server's."""
    store._client.close()
    for call in (store.count("c"), store.list_collections()):
        with pytest.raises(VectorStoreError, match="was closed"):
            run(call)
    run(store.close())
    run(store.open())


def test_keys(tmp_path: Path) -> None:
    try:
        server = Server(tmp_path / "server", api_key=KEY)
        server.start()
    except Unavailable as error:
        pytest.skip(str(error))
    try:
        for wrong in (None, "wr0ng-key"):
            with pytest.raises(VectorStoreError, match="refused the key: give the right one as api_key") as caught:
                run(at(server, api_key=wrong).open())
            assert "wr0ng" not in repr(caught.value)
        right = at(server, api_key=KEY)
        run(right.open())
        run(right.create_collection("c", 2))
        run(right.apply("c", [row("a")]))
        assert ids(run(right.search("c", QUERY, 5, ALICE))) == ["a"]
        assert KEY not in repr(vars(right))
        run(right.close())
    finally:
        server.kill()


def test_a_server_that_does_not_answer_in_time(server: Server) -> None:
    store = at(server, timeout=1.0)
    run(store.open())
    run(store.create_collection("c", 2))
    server.pause()
    for call in (store.list_collections(), store.search("c", QUERY, 5)):
        with pytest.raises(VectorStoreError, match="in time"):
            run(call)
    server.resume()
    assert run(store.search("c", QUERY, 5)) == []
    run(store.close())


def test_what_makes_the_server_settle_is_no_row(store: WeaviateVectorStore) -> None:
    run(store.apply("c", [row("a")]))
    assert store._client.count(aggregate_pb2.AggregateRequest(collection=store._class("c"), objects_count=True)) == 2
    assert run(store.count("c")) == run(store.count("c", Condition("user_id", "ne", "bob"))) == 1
    assert ids(run(store.list("c"))) == ids(run(store.search("c", QUERY, 5))) == ["a"]
    run(store.reset())
    assert run(store.count("c")) == 0
    assert ids(run(store.list("c", Condition("n", "nin", (1, 2))))) == []


def test_a_server_that_dies_and_comes_back(server: Server) -> None:
    store = at(server)
    run(store.open())
    run(store.create_collection("c", 2))
    run(store.apply("c", [row("a"), row("b", None)]))  # Weaviate itself would forget the vector: see Client.settle
    server.kill()
    for call in (store.apply("c", [row("x")]), store.search("c", QUERY, 5), store.count("c"), store.get("c", "a")):
        with pytest.raises(VectorStoreError, match=r"no connection to .*127\.0\.0\.1"):
            run(call)
    server.start()
    patient = at(server, retries=10)
    run(patient.open())
    assert ids(run(patient.list("c"))) == ["a", "b"]
    assert ids(run(patient.search("c", QUERY, 5, ALICE))) == ["a"]
    run(patient.apply("c", [row("b"), row("a", (0, 1))]))
    server.kill()
    back = threading.Thread(target=lambda: (time.sleep(0.3), server.start()))
    back.start()
    run(patient.apply("c", [row("c")]))
    back.join()
    assert ids(run(patient.search("c", QUERY, 5, ALICE))) == ["b", "c", "a"]
    assert ids(run(store.list("c"))) == ["a", "b", "c"]
    run(patient.close())
    run(store.close())
