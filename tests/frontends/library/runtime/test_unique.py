"""AgentRuntime: what `unique` means, and deleting."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from perdure import AgentRuntime, InvalidInputError
from tests.frontends.library.runtime.runtimes import ANA, BEN, ROOM, awaited, opened, said, texts
from tests.frontends.library.runtime.test_memories import STORES

pytestmark = pytest.mark.covers("C4", "C9", "U8", "Z15", "Z17", "Z25", "Z26", "Z27", "Z28", "Z29", "Z30")


@pytest.mark.covers("Z28", "Z29")
@STORES
@pytest.mark.parametrize("how", ["field", "position", "keyword"])
@awaited
async def test_unique_twice_is_one(folder: Path, store: str, how: str) -> None:
    async def create(runtime: AgentRuntime, text: str) -> str:
        if how == "field":
            return await runtime.create_memory(said(text, unique=True), "facts")
        if how == "position":
            return await runtime.createMemory(said(text), "facts", True)
        return await runtime.create_memory(memory=said(text), tableName="facts", unique=True)

    async with opened(folder, store=store) as runtime:
        first = await create(runtime, "User is 25 years old")
        for again in ("User is 25 years old", " user is  25 years old. ", "ＵＳＥＲ is 25 years old!"):
            assert await create(runtime, again) == first
        assert await create(runtime, "User is 26 years old") != first
        assert len(await runtime.get_memories(table_name="facts")) == 2


@pytest.mark.covers("C4")
@STORES
@awaited
async def test_unique_is_of_one_table_room_entity_and_agent(folder: Path, store: str) -> None:
    async with opened(folder, store=store) as runtime:
        ids = {await runtime.create_memory(said("User likes tea", unique=True), "facts")}
        apart: list[dict[str, Any]] = [{"entityId": BEN}, {"entityId": None}, {"roomId": "b"}, {"worldId": "w"}]
        for other in apart:
            for _ in range(2):
                ids.add(await runtime.create_memory(said("User likes tea", unique=True, **other), "facts"))
        ids.add(await runtime.create_memory(said("User likes tea", unique=True), "memories"))
        ids.add(await runtime.create_memory(said("User likes tea", unique=True, agentId="other"), "facts"))
        assert len(ids) == 7


@pytest.mark.covers("C4")
@awaited
async def test_a_vector_as_near_is_the_same_unless_the_words_tell_different_facts(folder: Path) -> None:
    near = [0.01] * 384
    async with opened(folder) as runtime:

        async def create(text: str, **fields: Any) -> str:
            return await runtime.create_memory(said(text, **{"embedding": near, **fields}), "facts", True)

        assert await create("User enjoys tea") == await create("User likes tea")
        for one, other in (
            ("The meeting with Anna is on Monday", "The meeting with Anna is on Tuesday"),
            ("User visited Rome in 2021", "User visited Rome in 2023"),
            ("User met Clara at the fair", "User met Dieter at the fair"),
            ("User is allergic to peanuts", "User is not allergic to peanuts"),
            ("User is not married", "User is married"),
            ("User never drinks coffee after lunch", "User always drinks coffee after lunch"),
            ("The client moved the deadline forward", "The client moved the deadline back"),
            ("User likes tea", "User likes tea with much milk"),
        ):
            room = str(uuid4())
            assert await create(one, roomId=room) != await create(other, roomId=room), "U8"
        long = "Dear all, here are the minutes of the meeting. " * 7  # of which a model reads the beginning
        ids = [await create(f"{long} {end}") for end in ("We go.", "We stay.", "we  go!")]
        assert ids[0] == ids[2] != ids[1]
        far = [0.01 if place % 2 else -0.01 for place in range(384)]
        assert await create("User is fond of tea", embedding=far) != await create("User likes tea")


@pytest.mark.covers("Z15", "Z17", "Z30")
@awaited
async def test_not_given_always_inserts_and_tells_by_its_flag_what_is_like_another(folder: Path) -> None:
    async with opened(folder) as runtime:
        for _ in range(3):
            await runtime.create_memory(said("User likes tea"), "facts")
        await runtime.create_memory(said("User rides a horse", unique=False), "facts")
        every = await runtime.get_memories(table_name="facts", unique=False, count=50)
        assert [memory.unique for memory in every] == [False, False, False, True]
        assert len(await runtime.get_memories(table_name="facts", unique=False, count=3)) == 3
        assert [m.id for m in await runtime.get_memories(table_name="facts", unique=True)] == [every[3].id]
        found = await runtime.search_memories(table_name="facts", query="User likes tea", unique=True)
        assert [memory.id for memory in found] == [every[3].id]
        assert await runtime.count_memories(ROOM, table_name="facts") == 1
        assert await runtime.count_memories({"roomId": ROOM, "unique": False, "tableName": "facts"}) == 4


@pytest.mark.covers("Z28")
@awaited
async def test_many_at_once_leave_one(folder: Path) -> None:
    async with opened(folder) as runtime:
        ids = await asyncio.gather(*(runtime.create_memory(said("User likes tea"), "facts", True) for _ in range(8)))
        assert len({*ids}) == 1
        assert len(await runtime.get_memories(table_name="facts")) == 1


# ------------------------------------------------------------------ deleting
@pytest.mark.covers("Z25", "Z26", "Z27")
@STORES
@awaited
async def test_gone_from_every_read_and_nothing_else(folder: Path, store: str) -> None:
    async with opened(folder, store=store) as runtime:
        ids = [await runtime.create_memory(said(f"cat {place}"), "messages") for place in range(120)]
        fact = await runtime.create_memory(said("cat fact"), "facts")
        there = await runtime.create_memory(said("cat there", roomId="room-2"), "messages")
        await runtime.delete_memory(ids[0])
        assert await runtime.get_memory_by_id(ids[0]) is None
        for absent in (ids[0], str(uuid4()), "never was"):
            await runtime.delete_memory(absent)
        await runtime.delete_many_memories(ids[:101])
        await runtime.delete_many_memories([])
        kept = [*texts(await runtime.get_memories(table_name="messages", room_id=ROOM))]
        assert kept == [f"cat {place}" for place in range(119, 100, -1)]
        found = await runtime.search_memories(table_name="messages", query="cat", count=200)
        assert len(found) == 20
        await runtime.delete_all_memories(ROOM, "messages")
        assert [memory.id for memory in await runtime.get_memories(table_name="messages")] == [there]
        assert await runtime.get_memory_by_id(fact) is not None
        for missing in (None, ""):
            with pytest.raises(InvalidInputError, match="roomId is required"):
                await runtime.delete_all_memories(room_id=missing, table_name="messages")  # type: ignore[arg-type]
        await runtime.clear_all_agent_memories()
        assert await runtime.get_all_memories() == []
        assert await runtime.get_memories(table_name="facts", entity_id=ANA) == []
