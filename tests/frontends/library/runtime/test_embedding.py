"""AgentRuntime: embedding when the model fails, and the queue; and when the ledger fails."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from perdure import AgentRuntime, EmbeddingError, InvalidInputError, LedgerError, VectorStoreError
from perdure.backends.embedders.hashed import HashedEmbedder
from perdure.backends.vector_stores.sqlite.store import SqliteVectorStore
from perdure.engine.agent_runtime import embedding_queue
from perdure.engine.agent_runtime.embedding_queue import EmbeddingQueue
from tests.engine.transfer.transfers import export, load, rifts
from tests.frontends.library.runtime.runtimes import ROOM, awaited, opened, said, texts

pytestmark = pytest.mark.covers("C10", "C11", "Z14")

EVENTS = ("EMBEDDING_GENERATION_REQUESTED", "EMBEDDING_GENERATION_COMPLETED", "EMBEDDING_GENERATION_FAILED")


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_queue, "PAUSE", 0.001)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a test takes to bring the model back, it is tried again."""
    monkeypatch.setattr(embedding_queue, "RETRIES", 10_000)


class Model:
    """The hashed embedder, which fails for as long as it is down."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.down = False
        self.asked = 0
        embed = HashedEmbedder.embed_batch

        async def embed_batch(embedder: HashedEmbedder, texts: Any) -> Any:
            self.asked += 1
            if self.down:
                raise EmbeddingError("the service is down", code="connection")
            return await embed(embedder, texts)

        monkeypatch.setattr(HashedEmbedder, "embed_batch", embed_batch)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    return Model(monkeypatch)


def heard(runtime: AgentRuntime) -> list[tuple[str, str]]:
    """The queue's events from now on, and whose they are."""
    events: list[tuple[str, str]] = []
    for event in EVENTS:

        def note(payload: dict[str, Any], event: str = event) -> None:
            events.append((event.rsplit("_", 1)[1], payload["memory_id"]))

        runtime.register_event(event, note)
    return events


async def vector_of(runtime: AgentRuntime, id: str) -> list[float] | None:
    memory = await runtime.get_memory_by_id(id)
    assert memory is not None
    return memory.embedding


# ------------------------------------------------------------------ a model that is down
@pytest.mark.covers("Z14")
@pytest.mark.usefixtures("patient")
@awaited
async def test_what_could_not_be_embedded_stays_and_is_embedded_when_the_model_is_back(
    folder: Path, model: Model
) -> None:
    async with opened(folder) as runtime:
        events = heard(runtime)
        model.down = True
        id = await runtime.create_memory(said("red roses grow here"), "messages")
        assert texts(await runtime.get_memories(table_name="messages")) == ["red roses grow here"]
        assert await vector_of(runtime, id) is None
        with pytest.raises(EmbeddingError):
            await runtime.search_memories(table_name="messages", query="roses")
        model.down = False
        await runtime.settled()
        assert await vector_of(runtime, id) is not None
        assert texts(await runtime.search_memories(table_name="messages", query="roses")) == ["red roses grow here"]
        assert events == [("COMPLETED", id)]


@pytest.mark.covers("C11")
@awaited
async def test_after_three_more_tries_it_is_failed_and_on_record_and_the_next_start_embeds_it(
    folder: Path, model: Model
) -> None:
    async with opened(folder) as runtime:
        events = heard(runtime)
        model.down = True
        id = await runtime.create_memory(said("red roses"), "messages")
        await runtime.settled()
        assert model.asked == 1 + 4
        assert events == [("FAILED", id)]
        [entry] = await runtime.get_logs(type="embedding_event")
        assert entry.body["status"] == "failed"
        assert entry.body["memory_id"] == id
        assert "roses" not in str(entry.body)
    model.down = False
    async with opened(folder) as runtime:
        assert await vector_of(runtime, id) is not None


@pytest.mark.covers("Z24")
@pytest.mark.usefixtures("patient")
@awaited
async def test_a_new_text_that_could_not_be_embedded_is_not_found_by_the_old_ones_vector(
    folder: Path, model: Model
) -> None:
    async with opened(folder) as runtime:
        id = await runtime.create_memory(said("red roses"), "messages")
        model.down = True
        assert await runtime.update_memory(id=id, content={"text": "blue tiles"})
        assert await vector_of(runtime, id) is None
        model.down = False
        await runtime.settled()
        [found] = await runtime.search_memories(table_name="messages", query="blue tiles", match_threshold=0.9)
        assert found.id == id


