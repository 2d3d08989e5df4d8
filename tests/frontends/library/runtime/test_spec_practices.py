"""The code blocks of spec 003 from document processing on, in their order, line by line in Python."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure import AgentRuntime
from perdure.frontends.library.runtime import MemoryType, ModelType, split_into_chunks
from tests.frontends.library.runtime.runtimes import awaited
from tests.frontends.library.runtime.test_spec_examples import local, now, room_id, user_id

pytestmark = pytest.mark.usefixtures("loaded_model")


@pytest.mark.covers("Z31", "Z32", "Z33")
@awaited
async def test_document_processing(folder: Path) -> None:
    async with local(folder) as runtime:
        document_text = "\n\n".join(f"Chapter {number}. {_CHAPTERS[number % 3] * 12}" for number in range(4))

        # Create document with fragments
        async def process_document(document_text: str, title: str) -> str:
            # Create main document
            document_id = await runtime.createMemory(
                {
                    "content": {"text": title, "fullText": document_text},
                    "metadata": {"type": MemoryType.DOCUMENT, "timestamp": now()},
                },
                "documents",
            )
            # Create fragments for embedding
            chunks = split_into_chunks(document_text, 1000)
            for i in range(len(chunks)):
                await runtime.createMemory(
                    {
                        "content": {"text": chunks[i]},
                        "metadata": {"type": MemoryType.FRAGMENT, "documentId": document_id, "position": i},
                    },
                    "fragments",
                )
            return document_id

        theirs = await process_document(document_text, "User Guide")
        ours = await runtime.processDocument(document_text, "User Guide")
        for id in (theirs, ours):
            document = await runtime.getMemoryById(id)
            assert document is not None
            assert document.content == {"text": "User Guide", "fullText": document_text}
            fragments = await runtime.getMemories({"tableName": "fragments", "documentId": id})
            fragments.sort(key=lambda fragment: fragment.metadata["position"])
            assert [fragment.metadata["position"] for fragment in fragments] == [*range(len(fragments))]
            assert "".join(fragment.content["text"] for fragment in fragments) == document_text
        await runtime.deleteMemory(theirs)
        wanted = fragments[2]
        best = (await runtime.searchMemories({"query": wanted.content["text"], "tableName": "fragments"}))[0]
        assert (best.id, best.metadata["documentId"]) == (wanted.id, ours)


_CHAPTERS = (
    "Whales sing to each other over many miles of open sea. ",
    "A kiln must cool slowly or the glaze of the pots will crack. ",
    "The tax form asks for income from letting out rooms. ",
)


@pytest.mark.covers("Z34")
@awaited
async def test_caching(folder: Path) -> None:
    async with local(folder) as runtime:
        # Store in cache
        await runtime.setCache("user_preferences", {"theme": "dark", "language": "en"})
        # Retrieve from cache
        preferences = await runtime.getCache("user_preferences")
        assert preferences == {"theme": "dark", "language": "en"}
        # Delete from cache
        await runtime.deleteCache("user_preferences")
        assert await runtime.getCache("user_preferences") is None


@pytest.mark.covers("Z29")
@awaited
async def test_choose_appropriate_memory_types(folder: Path) -> None:
    async with local(folder) as runtime:
        # Use specific tables for better organization
        message = {"content": {"text": "Hello"}, "entityId": user_id, "roomId": room_id}
        await runtime.createMemory(message, "messages")

        fact = {"content": {"text": "User is 25 years old"}, "entityId": user_id, "roomId": room_id}
        first = await runtime.createMemory(fact, "facts", True)  # unique
        assert await runtime.createMemory(fact, "facts", True) == first


@pytest.mark.covers("Z12")
@awaited
async def test_optimize_embeddings(folder: Path) -> None:
    async with local(folder) as runtime:
        texts = ["one", "two", "three"]
        # Batch processing for multiple memories
        memories = [{"content": {"text": text}, "entityId": user_id, "roomId": room_id} for text in texts]
        # Add embeddings in batch
        memories_with_embeddings = await asyncio.gather(*(runtime.addEmbeddingToMemory(m) for m in memories))
        assert [memory.content["text"] for memory in memories_with_embeddings] == texts
        assert all(memory.embedding for memory in memories_with_embeddings)


@pytest.mark.covers("Z35")
@pytest.mark.covers("Z35", "Z36")
@awaited
async def test_metadata_and_search_strategies(folder: Path) -> None:
    async with local(folder) as runtime:
        memory = {
            "content": {"text": "Meeting scheduled for tomorrow"},
            "roomId": room_id,
            "metadata": {
                "type": MemoryType.MESSAGE,
                "source": "calendar",
                "sourceId": "event-7",
                "tags": ["meeting", "schedule"],
                "timestamp": now(),
            },
        }
        id = await runtime.createMemory(memory, "messages")
        await runtime.createMemory({"content": {"text": "The meeting is tomorrow"}, "roomId": room_id}, "messages")

        # Combine semantic and metadata filtering
        async def search_with_context(query: str, tags: list[str]) -> list[Any]:
            embedding = await runtime.useModel(ModelType.TEXT_EMBEDDING, {"text": query})
            results = await runtime.searchMemories(
                {"embedding": embedding, "tableName": "messages", "roomId": room_id, "match_threshold": 0.75}
            )
            # Filter by tags
            return [memory for memory in results if any(tag in memory.metadata.get("tags", []) for tag in tags)]

        found = await search_with_context("the meeting tomorrow", ["schedule"])
        assert [memory.id for memory in found] == [id]
        assert found[0].metadata == {**memory["metadata"], "type": "message"}


class ConversationManager:
    def __init__(self, runtime: AgentRuntime) -> None:
        self.runtime = runtime

    async def save_message(self, user_id: str, text: str, room_id: str) -> str:
        # Create message memory with embedding
        memory = await self.runtime.addEmbeddingToMemory(
            {
                "content": {"text": text, "role": "user", "timestamp": now()},
                "entityId": user_id,
                "roomId": room_id,
                "metadata": {"type": MemoryType.MESSAGE, "timestamp": now()},
            }
        )
        await self.runtime.createMemory(memory, "messages")
        return memory.id

    async def get_conversation_context(self, room_id: str, query: str) -> list[Any]:
        # Get recent messages
        recent_messages = await self.runtime.getMemories({"roomId": room_id, "tableName": "messages", "count": 10})
        # Search for relevant context
        relevant_messages = await self.runtime.searchMemories(
            {"query": query, "tableName": "messages", "roomId": room_id, "count": 5, "match_threshold": 0.7}
        )
        # Combine and deduplicate
        all_messages = [*recent_messages, *relevant_messages]
        unique = list({m.id: m for m in all_messages}.values())
        return sorted(unique, key=lambda m: m.createdAt or 0)


@pytest.mark.covers("Z37", "Z38")
@pytest.mark.covers("Z37", "Z38")
@awaited
async def test_conversation_memory(folder: Path) -> None:
    async with local(folder) as runtime:
        manager = ConversationManager(runtime)
        ids = [await manager.save_message(user_id, "My cat is called Mog", room_id)]
        ids += [await manager.save_message(user_id, f"Remark number {place}", room_id) for place in range(12)]
        context = await manager.get_conversation_context(room_id, "What is the name of my cat?")

        assert [memory.id for memory in context] == [ids[0], *ids[3:]], "10 recent ones, and what is relevant"
        assert [memory.createdAt for memory in context] == sorted(memory.createdAt for memory in context)
