"""Use counts: every door that recalls counts it, prune spares what is recalled, and a count changes nothing else."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import AgentRuntime, AsyncMemory, Memory, MemoryClient, MemoryStore, TeamMemory
from perdure.domain.scope import Scope
from perdure.engine.engine import Engine
from perdure.frontends.library.portal import PORTAL
from tests.conftest import Open
from tests.engine.team.teams import STORES, MovedClock, item
from tests.frontends.cli.runs import folder as cli_folder
from tests.frontends.server.running import running

HASHED: dict[str, Any] = {"embedder": {"provider": "hashed"}}
KETTLE = "the kettle in the kitchen is blue"
LADDER = "a ladder stands behind our garage"
QUESTION = "which kettle is blue?"


def engine_of(memory: Memory) -> Engine:
    return memory._memory._engine


def say(memory: Memory, text: str) -> str:
    return str(memory.add(text, user_id="ana", infer=False).results[0].id)


def written(memory: Memory, id: str) -> dict[str, Any]:
    """A memory's row, once what was counted is in it."""

    async def look() -> Any:
        engine = engine_of(memory)
        await engine.access_counts.write()
        return await engine.kernel.store.get(engine.kernel.collection, id)

    payload: dict[str, Any] = PORTAL.call(look()).payload
    return payload


def files_of(path: Path) -> Memory:
    return Memory({"path": str(path), **HASHED})


# ------------------------------------------------------------------ what it is for


@pytest.mark.covers("B8", "V72")
@STORES
def test_what_is_searched_for_is_not_pruned(open_memory: Open, store: str) -> None:
    memory, clock = open_memory(vector_store={"provider": store}, **HASHED), MovedClock()
    clock.of(memory)
    kettle, ladder = say(memory, KETTLE), say(memory, LADDER)
    for _ in range(50):
        assert memory.search(QUESTION, user_id="ana", limit=1).results[0].id == kettle
    clock.ahead = timedelta(days=100)
    removal = PORTAL.call(engine_of(memory).maintenance.prune(Scope()))
    assert [each.id for each in removal.removed] == [ladder]
    found = memory.get(kettle)
    assert found is not None and found.access_count == 50


@pytest.mark.covers("V72")
def test_what_only_keeps_the_answer_company_is_not_counted(quick: Memory) -> None:
    kettle = say(quick, KETTLE)
    others = [say(quick, text) for text in ("I live in Lisbon.", "I drive a 2016 Subaru", "My sister works at Google")]
    found = quick.search(QUESTION, user_id="ana").results
    assert {each.id for each in found} == {kettle, *others}, "a search gives a hundred by default"
    near = [each.score >= found[0].score / 2 for each in found]  # type: ignore[operator]  # what was found has scores
    assert near[0] and not all(near)
    assert [written(quick, each.id).get("access_count", 0) for each in found] == [int(each) for each in near]
    quick.search(QUESTION, user_id="ana", threshold=0.001)
    counts = [written(quick, each.id).get("access_count", 0) for each in found]
    assert counts == [int(each) + 1 for each in near], "good enough, says who asks"


# ------------------------------------------------------------------ every door


def by_search(path: Path) -> None:
    with files_of(path) as memory:
        memory.search(QUESTION, user_id="ana")


def by_context(path: Path) -> None:
    with files_of(path) as memory:
        assert "kettle" in memory.context(QUESTION, user_id="ana")


def by_store(path: Path) -> None:
    with files_of(path) as memory:
        assert MemoryStore(memory).retrieve(QUESTION, user_id="ana", threshold=0.01)


def by_command(path: Path) -> None:
    cli_folder(path).ask("search", QUESTION, "--user-id", "ana")


def by_rest(path: Path) -> None:
    with running(path) as server:
        body = {"query": QUESTION, "user_id": "ana"}
        assert server.client.post("/v1/memories/search", json=body).json()["results"]


@pytest.mark.covers("V72")
@pytest.mark.parametrize(
    "recall", [by_search, by_context, by_store, by_command, by_rest], ids=lambda each: each.__name__
)
def test_every_door_counts_what_it_recalls(tmp_path: Path, recall: Callable[[Path], None]) -> None:
    path = tmp_path / "memory"
    cli_folder(path)
    with files_of(path) as memory:
        id = say(memory, KETTLE)
        before = memory.get(id)
    recall(path)
    with files_of(path) as memory:
        after = memory.get(id)
        assert before is not None and after is not None
        assert (after.access_count, after.last_accessed_at is None) == (1, False)
        assert after.with_(access_count=0, last_accessed_at=None) == before, "nothing else of it has changed"
        assert [each.event for each in memory.history(id)] == ["ADD"]