@pytest.mark.covers("Z31")
@pytest.mark.usefixtures("patient")
@awaited
async def test_a_document_outlives_a_model_that_is_down(folder: Path, model: Model) -> None:
    async with opened(folder) as runtime:
        model.down = True
        id = await runtime.process_document("of lakes and rivers " * 120, "Waters")
        pieces = await runtime.get_memories(table_name="fragments", document_id=id)
        assert [piece.embedding for piece in pieces] == [None] * 3
        model.down = False
        await runtime.settled()
        pieces = await runtime.get_memories(table_name="fragments", document_id=id)
        assert all(piece.embedding for piece in pieces)


@pytest.mark.covers("Z14", "Z44")
@pytest.mark.usefixtures("patient")
@awaited
async def test_a_memory_that_was_made_for_another_agent_is_embedded_too(folder: Path, model: Model) -> None:
    async with opened(folder) as runtime:
        model.down = True
        id = await runtime.create_memory(said("red roses", agentId="other"), "messages")
        model.down = False
        await runtime.settled()
        memory = await runtime.get_memory_by_id(id, "other")
        assert memory is not None and memory.embedding is not None


# ------------------------------------------------------------------ the queue
@pytest.mark.covers("C11")
@awaited
async def test_without_an_embedder_it_ends_as_failed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HashedEmbedder, "unavailable", lambda self: "there are no weights")
    async with opened(folder) as runtime:
        id, events = await runtime.create_memory(said("red roses"), "messages"), heard(runtime)
        await runtime.queue_embedding_generation(said("red roses", id=id), "high")
        await runtime.settled()
        assert events == [("REQUESTED", id), ("FAILED", id)]


@pytest.mark.covers("C11")
@awaited
async def test_a_queued_memory_is_embedded_and_its_end_is_told(folder: Path, model: Model) -> None:
    async with opened(folder) as runtime:
        events = heard(runtime)
        model.down = True
        ids = [await runtime.create_memory(said(f"roses {place}"), "messages") for place in range(3)]
        await runtime.settled()
        model.down = False
        events.clear()
        for id, priority in zip(ids, ("low", "normal", "high"), strict=True):
            memory = await runtime.get_memory_by_id(id)
            assert memory is not None
            await runtime.queue_embedding_generation(memory, priority)
        assert events == [("REQUESTED", id) for id in ids]
        await runtime.settled()
        assert sorted(events[3:]) == sorted(("COMPLETED", id) for id in ids)
        memory = await runtime.get_memory_by_id(ids[0])
        assert memory is not None
        events.clear()
        await runtime.queueEmbeddingGeneration({"memory": memory})
        await runtime.queueEmbeddingGeneration(said(" ", id=ids[0]))
        assert events == [], "C11: it has a vector, or no text"
        for wrong in ({"memory": said("a")}, {"memory": said("a", id="x"), "priority": "urgent"}):
            with pytest.raises(InvalidInputError):
                await runtime.queue_embedding_generation(wrong)


@pytest.mark.covers("C11")
@pytest.mark.usefixtures("patient")
@awaited
async def test_what_was_deleted_or_changed_meanwhile_is_left_alone(folder: Path, model: Model) -> None:
    async with opened(folder) as runtime:
        events = heard(runtime)
        model.down = True
        gone = await runtime.create_memory(said("red roses"), "messages")
        changed = await runtime.create_memory(said("white roses"), "messages")
        await runtime.delete_memory(gone)
        vector = [round(0.001 * place, 6) for place in range(384)]
        await runtime.update_memory(id=changed, content={"text": "blue tiles"}, embedding=vector)
        model.down = False
        await runtime.settled()
        assert await runtime.get_memory_by_id(gone) is None
        assert await vector_of(runtime, changed) == vector
        assert events == []


