"""The integration tables of spec 003's runtime: message servers, channels, who is in them, embeddings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perdure import AgentRuntime, AsyncMemory, InvalidInputError
from perdure.domain.errors import LedgerError, NotFoundError
from tests.frontends.library.runtime.runtimes import awaited, opened, said

pytestmark = pytest.mark.covers("Z40")


@pytest.mark.covers("Z40")
@awaited
async def test_message_servers_and_the_agents_that_serve_them(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        made = await runtime.createMessageServer({"id": "s1", "name": "Discord", "sourceType": "discord"})
        assert await runtime.create_message_server(id="s1", name="another") == made, "the existing one is kept"
        assert await runtime.updateMessageServer("s1", {"name": "Guild", "metadata": {"plan": "pro"}})
        (found,) = await runtime.getMessageServers()
        assert (found.name, found.source_type, found.metadata) == ("Guild", "discord", {"plan": "pro"})
        assert await runtime.getMessageServerById("s1") == found
        assert await runtime.addAgentToMessageServer("s1")
        assert not await runtime.add_agent_to_message_server("s1"), "an agent serves it once"
        assert await runtime.add_agent_to_message_server("s1", "other")
        assert await runtime.add_agent_to_message_server("s2")
        assert await runtime.getAgentsForMessageServer("s1") == ["agent", "other"]
        assert [each.id for each in await runtime.getMessageServersForAgent()] == ["s1", "s2"]
        assert [each.id for each in await runtime.get_message_servers_for_agent("other")] == ["s1"]
        assert await runtime.removeAgentFromMessageServer("s1", "other")
        assert not await runtime.remove_agent_from_message_server("s1", "other")
        assert await runtime.get_agents_for_message_server("s1") == ["agent"]
        assert await runtime.deleteMessageServer("s1")
        assert await runtime.get_message_server_by_id("s1") is None
        assert await runtime.get_agents_for_message_server("s1") == []


@pytest.mark.covers("Z40")
@awaited
async def test_channels_and_who_is_in_them(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        general = await runtime.createChannel(
            {"messageServerId": "s1", "name": "general", "type": "GROUP", "participantIds": ["ann", "bob"]}
        )
        other = await runtime.create_channel(message_server_id="s1", id="dm", name="dm", type="DM")
        assert await runtime.create_channel(message_server_id="s1", id="dm", name="x") == other
        assert await runtime.getChannelParticipants(general.id) == ["ann", "bob"]
        assert await runtime.addChannelParticipants("dm", ["bob", "eve"])
        assert not await runtime.add_channel_participants("dm", ["bob"]), "nobody is in a channel twice"
        assert [each.name for each in await runtime.getChannelsForParticipant("bob")] == ["general", "dm"]
        assert [await runtime.isChannelParticipant("dm", who) for who in ("eve", "ann")] == [True, False]
        assert [each.id for each in await runtime.getChannelsForMessageServer("s1")] == [general.id, "dm"]
        assert await runtime.updateChannel("dm", {"topic": "private", "name": "Bob"})
        changed = await runtime.getChannelDetails("dm")
        assert (changed.topic, changed["messageServerId"], changed.type) == ("private", "s1", "DM")
        with pytest.raises(InvalidInputError, match="stays as it is"):
            await runtime.update_channel("dm", message_server_id="s2")
        with pytest.raises(NotFoundError, match="no channel 'nowhere'"):
            await runtime.add_channel_participants("nowhere", ["ann"])
        assert await runtime.removeChannelParticipants("dm", ["bob", "nobody"])
        assert await runtime.get_channel_participants("dm") == ["eve"]
        another = AgentRuntime("other", runtime._engine)
        assert await another.get_channel_participants("dm") == ["eve"], "channels are where agents meet"
        await another.close()
        assert await runtime.deleteChannel("dm")
        assert await runtime.get_channel_participants("dm") == []
        assert await runtime.delete_message_server("s1")
        assert await runtime.get_channels_for_participant("ann") == []
        assert not await runtime.delete_channel(general.id)


@pytest.mark.covers("Z40")
@awaited
async def test_embeddings_are_kept_read_changed_and_removed_with_their_memory(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        size = await runtime.ensure_embedding_dimension()
        first, second = ([1.0, *[0.0] * (size - 1)], [*[0.0] * (size - 1), 1.0])
        id = await runtime.create_memory(said("a vector", embedding=first), "memories")

        async def nearest(vector: list[float]) -> list[str]:
            found = await runtime.search_memories(table_name="memories", embedding=vector, match_threshold=0.9)
            return [memory.id for memory in found]

        assert (await nearest(first), await nearest(second)) == ([id], [])
        assert await runtime.update_memory(id=id, embedding=second)
        assert (await nearest(first), await nearest(second)) == ([], [id])
        await runtime.delete_memory(id)
        assert await nearest(second) == []


@awaited
async def test_a_record_may_be_given_as_keywords_one_dictionary_a_typed_one_or_beside_its_id(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        task = await runtime.createTask(name="a", roomId="lobby")
        read = await runtime.get_task({"taskId": task})
        assert await runtime.create_task(read) == task, "what was read, given back"
        for n, change in enumerate(
            (
                runtime.updateTask(task, {"description": "0"}),
                runtime.update_task(task, description="1"),
                runtime.updateTask({"taskId": task, "description": "2"}),
                runtime.update_task(taskId=task, description="3"),
                runtime.update_task(task, replace(read, description="4")),
                runtime.update_task(task, {"name": "a"}, description="5"),
            )
        ):
            assert await change
            assert (await runtime.get_task(task)).description == str(n)
        with pytest.raises(InvalidInputError, match="description twice"):
            await runtime.update_task(task, {"description": "x"}, description="y")
        with pytest.raises(InvalidInputError, match="taskId twice"):
            await runtime.update_task(task, task_id=task)
        with pytest.raises(TypeError, match="1 values by position"):
            await runtime.update_task(task, "b")


@awaited
async def test_without_a_ledger_memories_are_kept_and_tables_say_why_not(tmp_path: Path) -> None:
    occupied = tmp_path / "history.db"
    occupied.mkdir()
    config = {
        "vector_store": {"provider": "memory"},
        "embedder": {"provider": "hashed"},
        "history": {"db_path": str(occupied)},
    }
    async with AsyncMemory(config) as memory:
        runtime = AgentRuntime("agent", memory)
        assert await runtime.create_memory(said("tea"), "facts")
        assert len(await runtime.get_memories(table_name="facts")) == 1
        for call in (lambda: runtime.create_room(id="r"), runtime.get_tasks, lambda: runtime.set_cache("k", 1)):
            with pytest.raises(LedgerError):
                await call()
        await runtime.close()
