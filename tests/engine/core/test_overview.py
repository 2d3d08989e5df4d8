"""What a service asks about a memory as a whole: owners, counts and events, inside of walls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from perdure.domain.filter import eq
from perdure.domain.scope import Scope
from perdure.engine.read import overview
from perdure.engine.read.overview import Overview
from perdure.frontends.library.memory import AsyncMemory

Work = Callable[[AsyncMemory, Overview], Awaitable[None]]


def look_over(folder: Path, work: Work) -> None:
    async def run() -> None:
        async with AsyncMemory({"path": str(folder), "embedder": {"provider": "hashed"}}) as memory:
            await work(memory, Overview(memory._engine.kernel))

    asyncio.run(run())


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "PAGE", 2)


def test_owners_are_counted_by_axis_over_all_pages(tmp_path: Path) -> None:
    async def work(memory: AsyncMemory, look: Overview) -> None:
        for number in range(5):
            await memory.add(f"note {number}", infer=False, user_id="ana", run_id=f"r{number % 2}")
        await memory.within(world_id="w", project_id="p").add("note", infer=False, agent_id="helper")
        await memory.add("note", infer=False, user_id="ana", expires_at="2020-01-01")
        found = await look.owners(Scope())
        assert [(owner.axis, owner.name, owner.memories) for owner in found] == [
            ("user_id", "ana", 6), ("agent_id", "helper", 1), ("run_id", "r0", 3), ("run_id", "r1", 2),
            ("world_id", "w", 1),
        ]  # fmt: skip
        assert all(owner.created_at <= owner.updated_at for owner in found)
        assert [owner.name for owner in await look.owners(Scope(project_id="p"))] == ["helper", "w"]
        assert await look.owners(Scope(user_id="bob")) == []

    look_over(tmp_path, work)


def test_count_is_what_a_list_would_give(tmp_path: Path) -> None:
    async def work(memory: AsyncMemory, look: Overview) -> None:
        for number in range(3):
            await memory.add(f"note {number}", infer=False, user_id="ana", metadata={"n": number})
        await memory.add("old", infer=False, user_id="ana", expires_at="2020-01-01")
        ana = Scope(user_id="ana")
        assert await look.count(ana) == len((await memory.get_all(user_id="ana")).results) == 3
        assert await look.count(ana, eq("n", 1)) == 1
        assert await look.count(ana, include_past=True) == 4

    look_over(tmp_path, work)


def test_events_come_page_by_page_and_only_from_inside(tmp_path: Path) -> None:
    async def work(memory: AsyncMemory, look: Overview) -> None:
        id = (await memory.add("one", infer=False, user_id="ana")).results[0].id
        await memory.add("another", infer=False, user_id="bob")
        await memory.update(id, "two")
        await memory.update(id, "three")
        await memory.delete(id)
        ana = Scope(user_id="ana")
        first = await look.events(ana, limit=3)
        rest = await look.events(ana, limit=3, after=first[-1].sequence)
        assert [record.event for record in first + rest] == ["ADD", "UPDATE", "UPDATE", "DELETE"]
        assert len(await look.events(Scope(), limit=100)) == 5
        assert await look.event(first[0].id, ana) == first[0]
        assert await look.event(first[0].id, Scope(user_id="bob")) is None
        assert await look.event("no such event", Scope()) is None

    look_over(tmp_path, work)


def test_an_answer_is_found_in_exactly_its_scope(tmp_path: Path) -> None:
    async def work(memory: AsyncMemory, look: Overview) -> None:
        given = await memory.add("one", infer=False, user_id="ana", idempotency_key="k")
        found = await look.answer("k", Scope(user_id="ana"))
        assert found is not None and found.results == given.results
        assert await look.answer("k", Scope(user_id="bob")) is None

    look_over(tmp_path, work)


def test_an_update_of_times_alone_keeps_text_and_vector_and_can_be_undone(tmp_path: Path) -> None:
    async def work(memory: AsyncMemory, look: Overview) -> None:
        id = (await memory.add("green tea", infer=False, user_id="ana")).results[0].id
        before = await memory.get(id)
        assert before is not None
        times = {"expires_at": "2020-01-01T00:00:00.000000+00:00"}
        changed = await memory._engine.revise.update(id, None, {"k": 1}, times=times)
        assert (changed.memory, changed.hash, changed.metadata) == ("green tea", before.hash, {"k": 1})
        assert (await memory.get_all(user_id="ana")).results == []
        found = (await memory.search("green tea", user_id="ana", include_past=True, preset="plain")).results
        assert [item.similarity for item in found] == [pytest.approx(1.0)]
        await memory.undo((await memory.history(id))[-1].id)
        after = await memory.get(id)
        assert after is not None and after.expires_at is None and after.metadata == {}

    look_over(tmp_path, work)
