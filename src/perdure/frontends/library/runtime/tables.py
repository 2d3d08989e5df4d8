"""The tables of an agent's runtime, beside its memories."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from perdure.backends.ledgers.repositories.base import Among, Query
from perdure.domain.errors import InvalidInputError
from perdure.domain.runtime import (
    Agent,
    CacheEntry,
    Channel,
    ChannelParticipant,
    Component,
    Entity,
    LogEntry,
    MessageServer,
    Participant,
    ParticipantState,
    Relationship,
    Room,
    RunPage,
    ServerAgent,
    Task,
    World,
    read_flag,
    read_json,
    read_key,
    read_names,
    read_offset,
    read_state,
    read_text,
    read_time,
    read_word,
    read_words,
)
from perdure.domain.text.readable import shown
from perdure.engine.agent_runtime.tables import Worker, moved, run_page, with_due
from perdure.frontends.library.runtime.base import Tabled, given, ids, named, objects, read_count


class People(Tabled):
    """Who there is, what is known of them, and what they are to one another."""

    # ------------------------------------------------------------------ agents
    async def create_agent(self, **agent: Any) -> bool:
        """Make an agent of the fields of `Agent`; False, with nothing changed, where it is there already."""
        return (await self._created(Agent, agent))[1]

    async def get_agent(self, agent_id: str) -> Agent | None:
        """An agent by its id."""
        return await self._tables.one(Agent, {"id": read_key(agent_id, "agent_id")})

    async def get_agents(self) -> list[Agent]:
        """Every agent of the store that may be asked for, the first made first."""
        walls = self._walls.agent_id
        return await self._tables.find(Query(noun=Agent, where={} if walls is None else {"id": walls}))

    async def update_agent(self, agent_id: str, **agent: Any) -> bool:
        """Change the given fields of an agent; whether there is one."""
        return await self._updated(Agent, agent, agent_id)

    async def delete_agent(self, agent_id: str) -> bool:
        """Delete an agent with all that it has, its memories too; whether there was one."""
        return await self._tables.remove_agent(read_key(agent_id, "agent_id"))

    # ------------------------------------------------------------------ entities
    async def create_entities(self, entities: Sequence[Mapping[str, Any] | Entity]) -> bool:
        """Make entities of the fields of `Entity`; those that are there already are left as they are. True."""
        await self._tables.add([self._new(Entity, each) for each in objects(entities, "entities")])
        return True

    async def create_entity(self, **entity: Any) -> bool:
        """Make one entity; False, with nothing changed, where it is there already."""
        return (await self._created(Entity, entity))[1]

    async def get_entities_by_ids(self, entity_ids: Sequence[str], agent_id: str | None = None) -> list[Entity]:
        """The entities of the ids that exist, in the order asked, with their components."""
        found = await self._in_order(Entity, agent_id, ids(entity_ids, "entity_ids"))
        return await self._tables.with_components(found)

    async def get_entity_by_id(self, entity_id: str, agent_id: str | None = None) -> Entity | None:
        """An entity with its components."""
        return next(iter(await self.get_entities_by_ids([entity_id], agent_id)), None)

    async def get_entities_for_room(
        self, room_id: str, include_components: bool = False, agent_id: str | None = None
    ) -> list[Entity]:
        """The entities that are in a room, the first made first; with their components where asked."""
        agent = self._of(agent_id)
        whole = include_components is not None and read_flag(include_components, "include_components")
        there = {"agent_id": agent, "room_id": read_key(room_id, "room_id")}
        where = {"agent_id": agent, "id": Among(Participant, "entity_id", there)}
        found = await self._tables.find(Query(noun=Entity, where=where))
        return await self._tables.with_components(found) if whole else found

    async def get_entities_by_names(self, names: Sequence[str], agent_id: str | None = None) -> list[Entity]:
        """The entities that have one of these names exactly, the first made first."""
        wanted = read_words(names, "names")
        if not wanted:
            return []
        return await self._tables.find(Query(noun=Entity, where={"agent_id": self._of(agent_id)}, any_tag=wanted))

    async def search_entities_by_name(
        self, query: str = "", limit: int | None = None, agent_id: str | None = None
    ) -> list[Entity]:
        """At most `limit` (10) entities of whose names one holds the query, in whatever case; all for an empty one."""
        most, wanted = read_count(limit, "limit", 10), read_text(query, "query").casefold()
        found = await self._tables.find(Query(noun=Entity, where={"agent_id": self._of(agent_id)}))
        return [each for each in found if any(wanted in name.casefold() for name in each.names)][:most]

    async def update_entity(self, **entity: Any) -> bool:
        """Change the given fields of the entity of this `id`; whether there is one. Components are left as they are."""
        return await self._updated(Entity, entity)

    async def delete_entity(self, entity_id: str, agent_id: str | None = None) -> bool:
        """Delete an entity with its memories, components, relationships, tasks, logs and its places in rooms.

        Whether there was one.
        """
        return await self._tables.remove_entity(self._of(agent_id), read_key(entity_id, "entity_id"))

    # ------------------------------------------------------------------ components
    async def create_component(self, **component: Any) -> bool:
        """Make a component (`Component`); False where there is one of its entity, type, world and source."""
        return (await self._created(Component, component))[1]

    async def get_component(
        self,
        entity_id: str,
        type: str,
        world_id: str | None = None,
        source_entity_id: str | None = None,
        agent_id: str | None = None,
    ) -> Component | None:
        """An entity's component of a type, of any world and source where none is given: the first made."""
        where = named(entity_id=entity_id) | given(world_id=world_id, source_entity_id=source_entity_id)
        where |= {"type": read_word(type, "type"), "agent_id": self._of(agent_id)}
        return await self._tables.one(Component, where)

    async def get_components(
        self,
        entity_id: str,
        world_id: str | None = None,
        source_entity_id: str | None = None,
        agent_id: str | None = None,
    ) -> list[Component]:
        """An entity's components, the first made first."""
        where = named(entity_id=entity_id) | given(world_id=world_id, source_entity_id=source_entity_id)
        return await self._tables.find(Query(noun=Component, where={**where, "agent_id": self._of(agent_id)}))

    async def update_component(self, **component: Any) -> bool:
        """Change the given fields of the component of this `id`; whether there is one."""
        return await self._updated(Component, component)

    async def delete_component(self, component_id: str, agent_id: str | None = None) -> bool:
        """Delete a component; whether there was one."""
        return await self._removed(Component, self._key(agent_id, component_id, "component_id"))

    # ------------------------------------------------------------------ relationships
    async def create_relationship(self, **relationship: Any) -> bool:
        """Say what one entity is to another (`Relationship`); False, with nothing changed, where that is said."""
        return (await self._created(Relationship, relationship))[1]

    async def create_relationships(self, relationships: Sequence[Mapping[str, Any] | Relationship]) -> bool:
        """Make several; True where all of them were new. Those that are there already are left as they are."""
        made = [self._new(Relationship, each) for each in objects(relationships, "relationships")]
        return all(await self._tables.add(made))

    async def get_relationship(
        self, source_entity_id: str, target_entity_id: str, agent_id: str | None = None
    ) -> Relationship | None:
        """What the first entity is to the second."""
        where = named(source_entity_id=source_entity_id, target_entity_id=target_entity_id)
        return await self._tables.one(Relationship, {**where, "agent_id": self._of(agent_id)})

    async def get_relationships(
        self, entity_id: str, tags: Sequence[str] | None = None, agent_id: str | None = None
    ) -> list[Relationship]:
        """The relationships in which an entity is on either side, that have one of the tags where some are given."""
        wanted = read_words(() if tags is None else tags, "tags")
        return await self._tables.relationships(self._of(agent_id), read_key(entity_id, "entity_id"), wanted)

    async def update_relationship(self, **relationship: Any) -> bool:
        """Change tags or metadata of the relationship of this `id`, or of these two entities; whether there is one."""
        values = Relationship.changes(relationship)
        if "id" not in values and {"source_entity_id", "target_entity_id"} <= values.keys():
            two = {name: values[name] for name in ("source_entity_id", "target_entity_id")}
            found = await self._tables.one(Relationship, {**two, "agent_id": values.get("agent_id", self._agent_id)})
            if found is None:
                return False
            values["id"] = found.id
        return await self._updated(Relationship, values)

    async def delete_relationship(self, relationship_id: str, agent_id: str | None = None) -> bool:
        """Delete a relationship; whether there was one."""
        return await self._removed(Relationship, self._key(agent_id, relationship_id, "relationship_id"))


