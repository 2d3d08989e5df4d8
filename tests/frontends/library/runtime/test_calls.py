"""How the runtime's methods are called: in either case, with keywords or the spec's one dictionary."""

from __future__ import annotations

import asyncio
import inspect
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import AgentRuntime, AsyncMemory, ConfigError, InvalidInputError, Memory, MemoryType
from perdure.domain.runtime import camel, snake
from perdure.domain.stored_memory import STORED_TYPES
from perdure.frontends.library import runtime as package
from perdure.frontends.library.runtime.base import EitherCase
from tests.frontends.library.runtime.runtimes import awaited, opened, said, texts

pytestmark = pytest.mark.covers("C22")

MEMORY_METHODS = (
    "createMemory",
    "getMemories",
    "getMemoryById",
    "getMemoriesByIds",
    "getMemoriesByRoomIds",
    "getMemoriesByWorldId",
    "searchMemories",
    "updateMemory",
    "deleteMemory",
    "deleteManyMemories",
    "deleteAllMemories",
    "countMemories",
    "getCachedEmbeddings",
    "ensureEmbeddingDimension",
    "addEmbeddingToMemory",
    "queueEmbeddingGeneration",
    "getAllMemories",
    "clearAllAgentMemories",
    "rerankMemories",
    "useModel",
    "processDocument",
)
"""C2, and what the spec's own examples call."""


@pytest.mark.covers("C2")
def test_every_method_has_both_names_and_one_signature() -> None:
    for name in MEMORY_METHODS:
        method = getattr(AgentRuntime, name)
        assert method is getattr(AgentRuntime, snake(name))
        assert inspect.iscoroutinefunction(method)
        assert "self" in inspect.signature(method).parameters
        assert method.__doc__
    public = [name for name, _ in inspect.getmembers(AgentRuntime, inspect.isfunction) if not name.startswith("_")]
    assert {camel(name) for name in public} <= {*public}
    assert "agentId" in dir(AgentRuntime)


@pytest.mark.covers("C22")
@awaited
async def test_keywords_dictionary_and_position_say_the_same(folder: Path) -> None:
    async with opened(folder) as runtime:
        assert (runtime.agent_id, runtime.agentId) == ("agent", "agent")
        id = await runtime.createMemory({"memory": said("red roses"), "tableName": "messages"})
        for found in (
            await runtime.getMemories({"tableName": "messages", "room_id": "room-1"}),
            await runtime.get_memories(tableName="messages", roomId="room-1"),
            await runtime.get_memories_by_ids([id], "messages"),
            await runtime.getMemoriesByIds({"ids": [id], "tableName": "messages"}),
            await runtime.search_memories({"table_name": "messages", "query": "roses"}),
        ):
            assert texts(found) == ["red roses"]
        for memory in (await runtime.getMemoryById(id), await runtime.get_memory_by_id({"id": id})):
            assert memory is not None
        assert await runtime.countMemories("room-1", tableName="messages") == 1
        for wrong, hint in (
            ({"tableNam": "messages"}, "did you mean tableName?"),
            ({"tableName": "messages", "colour": 1}, "it has tableName"),
            ({"tableName": "messages", "table_name": "facts"}, "twice"),
            ({}, "tableName is required"),
        ):
            with pytest.raises(InvalidInputError, match=re.escape(hint)):
                await runtime.get_memories(wrong)
        with pytest.raises(InvalidInputError, match="memoryId twice"):
            await runtime.delete_memory(id, memoryId=id)
        with pytest.raises(TypeError, match="by position"):
            await runtime.delete_memory(id, id)  # type: ignore[call-arg]
        assert await runtime.get_memory_by_id(id) is not None


