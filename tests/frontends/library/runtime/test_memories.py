"""AgentRuntime's memories: created, read, changed and deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from perdure import AgentRuntime, InvalidInputError
from perdure.frontends.library.runtime import MemoryType, RuntimeMemory
from tests.frontends.library.runtime.runtimes import ANA, BEN, ROOM, awaited, opened, said, texts

pytestmark = pytest.mark.covers(
    "C1",
    "C2",
    "C3",
    "C4",
    "C5",
    "C6",
    "C7",
    "C8",
    "C9",
    "C24",
    "Z1",
    "Z2",
    "Z3",
    "Z4",
    "Z5",
    "Z6",
    "Z7",
    "Z8",
    "Z9",
    "Z10",
    "Z11",
    "Z12",
    "Z13",
    "Z14",
    "Z15",
    "Z16",
    "Z17",
    "Z18",
    "Z19",
    "Z24",
    "Z25",
    "Z26",
    "Z27",
    "Z28",
    "Z29",
    "Z30",
)

STORES = pytest.mark.parametrize("store", ["sqlite", "memory"])


# ------------------------------------------------------------------ what a memory is: Z1 to Z5, Z11
@pytest.mark.covers("Z2", "Z3", "Z4")
@STORES
@awaited
async def test_every_field_comes_back_as_it_was_given(folder: Path, store: str) -> None:
    content = {"text": "Hi there", "action": "WAVE", "mentions": [{"id": 7}], "rate": 0.5, "none": None}
    given = {
        "id": str(uuid4()),
        "entityId": ANA,
        "agentId": "agent",
        "createdAt": 1_767_225_600_123,
        "content": content,
        "embedding": [round(1 / (place + 2), 6) for place in range(384)],
        "roomId": ROOM,
        "worldId": "world-1",
        "unique": False,
        "metadata": {"type": "message", "sourceId": "m-1", "tags": ["a", "b"], "timestamp": 5},
    }
    async with opened(folder, store=store) as runtime:
        assert await runtime.create_memory(given, "messages") == given["id"]
        memory = await runtime.get_memory_by_id(given["id"])
        assert memory is not None
        assert memory.model_dump() == given
        assert (memory["entityId"], memory["entity_id"], memory.entityId, memory.get("similarity")) == (
            ANA, ANA, ANA, None,
        )  # fmt: skip
        assert "similarity" not in memory
        for name in ("nothing", "no_field"):
            with pytest.raises(KeyError):
                memory[name]
            with pytest.raises(AttributeError):
                getattr(memory, name)


@pytest.mark.covers("Z11")
@awaited
async def test_a_memory_needs_neither_room_nor_entity_nor_metadata(folder: Path) -> None:
    async with opened(folder) as runtime:
        id = await runtime.create_memory({"content": {"text": "Alone"}}, "memories")
        memory = await runtime.get_memory_by_id(id)
        assert memory is not None
        assert UUID(id).version == 4
        assert (memory.entity_id, memory.metadata, memory.agent_id) == (None, {}, "agent")
        assert memory.room_id == "agent", "C19: the agent's own room"
        assert memory.created_at is not None
        assert memory.created_at > 1_700_000_000_000


@pytest.mark.covers("Z3")
@awaited
async def test_a_content_without_text_is_kept_and_has_no_vector(folder: Path) -> None:
    async with opened(folder) as runtime:
        ids = [
            await runtime.create_memory({"content": {"action": action}, "unique": True}, "messages")
            for action in ("JOIN", "LEAVE", "JOIN")
        ]
        assert ids[0] == ids[2] != ids[1]
        found = await runtime.get_memories(table_name="messages")
        assert [memory.content for memory in found] == [
            {"text": "", "action": "LEAVE"}, {"text": "", "action": "JOIN"},
        ]  # fmt: skip
        assert [memory.embedding for memory in found] == [None, None]


@pytest.mark.covers("Z4")
@awaited
async def test_a_fragment_names_its_document_and_its_position(folder: Path) -> None:
    async with opened(folder) as runtime:
        good = {"type": MemoryType.FRAGMENT, "documentId": str(uuid4()), "position": 0}
        await runtime.create_memory(said("a piece", metadata=good), "fragments")
        for wrong in (
            {"documentId": None},
            {"documentId": 4},
            {"position": None},
            {"position": -1},
            {"position": True},
        ):
            with pytest.raises(InvalidInputError, match=f"metadata.{next(iter(wrong))}"):
                await runtime.create_memory(said("a piece", metadata={**good, **wrong}), "fragments")
        assert len(await runtime.get_memories(table_name="fragments")) == 1


@pytest.mark.covers("C1")
@awaited
async def test_a_document_has_a_timestamp_and_a_given_one_stays(folder: Path) -> None:
    async with opened(folder) as runtime:
        for stamp in (None, 17):
            given = {"type": "document"} if stamp is None else {"type": "document", "timestamp": stamp}
            id = await runtime.create_memory(said("a document", metadata=given, createdAt=5), "documents")
            memory = await runtime.get_memory_by_id(id)
            assert memory is not None
            assert memory.metadata["timestamp"] == (stamp or 5)


@pytest.mark.covers("Z5")
@awaited
async def test_tables_are_isolated_and_any_name_is_one(folder: Path) -> None:
    async with opened(folder) as runtime:
        tables = ["messages", "facts", "documents", "fragments", "memories", "tasks", "my own table", "日記"]
        for table in tables:
            await runtime.create_memory(said(f"in {table}"), table)
        for table in tables:
            assert texts(await runtime.get_memories(table_name=table)) == [f"in {table}"]
            assert texts(await runtime.search_memories(table_name=table, query="in")) == [f"in {table}"]
        for name in ("", "  ", None, 4, "x" * 201, "a\x00b", "summaries"):
            with pytest.raises(InvalidInputError, match="tableName"):
                await runtime.create_memory(said("nowhere"), name)  # type: ignore[arg-type]


@pytest.mark.covers("C3")
@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"content": "text"}, "content"),
        ({"content": {"text": 4}}, "content.text"),
        ({"content": {"text": "a", "other": float("nan")}}, "content"),
        ({"content": {"text": "\ud800"}}, "content"),
        ({"metadata": [1]}, "metadata"),
        ({"metadata": {"user_id": "eve"}}, "metadata.user_id"),
        ({"metadata": {"type": 4}}, "metadata.type"),
        ({"createdAt": "yesterday"}, "created_at"),
        ({"createdAt": -1}, "created_at"),
        ({"unique": "yes"}, "unique"),
        ({"entityId": 7}, "entity_id"),
        ({"roomId": ["a"]}, "room_id"),
        ({"roomId": ""}, "room_id"),
        ({"agentId": ""}, "agent_id"),
        ({"id": 7}, "id"),
        ({"embedding": [0.1]}, "embedding"),
        ({"embedding": "no"}, "embedding"),
        ({"embedding": [0.1] * 383 + [float("inf")]}, "embedding[383]"),
        ({"embedding": [0.1] * 383 + [None]}, "embedding[383]"),
        ({"entitiId": ANA}, "entitiId"),
        ({"entityId": ANA, "entity_id": ANA}, "entity_id"),
    ],
)
@awaited
async def test_what_is_wrong_is_named_and_nothing_is_kept(folder: Path, wrong: dict[str, Any], field: str) -> None:
    async with opened(folder) as runtime:
        with pytest.raises(InvalidInputError) as raised:
            await runtime.create_memory({"content": {"text": "a"}, **wrong}, "messages")
        assert raised.value.field == field
        assert await runtime.get_memories(table_name="messages") == []
    for nothing in (None, "text", 4):
        async with opened(folder) as runtime:
            with pytest.raises(InvalidInputError, match="memory must be an object"):
                await runtime.create_memory(nothing, "messages")  # type: ignore[arg-type]


# ------------------------------------------------------------------ ids: C3, C22, C24
@pytest.mark.covers("C3", "C24")
@STORES
@awaited
async def test_the_same_id_again_changes_nothing(folder: Path, store: str) -> None:
    async with opened(folder, store=store) as runtime:
        id = await runtime.create_memory(said("first", id=str(uuid4())), "messages")
        assert await runtime.create_memory(said("second", id=id), "facts") == id
        [memory] = await runtime.get_memories(table_name="messages")
        assert (memory.id, memory.content["text"]) == (id, "first")
        assert await runtime.get_memories(table_name="facts") == []
        await runtime.delete_memory(id)
        assert await runtime.create_memory(said("third", id=id), "messages") == id
        assert texts(await runtime.get_memories(table_name="messages")) == ["third"]


@pytest.mark.covers("C22")
@awaited
async def test_an_id_may_be_any_text(folder: Path) -> None:
    async with opened(folder) as runtime:
        id = await runtime.create_memory(said("by its own name", id="greeting-1"), "messages")
        assert await runtime.create_memory(said("again", id="greeting-1"), "messages") == id
        for name in (id, "greeting-1"):
            memory = await runtime.get_memory_by_id(name)
            assert memory is not None
            assert memory.content["text"] == "by its own name"
        await runtime.delete_memory("greeting-1")
        assert await runtime.get_memory_by_id(id) is None


# ------------------------------------------------------------------ reading: Z7, Z9, Z15 to Z19; C5, C6, C24
async def _talk(runtime: AgentRuntime, count: int, **fields: Any) -> list[str]:
    return [
        await runtime.create_memory(said(f"message {place}", createdAt=1_000 + place, **fields), "messages")
        for place in range(count)
    ]


@pytest.mark.covers("C5", "Z7", "Z9")
@STORES
@awaited
async def test_newest_first_by_entity_room_and_count(folder: Path, store: str) -> None:
    async with opened(folder, store=store) as runtime:
        ids = await _talk(runtime, 12)
        other = await runtime.create_memory(said("elsewhere", entityId=BEN, roomId="room-2", createdAt=1), "messages")
        found = await runtime.get_memories(table_name="messages", room_id=ROOM, count=10)
        assert [memory.id for memory in found] == ids[:1:-1]
        assert all(memory.embedding for memory in found), "C5: the vector is there"
        for scope in ({"entity_id": BEN}, {"room_id": "room-2"}):
            [memory] = await runtime.get_memories(table_name="messages", **scope)
            assert memory.id == other
        assert await runtime.get_memories(table_name="messages", entity_id="nobody") == []
        assert len(await runtime.get_memories(table_name="messages")) == 13, "no count is no bound"


@pytest.mark.covers("C24")
@awaited
async def test_pages_of_two_two_and_one_and_offsets_of_every_kind(folder: Path) -> None:
    async with opened(folder) as runtime:
        ids = (await _talk(runtime, 5))[::-1]
        pages = [
            [memory.id for memory in await runtime.get_memories(table_name="messages", count=2, offset=offset)]
            for offset in (0, 2, 4)
        ]
        assert pages == [ids[:2], ids[2:4], ids[4:]]
        for offset, rest in ((0, ids), (2, ids[2:]), (5, []), (99, [])):
            found = await runtime.get_memories({"tableName": "messages", "offset": offset})
            assert [memory.id for memory in found] == rest
        assert await runtime.count_memories(ROOM, False, "messages") == 5
        for offset in (-1, "2", True, 1.5):
            with pytest.raises(InvalidInputError, match="offset must be a non-negative number"):
                await runtime.get_memories(table_name="messages", offset=offset)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="tableName is required"):
            await runtime.get_memories({"roomId": ROOM})
        for count in (0, -1, "2"):
            with pytest.raises(InvalidInputError, match="count"):
                await runtime.get_memories(table_name="messages", count=count)  # type: ignore[arg-type]


@pytest.mark.covers("Z16")
@STORES
@awaited
async def test_a_time_range_includes_both_its_ends(folder: Path, store: str) -> None:
    async with opened(folder, store=store) as runtime:
        await _talk(runtime, 5)
        for bounds, held in (
            ({"start": 1_001, "end": 1_003}, [3, 2, 1]),
            ({"start": 1_004}, [4]),
            ({"end": 1_000}, [0]),
            ({"start": 1_003, "end": 1_001}, []),
        ):
            found = await runtime.get_memories(table_name="messages", **bounds)
            assert texts(found) == [f"message {place}" for place in held]
        for last in (253_402_300_799_999, "9999-12-31T23:59:59.999Z"):
            assert len(await runtime.get_memories(table_name="messages", start=1_001, end=last)) == 4, "no end at all"
        by_clock = await runtime.create_memory(said("now"), "messages")
        made = await runtime.get_memory_by_id(by_clock)
        assert made is not None
        found = await runtime.get_memories(table_name="messages", start=made.created_at, end=made.created_at)
        assert [memory.id for memory in found] == [by_clock], "a moment between two milliseconds counts as the first"


@pytest.mark.covers("C6")
@awaited
async def test_by_ids_by_rooms_and_by_world(folder: Path) -> None:
    async with opened(folder) as runtime:
        ids = [
            await runtime.create_memory(said(f"in {room}", roomId=room, worldId="w", createdAt=place), "messages")
            for place, room in enumerate(("a", "b", "c"))
        ]
        found = await runtime.get_memories_by_ids([ids[0], str(uuid4()), ids[2], ids[0]])
        assert [memory.id for memory in found] == [ids[2], ids[0]]
        assert await runtime.get_memories_by_ids([]) == []
        assert await runtime.get_memories_by_ids(ids, "facts") == []
        found = await runtime.getMemoriesByRoomIds({"tableName": "messages", "roomIds": ["a", "c", "z"]})
        assert texts(found) == ["in c", "in a"]
        assert [memory.embedding for memory in found] == [None, None]
        found = await runtime.getMemoriesByRoomIds({"tableName": "messages", "roomIds": ["a", "c"], "limit": 1})
        assert texts(found) == ["in c"]
        assert await runtime.get_memories_by_room_ids(table_name="messages", room_ids=[]) == []
        assert texts(await runtime.getMemoriesByWorldId({"worldId": "w", "count": 2})) == ["in c", "in b"]
        assert await runtime.getMemoriesByWorldId({"worldId": "w", "tableName": "facts"}) == []
        assert texts(await runtime.get_all_memories()) == ["in c", "in b", "in a"]
        for wrong in ("abc", None, {"a": 1}):
            with pytest.raises(InvalidInputError, match="must be a list"):
                await runtime.get_memories_by_ids(ids=wrong)  # type: ignore[arg-type]


# ------------------------------------------------------------------ changing: Z24, C8, C24
@pytest.mark.covers("C24", "Z24")
@STORES
@awaited
async def test_content_and_metadata_are_replaced_each_by_itself(folder: Path, store: str) -> None:
    async with opened(folder, store=store) as runtime:
        first = said("likes tea", metadata={"type": "message", "tags": ["a"]})
        id = await runtime.create_memory({**first, "content": {"text": "likes tea", "mood": "calm"}}, "messages")

        async def now_is(content: dict[str, Any], metadata: dict[str, Any]) -> RuntimeMemory:
            memory = await runtime.get_memory_by_id(id)
            assert memory is not None
            assert (memory.content, memory.metadata) == (content, metadata)
            return memory

        before = await now_is({"text": "likes tea", "mood": "calm"}, {"type": "message", "tags": ["a"]})
        assert await runtime.update_memory({"id": id, "metadata": {"edited": True}})
        after = await now_is({"text": "likes tea", "mood": "calm"}, {"edited": True})
        assert after.embedding == before.embedding
        assert after.created_at == before.created_at
        assert await runtime.update_memory(id=id, content={"text": "likes coffee"})
        after = await now_is({"text": "likes coffee"}, {"edited": True})
        assert after.embedding != before.embedding
        assert await runtime.update_memory({"id": id, "embedding": before.embedding})
        assert (await now_is({"text": "likes coffee"}, {"edited": True})).embedding == before.embedding
        after.content = {"text": "likes water"}
        after.embedding = None
        assert await runtime.update_memory(after)
        await now_is({"text": "likes water"}, {"edited": True})
        assert await runtime.update_memory({"id": id, "unique": False})
        assert await runtime.get_memories(table_name="messages", unique=True) == []


@pytest.mark.covers("C8")
@awaited
async def test_an_unknown_id_is_false_and_a_wrong_change_changes_nothing(folder: Path) -> None:
    async with opened(folder) as runtime:
        id = await runtime.create_memory(said("likes tea", metadata={"type": "message"}), "messages")
        assert await runtime.update_memory({"id": str(uuid4()), "content": {"text": "no"}}) is False
        assert await runtime.update_memory({"id": id, "content": {"text": "likes tea"}}) is True
        for wrong, field in (
            ({"id": id, "content": "no"}, "content"),
            ({"id": id, "metadata": {"type": "fragment"}}, "metadata.documentId"),
            ({"id": id, "content": {"text": "no"}, "roomId": "elsewhere"}, "room_id"),
            ({"id": id, "content": {"text": "no"}, "createdAt": 5}, "created_at"),
            ({"content": {"text": "no"}}, "id"),
            ({"id": id, "contents": {"text": "no"}}, "contents"),
        ):
            with pytest.raises(InvalidInputError) as raised:
                await runtime.update_memory(wrong)
            assert raised.value.field == field
        memory = await runtime.get_memory_by_id(id)
        assert memory is not None
        assert (memory.content, memory.metadata) == ({"text": "likes tea"}, {"type": "message"})


@pytest.mark.covers("Z24")
@STORES
@awaited
async def test_what_was_read_and_changed_may_be_given_back(folder: Path, store: str) -> None:
    """The vector that it was read with is the old text's; another one is the caller's own."""
    async with opened(folder, store=store) as runtime:
        id = await runtime.create_memory(said("the sky is green", metadata={"type": "message"}), "messages")

        async def read() -> RuntimeMemory:
            memory = await runtime.get_memory_by_id(id)
            assert memory is not None
            return memory

        memory = await read()
        memory.content["text"] = "a pump in the cellar"
        assert await runtime.update_memory(memory)
        [found] = await runtime.search_memories(table_name="messages", query="a pump in the cellar")
        assert found.similarity > 0.99
        assert await runtime.search_memories(table_name="messages", query="green sky", match_threshold=0.5) == []
        memory = await read()
        memory.content["text"], memory.embedding = "a pump in the attic", [0.5] * 384
        assert await runtime.update_memory(memory)
        assert (await read()).embedding == [0.5] * 384
        assert await runtime.update_memory({"id": id, "entityId": ANA, "metadata": {}})
        assert (await read()).metadata == {}, "C8: the whole of it"


@pytest.mark.covers("C22")
@awaited
async def test_a_memorys_ids_may_be_uuids_as_those_of_tables_may(folder: Path) -> None:
    async with opened(folder) as runtime:
        room, ana = uuid4(), uuid4()
        await runtime.create_room(id=room, name="Kitchen")
        id = await runtime.create_memory({"content": {"text": "tea"}, "entityId": ana, "roomId": room}, "facts")
        [memory] = await runtime.get_memories(table_name="facts", room_id=room, entity_id=ana)
        assert (memory.id, memory.room_id, memory.entity_id) == (id, str(room), str(ana))
        assert await runtime.update_memory({"id": id, "roomId": room, "content": {"text": "coffee"}})
        assert await runtime.count_memories(room, table_name="facts") == 1
        assert await runtime.delete_room(room)
        assert await runtime.get_memory_by_id(id) is None
