"""AgentRuntime: agents, worlds and the other ways in share one store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest

from perdure import AgentRuntime, ConflictError, ForbiddenError, Memory, MemoryStore
from tests.conftest import Open
from tests.engine.transfer.transfers import export, load, rifts
from tests.frontends.library.runtime.runtimes import ANA, ROOM, awaited, opened, said, texts
from tests.frontends.library.runtime.test_memories import STORES

pytestmark = pytest.mark.covers("U2", "U7", "U22", "Z43", "Z44")


def over(memory: Memory, agent_id: str = "agent") -> AgentRuntime:
    return AgentRuntime(agent_id, memory)


# ------------------------------------------------------------------ worlds and agents
@pytest.mark.covers("Z43")
@STORES
@awaited
async def test_by_world_and_an_absent_world_is_allowed(folder: Path, store: str) -> None:
    async with opened(folder, store=store) as runtime:
        for world in ("w1", "w2", None):
            await runtime.create_memory(said(f"roses of {world}", worldId=world), "messages")
        assert texts(await runtime.get_memories(table_name="messages", world_id="w1")) == ["roses of w1"]
        found = await runtime.search_memories(table_name="messages", query="roses", worldId="w2")
        assert texts(found) == ["roses of w2"]
        assert len(await runtime.get_memories(table_name="messages")) == 3
        assert [memory.world_id for memory in await runtime.get_memories(table_name="messages")] == [None, "w2", "w1"]


@pytest.mark.covers("Z44")
@STORES
@awaited
async def test_neither_agent_sees_the_others_unless_it_asks_for_them(folder: Path, store: str) -> None:
    async with opened(folder, "a", store=store) as a:
        b = AgentRuntime("b", a._engine)
        mine = await a.create_memory(said("roses of a"), "messages")
        theirs = await b.create_memory(said("roses of b"), "messages")
        document = await b.process_document("a text of b", "Title")
        asked = {"tableName": "messages", "roomId": ROOM}
        assert texts(await a.get_memories(asked)) == ["roses of a"]
        assert texts(await a.get_memories({**asked, "agentId": "b"})) == ["roses of b"]
        assert texts(await b.search_memories({**asked, "query": "roses"})) == ["roses of b"]
        assert texts(await b.search_memories({**asked, "query": "roses", "agentId": "a"})) == ["roses of a"]
        assert await a.get_memory_by_id(theirs) is None
        assert (await a.get_memory_by_id(theirs, "b")) is not None
        assert await a.get_memories_by_ids([mine, theirs]) == await a.get_memories_by_ids([mine])
        assert await a.count_memories(ROOM, False, "messages") == 1
        assert texts(await a.get_memories_by_room_ids(table_name="messages", room_ids=[ROOM])) == ["roses of a"]
        assert texts(await a.get_all_memories()) == ["roses of a"]
        # Nor does it change or delete them, whatever it calls.
        assert await a.update_memory({"id": theirs, "content": {"text": "mine now"}}) is False
        await a.delete_memory(theirs)
        await a.delete_many_memories([theirs, document])
        await a.delete_all_memories(ROOM, "messages")
        await a.clear_all_agent_memories()
        assert texts(await b.get_memories(asked)) == ["roses of b"]
        assert len(await b.get_memories(table_name="fragments", document_id=document)) == 1
        with pytest.raises(ConflictError):
            await a.create_memory(said("taken", id=theirs), "messages")
        for_b = await a.create_memory(said("from a for b", agentId="b"), "messages")
        assert (await b.get_memory_by_id(for_b)) is not None
        assert await a.get_memory_by_id(for_b) is None


@pytest.mark.covers("C9")
@awaited
async def test_a_document_of_one_agent_takes_no_fragment_of_another(folder: Path) -> None:
    async with opened(folder, "a") as a:
        b = AgentRuntime("b", a._engine)
        document = await a.process_document("a text of a", "Title")
        piece = {"type": "fragment", "documentId": document, "position": 0}
        await b.create_memory(said("a note of b's", metadata=piece), "fragments")
        await a.delete_memory(document)
        assert texts(await b.get_memories(table_name="fragments")) == ["a note of b's"]


@pytest.mark.covers("U22")
def test_a_runtime_stays_inside_of_its_memorys_walls(open_memory: Open) -> None:
    memory = open_memory(embedder={"provider": "hashed"})

    @awaited
    async def check() -> None:
        inside, outside = over(memory.within(user_id=ANA, run_id=ROOM)), over(memory)
        id = await inside.create_memory({"content": {"text": "roses"}}, "facts")
        found = await inside.get_memory_by_id(id)
        assert found is not None
        assert (found.entity_id, found.room_id) == (ANA, ROOM)
        other = await outside.create_memory(said("tulips", entityId="ben"), "facts")
        assert await inside.get_memory_by_id(other) is None
        assert texts(await inside.get_memories(table_name="facts")) == ["roses"]
        await inside.delete_memory(other)
        assert await outside.get_memory_by_id(other) is not None
        for act in (
            lambda: inside.create_memory(said("x", entityId="ben"), "facts"),
            lambda: inside.get_memories(table_name="facts", entity_id="ben"),
            lambda: inside.delete_all_memories("elsewhere", "facts"),
        ):
            with pytest.raises(ForbiddenError):
                await act()
        with pytest.raises(ForbiddenError):
            AgentRuntime("other", memory.within(agent_id="agent"))

    check()


# ------------------------------------------------------------------ interchange
@pytest.mark.covers("U7")
@pytest.mark.parametrize("store", ["sqlite", "memory"])
def test_a_fact_of_the_runtime_is_a_memory_everywhere_with_the_same_history(open_memory: Open, store: str) -> None:
    memory = open_memory(embedder={"provider": "hashed"}, vector_store={"provider": store})
    ids: dict[str, str] = {}

    @awaited
    async def create() -> None:
        runtime = over(memory)
        given = said("User likes red roses", metadata={"tags": ["garden"]})
        given["content"]["mood"] = "calm"
        ids["fact"] = await runtime.create_memory(given, "facts")
        for table in ("messages", "documents", "fragments", "tasks", "my own"):
            ids[table] = await runtime.create_memory(said(f"red roses in {table}"), table)

    create()
    for scope in ({"user_id": ANA}, {"agent_id": "agent"}, {"run_id": ROOM}, {"user_id": ANA, "run_id": ROOM}):
        found = {item.id for item in memory.search("red roses", **scope).results}
        assert found == {ids["fact"], ids["messages"]}, "no other table is memory"
        assert [item.id for item in memory.get_all(**scope).results] == [ids["fact"]]
    assert memory.search("red roses", user_id="ben").results == []
    absence = memory.why_not(ids["my own"], "red roses", user_id=ANA)
    assert (absence.reason, absence.sentence) == (
        "kind",
        "it is one of the my own, and facts, notes, messages and files are searched",
    )
    item = memory.get(ids["fact"])
    assert item is not None
    assert (item.memory, item.metadata["tags"], item["content"]) == (
        "User likes red roses",
        ["garden"],
        {"mood": "calm"},
    )
    assert MemoryStore(memory).get(ids["fact"]).content == "User likes red roses"
    memory.update(ids["fact"], "User likes white roses")

    @awaited
    async def changed() -> None:
        found = await over(memory).get_memory_by_id(ids["fact"])
        assert found is not None
        assert found.content == {"text": "User likes white roses", "mood": "calm"}
        assert await over(memory).update_memory({"id": ids["fact"], "content": {"text": "User likes tulips"}})

    changed()
    history = memory.history(ids["fact"])
    assert [(each.event, each.actor) for each in history] == [
        ("ADD", "runtime"), ("UPDATE", "update"), ("UPDATE", "runtime"),
    ]  # fmt: skip
    memory.undo(history[-1].id)
    again = memory.get(ids["fact"])
    assert again is not None
    assert again.memory == "User likes white roses"


@pytest.mark.covers("U7")
def test_what_memory_keeps_is_there_for_the_runtime_where_scopes_allow(open_memory: Open) -> None:
    memory = open_memory(embedder={"provider": "hashed"}, episodes="search")
    scope = {"user_id": ANA, "agent_id": "agent", "run_id": ROOM}
    [event] = memory.add("I moved to Lisbon", **scope).results
    memory.add("I moved to Oslo", user_id="ben")

    @awaited
    async def check() -> None:
        runtime = over(memory)
        [fact] = await runtime.get_memories(table_name="facts", entity_id=ANA, room_id=ROOM)
        assert (fact.id, fact.content["text"]) == (event.id, event.memory)
        assert fact.unique is True
        [message] = await runtime.get_memories(table_name="messages")
        assert message.content["text"] == "I moved to Lisbon"
        [found] = await runtime.search_memories(table_name="facts", query="Lisbon", match_threshold=0.1)
        assert found.id == fact.id
        await runtime.delete_memory(fact.id)

    check()
    assert memory.get(event.id) is None
    assert [each.event for each in memory.history(event.id)] == ["ADD", "DELETE"]


@pytest.mark.covers("U7")
def test_messages_of_the_runtime_are_searched_where_messages_are(open_memory: Open) -> None:
    memory = open_memory(embedder={"provider": "hashed"}, episodes="search")
    asyncio.run(over(memory).create_memory(said("red roses", metadata={"type": "message"}), "messages"))
    [item] = memory.search("red roses", user_id=ANA).results
    assert (item.kind, item.role) == ("messages", "user")
    report = memory.forget(id=item.id)
    assert not report.pending
    assert memory.search("red roses", user_id=ANA).results == []
    assert all(record.erased for record in memory.history(item.id))


@pytest.mark.covers("C19")
@pytest.mark.covers("C19")
def test_what_a_memory_names_is_in_the_tables(open_memory: Open) -> None:
    memory = open_memory(embedder={"provider": "hashed"})

    @awaited
    async def check() -> None:
        runtime = over(memory)
        await runtime.create_memory(said("red roses", worldId="w"), "messages")
        [room] = await runtime.get_rooms_by_ids([ROOM])
        [entity] = await runtime.get_entities_by_ids([ANA])
        assert (room.id, entity.id) == (ROOM, ANA)
        await runtime.delete_room(ROOM)
        assert await runtime.get_memories(table_name="messages") == []

    check()


# ------------------------------------------------------------------ upkeep sees them like any other
@pytest.mark.covers("U2")
def test_doctor_finds_nothing_and_an_archive_carries_everything(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"

    @awaited
    async def fill() -> None:
        async with opened(here) as runtime:
            id = await runtime.create_memory(said("red roses", id="named"), "messages")
            await runtime.update_memory({"id": id, "content": {"text": "white roses", "mood": "calm"}})
            await runtime.create_memory(said("User likes tea", unique=True), "facts")
            gone = await runtime.create_memory(said("gone", id=str(uuid4())), "messages")
            await runtime.delete_memory(gone)
            await runtime.process_document("of lakes and rivers " * 120, "Waters")

    @awaited
    async def read(path: Path, dumps: list[object]) -> None:
        async with opened(path) as runtime:
            for table in ("messages", "facts", "documents", "fragments"):
                dumps.append([memory.model_dump() for memory in await runtime.get_memories(table_name=table)])

    fill()
    assert rifts(here) == []
    load(there, export(here))
    mine: list[object] = []
    theirs: list[object] = []
    read(here, mine)
    read(there, theirs)
    assert mine == theirs
    assert rifts(there) == []