@pytest.mark.covers("V72")
def test_teams_count(open_memory: Open) -> None:
    memory = open_memory(**HASHED)
    ana = TeamMemory(memory, team="excalibur", member="ana", role="member")
    id = ana.upsert(item())
    assert ana.search("fundraising target").results
    assert ana.system_addendum("fundraising target", min_level="WORKING").fact_count == 1
    assert written(memory, id)["access_count"] == 2


@pytest.mark.covers("V72")
def test_runtimes_count(tmp_path: Path) -> None:
    async def run() -> int:
        async with AsyncMemory({"path": str(tmp_path / "memory"), **HASHED}) as memory:
            async with AgentRuntime("agent", memory) as runtime:
                made = {"content": {"text": KETTLE}, "entityId": "ana", "roomId": "room"}
                id = await runtime.create_memory(made, "facts")
                assert await runtime.search_memories(table_name="facts", query=QUESTION)
            await memory._engine.access_counts.write()
            found = await memory.get(id)
            assert found is not None
            return found.access_count

    assert asyncio.run(run()) == 1


@pytest.mark.covers("V72")
def test_clients_of_files_count_and_their_files_stay_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "db"

    async def run() -> int:
        async with MemoryClient(folder, "http://127.0.0.1:9/v1", embedding_model="hashed") as client:
            await client.add("My wife is named Anne")
            before = contents(folder)
            assert await client.search("What is the name of my wife?")
            engine = client._memory._engine
            await engine.access_counts.write()
            assert contents(folder) == before, "a count is written into no file, and commits nothing"
            rows = (await engine.kernel.store.list(engine.kernel.collection)).points
            return sum(int(row.payload.get("access_count", 0)) for row in rows)

    assert asyncio.run(run()) == 1


def contents(folder: Path) -> dict[str, bytes]:
    entries = {str(path): path.read_bytes() for path in folder.rglob("*.md")}
    heads = {str(path): path.read_bytes() for path in folder.rglob(".git/logs/HEAD")}
    assert entries
    return entries | heads


# ------------------------------------------------------------------ what it leaves alone


@pytest.mark.covers("V72")
def test_counts_make_no_history_and_stand_in_nobodys_way(quick: Memory) -> None:
    id = say(quick, KETTLE)
    quick.update(id, "the kettle is red")
    moment = quick.get(id).updated_at  # type: ignore[union-attr]  # it stands
    for _ in range(3):
        quick.search(QUESTION, user_id="ana")
    row = written(quick, id)
    assert (row["access_count"], row["updated_at"]) == (3, moment)
    assert [each.event for each in quick.history(id)] == ["ADD", "UPDATE"]
    assert quick.rollback(user_id="ana", to=moment).results == [], "a count is nothing to bring back"
    quick.undo(quick.history(id)[-1].id)
    after = quick.get(id)
    assert after is not None and (after.memory, after.access_count) == (KETTLE, 3), "undoing a text undoes no count"


@pytest.mark.covers("V72")
def test_what_another_process_says_of_a_memory_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    with files_of(path) as memory, files_of(path) as other:
        id = say(memory, KETTLE)
        memory.search(QUESTION, user_id="ana")
        other.update(id, "the kettle is green")
        row = written(memory, id)
        assert (row["memory"], row["access_count"]) == ("the kettle is green", 1)
        memory.search("kettle", user_id="ana")
        other.delete(id)
        engine = engine_of(memory)
        PORTAL.call(engine.access_counts.write())
        assert memory.get(id) is None and not engine.access_counts.waiting, "no count brings a memory back"


@pytest.mark.covers("V72")
def test_a_store_that_cannot_be_written_is_searched_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "memory"
    with files_of(path) as memory:
        say(memory, KETTLE)
    with files_of(path) as memory, caplog.at_level(logging.WARNING):
        memory.search(QUESTION, user_id="ana")
        locks = [sqlite3.connect(file) for file in sorted(path.glob("*.db"))]
        assert locks
        for lock in locks:  # as long as somebody else writes
            lock.execute("BEGIN IMMEDIATE")
        memory.close()
        for lock in locks:
            lock.rollback()
            lock.close()
    assert not [each for each in caplog.records if "recalled" in each.message], "lost counts are no news"
    with files_of(path) as memory:
        assert memory.search(QUESTION, user_id="ana").results[0].memory == KETTLE
