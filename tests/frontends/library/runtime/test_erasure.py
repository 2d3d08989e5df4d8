"""What an agent's runtime keeps goes when its scope goes, and comes along in a backup (U4, spec 003)."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from perdure import AgentRuntime, Memory
from perdure.domain.memory import MemoryItem, new_id, text_hash
from perdure.domain.scope import Scope
from perdure.engine.core.batch import Batch
from perdure.engine.transfer.backup import backup, restore
from perdure.frontends.library.portal import PORTAL
from perdure.frontends.library.runtime import RuntimeMemory
from tests.engine.transfer.transfers import rifts, run
from tests.frontends.library.runtime.runtimes import ANA, BEN, ROOM, said

pytestmark = pytest.mark.covers("U4")

SECRET = "Xylophone"
TABLES = ("facts", "messages", "documents", "fragments", "memories", "tasks", "my own")


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory({"path": str(tmp_path / "memory"), "embedder": {"provider": "hashed"}})


def holding(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def fill(memory: Memory) -> list[str]:
    """A memory of Ana's in every table, each changed once, and a document; the ids of all."""
    runtime = AgentRuntime("agent", memory)

    async def work() -> list[str]:
        ids = []
        for table in TABLES:
            beside = {"metadata": {"note": f"{SECRET} beside"}, "unique": True}
            id = await runtime.create_memory(said(f"{SECRET} in {table}", **beside), table)
            await runtime.update_memory({"id": id, "content": {"text": f"{SECRET} no more", "mood": SECRET}})
            ids.append(id)
        ids.append(await runtime.process_document(f"{SECRET} of lakes " * 100, SECRET, entity_id=ANA, room_id=ROOM))
        cut = await runtime.get_memories(table_name="fragments", document_id=ids[-1])
        return ids + [piece.id for piece in cut]

    return PORTAL.call(work())


def shown(memory: Memory) -> list[list[RuntimeMemory]]:
    """What the agent has in each table."""
    runtime = AgentRuntime("agent", memory)
    return [PORTAL.call(runtime.get_memories(table_name=table)) for table in TABLES]


@pytest.mark.covers("U4")
@pytest.mark.parametrize("scope", [{"user_id": ANA}, {"agent_id": "agent"}, {"run_id": ROOM}], ids=str)
def test_to_forget_a_scope_leaves_no_byte_of_what_any_table_held(memory: Memory, scope: dict[str, str]) -> None:
    ids = fill(memory)
    folder = memory.config.path.expanduser()
    assert holding(folder)
    report = memory.forget(**scope)
    assert {item.id for item in report.results} == {*ids} and not report.pending
    assert shown(memory) == [[]] * len(TABLES)
    assert all(record.erased for id in ids for record in memory.history(id))
    assert holding(folder) == []
    memory.close()
    assert rifts(folder) == []


@pytest.mark.covers("U4")
@pytest.mark.parametrize("scope", [{"user_id": ANA}, {"agent_id": "agent"}, {"run_id": ROOM}], ids=str)
def test_to_delete_all_of_a_scope_takes_every_table_and_undo_brings_each_back(
    memory: Memory, scope: dict[str, str]
) -> None:
    ids = fill(memory)
    before = shown(memory)
    memory.delete_all(**scope)
    assert shown(memory) == [[]] * len(TABLES)
    for id in ids:
        *_, last = memory.history(id)
        assert last.event == "DELETE"
        memory.undo(last.id)
    assert shown(memory) == before
    memory.close()


@pytest.mark.covers("C9", "U4")
@pytest.mark.parametrize("way", ["delete_all", "forget", "erase"])
def test_what_was_cut_from_a_document_goes_with_it_from_whatever_room(memory: Memory, way: str) -> None:
    runtime, other = AgentRuntime("agent", memory), AgentRuntime("other", memory)

    async def work() -> tuple[list[str], list[str]]:
        document = str(uuid4())
        about = {"type": "fragment", "documentId": document, "position": 0}
        await runtime.create_memory(said(SECRET, id=document, metadata={"type": "document"}), "documents")
        elsewhere = {"roomId": "room-2", "entityId": BEN, "metadata": about}
        gone = [await runtime.create_memory({**elsewhere, "content": {"text": "a piece"}}, "fragments")]
        stay = [await runtime.create_memory({"content": {"text": "of Ben's"}, "roomId": "room-2"}, "fragments")]
        if way == "delete_all":  # what another agent cut from it is that agent's own
            stay.append(await other.create_memory({**elsewhere, "content": {"text": "theirs"}}, "fragments"))
        return [document, *gone], stay

    gone, stay = PORTAL.call(work())
    if way == "forget":
        assert {item.id for item in memory.forget(user_id=ANA).results} == {*gone}
    else:
        memory.delete_all(user_id=ANA, erase=way == "erase")
    assert [memory.get(id) for id in gone] == [None, None]
    assert None not in [memory.get(id) for id in stay]
    if way == "delete_all":
        assert [memory.history(id)[-1].reason for id in gone] == ["explicit", "derived"]
    memory.close()