@pytest.mark.covers("C11")
@awaited
async def test_a_listener_that_fails_costs_nobody_anything(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(folder) as runtime:
        told: list[Any] = []

        async def listens(payload: dict[str, Any]) -> None:
            told.append(payload)

        def fails(payload: dict[str, Any]) -> None:
            raise ValueError(f"a listener's own fault: {payload}")

        for handler in (fails, listens):
            runtime.registerEvent("MESSAGE_RECEIVED", handler)
        await runtime.emitEvent("MESSAGE_RECEIVED", {"text": "hi"})
        await runtime.emit_event("NOBODY_LISTENS")
        assert told == [{"text": "hi"}]
        assert "a listener of MESSAGE_RECEIVED failed: ValueError" in caplog.text
        assert "hi'" not in caplog.text, "what is said in a memory is in no log"
        with pytest.raises(InvalidInputError, match="callable"):
            runtime.register_event("X", "no function")  # type: ignore[arg-type]


class Gate:
    """What a queue embeds with in these tests: nothing until it is opened; it notes the order."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.order: list[str] = []
        self.at_once = self.most = 0
        self.told: list[tuple[str, str]] = []

    async def embed(self, id: str, text: str) -> Any:
        self.order.append(id)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await self.open.wait()
        self.at_once -= 1
        return np.zeros(1, dtype=np.float32)

    async def hear(self, what: str, payload: dict[str, Any]) -> None:
        self.told.append((what, payload["memory_id"]))


@pytest.mark.covers("C11")
@awaited
async def test_ten_at_a_time_by_priority_then_by_turn() -> None:
    gate = Gate()
    queue = EmbeddingQueue(gate.embed, gate.hear)
    wanted = [(f"{priority}-{turn}", priority) for turn in range(8) for priority in ("low", "normal", "high")]
    for id, priority in wanted:
        queue.add(id, "text", priority)
    gate.open.set()
    await queue.settled()
    assert gate.order == [f"{priority}-{turn}" for priority in ("high", "normal", "low") for turn in range(8)]
    assert gate.most <= 10
    assert len(gate.told) == 24
    assert len(queue) == 0


@pytest.mark.covers("C11")
@awaited
async def test_a_full_queue_lets_ten_of_the_lowest_and_oldest_go() -> None:
    gate = Gate()
    queue = EmbeddingQueue(gate.embed, gate.hear)
    for place in range(5):
        queue.add(f"low-{place}", "text", "low")
    for place in range(995):
        queue.add(f"normal-{place}", "text")
    queue.add("high", "text", "high")
    assert len(queue) == 991
    gate.open.set()
    await queue.stop()
    assert gate.order == ["high"]

    gate.order.clear()
    queue = EmbeddingQueue(gate.embed, gate.hear)
    for place in range(1_000):
        queue.add(f"normal-{place}", "text")
    queue.add("last", "text", "low")
    gate.open.set()
    await queue.settled()
    assert gate.order == [*(f"normal-{place}" for place in range(10, 1_000)), "last"]


@pytest.mark.covers("C11")
@awaited
async def test_stopping_sees_to_what_is_of_high_priority_alone() -> None:
    gate = Gate()
    queue = EmbeddingQueue(gate.embed, gate.hear)
    for priority in ("low", "high", "normal"):
        queue.add(priority, "text", priority)
    gate.open.set()
    await queue.stop()
    assert gate.order == ["high"]
    queue.add("later", "text", "high")
    await queue.settled()
    assert gate.order == ["high"]


# ------------------------------------------------------------------ a store or a ledger that fails
@awaited
async def test_a_store_that_fails_fails_the_call_and_nothing_is_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(folder) as runtime:
        id = await runtime.create_memory(said("red roses"), "messages")

        async def fails(self: SqliteVectorStore, *args: Any, **kwargs: Any) -> None:
            raise VectorStoreError("the disk is full")

        monkeypatch.setattr(SqliteVectorStore, "apply", fails)
        for act in (
            lambda: runtime.create_memory(said("white roses"), "messages"),
            lambda: runtime.update_memory(id=id, content={"text": "blue tiles"}),
            lambda: runtime.delete_memory(id),
            lambda: runtime.process_document("a text", "A title"),
        ):
            with pytest.raises(VectorStoreError):
                await act()
        monkeypatch.undo()
        assert texts(await runtime.get_memories(table_name="messages")) == ["red roses"]
        assert await runtime.get_memories(table_name="documents") == []


@awaited
async def test_without_a_ledger_memories_are_kept_and_tables_say_why_not(folder: Path) -> None:
    (folder / "history.db").mkdir(parents=True)
    async with opened(folder) as runtime:
        id = await runtime.create_memory(said("red roses", unique=True), "messages")
        assert await runtime.create_memory(said("red roses"), "messages", True) == id
        assert await runtime.update_memory(id=id, content={"text": "white roses"})
        assert texts(await runtime.get_memories(table_name="messages", room_id=ROOM)) == ["white roses"]
        await runtime.delete_memory(id)
        assert await runtime.get_memory_by_id(id) is None
        with pytest.raises(LedgerError):
            await runtime.set_cache("key", {"value": str(uuid4())})


@pytest.mark.covers("C10")
def test_what_has_no_text_never_gets_a_vector(folder: Path) -> None:
    """Neither at the next start nor by a repair nor elsewhere; and the doctor does not miss it."""

    @awaited
    async def fill() -> None:
        async with opened(folder) as runtime:
            await runtime.create_memory({"content": {"action": "JOIN"}, "roomId": ROOM}, "messages")

    @awaited
    async def look(path: Path) -> None:
        async with opened(path) as runtime:
            [memory] = await runtime.get_memories(table_name="messages")
            assert (memory.content, memory.embedding) == ({"text": "", "action": "JOIN"}, None)

    fill()
    look(folder)
    assert rifts(folder) == []
    other = folder.parent / "other"
    load(other, export(folder))
    look(other)
