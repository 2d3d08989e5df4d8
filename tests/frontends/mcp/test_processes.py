"""Several clients of one folder, each with a process of its own: no acknowledged write is lost."""

from __future__ import annotations

import hashlib
from pathlib import Path

import anyio
import pytest

from perdure import Memory
from tests.frontends.mcp.clients import ask, client_of

PROCESSES = 4
CALLS = 25
FACTS = 5
LETTERS = str.maketrans("0123456789abcdef", "bcdfghjklmnpqrst")


def word(*numbers: int) -> str:
    """A word that no other numbers give."""
    return hashlib.sha256(repr(numbers).encode()).hexdigest()[:12].translate(LETTERS)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_four_processes_lose_nothing(tmp_path: Path) -> None:
    """Two of them write for one user, two for another: every acknowledged event is in its memory's history."""
    told: list[dict[str, str]] = []

    async def write(number: int) -> None:
        async with client_of(tmp_path, user=f"user-{number % 2}") as client:
            for call in range(CALLS):
                facts = [" ".join(word(number, call, place, part) for part in range(4)) for place in range(FACTS)]
                answer = await ask(client, "remember", facts=facts)
                assert [each["memory"] for each in answer["results"]] == facts
                told.extend(answer["results"])

    async with anyio.create_task_group() as group:
        for number in range(PROCESSES):
            group.start_soon(write, number)
    assert len(told) == PROCESSES * CALLS * FACTS
    with Memory({"path": str(tmp_path), "embedder": {"provider": "hashed"}}) as memory:
        written = [each for each in told if each["event"] != "NONE"]  # the curator took some words for the same
        assert len(written) > len(told) * 0.8
        for each in written:
            records = {record.id: record.new_value for record in memory.history(each["id"])}
            assert records[each["event_id"]] == each["memory"]
            assert memory.get(each["id"]) is not None
