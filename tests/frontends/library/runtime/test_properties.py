"""AgentRuntime held against a plain list: paging, filters and `unique`, whatever is written in which order."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure import AgentRuntime
from perdure.engine.agent_runtime import memories as reading
from tests.frontends.library.runtime.runtimes import opened

TEXTS = ("red roses", "white roses", "a pump", "a car")
rooms = st.sampled_from(["r1", "r2"])
entities = st.sampled_from(["ana", "ben"])


@dataclass(frozen=True)
class Written:
    """One memory as it is given."""

    text: str
    room: str
    entity: str
    at: int
    unique: bool


written = st.builds(Written, st.sampled_from(TEXTS), rooms, entities, st.integers(0, 5), st.booleans())
asked = st.fixed_dictionaries(
    {},
    optional={
        "roomId": rooms,
        "entityId": entities,
        "start": st.integers(0, 5),
        "end": st.integers(0, 5),
        "unique": st.booleans(),
        "count": st.integers(1, 4),
        "offset": st.integers(0, 6),
    },
)


async def _write(runtime: AgentRuntime, memories: list[Written], *, flagged: bool) -> list[str]:
    return [
        await runtime.create_memory(
            {
                "content": {"text": each.text},
                "roomId": each.room,
                "entityId": each.entity,
                "createdAt": each.at,
                "unique": each.unique and flagged,
            },
            "messages",
        )
        for each in memories
    ]


def _expected(memories: dict[str, Written], question: dict[str, Any]) -> list[str]:
    held = [
        id
        for id, each in memories.items()
        if question.get("roomId", each.room) == each.room
        and question.get("entityId", each.entity) == each.entity
        and question.get("start", 0) <= each.at <= question.get("end", 5)
        and (each.unique or not question.get("unique"))
    ]
    held.sort(key=lambda id: (memories[id].at, id), reverse=True)
    skipped = held[question.get("offset", 0) :]
    return skipped[: question.get("count", len(skipped))]


@pytest.mark.covers("C5", "Z9", "Z15", "Z16", "Z17")
@settings(max_examples=25)
@given(st.lists(written, max_size=8), st.lists(asked, min_size=1, max_size=6), st.sampled_from(["sqlite", "memory"]))
def test_a_read_is_what_a_plain_list_would_give(
    memories: list[Written], questions: list[dict[str, Any]], store: str
) -> None:
    # Each is told apart by its entity's own words, so that none repeats another and every flag is as given.
    apart = [
        Written(f"{each.text} {place}", each.room, each.entity, each.at, each.unique)
        for place, each in enumerate(memories)
    ]

    async def check(folder: Path) -> None:
        async with opened(folder, store=store) as runtime:
            known = dict(zip(await _write(runtime, apart, flagged=True), apart, strict=True))
            for question in questions:
                found = await runtime.get_memories({"tableName": "messages", **question})
                assert [memory.id for memory in found] == _expected(known, question)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder)))


@pytest.mark.covers("C4", "Z28")
@settings(max_examples=25)
@given(st.lists(written, max_size=8))
def test_unique_leaves_one_of_each_text_in_each_room_of_each_entity(memories: list[Written]) -> None:
    async def check(folder: Path) -> None:
        async with opened(folder, store="memory") as runtime:
            first: dict[tuple[str, str, str], str] = {}
            for each in memories:
                given = {"content": {"text": each.text}, "roomId": each.room, "entityId": each.entity}
                id = await runtime.create_memory(given, "facts", True)
                assert first.setdefault((each.text, each.room, each.entity), id) == id
            assert {memory.id for memory in await runtime.get_memories(table_name="facts")} == {*first.values()}

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder)))


@pytest.mark.covers("C5")
@pytest.mark.parametrize("few", [1, 5])
def test_the_newest_of_a_long_table_are_found_without_reading_it_whole(
    tmp_path: Path, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few rows are read at first: new ones of this hour, and old ones alone."""
    monkeypatch.setattr(reading, "FEW", few)

    async def check() -> None:
        async with opened(tmp_path) as runtime:
            old = [Written(f"old {place}", "r1", "ana", place, True) for place in range(6)]
            ids = (await _write(runtime, old, flagged=True))[::-1]
            assert [m.id for m in await runtime.get_memories(table_name="messages", count=2)] == ids[:2]
            new = [
                await runtime.create_memory({"content": {"text": f"new {place}"}, "roomId": "r1"}, "messages")
                for place in range(6)
            ][::-1]
            for count, offset in ((2, 0), (3, 2), (4, 4), (12, 0), (3, 11)):
                found = await runtime.get_memories(table_name="messages", count=count, offset=offset)
                assert [memory.id for memory in found] == [*new, *ids][offset : offset + count]

    asyncio.run(check())