@pytest.mark.covers("C22")
@awaited
async def test_a_dictionary_is_taken_apart_where_it_can_be_nothing_else(folder: Path) -> None:
    async with opened(folder) as runtime:
        assert await runtime.getTasks({}) == await runtime.getDueTasks({}) == await runtime.getAllWorlds({}) == []
        for call, hint in (
            (lambda: runtime.getTasks({"romId": "lobby"}), "did you mean roomId?"),
            (lambda: runtime.searchEntitiesByName({"query": "ann", "limits": 3}), "did you mean limit?"),
            (lambda: runtime.countMemories({"roomId": "lobby", "tableNam": "facts"}), "did you mean tableName?"),
            (lambda: runtime.processDocument({"text": "t", "titel": "T"}), "did you mean title?"),
            (lambda: runtime.getMemoryById({}), "id is required"),
            (lambda: runtime.process_document("t", "T", metadata=["m"]), "metadata must be an object"),
            (lambda: runtime.rerank_memories("q", None), "memories must be a list"),
            (lambda: runtime.emit_event(["E"]), "event must be text"),
        ):
            with pytest.raises(InvalidInputError, match=re.escape(hint)):
                await call()


class Shop(EitherCase):
    async def sell(self, item: object, *, unit_price: int = 1) -> tuple[object, int]:
        """A method of each form."""
        return item, unit_price


@pytest.mark.covers("C22")
@given(st.dictionaries(st.sampled_from(["item", "unit_price", "unitPrice", "other"]), st.integers(), max_size=3))
def test_a_lone_dictionary_is_taken_apart_only_where_every_key_is_a_parameter(values: dict[str, int]) -> None:
    known = {snake(name) for name in values} <= {"item", "unit_price"}
    try:
        item, price = asyncio.run(Shop().sell(values))
    except InvalidInputError:
        assert known
        assert "item" not in values or {"unit_price", "unitPrice"} <= {*values}
    else:
        if known and values:
            assert (item, price) == (values["item"], values.get("unit_price", values.get("unitPrice", 1)))
        else:
            assert (item, price) == (values, 1)


@pytest.mark.covers("C22")
@given(st.from_regex(r"[a-z]{2,}(_[a-z]{2,})*", fullmatch=True))
def test_a_name_goes_there_and_back(name: str) -> None:
    assert snake(camel(name)) == snake(name) == name


# ------------------------------------------------------------------ opening
@awaited
async def test_it_opens_a_folder_or_stands_on_a_memory_that_stays_open(tmp_path: Path) -> None:
    config = {"path": str(tmp_path / "m"), "embedder": {"provider": "hashed"}}
    async with AsyncMemory(config) as memory:
        async with AgentRuntime("one", memory) as runtime:
            id = await runtime.create_memory(said("red roses"), "facts")
        async with AgentRuntime("one", memory._engine) as runtime:
            assert await runtime.get_memory_by_id(id) is not None
        assert await memory.get(id) is not None
    with Memory(config) as blocking:
        assert await AgentRuntime("one", blocking).get_memory_by_id(id) is not None
    async with AgentRuntime.local(tmp_path / "local", agent_id="one") as runtime:
        assert (tmp_path / "local").parent.exists()
        assert await runtime.get_memories(table_name="facts") == []
    await runtime.close()
    for wrong in (None, "a path", {"path": "."}):
        with pytest.raises(ConfigError, match="AgentRuntime"):
            AgentRuntime("one", wrong)  # type: ignore[arg-type]
    for agent in ("", None, 4):
        with pytest.raises(InvalidInputError, match="agent_id"):
            AgentRuntime.local(tmp_path, agent_id=agent)  # type: ignore[arg-type]


@pytest.mark.covers("U17")
@pytest.mark.covers("U17")
def test_one_enum_has_both_vocabularies_and_001_takes_its_own_alone() -> None:
    assert perdure.MemoryType is package.MemoryType is MemoryType
    assert [*MemoryType][4:] == ["document", "fragment", "message", "description", "custom"]
    assert [MemoryType(name) for name in STORED_TYPES] == [*MemoryType][:4]
    assert "AgentRuntime" in dir(perdure)
