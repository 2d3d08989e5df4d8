"""An embedder over HTTP that fails: what is not stored waits, and nothing is asked more often than it helps."""

from __future__ import annotations

import asyncio

import pytest

from perdure import Memory
from perdure.engine.maintenance.doctor import examine, repair
from tests.backends.wire.openai import KEY, OpenAIWire, failure
from tests.backends.wire.server import Heard, Reply
from tests.conftest import Open

ANA = {"user_id": "ana"}


class Moody(OpenAIWire):
    """Fails for texts that hold a word, as long as one is set."""

    def __init__(self, way: str) -> None:
        super().__init__(intercept=self._fails)
        self.way = way
        self.word: str | None = "tea"

    def _fails(self, request: Heard) -> Reply | None:
        hit = self.word is not None and any(self.word in text for text in request.json["input"])
        return failure(self.way) if hit else None


def open_with(open_memory: Open, wire: Moody) -> Memory:
    settings = {"base_url": wire.base_url, "api_key": KEY, "retries": 0}
    return open_memory(embedder={"provider": "openai", "config": settings})


def texts(memory: Memory) -> list[str]:
    return sorted(item.memory for item in memory.get_all(**ANA).results)


def mend(memory: Memory) -> list[str]:
    async def work() -> list[str]:
        engine = memory._memory._engine
        return (await repair(engine, await examine(engine))).failed

    return asyncio.run(work())


@pytest.mark.parametrize("way", ["server", "authentication", "connection"])
def test_messages_of_a_fact_that_was_not_embedded_are_read_again(open_memory: Open, way: str) -> None:
    with Moody(way) as wire:
        memory = open_with(open_memory, wire)
        result = memory.add("I like tea. I was born in Oslo.", metadata={"project": "apollo"}, **ANA)
        assert any("tea" in warning for warning in result.warnings)
        assert texts(memory) == (["User was born in Oslo"] if way == "server" else [])
        assert mend(memory) != [], "the embedder still fails, and the messages go on waiting"
        wire.word = None
        assert mend(memory) == []
        assert texts(memory) == ["User likes tea", "User was born in Oslo"]
        assert all(item.metadata == {"project": "apollo"} for item in memory.get_all(**ANA).results)
        heard = len(wire.heard)
        assert mend(memory) == [] and len(wire.heard) == heard


def test_a_failure_that_every_text_would_meet_is_met_once(open_memory: Open) -> None:
    with Moody("quota") as wire:
        memory = open_with(open_memory, wire)
        result = memory.add_facts([f"User likes tea number {number}" for number in range(20)], **ANA)
        assert result.results == [] and len(result.warnings) == 20
        assert len(wire.heard) == 1