class Places(Tabled):
    """Where conversations take place, and with whom."""

    # ------------------------------------------------------------------ worlds
    async def create_world(self, **world: Any) -> str:
        """Make a world of the fields of `World`, and answer with its id; one that is there is left as it is."""
        return (await self._created(World, world))[0].id

    async def get_world(self, world_id: str, agent_id: str | None = None) -> World | None:
        """A world by its id."""
        return await self._tables.one(World, self._key(agent_id, world_id, "world_id"))

    async def get_all_worlds(self, agent_id: str | None = None) -> list[World]:
        """The agent's worlds, the first made first."""
        return await self._tables.find(Query(noun=World, where={"agent_id": self._of(agent_id)}))

    async def update_world(self, **world: Any) -> bool:
        """Change the given fields of the world of this `id`; whether there is one."""
        return await self._updated(World, world)

    async def remove_world(self, world_id: str, agent_id: str | None = None) -> bool:
        """Delete a world with its rooms, as `delete_room` does; whether there was one."""
        return await self._tables.remove_world(self._of(agent_id), read_key(world_id, "world_id"))

    # ------------------------------------------------------------------ rooms
    async def create_rooms(self, rooms: Sequence[Mapping[str, Any] | Room]) -> list[str]:
        """Make rooms of the fields of `Room`, and answer with their ids; those that are there are left as they are."""
        made = [self._new(Room, each) for each in objects(rooms, "rooms")]
        await self._tables.add(made)
        return [room.id for room in made]

    async def create_room(self, **room: Any) -> str:
        """Make one room, and answer with its id; one that is there is left as it is."""
        return (await self._created(Room, room))[0].id

    async def get_room(self, room_id: str, agent_id: str | None = None) -> Room | None:
        """A room by its id."""
        return await self._tables.one(Room, self._key(agent_id, room_id, "room_id"))

    async def get_rooms_by_ids(self, room_ids: Sequence[str], agent_id: str | None = None) -> list[Room]:
        """The rooms of the ids that exist, in the order asked."""
        return await self._in_order(Room, agent_id, ids(room_ids, "room_ids"))

    async def get_rooms_by_world(self, world_id: str, agent_id: str | None = None) -> list[Room]:
        """The rooms of a world, the first made first."""
        where = {"agent_id": self._of(agent_id), **named(world_id=world_id)}
        return await self._tables.find(Query(noun=Room, where=where))

    async def update_room(self, **room: Any) -> bool:
        """Change the given fields of the room of this `id`; whether there is one."""
        return await self._updated(Room, room)

    async def delete_room(self, room_id: str, agent_id: str | None = None) -> bool:
        """Delete a room with its memories, participants, components, tasks and logs; whether there was one."""
        return await self._tables.remove_room(self._of(agent_id), read_key(room_id, "room_id"))

    async def delete_rooms_by_world_id(self, world_id: str, agent_id: str | None = None) -> int:
        """Delete every room of a world, as `delete_room` does; how many there were. The world stays."""
        return await self._tables.remove_rooms(self._of(agent_id), named(world_id=world_id))

    # ------------------------------------------------------------------ participants
    async def add_participant(self, entity_id: str, room_id: str, agent_id: str | None = None) -> bool:
        """Have an entity be in a room; whether that was new. An entity or a room that is not there is made."""
        there = self._membership(entity_id, room_id, agent_id)
        return (await self._created(Participant, there))[1]

    async def add_participants_room(self, entity_ids: Sequence[str], room_id: str, agent_id: str | None = None) -> bool:
        """Have entities be in a room; whether that was new for one of them."""
        there = [self._membership(id, room_id, agent_id) for id in ids(entity_ids, "entity_ids")]
        made = [self._new(Participant, each) for each in there]
        return any(await self._tables.add(made))

    async def remove_participant(self, entity_id: str, room_id: str, agent_id: str | None = None) -> bool:
        """Have an entity be in a room no more; whether it was."""
        return await self._removed(Participant, self._membership(entity_id, room_id, agent_id))

    async def get_participants_for_room(self, room_id: str, agent_id: str | None = None) -> list[str]:
        """The ids of the entities that are in a room, in the order in which they came."""
        where = {"agent_id": self._of(agent_id), **named(room_id=room_id)}
        return [each.entity_id for each in await self._tables.find(Query(noun=Participant, where=where))]

    async def get_participants_for_entity(self, entity_id: str, agent_id: str | None = None) -> list[Participant]:
        """Where an entity is, with how the agent stands to each room, in the order in which it came there."""
        where = {"agent_id": self._of(agent_id), **named(entity_id=entity_id)}
        return await self._tables.find(Query(noun=Participant, where=where))

    async def get_rooms_for_participant(self, entity_id: str, agent_id: str | None = None) -> list[str]:
        """The ids of the rooms in which an entity is."""
        return await self.get_rooms_for_participants([entity_id], agent_id)

    async def get_rooms_for_participants(self, entity_ids: Sequence[str], agent_id: str | None = None) -> list[str]:
        """The ids of the rooms in which one of these entities is, each once."""
        where = {"agent_id": self._of(agent_id), "entity_id": ids(entity_ids, "entity_ids")}
        found = await self._tables.find(Query(noun=Participant, where=where))
        return list(dict.fromkeys(each.room_id for each in found))

    async def is_room_participant(self, room_id: str, entity_id: str, agent_id: str | None = None) -> bool:
        """Whether an entity is in a room."""
        where = self._membership(entity_id, room_id, agent_id)
        return await self._tables.one(Participant, where) is not None

    async def get_participant_user_state(
        self, room_id: str, entity_id: str, agent_id: str | None = None
    ) -> ParticipantState | None:
        """FOLLOWED, MUTED or None; None too where the entity is not in the room."""
        found = await self._tables.one(Participant, self._membership(entity_id, room_id, agent_id))
        return None if found is None else found.state

    async def set_participant_user_state(
        self, room_id: str, entity_id: str, state: ParticipantState | None, agent_id: str | None = None
    ) -> bool:
        """Follow a room, mute it, or neither; False, with nothing done, where the entity is not in it."""
        to = None if state is None else read_state(state, "state")
        where = self._membership(entity_id, room_id, agent_id)
        return await self._tables.change(Participant, where, {"state": to})

    def _membership(self, entity_id: object, room_id: object, agent_id: object) -> dict[str, str]:
        return {"agent_id": self._of(agent_id), **named(entity_id=entity_id, room_id=room_id)}


