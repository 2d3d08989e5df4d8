"""001 §11's rows of the read side, each with the fault itself: the request goes on, in time, and the log says why."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from perdure import Memory
from perdure.backends.blocking import run_blocking
from perdure.backends.vector_stores.base import Hits
from perdure.backends.vector_stores.memory import MemoryVectorStore
from perdure.engine.chat import memory_reader as module
from perdure.engine.chat.memory_reader import Recalled, RecallRequest
from perdure.frontends.library.portal import PORTAL
from tests.backends.wire.openai import KEY
from tests.conftest import Open
from tests.engine.chat.recalls import ANA, TRIP, ask, keep, recalled, recalling, responses, texts
from tests.engine.core.adversarial_memories import HASHED
from tests.engine.write.test_embedding_failures import Moody

TEA = "User likes green tea"
QUESTION = "which tea do I like?"
GERMAN = "Please always answer in German."
LATE = Recalled(status="unavailable", reason="retrieval_error")
DOWN = Recalled(status="unavailable", reason="store_unavailable")


class Hanging(MemoryVectorStore):
    """A store whose searches wait in their threads until a test lets them go on."""

    name: ClassVar[str] = "hanging"
    go_on: ClassVar[threading.Event] = threading.Event()
    waiting: ClassVar[int] = 0

    async def search(self, *args: Any, **kwargs: Any) -> Hits:
        if not self.go_on.is_set():
            type(self).waiting += 1
            await run_blocking(self.go_on.wait)
        return await super().search(*args, **kwargs)


@pytest.fixture
def hanging(open_memory: Open) -> Iterator[Memory]:
    Hanging.go_on.set()
    Hanging.waiting = 0
    memory = open_memory(vector_store={"provider": f"{__name__}:Hanging"}, embedder=HASHED)
    keep(memory, TEA)
    memory.add(GERMAN, user_id="ana")
    Hanging.go_on.clear()
    yield memory
    Hanging.go_on.set()


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "perdure"]


@pytest.mark.covers("V4")
def test_a_search_that_hangs_costs_the_request_its_memory_and_no_more(
    hanging: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    recall = recalling(hanging, recall_seconds=0.05)
    assert ask(recall, QUESTION) == LATE
    assert told(caplog) == [("WARNING", "Memory search timeout, skipping")]
    assert len(ask(recall, "Hi").directives) == 1, "what needs no search still comes"
    Hanging.go_on.set()
    assert texts(ask(recalling(hanging), QUESTION)) == [TEA]


def test_searches_that_hang_do_not_pile_up(hanging: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 3)
    recall = recalling(hanging, recall_seconds=0.05)

    async def many(number: int) -> list[Recalled]:
        return await asyncio.gather(*(recall(RecallRequest(conversation=ANA, query=QUESTION)) for _ in range(number)))

    assert PORTAL.call(many(10)) == [LATE] * 10
    assert [ask(recall, QUESTION) for _ in range(5)] == [LATE] * 5
    assert Hanging.waiting <= 3, "no more than so many threads wait"
    Hanging.go_on.set()

    async def ended() -> None:
        while recall._late.tasks:
            await asyncio.sleep(0.001)

    PORTAL.call(ended())
    assert texts(ask(recalling(hanging), QUESTION)) == texts(ask(recall, QUESTION)) == [TEA]


def test_a_request_that_was_given_up_leaves_its_search_counted(hanging: Memory) -> None:
    recall = recalling(hanging)

    async def give_up() -> int:
        task = asyncio.ensure_future(recall(RecallRequest(conversation=ANA, query=QUESTION)))
        while not Hanging.waiting:
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        return len(recall._late.tasks)

    assert PORTAL.call(give_up()) == 1
    PORTAL.call(recall.close())


@pytest.mark.covers("V5")
@pytest.mark.parametrize("way", ["server", "authentication", "connection"])
def test_an_embedder_that_fails_costs_this_request_its_memory(
    open_memory: Open, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    with Moody(way) as wire:
        settings = {"base_url": wire.base_url, "api_key": KEY, "retries": 0}
        memory = open_memory(embedder={"provider": "openai", "config": settings})
        keep(memory, "User drinks coffee")
        memory.add(GERMAN, user_id="ana")
        caplog.clear()
        assert recalled(memory, QUESTION) == LATE
        assert told(caplog) == [("WARNING", "Embedding failed, skipping memory")]
        wire.word = None
        assert texts(recalled(memory, QUESTION)) == ["User drinks coffee"]


@pytest.mark.covers("V3")
def test_a_store_that_cannot_be_opened_is_told_once_and_not_asked_for_a_while(
    open_memory: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memories.db").write_bytes(b"this is no database, but it holds a secret " * 100)
    memory = open_memory(embedder=HASHED)
    recall = recalling(memory)
    assert [ask(recall, QUESTION) for _ in range(3)] == [DOWN] * 3
    assert [line for line in told(caplog) if line[0] == "ERROR"] == [
        ("ERROR", "Sqlite unavailable, memory disabled"),
    ]
    assert not any("secret" in line for _, line in told(caplog))
    for file in (tmp_path / "memory").glob("memories.db*"):
        file.unlink()
    assert ask(recall, QUESTION) == DOWN, "it rests"
    monkeypatch.setattr(module.time, "monotonic", lambda: 1e12)
    assert ask(recall, QUESTION).status == "missing"


def test_a_store_that_breaks_while_in_use_costs_the_request_its_memory(
    open_memory: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Exception):
        """What no backend should let out, with what was asked in it."""

    memory = open_memory(embedder=HASHED)
    keep(memory, TEA)
    store = memory._memory._engine.kernel.store

    async def search(*args: Any, **kwargs: Any) -> Hits:
        raise Broken("canary-" + QUESTION)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "search", search)
        caplog.clear()
        assert recalled(memory, QUESTION) == LATE
    assert told(caplog) == [("WARNING", "Memory retrieval failed: Broken")]
    assert texts(recalled(memory, QUESTION)) == [TEA]


@pytest.mark.parametrize("conversation", [ANA, responses(ANA), TRIP], ids=["chat", "responses", "named"])
def test_a_ledger_that_is_gone_costs_what_stands_in_it_and_not_the_memories(
    open_memory: Open, tmp_path: Path, conversation: Any
) -> None:
    memory = open_memory(embedder=HASHED)
    keep(memory, TEA, user_id="ana", run_id="trip")
    for file in filter(Path.is_file, (tmp_path / "memory").glob("history.db*")):
        file.write_bytes(b"gone " * 2_000)
    assert texts(recalled(memory, QUESTION, conversation, threshold=0.0)) == [TEA]


def test_a_ledger_that_never_was_there_costs_nothing_of_a_recall(open_memory: Open, tmp_path: Path) -> None:
    (tmp_path / "ledger").mkdir()
    memory = open_memory(embedder=HASHED, history={"db_path": str(tmp_path / "ledger")})
    keep(memory, TEA)
    memory.add(GERMAN, user_id="ana")
    found = recalled(memory, QUESTION)
    assert TEA in texts(found) and len(found.directives) == 1


@pytest.mark.covers("V24", "V88")
def test_a_model_that_takes_too_long_to_put_a_question_anew_is_not_waited_for(
    open_memory: Open, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REWRITE_SHARE", 0.001)  # of a minute: the rest is for the search
    llm = {"provider": "scripted", "config": {"answers": [{"text": "Which tea?", "delay": 600}]}}
    memory = open_memory(embedder=HASHED, llm=llm, curator="rules", rewrite="llm")
    keep(memory, TEA)
    found = ask(recalling(memory), "How much?", history=["I like green tea"])
    assert texts(found) == [TEA]
    assert ("WARNING", "the question is searched as it was asked: putting it anew took too long") in told(caplog)


def test_a_memory_that_was_closed_is_no_fault_of_the_request(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED)
    keep(memory, TEA)
    recall = recalling(memory)
    memory.close()
    assert ask(recall, QUESTION) == DOWN
