"""What the read side of the gateway does not pay for: each of these kept a request waiting."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from perdure import Memory, MemoryStore
from perdure.engine.chat.memory_reader import MOST_ASKED
from perdure.engine.core.kernel import Kernel
from perdure.engine.write import explicit, provenance
from perdure.engine.write.provenance import INLINE_CHARACTERS
from perdure.frontends.library.portal import PORTAL
from tests.conftest import Open
from tests.engine.chat.recalls import keep, recalled, recalling, texts
from tests.engine.core.adversarial_memories import ANA, HASHED

pytestmark = pytest.mark.covers("V63")

GERMAN = "Please always answer in German."
TEA = "I prefer tea to coffee."
SHORT = "Keep your answers short from now on."


def kernel_of(memory: Memory) -> Kernel:
    return memory._memory._engine.kernel


@pytest.fixture
def memory(open_memory: Open) -> Memory:
    found = open_memory(embedder=HASHED)
    keep(found, GERMAN, TEA, "I live in Oslo.")
    return found


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """The last arguments of each call of a method from now on."""
    calls: list[Any] = []
    method = getattr(owner, name)

    async def count(*arguments: Any) -> Any:
        calls.append(arguments[-1])
        return await method(*arguments)

    monkeypatch.setattr(owner, name, count)
    return calls


@pytest.mark.covers("V63")
def test_no_word_of_a_large_scope_is_embedded_for_a_request(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded: list[Sequence[str]] = counted(monkeypatch, kernel_of(memory).embedding.embedder, "embed_batch")
    told = recalled(memory, "Where do I live?")
    assert [item.memory for item in told.directives] == [GERMAN]
    assert "I live in Oslo." in texts(told)
    assert sum(map(len, embedded)) == 1, "the question, and nothing else"
    assert memory.search("Where do I live?", **ANA).results, "a search of the library has its words all the same"


@pytest.mark.covers("V63")
def test_what_is_no_directive_is_read_once_until_it_changes(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    recalled(memory, "Where do I live?")
    tea = next(item for item in memory.get_all(**ANA).results if item.memory == TEA)
    read = counted(monkeypatch, kernel_of(memory).store, "get_many")
    directives = memory._memory._engine.read.directives
    assert [item.memory for item in PORTAL.call(directives(tea.scope))] == [GERMAN]
    assert tea.id not in {id for ids in read for id in ids}
    memory.update(tea.id, SHORT)
    told = [item.memory for item in PORTAL.call(directives(tea.scope))]
    assert told == [GERMAN, SHORT]


@pytest.mark.covers("V63")
def test_the_model_of_vectors_is_loaded_before_anybody_asks(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded = counted(monkeypatch, kernel_of(memory).embedding.embedder, "embed_batch")
    PORTAL.call(recalling(memory).warm())
    assert len(embedded) == 1


@pytest.mark.covers("V63")
def test_a_model_that_cannot_be_loaded_is_logged_and_no_more(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: Any) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(kernel_of(memory).embedding.embedder, "embed_batch", fail)
    PORTAL.call(recalling(memory).warm())
    assert "loaded with the first message" in caplog.text


def test_item7_of_what_was_pasted_the_beginning_is_looked_up(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded: list[Sequence[str]] = counted(monkeypatch, kernel_of(memory).embedding.embedder, "embed_batch")
    pasted = "Where do I live? " + "May 2021, how do I, " * 50_000
    for query, history in ((pasted, ()), ("How much?", (pasted,)), (" " * MOST_ASKED + pasted, ())):
        embedded.clear()
        assert "I live in Oslo." in texts(recalled(memory, query, history=history))
        assert max(len(text) for batch in embedded for text in batch) <= MOST_ASKED + len(query[:20])


@pytest.mark.parametrize("length", [10, 50_000], ids=["short", "long"])
def test_item7_no_request_waits_while_a_long_text_is_looked_at(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    threads: list[str] = []

    def look(text: str, role: str | None) -> None:
        threads.append(threading.current_thread().name)

    for module in (explicit, provenance):
        monkeypatch.setattr(module, "suspect", look)
    memory.add("x" * length, infer=False, **ANA)
    MemoryStore(memory).store("y" * length, user_id="ana")
    beside = [name.startswith("perdure_") for name in threads]
    assert beside == [length > INLINE_CHARACTERS] * 2, "what runs on the event loop holds up all else"