@pytest.mark.covers("U4")
def test_a_deleted_document_comes_back_with_its_fragments_and_goes_with_them_again(memory: Memory) -> None:
    runtime = AgentRuntime("agent", memory)
    document = PORTAL.call(runtime.process_document("Rinse the rice. " * 120, "Cooking rice", room_id="kitchen"))

    def pieces() -> list[str]:
        found = PORTAL.call(runtime.get_memories(table_name="fragments", document_id=document))
        return sorted(str(piece.id) for piece in found)

    before = pieces()
    memory.delete(before[0])
    memory.delete(document)
    assert pieces() == []
    for _ in range(2):
        memory.undo(memory.history(document)[-1].id)
        assert pieces() == before[1:], "the one that was deleted by itself stays so"
        memory.undo(memory.history(document)[-1].id)
        assert pieces() == []
    memory.close()


@pytest.mark.covers("U4")
def test_walls_keep_what_was_cut_from_a_document_behind_them(memory: Memory) -> None:
    runtime = AgentRuntime("agent", memory)

    async def work() -> tuple[str, str]:
        document = await runtime.create_memory(said(SECRET, metadata={"type": "document"}), "documents")
        about = {"type": "fragment", "documentId": document, "position": 0}
        piece = {"content": {"text": "a piece"}, "entityId": BEN, "metadata": about}
        return document, await runtime.create_memory(piece, "fragments")

    document, piece = PORTAL.call(work())
    PORTAL.call(memory._memory.within(user_id=ANA).delete_all())
    assert memory.get(document) is None
    assert memory.get(piece) is not None
    memory.close()


@pytest.mark.covers("U4")
def test_a_backup_brings_back_every_table_as_it_was(memory: Memory, tmp_path: Path) -> None:
    fill(memory)
    before = [[each.model_dump() for each in table] for table in shown(memory)]
    assert all(table for table in before)
    memory.close()
    place = tmp_path / "backup.jsonl.gz"
    run(memory.config.path.expanduser(), lambda engine: backup(engine, place))
    there = tmp_path / "there"
    run(there, lambda engine: restore(engine, place))
    again = Memory({"path": str(there), "embedder": {"provider": "hashed"}})
    assert [[each.model_dump() for each in table] for table in shown(again)] == before
    [fact, *_] = before[0]
    item = again.get(fact["id"])
    assert item is not None
    assert (item["content"], item.unique, item.kind) == ({"mood": SECRET}, True, "facts")
    assert [record.actor for record in again.history(item.id)] == ["runtime", "runtime"]
    again.close()
    assert rifts(there) == []


@pytest.mark.covers("U4")
def test_what_was_made_of_a_memory_goes_with_it_though_a_runtime_gave_it_other_metadata(memory: Memory) -> None:
    runtime = AgentRuntime("agent", memory)

    async def work() -> tuple[str, str]:
        facts = [await runtime.create_memory(said(f"User likes {SECRET} {n} times"), "facts") for n in ("two", "three")]
        [made] = await memory._memory.consolidate(facts)
        assert await runtime.update_memory({"id": made.memory.id, "metadata": {"type": "custom", "seen": True}})
        return facts[0], made.memory.id

    source, id = PORTAL.call(work())
    item = memory.get(id)
    assert item is not None and source in item.derived_from and item.metadata["seen"]
    memory.close()


@pytest.mark.covers("U4", "V65")
def test_a_deleted_memory_takes_along_what_tells_of_its_session(memory: Memory) -> None:
    kernel, runtime = memory._memory._engine.kernel, AgentRuntime("agent", memory)

    async def work() -> tuple[str, str, str]:
        told, other = [await runtime.create_memory(said(f"User likes {what}"), "facts") for what in ("tea", "figs")]
        moment, batch, id = kernel.clock.tick(), Batch(kernel.clock), new_id()
        account = MemoryItem(
            id=id, memory="User spoke of tea", hash=text_hash("User spoke of tea"), created_at=moment, source="session",
            updated_at=moment, told_at=moment, scope=Scope(user_id=ANA, agent_id="agent"), derived_from=(told,),
        )  # fmt: skip
        batch.add(account, None, actor="session", reason="session")
        await kernel.commit(batch.changes, batch.vectors)
        await runtime.delete_memory(told)
        return told, other, id

    told, other, account = PORTAL.call(work())
    assert memory.get(told) is None and memory.get(account) is None
    assert memory.get(other) is not None
    memory.close()
