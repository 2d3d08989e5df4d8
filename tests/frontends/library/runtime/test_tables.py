"""The tables of spec 003's runtime: agents, entities, rooms, worlds, participants, relationships, components."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import AgentRuntime, AsyncMemory, InvalidInputError
from perdure.domain.errors import ForbiddenError
from tests.frontends.library.runtime.runtimes import awaited, opened, said

pytestmark = pytest.mark.covers("Z39")


@pytest.mark.covers("Z39")
@awaited
async def test_agents_are_created_read_changed_and_deleted(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        assert await runtime.createAgent({"id": "helper", "name": "Ada", "bio": ["kind"], "settings": {"k": 1}})
        assert not await runtime.create_agent(id="helper", name="Eve")
        found = await runtime.getAgent("helper")
        assert (found.name, found["bio"], found["settings"], found.enabled) == ("Ada", ["kind"], {"k": 1}, True)
        assert await runtime.updateAgent("helper", {"name": "Bea", "enabled": False})
        assert (await runtime.get_agent("helper")).updated_at >= found.created_at
        assert [(each.id, each.name, each.enabled) for each in await runtime.get_agents()] == [("helper", "Bea", False)]
        assert await runtime.delete_agent("helper")
        assert not await runtime.deleteAgent("helper")
        assert await runtime.get_agent("helper") is None
        assert not await runtime.update_agent("helper", name="nobody")


@pytest.mark.covers("Z39")
@awaited
async def test_entities_are_created_read_changed_and_deleted(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        people = [{"id": "ann", "names": ["Ann", "Annie"]}, {"id": "bob", "names": ["Bob"], "metadata": {"age": 40}}]
        assert await runtime.createEntities(people)
        assert await runtime.create_entities([{"id": "ann", "names": ["Other"]}]), "existing ones are ignored"
        bob, ann = await runtime.getEntitiesByIds(["bob", "nobody", "ann", "bob"])
        assert (ann.names, ann["names"], bob.metadata) == (("Ann", "Annie"), ["Ann", "Annie"], {"age": 40})
        assert ann.components == ()
        assert await runtime.updateEntity({"id": "bob", "names": ["Robert"]})
        bob = await runtime.getEntityById("bob")
        assert (bob.names, bob.metadata) == (("Robert",), {"age": 40})
        assert await runtime.update_entity(bob), "what was read may be given back"
        assert [each.id for each in await runtime.getEntitiesByNames({"names": ["Annie", "X"]})] == ["ann"]
        assert await runtime.get_entities_by_names([]) == [] == await runtime.get_entities_by_names(["Ann, Annie"])
        assert [each.id for each in await runtime.searchEntitiesByName({"query": "AN"})] == ["ann"]
        assert len(await runtime.search_entities_by_name(limit=1)) == 1
        assert await runtime.deleteEntity("bob")
        assert await runtime.get_entity_by_id("bob") is None
        assert not await runtime.delete_entity("bob"), "an absent id is no error (U4)"


@pytest.mark.covers("C19")
@pytest.mark.covers("C18", "Z39")
@awaited
async def test_components_by_entity_type_world_and_source(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        profile = {"entityId": "ann", "type": "profile", "data": {"n": 1}}
        assert await runtime.createComponent(profile)
        assert not await runtime.create_component(**profile), "there is one of its entity, type, world and source"
        assert await runtime.create_component(**profile, world_id="w", source_entity_id="bob")
        assert await runtime.createComponent({**profile, "type": "mood"})
        (first,) = [
            each for each in await runtime.getComponents("ann") if each.world_id is None and each.type == "profile"
        ]
        assert await runtime.getComponent("ann", "profile") == first
        told = await runtime.getComponent(
            {"entityId": "ann", "type": "profile", "worldId": "w", "sourceEntityId": "bob"}
        )
        assert (told.world_id, told.source_entity_id) == ("w", "bob")
        assert await runtime.getComponent("ann", "profile", "elsewhere") is None
        assert await runtime.updateComponent({"id": first.id, "data": {"n": 2}})
        assert (await runtime.get_component("ann", "profile")).data == {"n": 2}
        (ann,) = await runtime.get_entities_by_ids(["ann"])
        assert len(ann.components) == 3
        assert ann["components"][0]["entityId"] == "ann"
        assert await runtime.deleteComponent(first.id)
        assert len(await runtime.get_components("ann")) == 2
        assert {each.id for each in await runtime.get_entities_by_ids(["ann", "bob"])} == {"ann", "bob"}, "made (C19)"


@pytest.mark.covers("Z39")
@awaited
async def test_worlds_and_rooms_are_created_read_changed_and_deleted(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        world = await runtime.createWorld({"name": "Guild", "serverId": "discord:1"})
        assert (await runtime.getWorld(world)).server_id == "discord:1"
        assert await runtime.updateWorld({"id": world, "name": "Clan"})
        assert [each.name for each in await runtime.getAllWorlds()] == ["Clan"]
        ids = await runtime.createRooms([{"id": "lobby", "worldId": world, "type": "FORUM"}, {"worldId": world}])
        assert await runtime.create_room(id="lobby", name="another") == "lobby", "the existing one is kept"
        lobby = (await runtime.getRoomsByIds(["nobody", "lobby"]))[0]
        assert (lobby.name, lobby.type, lobby["worldId"], lobby["world_id"]) == ("", "FORUM", world, world)
        assert "worldId" in lobby
        assert "channelId" not in lobby.model_dump()
        assert lobby["channelId"] is None
        assert [room.id for room in await runtime.getRoomsByWorld(world)] == ids
        assert await runtime.updateRoom({"id": "lobby", "name": "Lobby", "worldId": None})
        assert (await runtime.get_room("lobby")).model_dump()["name"] == "Lobby"
        assert [room.id for room in await runtime.get_rooms_by_world(world)] == ids[1:]
        assert await runtime.deleteRoom("lobby")
        assert not await runtime.delete_room("lobby")
        assert await runtime.deleteRoomsByWorldId(world) == 1
        assert await runtime.get_world(world) is not None
        assert await runtime.removeWorld(world)
        assert await runtime.getAllWorlds() == []


@pytest.mark.covers("C17")
@awaited
async def test_participants_and_how_the_agent_stands_to_their_rooms(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        assert await runtime.addParticipant("ann", "lobby")
        assert not await runtime.add_participant("ann", "lobby"), "nobody is in a room twice"
        assert await runtime.addParticipantsRoom(["bob", "ann"], "lobby")
        assert await runtime.add_participant(entity_id="ann", room_id="attic")
        assert await runtime.getParticipantsForRoom("lobby") == ["ann", "bob"]
        assert await runtime.getRoomsForParticipant("ann") == ["lobby", "attic"]
        assert await runtime.getRoomsForParticipants(["bob", "ann"]) == ["lobby", "attic"]
        assert await runtime.getRoomsForParticipants([]) == []
        assert [each.room_id for each in await runtime.getParticipantsForEntity("ann")] == ["lobby", "attic"]
        assert [await runtime.isRoomParticipant("lobby", who) for who in ("bob", "eve")] == [True, False]
        assert [each.id for each in await runtime.getEntitiesForRoom("lobby")] == ["ann", "bob"]
        assert (await runtime.getEntitiesForRoom("lobby", True))[0].components == ()
        assert await runtime.getParticipantUserState("lobby", "ann") is None
        assert await runtime.setParticipantUserState("lobby", "ann", "MUTED")
        assert await runtime.get_participant_user_state("lobby", "ann") == "MUTED"
        assert await runtime.set_participant_user_state("lobby", "ann", None)
        assert await runtime.get_participant_user_state("lobby", "ann") is None
        assert not await runtime.set_participant_user_state("lobby", "eve", "FOLLOWED")
        with pytest.raises(InvalidInputError, match="FOLLOWED, MUTED or None"):
            await runtime.set_participant_user_state("lobby", "ann", "ASLEEP")
        assert await runtime.removeParticipant("ann", "lobby")
        assert not await runtime.remove_participant("ann", "lobby")
        assert await runtime.get_participants_for_room("lobby") == ["bob"]


@pytest.mark.covers("C18", "Z39")
@awaited
async def test_relationships_of_either_side_by_any_tag(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        friend = {"sourceEntityId": "ann", "targetEntityId": "bob", "tags": ["friend", "colleague"]}
        assert await runtime.createRelationship(friend)
        assert not await runtime.createRelationship(friend), "a duplicate is refused"
        assert await runtime.create_relationships([{"source_entity_id": "eve", "target_entity_id": "ann"}])
        assert await runtime.getRelationship("bob", "ann") is None, "each direction is one of its own"
        found = await runtime.getRelationship({"sourceEntityId": "ann", "targetEntityId": "bob"})
        assert found.tags == ("friend", "colleague")
        assert found.targetEntityId == found.target_entity_id == found["targetEntityId"] == "bob"
        with pytest.raises(AttributeError, match="targetEntity"):
            _ = found.targetEntity

        async def of(**asked: Any) -> list[str]:
            return [each.source_entity_id for each in await runtime.get_relationships(**asked)]

        assert await of(entity_id="ann") == ["ann", "eve"]
        assert await of(entity_id="ann", tags=["colleague", "x"]) == ["ann"]
        assert await of(entity_id="bob", tags=["x"]) == []
        assert await runtime.updateRelationship({"id": found.id, "tags": ["x"], "metadata": {"since": 2020}})
        assert await of(entity_id="bob", tags=["x"]) == ["ann"]
        assert await runtime.update_relationship(source_entity_id="ann", target_entity_id="bob", tags=[])
        changed = await runtime.get_relationship("ann", "bob")
        assert (changed.tags, changed.metadata) == ((), {"since": 2020})
        assert not await runtime.update_relationship(source_entity_id="x", target_entity_id="y", tags=[])
        with pytest.raises(InvalidInputError, match="stays as it is"):
            await runtime.update_relationship(id=found.id, target_entity_id="eve")
        assert await runtime.deleteRelationship(found.id)
        assert await of(entity_id="bob") == []


@pytest.mark.covers("C19")
@pytest.mark.covers("C16", "U4")
@awaited
async def test_memories_go_with_their_room_world_entity_and_agent(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:

        async def tell(room: str, entity: str, table: str, **fields: Any) -> None:
            text = f"{entity} in {room}, {table}"
            await runtime.create_memory(said(text, roomId=room, entityId=entity, **fields), table)

        async def left() -> set[str]:
            tables = ("messages", "facts", "documents", "dreams")
            return {m.content["text"] for table in tables for m in await runtime.get_memories(table_name=table)}

        for table in ("messages", "facts", "documents", "dreams"):
            await tell("attic", "ann", table)
        await tell("lobby", "bob", "messages")
        await tell("hall", "bob", "dreams", worldId="w")
        await runtime.update_room(id="hall", world_id="w")
        assert {room.id for room in await runtime.get_rooms_by_ids(["attic", "lobby", "hall"])} == {
            "attic", "lobby", "hall",
        }, "a memory makes what it names (C19)"  # fmt: skip
        await runtime.add_participant("ann", "attic")
        assert await runtime.deleteRoom("attic")
        assert await left() == {"bob in lobby, messages", "bob in hall, dreams"}
        assert await runtime.get_rooms_for_participant("ann") == []
        await tell("lobby", "ann", "dreams", worldId="w")
        assert await runtime.remove_world("w")
        assert (await left(), await runtime.get_room("hall")) == ({"bob in lobby, messages"}, None)
        await tell("lobby", "ann", "facts")
        assert await runtime.delete_entity("bob")
        assert await left() == {"ann in lobby, facts"}
        assert await runtime.delete_agent("agent")
        assert (await left(), await runtime.get_room("lobby")) == (set(), None)


@pytest.mark.covers("Z44")
@awaited
async def test_two_agents_share_a_store_and_not_their_tables(tmp_path: Path) -> None:
    async with opened(tmp_path) as mine:
        theirs = AgentRuntime("other", mine._engine)
        for runtime, name in ((mine, "Ann"), (theirs, "Anna")):
            await runtime.create_entities([{"id": "ann", "names": [name]}])
            await runtime.create_room(id="lobby", name=name)
            await runtime.create_task(name="greet", description=name)
            await runtime.set_cache("k", name)
            await runtime.log(type="note", body={"of": name})
            assert await runtime.create_relationship(source_entity_id="ann", target_entity_id="bob", tags=[name])
        assert (await mine.get_entity_by_id("ann")).names == ("Ann",)
        assert (await mine.getEntityById({"entityId": "ann", "agentId": "other"})).names == ("Anna",)
        assert [task.description for task in await mine.get_tasks()] == ["Ann"]
        assert [task.description for task in await mine.get_tasks(agent_id="other")] == ["Anna"]
        assert (await mine.get_cache("k"), await mine.get_cache("k", agent_id="other")) == ("Ann", "Anna")
        assert [entry.body for entry in await theirs.get_logs()] == [{"of": "Anna"}]
        assert [each.tags for each in await theirs.get_relationships("bob")] == [("Anna",)]
        assert await mine.delete_room("lobby")
        assert (await theirs.get_room("lobby")).name == "Anna"
        assert {agent.id for agent in await mine.get_agents()} == {"agent", "other"}
        await theirs.close()


@pytest.mark.covers("Z44")
@awaited
async def test_walls_hold_for_the_tables_too(tmp_path: Path) -> None:
    config = {"path": str(tmp_path), "embedder": {"provider": "hashed"}}
    async with AsyncMemory(config) as memory:
        await AgentRuntime("other", memory).create_room(id="theirs")
        runtime = AgentRuntime("agent", memory.within(agent_id="agent"))
        await runtime.create_room(id="mine")
        for call in (
            lambda: runtime.get_room("theirs", agent_id="other"),
            lambda: runtime.create_room(id="x", agent_id="other"),
            lambda: runtime.update_room(id="theirs", agent_id="other", name="x"),
            lambda: runtime.delete_agent("other"),
            lambda: runtime.delete_entity("ann", agent_id="other"),
            lambda: runtime.set_participant_user_state("theirs", "ann", None, agent_id="other"),
            lambda: runtime.add_agent_to_message_server("s", agent_id="other"),
        ):
            with pytest.raises(ForbiddenError):
                await call()
        assert [agent.id for agent in await runtime.get_agents()] == ["agent"]
        of_ann = AgentRuntime("agent", memory.within(user_id="ann"))
        await of_ann.create_memory({"content": {"text": "hello"}}, "messages")
        for call in (of_ann.get_agents, of_ann.get_tasks, of_ann.get_message_servers, lambda: of_ann.set_cache("k", 1)):
            with pytest.raises(ForbiddenError, match="no part in an agent's tables"):
                await call()


WRONG: dict[str, Callable[[AgentRuntime], Any]] = {
    "nmae": lambda runtime: runtime.create_room(nmae="x"),
    "metadata": lambda runtime: runtime.create_entity(metadata=["x"]),
    "names": lambda runtime: runtime.createEntity({"names": "Ann"}),
    "entities": lambda runtime: runtime.create_entities({"id": "ann"}),
    "room_ids": lambda runtime: runtime.get_rooms_by_ids("lobby"),
    "entity_id": lambda runtime: runtime.add_participant("", "lobby"),
    "room_id": lambda runtime: runtime.delete_room(7),
    "created_at": lambda runtime: runtime.create_world(createdAt="yesterday"),
    "type": lambda runtime: runtime.create_component(entity_id="ann", type=""),
    "target_entity_id": lambda runtime: runtime.create_relationship(source_entity_id="ann"),
    "tags": lambda runtime: runtime.get_relationships("ann", tags=[1]),
    "enabled": lambda runtime: runtime.update_agent("agent", enabled="yes"),
    "id": lambda runtime: runtime.update_room(name="which?"),
    "query": lambda runtime: runtime.search_entities_by_name(query=None),
    "include_components": lambda runtime: runtime.get_entities_for_room("lobby", "yes"),
    "data": lambda runtime: runtime.create_component(entity_id="ann", type="x", data={"f": float("nan")}),
    "room": lambda runtime: runtime.create_rooms(["lobby"]),
}
"""Calls with one wrong field, by its name."""


@awaited
async def test_what_is_wrong_is_named_and_changes_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        await runtime.create_agent(id="agent", enabled=True)
        for field, call in WRONG.items():
            with pytest.raises(InvalidInputError) as caught:
                await call(runtime)
            assert caught.value.field == field
        assert await runtime.search_entities_by_name() == []
        assert await runtime.get_all_worlds() == []
        assert await runtime.get_components("ann") == []
        assert (await runtime.get_agent("agent")).enabled


@pytest.mark.covers("C16")
@awaited
async def test_a_room_that_only_another_way_in_speaks_of_goes_with_its_memories(tmp_path: Path) -> None:
    config = {"path": str(tmp_path), "embedder": {"provider": "hashed"}}
    async with AsyncMemory(config) as memory:
        await memory.add("I moved to Lisbon", user_id="ann", agent_id="agent", run_id="attic")
        runtime = AgentRuntime("agent", memory)
        assert len(await runtime.get_memories(table_name="facts")) == 1
        assert not await runtime.delete_room("attic"), "the tables did not know it"
        assert await runtime.get_memories(table_name="facts") == []


UNNAMED: dict[str, Callable[[AgentRuntime, Any], Any]] = {
    "deleteRoomsByWorldId": lambda runtime, id: runtime.delete_rooms_by_world_id(id),
    "getRoomsByWorld": lambda runtime, id: runtime.getRoomsByWorld({"worldId": id}),
    "removeParticipant": lambda runtime, id: runtime.remove_participant(id, "lobby"),
    "isRoomParticipant": lambda runtime, id: runtime.is_room_participant(id, "ann"),
    "setParticipantUserState": lambda runtime, id: runtime.set_participant_user_state(id, "ann", "MUTED"),
    "getParticipantsForRoom": lambda runtime, id: runtime.get_participants_for_room(id),
    "getRelationship": lambda runtime, id: runtime.get_relationship("ann", id),
    "getComponents": lambda runtime, id: runtime.get_components(id),
    "removeChannelParticipants": lambda runtime, id: runtime.remove_channel_participants(id, ["ann"]),
    "removeAgentFromMessageServer": lambda runtime, id: runtime.remove_agent_from_message_server(id),
    "getAgentsForMessageServer": lambda runtime, id: runtime.get_agents_for_message_server(id),
}
"""Calls with an id that must be named: a missing one would stand for everything."""


@pytest.mark.covers("Z39", "Z40")
@awaited
async def test_a_missing_id_is_refused_and_is_not_every_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        await runtime.create_room(id="lobby", world_id="w")
        await runtime.create_memory(said("stays", roomId="lobby"), "messages")
        await runtime.add_participant("ann", "lobby")
        channel = await runtime.create_channel(message_server_id="s", participant_ids=["ann"])
        await runtime.add_agent_to_message_server("s")
        for call in UNNAMED.values():
            for missing in (None, ""):
                with pytest.raises(InvalidInputError, match="Id must be an id"):
                    await call(runtime, missing)
        assert [room.id for room in await runtime.get_rooms_by_world("w")] == ["lobby"]
        assert len(await runtime.get_memories(table_name="messages")) == 1
        assert await runtime.get_participants_for_room("lobby") == ["ann"]
        assert await runtime.get_channel_participants(channel.id) == ["ann"]
        assert await runtime.get_agents_for_message_server("s") == ["agent"]
