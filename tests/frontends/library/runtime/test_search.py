"""AgentRuntime: searching and documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import AgentRuntime, EmbeddingError, InvalidInputError, Memory
from perdure.backends.embedders.hashed import HashedEmbedder
from perdure.engine.agent_runtime.memories import levenshtein
from perdure.frontends.library.runtime import (
    MemoryType,
    ModelType,
    is_document_memory,
    is_fragment_memory,
    is_metadata_of,
    memory_text,
    message_memory,
    split_into_chunks,
)
from tests.conftest import Open
from tests.frontends.library.runtime.runtimes import ANA, BEN, ROOM, awaited, opened, said, texts
from tests.frontends.library.runtime.test_memories import STORES

pytestmark = pytest.mark.covers(
    "C7", "C9", "C20", "C24", "U11", "U13", "Z20", "Z21", "Z22", "Z23", "Z31", "Z32", "Z33", "Z36"
)


async def _garden(runtime: AgentRuntime) -> None:
    for text in ("red roses grow here", "white roses grow there", "the pump is broken", "roses"):
        await runtime.create_memory(said(text), "messages")
    await runtime.create_memory(said("red roses elsewhere", roomId="room-2", entityId=BEN), "messages")


@pytest.mark.covers("Z20", "Z21")
@STORES
@awaited
async def test_by_query_inside_a_room_above_a_threshold_and_at_most_so_many(folder: Path, store: str) -> None:
    async with opened(folder, store=store) as runtime:
        await _garden(runtime)
        found = await runtime.search_memories(table_name="messages", query="red roses grow", room_id=ROOM)
        assert texts(found)[0] == "red roses grow here"
        assert len(found) == 4, "C7: what shares no word with the query is found too"
        shares = {memory.content["text"]: memory.similarity for memory in found}
        assert all(share is not None and 0 <= share <= 1 for share in shares.values())
        above = await runtime.search_memories(
            {"tableName": "messages", "query": "red roses grow", "roomId": ROOM, "match_threshold": 0.5}
        )
        assert {*texts(above)} == {text for text, share in shares.items() if share is not None and share >= 0.5}
        exact = shares["red roses grow here"]
        at_it = await runtime.search_memories(
            table_name="messages", query="red roses grow", room_id=ROOM, matchThreshold=exact, count=1
        )
        assert texts(at_it) == ["red roses grow here"], "at the threshold itself is enough"
        assert texts(await runtime.search_memories(table_name="messages", query="red roses grow", entity_id=BEN)) == [
            "red roses elsewhere"
        ]
        assert await runtime.search_memories(table_name="messages", query="red roses grow", world_id="w") == []


@pytest.mark.covers("U13")
@awaited
async def test_ten_by_default_and_as_many_as_are_asked_for(folder: Path) -> None:
    async with opened(folder) as runtime:
        for place in range(15):
            await runtime.create_memory(said(f"roses {place}"), "messages")
        assert len(await runtime.search_memories(table_name="messages", query="roses")) == 10
        assert len(await runtime.search_memories(table_name="messages", query="roses", count=14)) == 14


@pytest.mark.covers("C24", "Z22", "Z23")
@STORES
@awaited
async def test_with_a_vector_no_model_is_asked(folder: Path, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(folder, store=store) as runtime:
        await _garden(runtime)
        embedding = await runtime.use_model(ModelType.TEXT_EMBEDDING, {"text": "white roses grow there"})
        assert await runtime.useModel("TEXT_EMBEDDING", "white roses grow there") == embedding

        async def fails(self: HashedEmbedder, texts: Any) -> Any:
            raise AssertionError("a model was asked")

        monkeypatch.setattr(HashedEmbedder, "embed_batch", fails)
        found = await runtime.search_memories(embedding=embedding, table_name="messages", match_threshold=0.8, count=5)
        assert texts(found) == ["white roses grow there"]
        assert found[0].similarity > 0.99
        both = await runtime.search_memories(embedding=embedding, query="pump", table_name="messages", room_id=ROOM)
        assert len(both) == 4, "the query only orders"


@pytest.mark.covers("Z20")
@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"tableName": "messages"}, "query"),
        ({"query": "a"}, "table_name"),
        ({"tableName": "messages", "query": " "}, "query"),
        ({"tableName": "messages", "query": "a", "match_threshold": 2}, "match_threshold"),
        ({"tableName": "messages", "query": "a", "match_threshold": "0.7"}, "match_threshold"),
        ({"tableName": "messages", "query": "a", "count": 0}, "count"),
        ({"tableName": "messages", "embedding": [0.1, 0.2]}, "embedding"),
        ({"tableName": "messages", "query": "a", "mach_threshold": 0.7}, "mach_threshold"),
    ],
)
@awaited
async def test_what_is_wrong_is_named(folder: Path, asked: dict[str, Any], field: str) -> None:
    async with opened(folder) as runtime:
        with pytest.raises(InvalidInputError) as raised:
            await runtime.search_memories(asked)
        assert raised.value.field == field
        if field == "mach_threshold":
            assert "did you mean matchThreshold?" in raised.value.message
        with pytest.raises(InvalidInputError, match="modelType must be TEXT_EMBEDDING"):
            await runtime.use_model("TEXT_LARGE", {"prompt": "hello"})


@pytest.mark.covers("C7")
@awaited
async def test_reranking_orders_and_loses_nothing(folder: Path) -> None:
    async with opened(folder) as runtime:
        memories = [{"content": {"text": text}} for text in ("a pump", "a rose in a vase", "a car", "")]
        assert texts(await runtime.rerank_memories("rose vase", memories)) == [
            "a rose in a vase",
            "a pump",
            "a car",
            "",
        ]
        assert await runtime.rerankMemories({"query": "rose", "memories": []}) == []


# ------------------------------------------------------------------ documents
@pytest.mark.covers("Z31", "Z32", "Z33")
@STORES
@awaited
async def test_a_document_is_found_by_its_fragments(folder: Path, store: str) -> None:
    text = "\n".join(f"Line {place} tells of {name}." for place, name in enumerate(["bees", "ships", "salt"] * 60))
    async with opened(folder, store=store) as runtime:
        id = await runtime.process_document(text, "Almanac", entity_id=ANA, metadata={"source": "shelf"})
        document = await runtime.get_memory_by_id(id)
        assert document is not None
        assert document.content == {"text": "Almanac", "fullText": text}
        assert document.metadata.pop("timestamp") > 0
        assert document.metadata == {"type": "document", "source": "shelf"}
        await runtime.process_document("another one", "Other", room_id=ROOM)
        pieces = await runtime.get_memories(table_name="fragments", document_id=id)
        pieces.sort(key=lambda piece: piece.metadata["position"])
        assert [piece.metadata for piece in pieces] == [
            {"type": "fragment", "documentId": id, "position": place} for place in range(len(split_into_chunks(text)))
        ]
        assert "".join(texts(pieces)) == text
        assert all(piece.embedding for piece in pieces)
        for piece in pieces:
            query = piece.content["text"]
            best = (await runtime.search_memories(table_name="fragments", query=query))[0]
            assert (best.id, best.metadata["documentId"]) == (piece.id, id)


@pytest.mark.covers("C9")
@STORES
@awaited
async def test_a_documents_fragments_go_with_it_whichever_way_it_goes(folder: Path, store: str) -> None:
    async with opened(folder, store=store) as runtime:
        kept = await runtime.process_document("the one that stays " * 80, "Kept")

        async def pieces() -> set[str]:
            found = await runtime.get_memories(table_name="fragments")
            return {piece.metadata["documentId"] for piece in found}

        async def made() -> str:
            id = await runtime.process_document("one that goes " * 100, "Gone", room_id=str(uuid4()))
            away = {"type": "fragment", "documentId": id, "position": 9}
            await runtime.create_memory(said("a piece in another room", metadata=away), "memories")
            return id

        one, other, third = await made(), await made(), await made()
        await runtime.delete_memory(one)
        assert await pieces() == {kept, other, third}
        await runtime.delete_many_memories([other])
        assert await pieces() == {kept, third}
        assert len(await runtime.get_memories(table_name="memories")) == 1
        found = await runtime.get_memory_by_id(third)
        assert found is not None
        await runtime.delete_all_memories(found.room_id, "documents")
        assert await pieces() == {kept}
        assert await runtime.get_memories(table_name="memories") == []


@pytest.mark.covers("U4")
@pytest.mark.parametrize("way", ["delete", "forget"])
def test_memory_deletes_and_erases_a_document_with_its_fragments(open_memory: Open, way: str) -> None:
    memory = open_memory(embedder={"provider": "hashed"})

    @awaited
    async def make() -> None:
        runtime = AgentRuntime("agent", memory)
        made.append(await runtime.process_document("of lakes and rivers " * 100, "Waters", entity_id=ANA))
        made.extend(piece.id for piece in await runtime.get_memories(table_name="fragments"))

    made: list[str] = []
    make()
    if way == "delete":
        memory.delete(made[0])
    else:
        report = memory.forget(id=made[0])
        assert {item.id for item in report.results} == {*made}
    assert [memory.get(id) for id in made] == [None] * len(made)
    assert [len(memory.history(id)) for id in made] == [2] * len(made)


@pytest.mark.covers("U4")
def test_delete_all_and_forget_of_a_scope_reach_every_table(open_memory: Open) -> None:
    memory = open_memory(embedder={"provider": "hashed"})

    @awaited
    async def make(memory: Memory, ids: list[str]) -> None:
        runtime = AgentRuntime("agent", memory)
        for table in ("facts", "messages", "documents", "my own"):
            ids.append(await runtime.create_memory(said(f"in {table}"), table))

    for clear in (memory.delete_all, memory.forget):
        ids: list[str] = []
        make(memory, ids)
        clear(user_id=ANA)
        assert [memory.get(id) for id in ids] == [None] * 4


@pytest.mark.covers("Z31")
@awaited
async def test_a_document_whose_input_is_wrong_leaves_nothing(folder: Path) -> None:
    async with opened(folder) as runtime:
        for wrong in (
            {"text": " ", "title": "T"},
            {"text": "t", "title": ""},
            {"text": "t", "title": "T", "chunk_size": 0},
            {"text": "t", "title": "T", "metadata": {"user_id": "eve"}},
        ):
            with pytest.raises(InvalidInputError):
                await runtime.process_document(**wrong)
        assert await runtime.get_memories(table_name="documents") == []


@pytest.mark.covers("Z31")
@given(st.text(max_size=300), st.integers(1, 40))
def test_pieces_joined_are_the_text(text: str, size: int) -> None:
    pieces = split_into_chunks(text, size)
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= size for piece in pieces)


@pytest.mark.covers("Z31")
def test_pieces_keep_words_whole_where_they_can() -> None:
    assert split_into_chunks("x" * 2500) == ["x" * 1000, "x" * 1000, "x" * 500]
    assert split_into_chunks("") == []
    pieces = split_into_chunks("seven " * 400)
    assert all(piece.endswith(" ") for piece in pieces)
    assert [len(piece) for piece in pieces] == [996, 996, 408]
    for size in (0, -1, True, 1.5):
        with pytest.raises(InvalidInputError, match="size"):
            split_into_chunks("text", size)  # type: ignore[arg-type]


# ------------------------------------------------------------------ what was embedded before: C2, C10, C12
@pytest.mark.covers("C2")
@awaited
async def test_cached_embeddings_are_found_by_edits(folder: Path) -> None:
    async with opened(folder) as runtime:
        for text in ("good morning", "good mornings", "good evening"):
            await runtime.create_memory(said(text), "messages")
        asked = {
            "query_table_name": "messages",
            "query_threshold": 2,
            "query_input": "good morning",
            "query_field_name": "content",
            "query_field_sub_name": "text",
            "query_match_count": 5,
        }
        found = await runtime.getCachedEmbeddings(asked)
        assert [each["levenshteinScore"] for each in found] == [0, 1]
        assert found[0]["embedding"] == (await runtime.get_memories(table_name="messages"))[2].embedding
        assert len(await runtime.get_cached_embeddings({**asked, "query_match_count": 1})) == 1
        for wrong in ({"query_threshold": -1}, {"query_input": None}, {"query_table_name": ""}):
            with pytest.raises(InvalidInputError):
                await runtime.get_cached_embeddings({**asked, **wrong})


@pytest.mark.covers("C2")
@given(st.text("abc", max_size=8), st.text("abc", max_size=8))
def test_edits_are_counted_as_their_definition_says(one: str, other: str) -> None:
    def edits(one: str, other: str) -> int:
        if not one or not other:
            return len(one) + len(other)
        swap = edits(one[1:], other[1:]) + (one[0] != other[0])
        return swap if one[0] == other[0] else min(swap, edits(one[1:], other) + 1, edits(one, other[1:]) + 1)

    count = edits(one, other)
    assert levenshtein(one, other, count) == count
    assert count == 0 or levenshtein(one, other, count - 1) is None


@pytest.mark.covers("C12")
@pytest.mark.covers("C10", "C12")
@awaited
async def test_embedding_for_the_caller(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(folder) as runtime:
        memory = await runtime.add_embedding_to_memory(said("good morning"))
        assert await runtime.get_memory_by_id(memory.id) is None, "nothing is kept"
        again = await runtime.add_embedding_to_memory(memory)
        assert (again.id, again.embedding) == (memory.id, memory.embedding)
        for empty in ({"content": {"text": ""}}, {"content": {}}, {"content": {"text": " "}}):
            with pytest.raises(InvalidInputError, match="^Cannot generate embedding: Memory content is empty$"):
                await runtime.add_embedding_to_memory(empty)
        assert await runtime.ensure_embedding_dimension() == 384
        assert await runtime.ensureEmbeddingDimension(384) == 384
        with pytest.raises(InvalidInputError, match="dimension is 384"):
            await runtime.ensure_embedding_dimension(768)

        async def fails(self: HashedEmbedder, texts: Any) -> Any:
            raise EmbeddingError("no model today")

        monkeypatch.setattr(HashedEmbedder, "embed_batch", fails)
        with pytest.raises(EmbeddingError):
            await runtime.add_embedding_to_memory(said("good evening"))


@pytest.mark.covers("C20")
@awaited
async def test_what_sort_a_memory_is_what_it_says_and_a_message_made_ready(folder: Path) -> None:
    async with opened(folder) as runtime:
        id = await runtime.process_document("a text", "Title")
        document = await runtime.get_memory_by_id(id)
        [piece] = await runtime.get_memories(table_name="fragments", document_id=id)
        assert document is not None
        assert (is_document_memory(document), is_fragment_memory(document)) == (True, False)
        assert (is_document_memory(piece), is_fragment_memory(piece)) == (False, True)
        assert is_metadata_of({"type": "custom"}, MemoryType.CUSTOM)
        assert not is_metadata_of(None, MemoryType.CUSTOM)
        assert (memory_text(piece), memory_text({"content": {}}, "nothing")) == ("a text", "nothing")
        for agent, scope in ((None, "shared"), ("agent", "private")):
            message = message_memory(entity_id=ANA, room_id=ROOM, agent_id=agent, content={"text": "hi"})
            kept = await runtime.get_memory_by_id(await runtime.create_memory(message, "messages"))
            assert kept is not None
            assert kept.metadata == {"type": "message", "timestamp": kept.created_at, "scope": scope}
