"""The contract of every vector store: collections, rows, lists and what is said of bad input."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from perdure.backends import registry
from perdure.backends.vector_stores.base import CollectionInfo, Point
from perdure.domain.errors import ConfigError, InvalidInputError, NotFoundError, VectorStoreError
from perdure.domain.filter import Condition, eq, parse_filter
from tests.contracts.conftest import DIMENSION, PROVIDERS, Shelf, Sync, ids, row, vector

NASTY = (
    "plain", "with space", "quote'", 'double"', "semi;colon--", "%", "_", "*", "ünïcödé", "北京", "😀", "a/b", "a.b",
    "new\nline", "x" * 500, "null", "0", "NULL", "\\", "${x}", "<b>",
)  # fmt: skip
NAMES = (
    "", "a", "A", "a.b", "a-b", "a--b", "a/b", "a b", "-", "*", "..", "ünï", "x" * 200, "x" * 199 + "y", "\n",
    "nul\x00", "lone \ud800", "main.a.1", "perdure.identity", "perdure_store", 'x"; DROP TABLE perdure_store; --',
)  # fmt: skip
"""Names that some engine would refuse, or take for one another, or for something of its own."""


def test_every_provider_is_in_the_suite() -> None:
    assert {entry.name for entry in PROVIDERS.values()} == set(registry.providers("vector_stores"))


# ------------------------------------------------------------------ collections


def test_collections_are_made_listed_described_and_deleted(store: Sync) -> None:
    before = store.list_collections()
    store.create_collection("zoo", 3, model="minilm-384")
    store.create_collection("ant", 5)
    assert store.list_collections() == sorted([*before, "ant", "zoo"])
    assert store.get_collection_info("zoo") == CollectionInfo("zoo", 0, 3, "minilm-384")
    assert store.get_collection_info("ant").model == ""
    for name in ("zoo", "ant"):
        store.delete_collection(name)
    assert store.list_collections() == before


def test_a_collection_that_exists_is_left_alone(store: Sync, collection: str) -> None:
    store.insert(collection, "a", vector(1), row("a").payload)
    store.create_collection(collection, DIMENSION, model="another")
    assert store.get_collection_info(collection) == CollectionInfo(collection, 1, DIMENSION, "test")


def test_a_collection_of_another_dimension_is_a_config_error(store: Sync, collection: str) -> None:
    with pytest.raises(ConfigError, match=str(DIMENSION)) as caught:
        store.create_collection(collection, DIMENSION + 1)
    assert (caught.value.field, caught.value.value) == ("dimension", DIMENSION + 1)


@pytest.mark.parametrize("dimension", [0, -1, 2.5, True, None])
def test_a_dimension_is_a_whole_number_from_1_on(store: Sync, dimension: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        store.create_collection("never", dimension)
    assert caught.value.field == "dimension"
    assert "never" not in store.list_collections()


def test_deleting_a_collection_takes_its_rows(store: Sync, collection: str) -> None:
    store.apply(collection, [row("a")])
    store.delete_collection(collection)
    store.delete_collection(collection)
    store.create_collection(collection, DIMENSION)
    assert store.count(collection) == 0
    assert store.search(collection, vector(1), 5) == []
    assert store.search(collection, vector(1), 5, eq("user_id", "alice")) == []


CALLS: dict[str, Callable[[Sync, str], object]] = {
    "get_collection_info": lambda store, name: store.get_collection_info(name),
    "apply": lambda store, name: store.apply(name, [row("a")]),
    "apply nothing": lambda store, name: store.apply(name, []),
    "insert": lambda store, name: store.insert(name, "a", vector(1), {}),
    "update": lambda store, name: store.update(name, "a", vector(1)),
    "delete": lambda store, name: store.delete(name, "a"),
    "get_many": lambda store, name: store.get_many(name, ["a"]),
    "get": lambda store, name: store.get(name, "a"),
    "search": lambda store, name: store.search(name, vector(1), 5),
    "list": lambda store, name: store.list(name),
    "count": lambda store, name: store.count(name),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_collection_that_does_not_exist_is_a_store_error(store: Sync, call: Callable[[Sync, str], object]) -> None:
    with pytest.raises(VectorStoreError, match="nowhere"):
        call(store, "nowhere")


def test_collections_are_separate(store: Sync, collection: str) -> None:
    store.create_collection("other", 2)
    store.apply(collection, [row("a", memory="apple")])
    store.insert("other", "a", np.array([0, 1], np.float32), {"id": "a", "memory": "pear", "user_id": "alice"})
    assert store.get("other", "a").payload["memory"] == "pear"
    store.delete("other", "a")
    assert store.count("other") == 0
    assert ids(store.search(collection, vector(1), 5, eq("user_id", "alice"))) == ["a"]
    store.delete_collection("other")


@pytest.mark.parametrize("name", ["a-b_c9", "Memories", "m" * 60])
def test_collection_names(store: Sync, name: str) -> None:
    store.create_collection(name, 2)
    store.insert(name, "a", np.ones(2, np.float32), {})
    assert store.get_collection_info(name).count == 1
    store.delete_collection(name)


def test_names_of_every_kind_are_collections_of_their_own(store: Sync) -> None:
    before = store.list_collections()
    for name in NAMES:
        store.create_collection(name, DIMENSION, model=name)
        store.apply(name, [row(name)])
    assert store.list_collections() == sorted([*before, *NAMES])
    for name in NAMES:
        assert ids(store.list(name)) == [name]
        assert store.get_collection_info(name) == CollectionInfo(name, 1, DIMENSION, name)
        store.delete_collection(name)
    assert store.list_collections() == before


def test_reset_empties_every_collection_and_keeps_it(store: Sync, collection: str) -> None:
    store.create_collection("second", DIMENSION)
    for name in (collection, "second"):
        store.apply(name, [row("a"), row("b", None)])
        assert store.search(name, vector(1), 5, eq("user_id", "alice"))
    store.reset()
    for name in (collection, "second"):
        assert store.count(name) == 0
        assert store.list(name).points == []
        assert store.search(name, vector(1), 5, eq("user_id", "alice")) == []
        assert not store.keyword_search(name, "text", 5)
    store.apply(collection, [row("a", [0, 1])])
    assert ids(store.search(collection, vector(0, 1), 5, eq("user_id", "alice"))) == ["a"]
    assert store.get_collection_info(collection).model == "test"
    store.delete_collection("second")


# ------------------------------------------------------------------ rows


def test_a_row_comes_back_as_it_went(store: Sync, collection: str) -> None:
    point = row("a", [3, 4], metadata={"deep": {"list": [1, 2.5, None, True, "x"]}}, importance=0.25, tags={"k": ["v"]})
    store.insert(collection, point.id, point.vector, point.payload)
    found = store.get(collection, "a")
    assert found.payload == point.payload
    assert found.vector.dtype == np.float32
    np.testing.assert_allclose(found.vector / np.linalg.norm(found.vector), point.vector / 5, atol=1e-6)


@pytest.mark.parametrize("text", [*NASTY, "", "nul\x00byte", "lone \ud800 surrogate", "x" * 1_000_000])
def test_texts_and_keys_of_every_kind(shelf: Shelf, store: Sync, collection: str, text: str) -> None:
    text = text[: shelf.entry.longest // 4]  # it stands in the row four times
    point = row("a", memory=text, subject=text, metadata={text or "k": text, "list": [text]})
    store.apply(collection, [point])
    assert store.get(collection, "a").payload == point.payload
    for condition in (eq("memory", text), eq(f"metadata.{text or 'k'}", text), eq("list", text)):
        assert store.count(collection, condition) == 1
        assert store.count(collection, parse_filter({"NOT": condition})) == 0
    assert store.count(collection, Condition("memory", "contains", text[:20])) == 1


@pytest.mark.parametrize("id", NASTY)
def test_ids_of_every_kind(store: Sync, collection: str, id: str) -> None:
    store.apply(collection, [row(id), row("another", [0, 1])])
    assert store.get(collection, id).id == id
    assert ids(store.search(collection, vector(1), 1)) == [id]
    assert store.count(collection, eq("id", id)) == 1
    store.update(collection, id, payload={**row(id).payload, "memory": "new"})
    assert store.get(collection, id).payload["memory"] == "new"
    store.delete(collection, id)
    assert ids(store.list(collection)) == ["another"]


@pytest.mark.parametrize("user", NASTY)
def test_scopes_of_every_kind(store: Sync, collection: str, user: str) -> None:
    store.apply(collection, [row("a", user_id=user), row("b", user_id=user + "x"), row("c", user_id=...)])
    assert ids(store.search(collection, vector(1), 5, eq("user_id", user))) == ["a"]
    assert ids(store.list(collection, eq("user_id", user))) == ["a"]


def test_insert_replaces_the_row_whole(store: Sync, collection: str) -> None:
    store.apply(collection, [row("a", [1], metadata={"old": 1}, memory="old text")])
    store.insert(collection, "a", vector(0, 1), {"memory": "new words", "user_id": "bob"})
    assert store.get(collection, "a").payload == {"memory": "new words", "user_id": "bob"}
    assert store.count(collection) == 1
    assert store.search(collection, vector(1), 5, eq("user_id", "alice")) == []
    (hit,) = store.search(collection, vector(0, 1), 5, eq("user_id", "bob"))
    assert hit.score == pytest.approx(1)
    if (found := store.keyword_search(collection, "old", 5)) is not None:
        assert found == []
        assert ids(store.keyword_search(collection, "words", 5)) == ["a"]


def test_apply_writes_and_deletes_and_may_be_repeated(store: Sync, collection: str) -> None:
    store.apply(collection, [row("a"), row("b"), row("c")])
    for _ in range(2):
        store.apply(collection, [row("c", memory="changed"), row("d")], ["a", "absent"])
        assert ids(store.list(collection)) == ["b", "c", "d"]
        assert store.get(collection, "c").payload["memory"] == "changed"
    store.apply(collection, [], [])
    assert store.count(collection) == 3


def test_apply_with_an_id_twice_takes_the_last_put(store: Sync, collection: str) -> None:
    store.apply(collection, [row("a", memory="first"), row("a", memory="last"), row("b")], ["b"])
    assert store.get(collection, "a").payload["memory"] == "last"
    assert ids(store.list(collection)) == ["a", "b"]


BAD_POINTS = {
    "short vector": Point("bad", np.ones(DIMENSION - 1, np.float32), {}),
    "long vector": Point("bad", np.ones(DIMENSION + 1, np.float32), {}),
    "matrix": Point("bad", np.ones((1, DIMENSION), np.float32), {}),
    "nan": Point("bad", vector(float("nan")), {}),
    "infinity": Point("bad", vector(float("inf")), {}),
    "payload of nan": Point("bad", vector(1), {"importance": float("nan")}),
    "payload of an object": Point("bad", vector(1), {"metadata": {"x": object()}}),
    "payload key": Point("bad", vector(1), {"metadata": {1: "x"}}),  # type: ignore[dict-item]  # wrong on purpose
    "scope": Point("bad", vector(1), {"user_id": 5}),
    "id": Point(7, vector(1), {}),  # type: ignore[arg-type]  # wrong on purpose
}


@pytest.mark.parametrize("bad", BAD_POINTS.values(), ids=BAD_POINTS)
def test_apply_is_all_or_nothing(store: Sync, collection: str, bad: Point) -> None:
    store.apply(collection, [row("a"), row("b")])
    with pytest.raises(InvalidInputError) as caught:
        store.apply(collection, [row("c"), row("a", memory="changed"), bad, row("d")], ["b"])
    assert caught.value.field
    assert ids(store.list(collection)) == ["a", "b"]
    assert store.get(collection, "a").payload["memory"] == "text of a"
    assert not store.keyword_search(collection, "changed", 5)


def test_what_callers_hold_is_theirs(store: Sync, collection: str) -> None:
    numbers, payload = vector(1, 2), row("a", metadata={"list": [1]}).payload
    store.insert(collection, "a", numbers, payload)
    numbers[:] = 9
    payload["metadata"]["list"].append(2)
    for found in (
        store.get(collection, "a"),
        store.list(collection).points[0],
        store.search(collection, vector(1), 1)[0],
    ):
        assert found.payload["metadata"] == {"list": [1]}
        found.payload["metadata"]["list"].append(3)
        found.payload["memory"] = "mine"
    first = store.get(collection, "a")
    first.vector[:] = 0
    again = store.get(collection, "a")
    assert again.payload["memory"] == "text of a"
    assert again.payload["metadata"] == {"list": [1]}
    assert np.any(again.vector)


def test_update_replaces_vector_payload_or_both(store: Sync, collection: str) -> None:
    store.apply(collection, [row("a", [1], memory="first")])
    store.update(collection, "a", vector(0, 1))
    assert store.get(collection, "a").payload["memory"] == "first"
    assert store.search(collection, vector(0, 1), 1)[0].score == pytest.approx(1)
    store.update(collection, "a", payload={"memory": "second", "user_id": "bob"})
    assert store.get(collection, "a").payload == {"memory": "second", "user_id": "bob"}
    assert store.search(collection, vector(0, 1), 1, eq("user_id", "bob"))[0].score == pytest.approx(1)
    store.update(collection, "a", vector(0, 0, 1), {"memory": "third"})
    assert store.search(collection, vector(0, 0, 1), 1)[0].payload == {"memory": "third"}
    store.update(collection, "a")
    assert store.get(collection, "a").payload == {"memory": "third"}


def test_update_of_nothing_and_with_nonsense(store: Sync, collection: str) -> None:
    with pytest.raises(NotFoundError, match="absent"):
        store.update(collection, "absent", payload={})
    with pytest.raises(NotFoundError):
        store.update(collection, "absent")
    store.apply(collection, [row("a")])
    with pytest.raises(InvalidInputError):
        store.update(collection, "a", np.ones(DIMENSION + 1, np.float32))
    with pytest.raises(InvalidInputError):
        store.update(collection, "a", payload={"x": {1, 2}})
    assert store.get(collection, "a").payload == row("a").payload


def test_get_many_keeps_the_order_and_skips_what_is_absent(store: Sync, collection: str) -> None:
    store.apply(collection, [row(str(number)) for number in range(1200)])
    asked = ["7", "absent", "3", "1199", "7"]
    assert ids(store.get_many(collection, asked)) == ["7", "3", "1199", "7"]
    everything = [str(number) for number in reversed(range(1200))]
    assert ids(store.get_many(collection, everything)) == everything
    assert store.get_many(collection, []) == []
    assert store.get(collection, "absent") is None


def test_delete_of_nothing_is_no_error(store: Sync, collection: str) -> None:
    store.delete(collection, "absent")
    assert store.count(collection) == 0


# ------------------------------------------------------------------ life


def test_a_store_that_is_not_open_says_so(shelf: Shelf) -> None:
    unopened = shelf.make()
    with pytest.raises(VectorStoreError, match="open"):
        unopened.list_collections()
    unopened.close()


def test_open_and_close_may_be_repeated(shelf: Shelf, store: Sync) -> None:
    store.open()
    name = store.identity()
    assert name
    assert store.identity() == name
    if shelf.entry.shared or not shelf.durable:
        other = shelf.open()
        other.open()
        other.close()
        other.close()
        with pytest.raises(VectorStoreError):
            other.list_collections()
        other.open()
        assert other.identity()
        other.close()


def test_check_sync_and_scrub_of_a_sound_store(store: Sync, collection: str) -> None:
    store.apply(collection, [row("a"), row("b", None)])
    store.sync()
    assert store.check(collection) == []
    assert store.scrub() is True
    assert store.check(collection) == []
    assert ids(store.list(collection)) == ["a", "b"]
    assert ids(store.search(collection, vector(1), 5, eq("user_id", "alice"))) == ["a"]
