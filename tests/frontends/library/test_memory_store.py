"""MemoryStore: spec 001 §8's store, over real engines."""

from __future__ import annotations

import asyncio
import inspect
import json
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from perdure import (
    AsyncMemory,
    AsyncMemoryStore,
    ClosedError,
    ConfigError,
    ConflictError,
    InvalidInputError,
    Memory,
    MemoryStore,
    MemoryType,
    NotFoundError,
    ScopeError,
)
from tests.conftest import Open

pytestmark = pytest.mark.covers("V47", "V48", "V49", "V50", "V51", "V52", "V53", "V86")

FIELDS = {"id", "type", "content", "user_id", "project_id", "source", "created_at", "access_count", "importance"}
"""001 §8's struct, without the embedding."""


# ------------------------------------------------------------------ the surface: V47
@pytest.mark.covers("V47")
def test_every_operation_of_the_interface_in_both_colours() -> None:
    def surface(kind: type) -> dict[str, str]:
        members = inspect.getmembers(kind, inspect.isroutine)
        return {name: str(inspect.signature(each)) for name, each in members if not name.startswith("_")}

    assert surface(MemoryStore) == surface(AsyncMemoryStore)
    operations = {"store", "retrieve", "get", "update", "forget", "forget_by_scope", "is_enabled", "close"}
    assert operations <= {*surface(MemoryStore)}