class Servers(Tabled):
    """Where messages come from."""

    # ------------------------------------------------------------------ message servers
    async def create_message_server(self, **server: Any) -> MessageServer:
        """Make a message server of the fields of `MessageServer`; one that is there is left, and answered with."""
        made, new = await self._created(MessageServer, server)
        return made if new else await self.get_message_server_by_id(made.id) or made

    async def get_message_servers(self) -> list[MessageServer]:
        """Every message server, the first made first."""
        return await self._tables.find(Query(noun=MessageServer))

    async def get_message_server_by_id(self, message_server_id: str) -> MessageServer | None:
        """A message server by its id."""
        return await self._tables.one(MessageServer, {"id": read_key(message_server_id, "message_server_id")})

    async def update_message_server(self, message_server_id: str, **server: Any) -> bool:
        """Change the given fields of a message server; whether there is one."""
        return await self._updated(MessageServer, server, message_server_id)

    async def delete_message_server(self, message_server_id: str) -> bool:
        """Delete a message server with its channels, and with who serves it; whether there was one."""
        return await self._removed(MessageServer, {"id": read_key(message_server_id, "message_server_id")})

    async def add_agent_to_message_server(self, message_server_id: str, agent_id: str | None = None) -> bool:
        """Have an agent serve a message server, which is made where it is not there; whether that was new."""
        there = {"message_server_id": message_server_id, "agent_id": self._of(agent_id)}
        return (await self._created(ServerAgent, there))[1]

    async def remove_agent_from_message_server(self, message_server_id: str, agent_id: str | None = None) -> bool:
        """Have an agent serve a message server no more; whether it did."""
        there = {"agent_id": self._of(agent_id), **named(message_server_id=message_server_id)}
        return await self._removed(ServerAgent, there)

    async def get_agents_for_message_server(self, message_server_id: str) -> list[str]:
        """The ids of the agents that serve a message server, in the order in which they came."""
        where = named(message_server_id=message_server_id)
        return [each.agent_id for each in await self._tables.find(Query(noun=ServerAgent, where=where))]

    async def get_message_servers_for_agent(self, agent_id: str | None = None) -> list[MessageServer]:
        """The message servers that an agent serves, the first made first."""
        where = {"id": Among(ServerAgent, "message_server_id", {"agent_id": self._of(agent_id)})}
        return await self._tables.find(Query(noun=MessageServer, where=where))

    # ------------------------------------------------------------------ channels
    async def create_channel(self, *, participant_ids: Sequence[str] = (), **channel: Any) -> Channel:
        """Make a channel of the fields of `Channel`, with these entities in it; one that is there is left as it is.

        Its message server is made where it is not there.
        """
        inside = ids(participant_ids, "participant_ids")
        made, new = await self._created(Channel, channel)
        if inside:
            await self.add_channel_participants(made.id, inside)
        return made if new else await self.get_channel_details(made.id) or made

    async def get_channel_details(self, channel_id: str) -> Channel | None:
        """A channel by its id."""
        return await self._tables.one(Channel, {"id": read_key(channel_id, "channel_id")})

    async def get_channels_for_message_server(self, message_server_id: str) -> list[Channel]:
        """The channels of a message server, the first made first."""
        return await self._tables.find(Query(noun=Channel, where=named(message_server_id=message_server_id)))

    async def update_channel(self, channel_id: str, **channel: Any) -> bool:
        """Change the given fields of a channel; whether there is one."""
        return await self._updated(Channel, channel, channel_id)

    async def delete_channel(self, channel_id: str) -> bool:
        """Delete a channel, and who is in it; whether there was one."""
        return await self._removed(Channel, {"id": read_key(channel_id, "channel_id")})

    # ------------------------------------------------------------------ who is in which channel
    async def add_channel_participants(self, channel_id: str, entity_ids: Sequence[str]) -> bool:
        """Have entities be in a channel; whether that was new for one of them.

        Entities that this agent does not know are made; NotFoundError where there is no such channel.
        """
        wanted = ids(entity_ids, "entity_ids")
        made = [self._new(ChannelParticipant, {"channel_id": channel_id, "entity_id": id}) for id in wanted]
        new = await self._tables.add(made)
        await self._tables.ensure(self._agent_id, entities=wanted)
        return any(new)

    async def remove_channel_participants(self, channel_id: str, entity_ids: Sequence[str]) -> bool:
        """Have entities be in a channel no more; whether one of them was."""
        where = {**named(channel_id=channel_id), "entity_id": ids(entity_ids, "entity_ids")}
        return await self._removed(ChannelParticipant, where)

    async def get_channel_participants(self, channel_id: str) -> list[str]:
        """The ids of the entities that are in a channel, in the order in which they came."""
        found = await self._tables.find(Query(noun=ChannelParticipant, where=named(channel_id=channel_id)))
        return [each.entity_id for each in found]

    async def get_channels_for_participant(self, entity_id: str) -> list[Channel]:
        """The channels in which an entity is, the first made first."""
        where = {"id": Among(ChannelParticipant, "channel_id", named(entity_id=entity_id))}
        return await self._tables.find(Query(noun=Channel, where=where))

    async def is_channel_participant(self, channel_id: str, entity_id: str) -> bool:
        """Whether an entity is in a channel."""
        where = named(channel_id=channel_id, entity_id=entity_id)
        return await self._tables.one(ChannelParticipant, where) is not None


