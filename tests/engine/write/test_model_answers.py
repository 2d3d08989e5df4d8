"""What a language model costs an `add`: calls, tokens, answers that are kept and answers that must not be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Memory
from perdure.engine.maintenance.doctor import examine, repair
from tests.backends.wire.openai import KEY, OpenAIWire

ANA = {"user_id": "ana"}
WHEN = "2026-03-01T09:00:00Z"
Open = Callable[..., Memory]


@pytest.fixture
def wire() -> Iterator[OpenAIWire]:
    with OpenAIWire() as server:
        yield server


@pytest.fixture
def open_memory(tmp_path: Path, wire: OpenAIWire) -> Iterator[Open]:
    opened: list[Memory] = []

    def open_one(*answers: Any, model: str = "gpt-4o-mini", **settings: Any) -> Memory:
        wire.answers += [each if isinstance(each, str) else json.dumps(each) for each in answers]
        llm = {"model": model, "base_url": wire.base_url, "api_key": KEY, "retries": 0}
        config = {
            "path": str(tmp_path),
            "embedder": {"provider": "hashed"},
            "llm": {"provider": "openai", "config": llm},
            **settings,
        }
        opened.append(Memory(config))
        return opened[-1]

    yield open_one
    for memory in opened:
        memory.close()


def facts(*texts: str) -> dict[str, Any]:
    return {"facts": [{"text": text} for text in texts]}


def adds(count: int) -> dict[str, Any]:
    return {"operations": [{"fact": number, "event": "ADD"} for number in range(count)]}


@pytest.mark.parametrize("count", [1, 5, 15])
def test_two_calls_however_many_facts(open_memory: Open, wire: OpenAIWire, count: int) -> None:
    texts = [f"User has a boat named Wave {number}" for number in range(count)]
    memory = open_memory(facts("User has a boat"), facts(*texts), adds(count))
    memory.add("I have a boat", **ANA)
    heard = len(wire.heard)
    result = memory.add("My boats are " + ", ".join(f"Wave {number}" for number in range(count)), **ANA)
    assert len(result.results) == count and len(wire.heard) - heard == 2
    assert (result.usage.calls, result.usage.input_tokens, result.usage.output_tokens) == (2, 40, 14)
    assert result.usage.cost == pytest.approx((40 * 0.15 + 14 * 0.60) / 1e6)
    assert result.model_dump()["usage"]["calls"] == 2


def test_rules_cost_nothing_and_say_nothing_of_it(tmp_path: Path) -> None:
    with Memory({"path": str(tmp_path), "embedder": {"provider": "hashed"}}) as memory:
        result = memory.add("I live in Lisbon", **ANA)
    assert result.usage.calls == 0 and "usage" not in result.model_dump()


def test_the_same_conversation_is_answered_from_what_is_kept(open_memory: Open, wire: OpenAIWire) -> None:
    memory = open_memory(facts("User lives in Lisbon"))
    assert [event.event for event in memory.add("I live in Lisbon", timestamp=WHEN, **ANA).results] == ["ADD"]
    again = memory.add("I live in Lisbon", timestamp=WHEN, **ANA)
    assert [event.event for event in again.results] == ["NONE"]
    assert again.usage.calls == 0 and len(wire.heard) == 1


def test_kept_answers_outlive_the_process_and_the_key(open_memory: Open, wire: OpenAIWire) -> None:
    open_memory(facts("User lives in Lisbon")).add("I live in Lisbon", timestamp=WHEN, **ANA)
    wire.key = "sk-test-another-key-0123456789"
    later = open_memory()
    assert later.add("I live in Lisbon", timestamp=WHEN, **ANA).usage.calls == 0


@pytest.mark.parametrize("other", ["scope", "model", "text", "prompt", "day"])
def test_another_question_is_asked(open_memory: Open, wire: OpenAIWire, other: str) -> None:
    open_memory(facts("User lives in Lisbon")).add("I live in Lisbon", timestamp=WHEN, **ANA)
    memory = open_memory(facts(), model="gpt-4.1-mini" if other == "model" else "gpt-4o-mini")
    call: dict[str, Any] = {"timestamp": WHEN, **ANA}
    call |= {"scope": {"user_id": "bo"}, "prompt": {"prompt": "Find cities. Answer in JSON."}}.get(other, {})
    call |= {"day": {"timestamp": "2026-03-02T09:00:00Z"}}.get(other, {})
    result = memory.add("I live in Lisbon!" if other == "text" else "I live in Lisbon", **call)
    assert result.usage.calls == 1 and len(wire.heard) == 2


def test_decisions_are_kept_by_their_neighbours(open_memory: Open, wire: OpenAIWire) -> None:
    told = facts("User has a dog named Rex"), facts("User has a cat named Tom"), adds(1)
    memory = open_memory(*told)
    memory.add("I have a dog, Rex", timestamp=WHEN, **ANA)
    id = memory.add("I have a cat, Tom", timestamp=WHEN, **ANA).results[0].id
    memory.delete(id)
    assert memory.add("I have a cat, Tom", timestamp=WHEN, **ANA).usage.calls == 0
    assert len(wire.heard) == 3


def test_an_unreadable_answer_is_not_kept_and_repair_reads_the_messages_t36(
    open_memory: Open, wire: OpenAIWire
) -> None:
    memory = open_memory("I would rather not say.", facts("User lives in Lisbon"))
    result = memory.add("I live in Lisbon", timestamp=WHEN, **ANA)
    assert result.results == [] and "the messages are kept" in result.warnings[0]
    assert result.usage.calls == 1

    async def mend() -> list[str]:
        engine = memory._memory._engine
        return (await repair(engine, await examine(engine))).failed

    assert asyncio.run(mend()) == []
    assert [item.memory for item in memory.get_all(**ANA).results] == ["User lives in Lisbon"]
    assert len(wire.heard) == 2


@pytest.mark.parametrize("way", ["id", "query", "scope"])
def test_what_is_forgotten_goes_from_the_kept_answers_too(open_memory: Open, tmp_path: Path, way: str) -> None:
    secret = "User's code is marzipan-4711"
    memory = open_memory(facts(secret), facts("User likes tea"), adds(1), facts("User likes tea"))
    id = memory.add("My code is marzipan-4711", **ANA).results[0].id
    memory.add("I like tea", **ANA)
    memory.add("I like tea", user_id="bo")
    request: dict[str, Any] = {"id": {"id": id}, "scope": ANA}.get(way, {"query": secret, "threshold": 0.99, **ANA})
    would = memory.forget(dry_run=True, **request)
    report = memory.forget(**request)
    places = {place.place: place.count for place in report.places}
    assert places["cache"] == {place.place: place.count for place in would.places}["cache"] >= 2
    memory.close()
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"marzipan" not in file.read_bytes(), file.name


def test_without_a_ledger_every_question_is_asked(open_memory: Open, wire: OpenAIWire, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    broken = {"db_path": str(tmp_path / "file" / "history.db")}
    memory = open_memory(facts("User lives in Lisbon"), facts("User lives in Lisbon"), history=broken)
    for event in ("ADD", "NONE"):
        assert [each.event for each in memory.add("I live in Lisbon", timestamp=WHEN, **ANA).results] == [event]
    assert len(wire.heard) == 2