@pytest.mark.covers("V47")
def test_stands_on_a_memory_of_its_colour(quick: Memory, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        MemoryStore(AsyncMemory({"path": str(tmp_path)}))  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        AsyncMemoryStore(quick)  # type: ignore[arg-type]


@pytest.mark.covers("V47")
def test_get_of_an_unknown_id_is_an_error(store: MemoryStore) -> None:
    for id in (str(uuid4()), f"mem_{uuid4().hex}", "no id at all"):
        for act in (store.get, store.forget, lambda id: store.update(id, "other")):
            with pytest.raises(NotFoundError):
                act(id)


@pytest.mark.covers("V47")
def test_enabled_until_closed_and_a_given_memory_stays_open(quick: Memory) -> None:
    with MemoryStore(quick) as store:
        assert store.is_enabled()
        stored = store.store("User likes tea", user_id="ana")
    assert not store.is_enabled()
    for act in (lambda: store.get(stored.id), lambda: store.list(user_id="ana")):
        with pytest.raises(ClosedError):
            act()
    store.close()
    assert quick.get(stored.id) is not None
    quick.close()
    assert not MemoryStore(quick).is_enabled()


@pytest.mark.covers("V3")
def test_not_enabled_where_the_store_cannot_be_opened(open_memory: Open, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    config = {"embedder": {"provider": "hashed"}, "vector_store": {"config": {"path": str(tmp_path / "file" / "m.db")}}}
    assert not MemoryStore(open_memory(**config)).is_enabled()


async def _local(path: Path) -> str:
    async with AsyncMemoryStore.local(path) as store:
        stored = await store.store("User likes tea", user_id="ana")
        return (await store.get(stored.id)).content


@pytest.mark.covers("V62")
@pytest.mark.covers("V62")
def test_local_stores_find_what_another_stored(tmp_path: Path) -> None:
    assert asyncio.run(_local(tmp_path)) == "User likes tea"
    with MemoryStore.local(tmp_path) as store:
        assert [memory.content for memory in store.list(user_id="ana").memories] == ["User likes tea"]


# ------------------------------------------------------------------ store and JSON: V48, V86
@pytest.mark.covers("V48")
def test_json_has_the_fields_of_the_spec_alone(store: MemoryStore) -> None:
    stored = store.store(
        {"type": "procedural", "content": "To deploy: run npm build", "user_id": "ana", "project_id": "shop",
         "source": "conversation", "importance": 0.75}
    )  # fmt: skip
    dump = json.loads(json.dumps(store.get(stored.id).model_dump()))
    assert {*dump} == FIELDS
    assert dump["id"] == stored.id
    assert dump["id"].startswith("mem_")
    assert UUID(dump["id"].removeprefix("mem_")).version == 4
    expected = {"type": "procedural", "content": "To deploy: run npm build", "user_id": "ana", "project_id": "shop"}
    assert expected.items() <= dump.items()
    assert {"source": "conversation", "importance": 0.75, "access_count": 0}.items() <= dump.items()
    assert "project_id" not in store.store("User likes tea", user_id="ana").model_dump()


@pytest.mark.covers("V48")
def test_both_forms_of_an_id_name_one_memory(store: MemoryStore) -> None:
    stored = store.store("User likes tea", user_id="ana")
    assert store.get(str(UUID(stored.id.removeprefix("mem_")))) == store.get(stored.id) == stored


@pytest.mark.covers("V86")
def test_fields_stand_in_the_object_or_beside_it(store: MemoryStore) -> None:
    for memory, beside in (
        ("User likes tea", {"user_id": "ana", "type": MemoryType.REFLECTIVE}),
        ({"content": "User likes tea", "user_id": "ana"}, {"type": "reflective"}),
        ({"content": "User likes tea", "user_id": "ana", "type": "reflective"}, {}),
    ):
        stored = store.store(memory, **beside)
        assert (stored.content, stored.user_id, stored.type) == ("User likes tea", "ana", "reflective")


@pytest.mark.covers("V86")
@pytest.mark.parametrize(
    ("memory", "beside", "field"),
    [
        ({"content": "x", "user_id": "ana"}, {"user_id": "bo"}, "user_id"),
        ({"content": " "}, {"user_id": "ana"}, "content"),
        ({}, {"user_id": "ana"}, "content"),
        ({"content": "x", "colour": "red"}, {"user_id": "ana"}, "colour"),
        ({"content": "x", "embedding": [0.1]}, {"user_id": "ana"}, "embedding"),
        ({"content": "x", "created_at": "2020-01-01"}, {"user_id": "ana"}, "created_at"),
        ({"content": "x", "access_count": 3}, {"user_id": "ana"}, "access_count"),
        ("x", {"user_id": "ana", "type": "fact"}, "type"),
        ("x", {"user_id": "ana", "importance": 1.5}, "importance"),
        ("x", {"user_id": "ana", "source": ""}, "source"),
        ("x", {"user_id": "ana", "id": "mem_7"}, "id"),
        ("x", {"user_id": ""}, "user_id"),
        ("x", {"user_id": "ana", "project_id": ""}, "project_id"),
        (7, {"user_id": "ana"}, "memory"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_stored(
    quick: Memory, memory: object, beside: dict[str, object], field: str
) -> None:
    store = MemoryStore(quick)
    with pytest.raises(InvalidInputError) as error:
        store.store(memory, **beside)  # type: ignore[arg-type]
    assert error.value.field == field
    assert store.list(user_id="ana").total == 0


@pytest.mark.covers("V53")
def test_no_memory_without_a_user(quick: Memory) -> None:
    store = MemoryStore(quick)
    for act in (
        lambda: store.store("x"),
        lambda: store.retrieve("x"),
        store.list,
        store.forget_by_scope,
        lambda: store.forget_by_scope(project_id="shop"),
    ):
        with pytest.raises(ScopeError):
            act()


@pytest.mark.covers("V86")
def test_an_id_of_ones_own_serves_once(store: MemoryStore) -> None:
    id = f"mem_{uuid4().hex}"
    assert store.store("User likes tea", user_id="ana", id=id).id == id
    for user in ("ana", "bo"):
        with pytest.raises(ConflictError):
            store.store("User likes coffee", user_id=user, id=id)
    assert store.get(id).content == "User likes tea"
    store.forget(id, erase=False)
    with pytest.raises(ConflictError):
        store.store("User likes coffee", user_id="ana", id=id)


@pytest.mark.covers("V86")
def test_equal_texts_stay_two_memories(store: MemoryStore) -> None:
    assert len({store.store("User likes tea", user_id="ana").id for _ in range(2)}) == 2
    assert store.list(user_id="ana").total == 2


@pytest.mark.covers("V86")
def test_a_stored_memory_is_corrected_by_what_is_said_later(memory: Memory) -> None:
    stored = MemoryStore(memory).store("User lives in Lisbon", user_id="ana")
    memory.add("I moved to Porto", user_id="ana")
    texts = [item.memory for item in memory.get_all(user_id="ana").results]
    assert texts == [MemoryStore(memory).get(stored.id).content]
    assert "Porto" in texts[0]


# ------------------------------------------------------------------ update: V86
@pytest.mark.covers("V86")
def test_update_keeps_the_id_and_can_be_undone(quick: Memory) -> None:
    store = MemoryStore(quick)
    stored = store.store("Budget for Hawaii is $10,000", user_id="ana", source="api", importance=0.9)
    updated = store.update(stored.id, "Budget for Hawaii is $15,000", type="episodic")
    assert (updated.id, updated.type, updated.importance) == (stored.id, "episodic", 0.9)
    assert updated.created_at == stored.created_at < updated.updated_at
    found = store.retrieve("budget Hawaii $15,000", user_id="ana", threshold=0.0)
    assert [result.memory.content for result in found] == ["Budget for Hawaii is $15,000"]
    event = quick.history(stored.id)[-1]
    assert (event.event, event.old_value) == ("UPDATE", "Budget for Hawaii is $10,000")
    quick.undo(event.id)
    assert (store.get(stored.id).content, store.get(stored.id).type) == ("Budget for Hawaii is $10,000", "semantic")


@pytest.mark.covers("V86")
def test_a_whole_memory_comes_back_changed(store: MemoryStore) -> None:
    stored = store.store("User likes tea", user_id="ana", project_id="shop")
    whole = store.get(stored.id).model_dump()
    assert store.update(stored.id, {**whole, "content": "User likes coffee"}).content == "User likes coffee"
    for field, value in (("id", f"mem_{uuid4().hex}"), ("user_id", "bo"), ("project_id", "other")):
        with pytest.raises(InvalidInputError) as error:
            store.update(stored.id, {**whole, field: value})
        assert error.value.field == field
    with pytest.raises(InvalidInputError):
        store.update(stored.id)
    assert store.get(stored.id).user_id == "ana"


@pytest.mark.covers("V86")
def test_an_update_to_what_stands_is_no_event(quick: Memory) -> None:
    store = MemoryStore(quick)
    stored = store.store("User likes tea", user_id="ana")
    assert store.update(stored.id, "User likes tea", importance=0.5) == stored
    assert len(quick.history(stored.id)) == 1
