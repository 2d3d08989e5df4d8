"""A recall that has looked before answers as one that never has, whatever was changed meanwhile and by whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure import Memory
from perdure.engine.chat.memory_reader import MemoryReader
from perdure.engine.chat.settings import GatewaySettings
from tests.conftest import Open
from tests.engine.chat.recalls import ask, keep
from tests.engine.core.adversarial_memories import ANA, HASHED

pytestmark = pytest.mark.covers("V63")

QUESTION = "Which tea does my friend Bob drink in Oslo?"
FACTS = (
    "Bob is my friend and lives in Oslo.",
    "Bob drinks green tea in the morning.",
    "I drink black tea with milk.",
    "Please always answer in German.",
    "Keep your answers short from now on.",
)
GRAPH = {"provider": "sqlite"}


def recalling(memory: Memory) -> MemoryReader:
    """A recall that no busy machine makes give up."""
    return MemoryReader(memory._memory._engine, GatewaySettings().model_copy(update={"recall_seconds": 60.0}))


def told(recall: MemoryReader) -> tuple[list[str], list[str], list[float]]:
    """The memories that a recall tells, how to answer, and the scores of the first."""
    found = ask(recall, QUESTION)
    scores = [item.score or 0.0 for item in found.hits]
    return [item.memory for item in found.hits], [item.memory for item in found.directives], scores


def is_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether two tell the same; scores go with the age of memories, and so a little with the moment."""
    return one[:-1] == other[:-1] and one[-1] == pytest.approx(other[-1], abs=1e-3)


def id_of(memory: Memory, text: str) -> str:
    return next(item.id for item in memory.get_all(**ANA).results if item.memory == text)


def adds(memory: Memory) -> None:
    keep(memory, "Bob drinks no tea after noon, Oslo or not.", "Never use emojis in your answers.")


def updates(memory: Memory) -> None:
    memory.update(id_of(memory, FACTS[1]), "Bob drinks white tea in Oslo.")


def deletes(memory: Memory) -> None:
    memory.delete(id_of(memory, FACTS[1]))
    memory.delete(id_of(memory, FACTS[3]))


def forgets(memory: Memory) -> None:
    memory.delete(id_of(memory, FACTS[1]), erase=True)
    memory.delete(id_of(memory, FACTS[3]), erase=True)


def distrusts(memory: Memory) -> None:
    memory.distrust(id_of(memory, FACTS[1]))
    memory.distrust(id_of(memory, FACTS[3]))


def trusts_again(memory: Memory) -> None:
    distrusts(memory)
    memory.trust(id_of(memory, FACTS[1]))


@pytest.mark.covers("V63")
@pytest.mark.parametrize("by_another", [False, True], ids=["by itself", "by another engine"])
@pytest.mark.parametrize("change", [adds, updates, deletes, forgets, distrusts, trusts_again])
def test_a_warm_recall_tells_what_a_cold_one_does(
    open_memory: Open, change: Callable[[Memory], None], by_another: bool
) -> None:
    def opened() -> Memory:
        return open_memory(embedder=HASHED, graph_store=GRAPH)

    memory = opened()
    keep(memory, *FACTS)
    warm = recalling(memory)
    before = told(warm)
    assert len(before[0]) == 3 and len(before[1]) == 2
    assert is_same(told(warm), before)
    assert is_same(told(recalling(opened())), before)
    change(opened() if by_another else memory)
    after = told(warm)
    assert is_same(after, told(recalling(opened())))
    assert not is_same(after, before)
