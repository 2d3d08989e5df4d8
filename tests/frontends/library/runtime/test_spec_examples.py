"""Every code block of spec 003, in its order, line by line in Python: names and objects are the spec's own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from perdure import AgentRuntime
from perdure.backends.embedders.minilm import MiniLMEmbedder
from perdure.frontends.library.runtime import MemoryType, ModelType
from tests.frontends.library.runtime.runtimes import awaited

DAY = 24 * 60 * 60 * 1000
user_id = "11111111-1111-4111-8111-111111111111"
agent_id = "22222222-2222-4222-8222-222222222222"
room_id = "33333333-3333-4333-8333-333333333333"

pytestmark = pytest.mark.usefixtures("loaded_model")


def now() -> int:
    return int(time.time() * 1000)


def local(path: Path) -> AgentRuntime:
    return AgentRuntime.local(path, agent_id=agent_id)


@pytest.mark.covers("Z1")
def test_memory_types() -> None:
    assert MemoryType.DOCUMENT == "document"
    assert MemoryType.FRAGMENT == "fragment"
    assert MemoryType.MESSAGE == "message"
    assert MemoryType.DESCRIPTION == "description"
    assert MemoryType.CUSTOM == "custom"


@pytest.mark.covers("Z6", "Z7", "Z8", "Z9")
@awaited
async def test_table_usage_examples(folder: Path) -> None:
    async with local(folder) as runtime:
        # Store a chat message
        message = await runtime.createMemory(
            {
                "content": {"text": "Hello, how are you?"},
                "entityId": user_id,
                "roomId": room_id,
                "metadata": {"type": MemoryType.MESSAGE},
            },
            "messages",
        )
        # Store a fact
        fact = await runtime.createMemory(
            {
                "content": {"text": "User prefers email notifications"},
                "entityId": user_id,
                "metadata": {"type": MemoryType.DESCRIPTION},
            },
            "facts",
        )
        # Store a task
        due = now() + 7 * DAY
        task = await runtime.createMemory(
            {
                "content": {"text": "Send weekly report"},
                "entityId": agent_id,
                "metadata": {"type": MemoryType.CUSTOM, "scheduledFor": due},
            },
            "tasks",
        )
        # Query specific tables
        user_facts = await runtime.getMemories({"tableName": "facts", "entityId": user_id, "count": 50})
        recent_messages = await runtime.getMemories({"tableName": "messages", "roomId": room_id, "count": 10})

        assert [memory.id for memory in user_facts] == [fact]
        assert [memory.id for memory in recent_messages] == [message]
        [kept] = await runtime.getMemories({"tableName": "tasks"})
        assert (kept.id, kept.metadata) == (task, {"type": "custom", "scheduledFor": due})


@pytest.mark.covers("Z6", "Z10")
@awaited
async def test_creating_memories(folder: Path) -> None:
    async with local(folder) as runtime:
        stamp = now()
        # Create a message memory
        message_memory = await runtime.createMemory(
            {
                "content": {"text": "Hello, how can I help you today?"},
                "entityId": user_id,
                "roomId": room_id,
                "metadata": {"type": MemoryType.MESSAGE, "timestamp": stamp},
            },
            "messages",
        )
        # Create a document memory
        document_memory = await runtime.createMemory(
            {
                "content": {"text": "How to begin.", "title": "User Guide", "source": "docs/user-guide.md"},
                "entityId": agent_id,
                "roomId": room_id,
                "metadata": {
                    "type": MemoryType.DOCUMENT,
                    "source": "filesystem",
                    "tags": ["documentation", "guide"],
                },
            },
            "documents",
        )

        message = await runtime.getMemoryById(message_memory)
        document = await runtime.getMemoryById(document_memory)
        assert message is not None
        assert document is not None
        assert message.metadata["timestamp"] == stamp
        assert document.content == {
            "text": "How to begin.", "title": "User Guide", "source": "docs/user-guide.md",
        }  # fmt: skip
        assert document.metadata.pop("timestamp") >= stamp, "C1: it is filled in"
        assert document.metadata == {"type": "document", "source": "filesystem", "tags": ["documentation", "guide"]}


@pytest.mark.covers("Z12", "Z13")
@awaited
async def test_memory_with_embeddings(folder: Path) -> None:
    async with local(folder) as runtime:
        # Memory with automatic embedding generation
        memory = await runtime.addEmbeddingToMemory(
            {
                "content": {"text": "The weather today is sunny and warm."},
                "entityId": user_id,
                "roomId": room_id,
            }
        )
        assert len(memory.embedding) == await runtime.ensureEmbeddingDimension()

        # Custom embedding
        custom_memory = {
            "content": {"text": "Custom content"},
            "embedding": [round(0.001 * place, 6) for place in range(384)],
            "entityId": user_id,
            "roomId": room_id,
        }
        id = await runtime.createMemory(custom_memory, "memories")
        kept = await runtime.getMemoryById(id)
        assert kept is not None
        assert kept.embedding == custom_memory["embedding"]


@pytest.mark.covers("Z15", "Z16", "Z17")
@awaited
async def test_retrieving_memories(folder: Path) -> None:
    async with local(folder) as runtime:
        await _chat(runtime)
        # Get recent messages
        recent_messages = await runtime.getMemories(
            {"roomId": room_id, "tableName": "messages", "count": 50, "unique": False}
        )
        # Get memories by time range
        time_range_memories = await runtime.getMemories(
            {"roomId": room_id, "tableName": "messages", "start": now() - 86400000, "end": now()}
        )
        # Get unique memories only
        unique_memories = await runtime.getMemories(
            {"roomId": room_id, "tableName": "facts", "unique": True, "count": 100}
        )

        assert [memory.content["text"] for memory in recent_messages] == ["new", "old"]
        assert [memory.content["text"] for memory in time_range_memories] == ["new"], "the last 24 hours"
        assert [memory.content["text"] for memory in unique_memories] == ["flagged"]


async def _chat(runtime: AgentRuntime) -> None:
    here = {"entityId": user_id, "roomId": room_id}
    for text, at in (("old", now() - 2 * DAY), ("new", now() - 1000)):
        await runtime.createMemory({"content": {"text": text}, "createdAt": at, **here}, "messages")
    for text, unique in (("flagged", True), ("unflagged", False)):
        await runtime.createMemory({"content": {"text": text}, "unique": unique, **here}, "facts")


@pytest.mark.covers("Z18", "Z19")
@awaited
async def test_memory_by_id(folder: Path) -> None:
    async with local(folder) as runtime:
        ids = [await runtime.createMemory({"content": {"text": text}}, "messages") for text in ("one", "two")]
        elsewhere = await runtime.createMemory({"content": {"text": "three"}}, "facts")
        # Single memory
        memory = await runtime.getMemoryById(ids[0])
        # Multiple memories
        memories = await runtime.getMemoriesByIds([*ids, elsewhere, user_id], "messages")

        assert memory is not None
        assert memory.content["text"] == "one"
        assert {memory.id for memory in memories} == {*ids}
        assert await runtime.getMemoryById(user_id) is None


@pytest.mark.covers("Z20", "Z21")
@awaited
async def test_basic_semantic_search(folder: Path) -> None:
    async with local(folder) as runtime:
        await _weather(runtime)
        # Search for similar memories
        search_results = await runtime.searchMemories(
            {
                "query": "weather forecast",
                "tableName": "messages",
                "roomId": room_id,
                "count": 10,
                "match_threshold": 0.7,
            }
        )
        # Results include similarity scores
        told = []
        for memory in search_results:
            told += [f"Text: {memory.content['text']}", f"Similarity: {memory.similarity}"]

        assert told[0] == "Text: The weather forecast says rain for tomorrow."
        assert all(memory.similarity >= 0.7 for memory in search_results)


async def _weather(runtime: AgentRuntime) -> None:
    for text in (
        "The weather forecast says rain for tomorrow.",
        "It is 25 degrees outside, what a temperature!",
        "My sister plays the cello.",
    ):
        memory = {"content": {"text": text}, "entityId": user_id, "roomId": room_id}
        await runtime.createMemory(memory, "messages")


@pytest.mark.covers("Z22", "Z23")
@awaited
async def test_advanced_search_with_embeddings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with local(folder) as runtime:
        await _weather(runtime)
        # Generate embedding for search query
        query_embedding = await runtime.useModel(ModelType.TEXT_EMBEDDING, {"text": "What's the temperature outside?"})
        monkeypatch.setattr(MiniLMEmbedder, "embed_batch", _no_model)
        # Search with pre-computed embedding
        results = await runtime.searchMemories(
            {
                "embedding": query_embedding,
                "tableName": "messages",
                "roomId": room_id,
                "match_threshold": 0.8,
                "count": 5,
            }
        )

        assert [memory.content["text"] for memory in results] == ["It is 25 degrees outside, what a temperature!"]
        assert results[0].similarity >= 0.8


async def _no_model(self: Any, texts: Any) -> None:
    raise AssertionError("a search with a vector asks no model")


@pytest.mark.covers("Z24")
@awaited
async def test_updating_memories(folder: Path) -> None:
    async with local(folder) as runtime:
        memory_id = await runtime.createMemory({"content": {"text": "The sky is green"}}, "messages")
        edited = now()
        # Update memory content and regenerate embedding
        updated = await runtime.updateMemory(
            {
                "id": memory_id,
                "content": {"text": "Updated content"},
                "metadata": {"type": MemoryType.MESSAGE, "edited": True, "editedAt": edited},
            }
        )

        assert updated is True
        [found] = await runtime.searchMemories({"query": "updated content", "tableName": "messages"})
        assert (found.id, found.content) == (memory_id, {"text": "Updated content"})
        assert found.metadata == {"type": "message", "edited": True, "editedAt": edited}
        green = {"query": "green sky", "tableName": "messages", "match_threshold": 0.5}
        assert await runtime.searchMemories(green) == []


@pytest.mark.covers("Z25", "Z26", "Z27")
@awaited
async def test_deleting_memories(folder: Path) -> None:
    async with local(folder) as runtime:
        here = {"entityId": user_id, "roomId": room_id}
        memory_id, id1, id2, id3, kept, fact = [
            await runtime.createMemory({"content": {"text": f"number {place}"}, **here}, table)
            for place, table in enumerate(["messages"] * 5 + ["facts"])
        ]
        # Delete single memory
        await runtime.deleteMemory(memory_id)
        assert await runtime.getMemoryById(memory_id) is None
        # Delete multiple memories
        await runtime.deleteManyMemories([id1, id2, id3])
        assert [memory.id for memory in await runtime.getMemories({"tableName": "messages"})] == [kept]
        # Delete all memories in a room
        await runtime.deleteAllMemories(room_id, "messages")
        assert await runtime.getMemories({"tableName": "messages"}) == []
        assert await runtime.getMemoryById(fact) is not None


@pytest.mark.covers("Z28")
@awaited
async def test_memory_deduplication(folder: Path) -> None:
    async with local(folder) as runtime:
        # Store unique facts only
        first = await runtime.createMemory(
            {
                "content": {"text": "The user's favorite color is blue"},
                "entityId": user_id,
                "roomId": room_id,
                "unique": True,
            },
            "facts",
        )
        # Second attempt with same content will be ignored
        second = await runtime.createMemory(
            {
                "content": {"text": "The user's favorite color is blue"},
                "entityId": user_id,
                "roomId": room_id,
                "unique": True,
            },
            "facts",
        )  # No duplicate created

        assert second == first
        assert len(await runtime.getMemories({"tableName": "facts"})) == 1
