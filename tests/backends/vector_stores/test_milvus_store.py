"""What the contract cannot see of the `milvus` store: what is sent, how collections are made, limits, neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from pymilvus import MilvusClient

from perdure.backends.vector_stores.milvus import store as milvus
from perdure.backends.vector_stores.milvus.store import MilvusVectorStore, physical_name
from perdure.domain.errors import InvalidInputError, VectorStoreError
from perdure.domain.filter import eq, parse_filter
from tests.backends.vector_stores.milvus_wire import DIMENSION, Opened, Wire, point


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    opened = Wire(tmp_path / "data")
    yield opened
    opened.close()


def opened_on(wire: Wire, **settings: Any) -> Opened:
    store = Opened(MilvusVectorStore(MilvusVectorStore.Settings(uri=wire.uri, retry_delay=0, **settings)))
    store.open()
    return store


@pytest.fixture
def store(wire: Wire) -> Iterator[Opened]:
    opened = opened_on(wire)
    opened.create_collection("c", DIMENSION, model="m")
    wire.calls.clear()
    yield opened
    opened.close()


# ------------------------------------------------------------------ requests


def test_a_search_is_one_request_inside_the_users_partition(wire: Wire, store: Opened) -> None:
    store.apply("c", [point("a", 1), point("b", 0, 1), point("other", 1, user_id="bob")])
    wire.calls.clear()
    hits = store.search("c", np.ones(DIMENSION, np.float32), 5, eq("user_id", "alice"))
    assert [hit.id for hit in hits] == ["a", "b"]
    (request,) = wire.requests("Search")
    assert [name for name, _ in wire.calls] == ["Search"]
    assert request.dsl == '(user_id == "alice" and bare == false)'
    assert request.consistency_level == 0, "Strong: what another process has written is read"


def test_rows_of_one_user_are_read_in_few_requests(wire: Wire, store: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages follow the primary key, since an offset ends at 16,384 rows."""
    monkeypatch.setattr(milvus, "_PAGE", 10)
    store.apply("c", [point(f"r{number:02}", 1) for number in range(25)])
    wire.calls.clear()
    page = store.list("c", eq("user_id", "alice"))
    assert [row.id for row in page.points] == [f"r{number:02}" for number in range(25)]
    expressions = [request.expr for request in wire.requests("Query")]
    assert len(expressions) == 3
    assert expressions[0] == '(pk > "" and user_id == "alice")'


def test_what_milvus_cannot_express_is_finished_here(wire: Wire, store: Opened) -> None:
    rows = [point(f"r{number:03}", 1, number / 100, memory="Python" if number % 10 else "no") for number in range(100)]
    store.apply("c", rows)
    wire.calls.clear()
    filter = parse_filter({"AND": [{"user_id": "alice"}, {"memory": {"icontains": "NO"}}]})
    hits = store.search("c", rows[0].vector, 10, filter)
    assert [hit.id for hit in hits] == [f"r{number:03}" for number in range(0, 100, 10)]
    assert {request.dsl for request in wire.requests("Search")} == {'(user_id == "alice" and bare == false)'}


# ------------------------------------------------------------------ collections


def test_the_user_is_the_partition_key(tmp_path: Path) -> None:
    """On a server every scope field and the tokens have an index too."""
    wire = Wire(tmp_path / "data", version="v2.6.4")
    store = opened_on(wire, partitions=128)
    store.create_collection("c", DIMENSION)
    (made,) = wire.requests("CreateCollection")
    assert made.num_partitions == 128
    client = MilvusClient(wire.uri, dedicated=True)
    fields = {field["name"]: field for field in client.describe_collection(made.collection_name)["fields"]}
    assert [name for name, field in fields.items() if field.get("is_partition_key")] == ["user_id"]
    client.close()
    indexes = {
        request.field_name: {pair.key: pair.value for pair in request.extra_params}
        for request in wire.requests("CreateIndex")
    }
    assert indexes["vector"]["index_type"] == "FLAT"
    assert indexes["vector"]["metric_type"] == "IP"
    wanted = {"user_id", "agent_id", "run_id", "tokens", "bare", "created_at_us", "expires_at_us", "valid_to_us"}
    assert wanted <= {name for name, how in indexes.items() if how["index_type"] == "INVERTED"}
    store.apply("c", [point(str(number), 1) for number in range(2100)])
    assert wire.requests("Flush") == [], "a server flushes when it likes"
    store.close()
    wire.close()


def test_milvus_lite_is_flushed_before_it_grows_slow(wire: Wire, store: Opened) -> None:
    store.apply("c", [point(str(number), 1) for number in range(2100)])
    assert [list(request.collection_names) for request in wire.requests("Flush")] == [[physical_name("c")]]
    assert store.count("c") == 2100


def test_a_collection_whose_maker_died_is_completed(wire: Wire, store: Opened) -> None:
    client = MilvusClient(wire.uri, dedicated=True)
    store.apply("c", [point("a", 1)])
    client.release_collection(physical_name("c"))
    client.drop_index(physical_name("c"), "vector")  # Milvus Lite drops them all
    assert client.list_indexes(physical_name("c")) == []
    other = opened_on(wire)
    assert [hit.id for hit in other.search("c", np.ones(DIMENSION), 5)] == ["a"]
    assert sorted(client.list_indexes(physical_name("c"))) == ["user_id", "vector"]
    other.close()
    client.close()