RUNS = 20
"""Runs that are told unless more are asked for."""
MOST_RUNS = 100
LOGS = 10
"""Log entries that are given unless more are asked for."""
_ASKED = ("limit", "room_id", "entity_id", "status", "from", "to", "agent_id")


class Work(Tabled):
    """What an agent has to do, keeps for later, and did."""

    # ------------------------------------------------------------------ tasks
    async def create_task(self, **task: Any) -> str:
        """Make a task of the fields of `Task`, and answer with its id; one that is there is left as it is.

        It is due at `due_at`, else at `metadata.scheduledFor`; with neither it is never due by itself.
        """
        return (await self._created(Task, with_due(task)))[0].id

    async def get_tasks(
        self,
        room_id: str | None = None,
        tags: Sequence[str] | None = None,
        entity_id: str | None = None,
        completed: bool | None = None,
        agent_id: str | None = None,
    ) -> list[Task]:
        """The tasks of a room, of an entity, with all of these tags, completed or not; the first made first."""
        where: dict[str, Any] = {"agent_id": self._of(agent_id), **given(room_id=room_id, entity_id=entity_id)}
        wanted = read_words(() if tags is None else tags, "tags")
        found = await self._tables.find(Query(noun=Task, where=where, all_tags=wanted))
        if completed is None:
            return found
        done = read_flag(completed, "completed")
        return [task for task in found if (task.completed_at is not None) == done]

    async def get_task(self, task_id: str, agent_id: str | None = None) -> Task | None:
        """A task by its id."""
        return await self._tables.one(Task, self._key(agent_id, task_id, "task_id"))

    async def get_tasks_by_name(self, name: str, agent_id: str | None = None) -> list[Task]:
        """The tasks of a name, the first made first."""
        where = {"agent_id": self._of(agent_id), "name": read_text(name, "name")}
        return await self._tables.find(Query(noun=Task, where=where))

    async def get_due_tasks(self, limit: int | None = None, agent_id: str | None = None) -> list[Task]:
        """The tasks whose time has come and that are not completed, soonest due first."""
        return await self._tasks.due(self._of(agent_id), read_count(limit, "limit"))

    async def update_task(self, task_id: str, **task: Any) -> bool:
        """Change the given fields of a task; whether there is one. It is due at a new `metadata.scheduledFor` too."""
        if "metadata" in task and "due_at" not in task:
            found = await self.get_task(task_id, task.get("agent_id"))
            task = task if found is None else moved(task, found)
        return await self._updated(Task, task, task_id)

    async def complete_task(self, task_id: str, agent_id: str | None = None) -> bool:
        """Complete a task: it is due no more, or, with the tag `repeat`, `metadata.updateInterval` ms from now.

        False for one that there is not.
        """
        return await self._tasks.complete(self._of(agent_id), read_key(task_id, "task_id"))

    async def delete_task(self, task_id: str, agent_id: str | None = None) -> bool:
        """Delete a task; whether there was one."""
        return await self._removed(Task, self._key(agent_id, task_id, "task_id"))

    def register_task_worker(
        self, name: str, execute: Callable[..., Any], validate: Callable[..., Any] | None = None
    ) -> None:
        """Have the tasks of a name done by `execute(runtime, options, task)`, a function or coroutine function.

        `options` is the task's metadata. `validate(runtime, task)` may say that it is not to be done yet.
        """
        for field, function in (("execute", execute), ("validate", validate)):
            if not callable(function) and not (field == "validate" and function is None):
                raise InvalidInputError(f"{field} must be callable, not {shown(function)}", field=field, value=function)

        async def do(task: Task) -> None:
            await _answer(execute(self, dict(task.metadata), task))

        async def may(task: Task) -> bool:
            return validate is None or bool(await _answer(validate(self, task)))

        self._workers[read_word(name, "name")] = Worker(name, do, may)

    async def run_due_tasks(self) -> list[Task]:
        """Have every due task done that a worker is registered for; those that were done, as they stand now.

        Of several processes one does each. What fails, or is not to be done yet, stays due; the failure is logged.
        """
        return await self._tasks.run(self._agent_id, self._workers)

    # ------------------------------------------------------------------ cache
    async def set_cache(self, key: str, value: Any) -> bool:
        """Keep a value of JSON under a key of this agent's, in the place of an earlier one, until it goes. True."""
        now = self._tables.now()
        entry = CacheEntry(
            agent_id=self._agent_id, key=read_word(key, "key"), value=read_json(value, "value"), created_at=now
        )
        await self._tables.put(entry)
        return True

    async def get_cache(self, key: str, agent_id: str | None = None) -> Any:
        """The value under a key; None where there is none."""
        found = await self._tables.one(CacheEntry, {"agent_id": self._of(agent_id), "key": read_word(key, "key")})
        return None if found is None else found.value

    async def delete_cache(self, key: str) -> bool:
        """Let go of the value under a key, if there is one. True."""
        await self._tables.remove(CacheEntry, {"agent_id": self._agent_id, "key": read_word(key, "key")})
        return True

    # ------------------------------------------------------------------ logs
    async def log(self, **entry: Any) -> str:
        """Write a line (`LogEntry`: `type`, `body`, `entity_id`, `room_id`), and answer with its id."""
        return (await self._created(LogEntry, entry))[0].id

    async def get_logs(
        self,
        *,
        entity_id: str | None = None,
        room_id: str | None = None,
        type: str | None = None,
        count: int | None = None,
        offset: int | None = None,
        agent_id: str | None = None,
    ) -> list[LogEntry]:
        """At most `count` (10) entries after the first `offset`, newest first: of an entity, a room, a type."""
        where: dict[str, Any] = {"agent_id": self._of(agent_id), **given(entity_id=entity_id, room_id=room_id)}
        if type is not None:
            where["type"] = read_word(type, "type")
        limit, skipped = read_count(count, "count", LOGS), read_offset(offset)
        return await self._tables.find(
            Query(noun=LogEntry, where=where, newest_first=True, limit=limit, offset=skipped)
        )

    async def update_log(self, log_id: str, **entry: Any) -> bool:
        """Change the given fields of a log entry; whether there is one."""
        return await self._updated(LogEntry, entry, log_id)

    async def delete_log(self, log_id: str, agent_id: str | None = None) -> bool:
        """Delete a log entry; whether there was one."""
        return await self._removed(LogEntry, self._key(agent_id, log_id, "log_id"))

    async def get_agent_run_summaries(self, **asked: Any) -> RunPage:
        """The latest runs, as the log entries of type `run_event` tell of them: `limit` (20, at most 100) of them.

        `room_id`, `entity_id` and `status` are filters, and `from` and `to` bound when a run began, in milliseconds.
        """
        values = read_names(asked, _ASKED, "get_agent_run_summaries()")
        since, until = values.get("from"), values.get("to")
        return await run_page(
            self._tables,
            self._of(values.get("agent_id")),
            limit=min(read_count(values.get("limit"), "limit", RUNS) or RUNS, MOST_RUNS),
            since=None if since is None else read_time(since, "from"),
            until=None if until is None else read_time(until, "to"),
            status=None if values.get("status") is None else read_text(values["status"], "status"),
            **given(room_id=values.get("room_id"), entity_id=values.get("entity_id")),
        )


async def _answer(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


class RuntimeTables(People, Places, Work, Servers):
    """Everything that a runtime keeps in tables: part of `AgentRuntime`."""