def test_a_collection_that_was_released_is_loaded_again(wire: Wire, store: Opened) -> None:
    store.apply("c", [point("a", 1)])
    client = MilvusClient(wire.uri, dedicated=True)
    client.release_collection(physical_name("c"))
    client.close()
    assert store.count("c", eq("user_id", "alice")) == 1


def test_names_that_nearly_collide_and_collections_of_others(wire: Wire, store: Opened) -> None:
    names = ["a-b", "a_b", "Memories", "memories", "identity", "x" * 60, "x" * 60 + "y", "'; drop", "ü", "../c"]
    client = MilvusClient(wire.uri, dedicated=True)
    client.create_collection("perdure_of_somebody_else", dimension=2)
    for number, name in enumerate(names):
        store.create_collection(name, 1 + number)
    assert store.list_collections() == sorted([*names, "c"])
    for number, name in enumerate(names):
        assert store.get_collection_info(name).dimension == 1 + number
    assert all(part.isascii() and part.replace("_", "").isalnum() for part in client.list_collections())
    for name in names:
        store.delete_collection(name)
    store.reset()
    assert store.list_collections() == ["c"]
    assert client.has_collection("perdure_of_somebody_else")
    client.close()


def test_each_database_is_a_store_of_its_own(wire: Wire, store: Opened) -> None:
    other, same = opened_on(wire, db_name="team_a"), opened_on(wire, db_name="team_a")
    assert other.identity() == same.identity() != store.identity()
    other.create_collection("c", 2)
    assert (store.get_collection_info("c").dimension, same.get_collection_info("c").dimension) == (DIMENSION, 2)
    other.close()
    same.close()


# ------------------------------------------------------------------ the approximate index


def test_with_hnsw_small_scopes_are_still_exact(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MilvusVectorStore, "few_rows", 5)
    store = opened_on(wire, index="HNSW")
    store.create_collection("c", DIMENSION)
    store.apply("c", [point(str(number), 1, number / 10, user_id="bob") for number in range(9)] + [point("a", 1)])
    wire.calls.clear()
    assert [hit.id for hit in store.search("c", np.ones(DIMENSION), 3, eq("user_id", "alice"))] == ["a"]
    assert wire.requests("Search") == []
    hits = store.search("c", np.ones(DIMENSION), 3, eq("user_id", "bob"))
    assert [hit.id for hit in hits] == ["8", "7", "6"]
    assert len(wire.requests("Search")) == 1
    store.close()


# ------------------------------------------------------------------ limits


def test_a_memory_longer_than_a_text_field_is_kept_and_found(store: Opened) -> None:
    text = "x" * 70_000 + " needle"
    store.apply("c", [point("a", 1, memory=text), point("b", 1, memory="hay")])
    assert store.get("c", "a").payload["memory"] == text
    assert store.count("c", parse_filter({"memory": {"contains": "needle"}})) == 1


@pytest.mark.parametrize(
    ("payload", "limit"),
    [
        pytest.param({"memory": "x" * 2_100_000}, "2097120", id="record"),
        pytest.param({"metadata": {"list": [str(number) for number in range(4100)]}}, "4096", id="tokens"),
        pytest.param({"metadata": {f"k{number}": number for number in range(1001)}}, "1000", id="numbers"),
    ],
)
def test_what_is_too_large_changes_nothing(store: Opened, payload: dict[str, Any], limit: str) -> None:
    with pytest.raises(InvalidInputError, match=limit):
        store.apply("c", [point("good", 1), point("bad", 1, **payload)])
    assert store.count("c") == 0


# ------------------------------------------------------------------ settings and the folder


@pytest.mark.parametrize(
    "settings",
    [
        {"uri": "localhost:19530"},
        {"uri": "./milvus.db"},
        {"uri": "http://root:hunter2@localhost:19530"},
        {"uri": "http://localhost:19530", "path": "milvus.db"},
        {"path": "milvus.db", "token": "root:hunter2"},
        {"db_name": "a-b"},
        {"partitions": 0},
        {"index": "IVF_FLAT"},
    ],
    ids=str,
)
def test_settings_that_make_no_sense(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as raised:
        MilvusVectorStore.Settings(**settings)
    assert "hunter2" not in str(raised.value)


def test_a_folder_is_for_one_at_a_time(tmp_path: Path) -> None:
    settings = MilvusVectorStore.Settings(path=tmp_path / "deep" / "milvus.db")
    store, other = Opened(MilvusVectorStore(settings)), Opened(MilvusVectorStore(settings))
    store.open()
    with pytest.raises(VectorStoreError, match=r"milvus\.db is open already"):
        other.open()
    store.close()
    other.open()
    other.close()


def test_a_file_of_milvus_lite_2_is_told_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "old.db").write_bytes(b"SQLite format 3")
    store = Opened(MilvusVectorStore(MilvusVectorStore.Settings(path=tmp_path / "old.db")))
    with pytest.raises(VectorStoreError, match="Milvus Lite 2"):
        store.open()
