"""The tables of an agent's runtime other than memories."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from perdure.backends.ledgers.repositories.base import Among, Query
from perdure.domain import runtime
from perdure.domain.errors import InvalidInputError
from perdure.domain.text.readable import shown
from perdure.engine.agent_runtime.tables import Worker, moved, run_page, with_due
from perdure.frontends.library.runtime.base import Tabled, given, ids, named, objects, read_count


class People(Tabled):
    """Agents, entities, their components and relationships."""

    async def create_agent(self, **agent: Any) -> bool:
        """Create an agent from the fields of `Agent`; False, with nothing changed, if it exists."""
        return (await self._created(runtime.Agent, agent))[1]

    async def get_agent(self, agent_id: str) -> runtime.Agent | None:
        """Return an agent by its id."""
        return await self._tables.one(runtime.Agent, {"id": runtime.read_key(agent_id, "agent_id")})

    async def get_agents(self) -> list[runtime.Agent]:
        """Return every agent of the store within the scope, oldest first."""
        walls = self._walls.agent_id
        return await self._tables.find(Query(noun=runtime.Agent, where={} if walls is None else {"id": walls}))

    async def update_agent(self, agent_id: str, **agent: Any) -> bool:
        """Change the given fields of an agent; return whether it exists."""
        return await self._updated(runtime.Agent, agent, agent_id)

    async def delete_agent(self, agent_id: str) -> bool:
        """Delete an agent with all its data, memories too; return whether it existed."""
        return await self._tables.remove_agent(runtime.read_key(agent_id, "agent_id"))

    async def create_entities(self, entities: Sequence[Mapping[str, Any] | runtime.Entity]) -> bool:
        """Create entities from the fields of `Entity`; existing ones are not changed. Returns True."""
        await self._tables.add([self._new(runtime.Entity, each) for each in objects(entities, "entities")])
        return True

    async def create_entity(self, **entity: Any) -> bool:
        """Create one entity; False, with nothing changed, if it exists."""
        return (await self._created(runtime.Entity, entity))[1]

    async def get_entities_by_ids(self, entity_ids: Sequence[str], agent_id: str | None = None) -> list[runtime.Entity]:
        """Return the existing entities of the ids, in the given order, with their components."""
        found = await self._in_order(runtime.Entity, agent_id, ids(entity_ids, "entity_ids"))
        return await self._tables.with_components(found)

    async def get_entity_by_id(self, entity_id: str, agent_id: str | None = None) -> runtime.Entity | None:
        """Return an entity with its components."""
        return next(iter(await self.get_entities_by_ids([entity_id], agent_id)), None)

    async def get_entities_for_room(
        self, room_id: str, include_components: bool = False, agent_id: str | None = None
    ) -> list[runtime.Entity]:
        """Return the entities in a room, oldest first; with their components if requested."""
        agent = self._of(agent_id)
        whole = include_components is not None and runtime.read_flag(include_components, "include_components")
        there = {"agent_id": agent, "room_id": runtime.read_key(room_id, "room_id")}
        where = {"agent_id": agent, "id": Among(runtime.Participant, "entity_id", there)}
        found = await self._tables.find(Query(noun=runtime.Entity, where=where))
        return await self._tables.with_components(found) if whole else found

    async def get_entities_by_names(self, names: Sequence[str], agent_id: str | None = None) -> list[runtime.Entity]:
        """Return the entities with exactly one of these names, oldest first."""
        wanted = runtime.read_words(names, "names")
        if not wanted:
            return []
        return await self._tables.find(
            Query(noun=runtime.Entity, where={"agent_id": self._of(agent_id)}, any_tag=wanted)
        )

    async def search_entities_by_name(
        self, query: str = "", limit: int | None = None, agent_id: str | None = None
    ) -> list[runtime.Entity]:
        """Return at most `limit` (10) entities with a name that contains the query, in any case; all for ""."""
        most, wanted = read_count(limit, "limit", 10), runtime.read_text(query, "query").casefold()
        found = await self._tables.find(Query(noun=runtime.Entity, where={"agent_id": self._of(agent_id)}))
        return [each for each in found if any(wanted in name.casefold() for name in each.names)][:most]

    async def update_entity(self, **entity: Any) -> bool:
        """Change the given fields of the entity of this `id`, not its components; return whether it exists."""
        return await self._updated(runtime.Entity, entity)

    async def delete_entity(self, entity_id: str, agent_id: str | None = None) -> bool:
        """Delete an entity with its memories, components, relationships, tasks and logs; return whether it existed."""
        return await self._tables.remove_entity(self._of(agent_id), runtime.read_key(entity_id, "entity_id"))

    async def create_component(self, **component: Any) -> bool:
        """Create a `Component`; False if one of its entity, type, world and source exists."""
        return (await self._created(runtime.Component, component))[1]

    async def get_component(
        self,
        entity_id: str,
        type: str,
        world_id: str | None = None,
        source_entity_id: str | None = None,
        agent_id: str | None = None,
    ) -> runtime.Component | None:
        """Return an entity's component of a type: the oldest one, of the given world and source if any."""
        where = named(entity_id=entity_id) | given(world_id=world_id, source_entity_id=source_entity_id)
        where |= {"type": runtime.read_word(type, "type"), "agent_id": self._of(agent_id)}
        return await self._tables.one(runtime.Component, where)

    async def get_components(
        self,
        entity_id: str,
        world_id: str | None = None,
        source_entity_id: str | None = None,
        agent_id: str | None = None,
    ) -> list[runtime.Component]:
        """Return an entity's components, oldest first."""
        where = named(entity_id=entity_id) | given(world_id=world_id, source_entity_id=source_entity_id)
        return await self._tables.find(Query(noun=runtime.Component, where={**where, "agent_id": self._of(agent_id)}))

    async def update_component(self, **component: Any) -> bool:
        """Change the given fields of the component of this `id`; return whether it exists."""
        return await self._updated(runtime.Component, component)

    async def delete_component(self, component_id: str, agent_id: str | None = None) -> bool:
        """Delete a component; return whether it existed."""
        return await self._removed(runtime.Component, self._key(agent_id, component_id, "component_id"))

    async def create_relationship(self, **relationship: Any) -> bool:
        """Create a `Relationship` between two entities; False, with nothing changed, if it exists."""
        return (await self._created(runtime.Relationship, relationship))[1]

    async def create_relationships(self, relationships: Sequence[Mapping[str, Any] | runtime.Relationship]) -> bool:
        """Create several; True if all of them were new. Existing ones are not changed."""
        made = [self._new(runtime.Relationship, each) for each in objects(relationships, "relationships")]
        return all(await self._tables.add(made))

    async def get_relationship(
        self, source_entity_id: str, target_entity_id: str, agent_id: str | None = None
    ) -> runtime.Relationship | None:
        """Return the relationship from the first entity to the second."""
        where = named(source_entity_id=source_entity_id, target_entity_id=target_entity_id)
        return await self._tables.one(runtime.Relationship, {**where, "agent_id": self._of(agent_id)})

    async def get_relationships(
        self, entity_id: str, tags: Sequence[str] | None = None, agent_id: str | None = None
    ) -> list[runtime.Relationship]:
        """Return the relationships of an entity in either direction; with `tags`, those that have one of them."""
        wanted = runtime.read_words(() if tags is None else tags, "tags")
        return await self._tables.relationships(self._of(agent_id), runtime.read_key(entity_id, "entity_id"), wanted)

    async def update_relationship(self, **relationship: Any) -> bool:
        """Change tags or metadata of a relationship by its `id` or its entities; return whether it exists."""
        values = runtime.Relationship.changes(relationship)
        if "id" not in values and {"source_entity_id", "target_entity_id"} <= values.keys():
            two = {name: values[name] for name in ("source_entity_id", "target_entity_id")}
            found = await self._tables.one(
                runtime.Relationship, {**two, "agent_id": values.get("agent_id", self._agent_id)}
            )
            if found is None:
                return False
            values["id"] = found.id
        return await self._updated(runtime.Relationship, values)

    async def delete_relationship(self, relationship_id: str, agent_id: str | None = None) -> bool:
        """Delete a relationship; return whether it existed."""
        return await self._removed(runtime.Relationship, self._key(agent_id, relationship_id, "relationship_id"))


class Places(Tabled):
    """Worlds, rooms and participants."""

    async def create_world(self, **world: Any) -> str:
        """Create a world from the fields of `World` and return its id; an existing one is not changed."""
        return (await self._created(runtime.World, world))[0].id

    async def get_world(self, world_id: str, agent_id: str | None = None) -> runtime.World | None:
        """Return a world by its id."""
        return await self._tables.one(runtime.World, self._key(agent_id, world_id, "world_id"))

    async def get_all_worlds(self, agent_id: str | None = None) -> list[runtime.World]:
        """Return the agent's worlds, oldest first."""
        return await self._tables.find(Query(noun=runtime.World, where={"agent_id": self._of(agent_id)}))

    async def update_world(self, **world: Any) -> bool:
        """Change the given fields of the world of this `id`; return whether it exists."""
        return await self._updated(runtime.World, world)

    async def remove_world(self, world_id: str, agent_id: str | None = None) -> bool:
        """Delete a world with its rooms, as `delete_room` does; return whether it existed."""
        return await self._tables.remove_world(self._of(agent_id), runtime.read_key(world_id, "world_id"))

    async def create_rooms(self, rooms: Sequence[Mapping[str, Any] | runtime.Room]) -> list[str]:
        """Create rooms from the fields of `Room` and return their ids; existing ones are not changed."""
        made = [self._new(runtime.Room, each) for each in objects(rooms, "rooms")]
        await self._tables.add(made)
        return [room.id for room in made]

    async def create_room(self, **room: Any) -> str:
        """Create one room and return its id; an existing one is not changed."""
        return (await self._created(runtime.Room, room))[0].id

    async def get_room(self, room_id: str, agent_id: str | None = None) -> runtime.Room | None:
        """Return a room by its id."""
        return await self._tables.one(runtime.Room, self._key(agent_id, room_id, "room_id"))

    async def get_rooms_by_ids(self, room_ids: Sequence[str], agent_id: str | None = None) -> list[runtime.Room]:
        """Return the existing rooms of the ids, in the given order."""
        return await self._in_order(runtime.Room, agent_id, ids(room_ids, "room_ids"))

    async def get_rooms_by_world(self, world_id: str, agent_id: str | None = None) -> list[runtime.Room]:
        """Return the rooms of a world, oldest first."""
        where = {"agent_id": self._of(agent_id), **named(world_id=world_id)}
        return await self._tables.find(Query(noun=runtime.Room, where=where))

    async def update_room(self, **room: Any) -> bool:
        """Change the given fields of the room of this `id`; return whether it exists."""
        return await self._updated(runtime.Room, room)

    async def delete_room(self, room_id: str, agent_id: str | None = None) -> bool:
        """Delete a room with its memories, participants, components, tasks and logs; return whether it existed."""
        return await self._tables.remove_room(self._of(agent_id), runtime.read_key(room_id, "room_id"))

    async def delete_rooms_by_world_id(self, world_id: str, agent_id: str | None = None) -> int:
        """Delete every room of a world, as `delete_room` does; return how many. The world stays."""
        return await self._tables.remove_rooms(self._of(agent_id), named(world_id=world_id))

    async def add_participant(self, entity_id: str, room_id: str, agent_id: str | None = None) -> bool:
        """Add an entity to a room; return whether it was new. A missing entity or room is created."""
        there = self._membership(entity_id, room_id, agent_id)
        return (await self._created(runtime.Participant, there))[1]

    async def add_participants_room(self, entity_ids: Sequence[str], room_id: str, agent_id: str | None = None) -> bool:
        """Add entities to a room; return whether one of them was new."""
        there = [self._membership(id, room_id, agent_id) for id in ids(entity_ids, "entity_ids")]
        made = [self._new(runtime.Participant, each) for each in there]
        return any(await self._tables.add(made))

    async def remove_participant(self, entity_id: str, room_id: str, agent_id: str | None = None) -> bool:
        """Remove an entity from a room; return whether it was in it."""
        return await self._removed(runtime.Participant, self._membership(entity_id, room_id, agent_id))

    async def get_participants_for_room(self, room_id: str, agent_id: str | None = None) -> list[str]:
        """Return the ids of the entities in a room, in the order in which they joined."""
        where = {"agent_id": self._of(agent_id), **named(room_id=room_id)}
        return [each.entity_id for each in await self._tables.find(Query(noun=runtime.Participant, where=where))]

    async def get_participants_for_entity(
        self, entity_id: str, agent_id: str | None = None
    ) -> list[runtime.Participant]:
        """Return an entity's participations, each with the agent's state in the room, in order of joining."""
        where = {"agent_id": self._of(agent_id), **named(entity_id=entity_id)}
        return await self._tables.find(Query(noun=runtime.Participant, where=where))

    async def get_rooms_for_participant(self, entity_id: str, agent_id: str | None = None) -> list[str]:
        """Return the ids of an entity's rooms."""
        return await self.get_rooms_for_participants([entity_id], agent_id)

    async def get_rooms_for_participants(self, entity_ids: Sequence[str], agent_id: str | None = None) -> list[str]:
        """Return the ids of the rooms of any of these entities, each once."""
        where = {"agent_id": self._of(agent_id), "entity_id": ids(entity_ids, "entity_ids")}
        found = await self._tables.find(Query(noun=runtime.Participant, where=where))
        return list(dict.fromkeys(each.room_id for each in found))

    async def is_room_participant(self, room_id: str, entity_id: str, agent_id: str | None = None) -> bool:
        """Whether an entity is in a room."""
        where = self._membership(entity_id, room_id, agent_id)
        return await self._tables.one(runtime.Participant, where) is not None

    async def get_participant_user_state(
        self, room_id: str, entity_id: str, agent_id: str | None = None
    ) -> runtime.ParticipantState | None:
        """Return FOLLOWED, MUTED or None; None also if the entity is not in the room."""
        found = await self._tables.one(runtime.Participant, self._membership(entity_id, room_id, agent_id))
        return None if found is None else found.state

    async def set_participant_user_state(
        self, room_id: str, entity_id: str, state: runtime.ParticipantState | None, agent_id: str | None = None
    ) -> bool:
        """Follow a room, mute it, or neither; False, with nothing done, if the entity is not in it."""
        to = None if state is None else runtime.read_state(state, "state")
        where = self._membership(entity_id, room_id, agent_id)
        return await self._tables.change(runtime.Participant, where, {"state": to})

    def _membership(self, entity_id: object, room_id: object, agent_id: object) -> dict[str, str]:
        return {"agent_id": self._of(agent_id), **named(entity_id=entity_id, room_id=room_id)}


class Servers(Tabled):
    """Message servers and channels."""

    async def create_message_server(self, **server: Any) -> runtime.MessageServer:
        """Create a message server from the fields of `MessageServer`; return an existing one unchanged."""
        made, new = await self._created(runtime.MessageServer, server)
        return made if new else await self.get_message_server_by_id(made.id) or made

    async def get_message_servers(self) -> list[runtime.MessageServer]:
        """Return every message server, oldest first."""
        return await self._tables.find(Query(noun=runtime.MessageServer))

    async def get_message_server_by_id(self, message_server_id: str) -> runtime.MessageServer | None:
        """Return a message server by its id."""
        return await self._tables.one(
            runtime.MessageServer, {"id": runtime.read_key(message_server_id, "message_server_id")}
        )

    async def update_message_server(self, message_server_id: str, **server: Any) -> bool:
        """Change the given fields of a message server; return whether it exists."""
        return await self._updated(runtime.MessageServer, server, message_server_id)

    async def delete_message_server(self, message_server_id: str) -> bool:
        """Delete a message server with its channels and its agents' entries; return whether it existed."""
        return await self._removed(
            runtime.MessageServer, {"id": runtime.read_key(message_server_id, "message_server_id")}
        )

    async def add_agent_to_message_server(self, message_server_id: str, agent_id: str | None = None) -> bool:
        """Add an agent to a message server, which is created if missing; return whether it was new."""
        there = {"message_server_id": message_server_id, "agent_id": self._of(agent_id)}
        return (await self._created(runtime.ServerAgent, there))[1]

    async def remove_agent_from_message_server(self, message_server_id: str, agent_id: str | None = None) -> bool:
        """Remove an agent from a message server; return whether it was there."""
        there = {"agent_id": self._of(agent_id), **named(message_server_id=message_server_id)}
        return await self._removed(runtime.ServerAgent, there)

    async def get_agents_for_message_server(self, message_server_id: str) -> list[str]:
        """Return the ids of a message server's agents, in the order in which they were added."""
        where = named(message_server_id=message_server_id)
        return [each.agent_id for each in await self._tables.find(Query(noun=runtime.ServerAgent, where=where))]

    async def get_message_servers_for_agent(self, agent_id: str | None = None) -> list[runtime.MessageServer]:
        """Return an agent's message servers, oldest first."""
        where = {"id": Among(runtime.ServerAgent, "message_server_id", {"agent_id": self._of(agent_id)})}
        return await self._tables.find(Query(noun=runtime.MessageServer, where=where))

    async def create_channel(self, *, participant_ids: Sequence[str] = (), **channel: Any) -> runtime.Channel:
        """Create a channel, and its message server, with these participants; return an existing one unchanged."""
        inside = ids(participant_ids, "participant_ids")
        made, new = await self._created(runtime.Channel, channel)
        if inside:
            await self.add_channel_participants(made.id, inside)
        return made if new else await self.get_channel_details(made.id) or made

    async def get_channel_details(self, channel_id: str) -> runtime.Channel | None:
        """Return a channel by its id."""
        return await self._tables.one(runtime.Channel, {"id": runtime.read_key(channel_id, "channel_id")})

    async def get_channels_for_message_server(self, message_server_id: str) -> list[runtime.Channel]:
        """Return the channels of a message server, oldest first."""
        return await self._tables.find(Query(noun=runtime.Channel, where=named(message_server_id=message_server_id)))

    async def update_channel(self, channel_id: str, **channel: Any) -> bool:
        """Change the given fields of a channel; return whether it exists."""
        return await self._updated(runtime.Channel, channel, channel_id)

    async def delete_channel(self, channel_id: str) -> bool:
        """Delete a channel and its participants' entries; return whether it existed."""
        return await self._removed(runtime.Channel, {"id": runtime.read_key(channel_id, "channel_id")})

    async def add_channel_participants(self, channel_id: str, entity_ids: Sequence[str]) -> bool:
        """Add entities, created if unknown, to a channel; return whether one was new. NotFoundError for no channel."""
        wanted = ids(entity_ids, "entity_ids")
        made = [self._new(runtime.ChannelParticipant, {"channel_id": channel_id, "entity_id": id}) for id in wanted]
        new = await self._tables.add(made)
        await self._tables.ensure(self._agent_id, entities=wanted)
        return any(new)

    async def remove_channel_participants(self, channel_id: str, entity_ids: Sequence[str]) -> bool:
        """Remove entities from a channel; return whether one of them was in it."""
        where = {**named(channel_id=channel_id), "entity_id": ids(entity_ids, "entity_ids")}
        return await self._removed(runtime.ChannelParticipant, where)

    async def get_channel_participants(self, channel_id: str) -> list[str]:
        """Return the ids of the entities in a channel, in the order in which they joined."""
        found = await self._tables.find(Query(noun=runtime.ChannelParticipant, where=named(channel_id=channel_id)))
        return [each.entity_id for each in found]

    async def get_channels_for_participant(self, entity_id: str) -> list[runtime.Channel]:
        """Return an entity's channels, oldest first."""
        where = {"id": Among(runtime.ChannelParticipant, "channel_id", named(entity_id=entity_id))}
        return await self._tables.find(Query(noun=runtime.Channel, where=where))

    async def is_channel_participant(self, channel_id: str, entity_id: str) -> bool:
        """Whether an entity is in a channel."""
        where = named(channel_id=channel_id, entity_id=entity_id)
        return await self._tables.one(runtime.ChannelParticipant, where) is not None


RUNS = 20  # default number of runs
MOST_RUNS = 100
LOGS = 10  # default number of log entries
_ASKED = ("limit", "room_id", "entity_id", "status", "from", "to", "agent_id")


class Work(Tabled):
    """Tasks, cache and logs of an agent."""

    async def create_task(self, **task: Any) -> str:
        """Create a task from the fields of `Task` and return its id; an existing one is not changed.

        It is due at `due_at`, else at `metadata.scheduledFor`; with neither it never becomes due.
        """
        return (await self._created(runtime.Task, with_due(task)))[0].id

    async def get_tasks(
        self,
        room_id: str | None = None,
        tags: Sequence[str] | None = None,
        entity_id: str | None = None,
        completed: bool | None = None,
        agent_id: str | None = None,
    ) -> list[runtime.Task]:
        """Return the tasks of a room, of an entity, with all of these tags, completed or not; oldest first."""
        where: dict[str, Any] = {"agent_id": self._of(agent_id), **given(room_id=room_id, entity_id=entity_id)}
        wanted = runtime.read_words(() if tags is None else tags, "tags")
        found = await self._tables.find(Query(noun=runtime.Task, where=where, all_tags=wanted))
        if completed is None:
            return found
        done = runtime.read_flag(completed, "completed")
        return [task for task in found if (task.completed_at is not None) == done]

    async def get_task(self, task_id: str, agent_id: str | None = None) -> runtime.Task | None:
        """Return a task by its id."""
        return await self._tables.one(runtime.Task, self._key(agent_id, task_id, "task_id"))

    async def get_tasks_by_name(self, name: str, agent_id: str | None = None) -> list[runtime.Task]:
        """Return the tasks of a name, oldest first."""
        where = {"agent_id": self._of(agent_id), "name": runtime.read_text(name, "name")}
        return await self._tables.find(Query(noun=runtime.Task, where=where))

    async def get_due_tasks(self, limit: int | None = None, agent_id: str | None = None) -> list[runtime.Task]:
        """Return the due tasks that are not completed, the earliest due first."""
        return await self._tasks.due(self._of(agent_id), read_count(limit, "limit"))

    async def update_task(self, task_id: str, **task: Any) -> bool:
        """Change the given fields of a task; return whether it exists. A new `metadata.scheduledFor` moves it."""
        if "metadata" in task and "due_at" not in task:
            found = await self.get_task(task_id, task.get("agent_id"))
            task = task if found is None else moved(task, found)
        return await self._updated(runtime.Task, task, task_id)

    async def complete_task(self, task_id: str, agent_id: str | None = None) -> bool:
        """Complete a task, or reschedule a `repeat` one by `metadata.updateInterval` ms; False if unknown."""
        return await self._tasks.complete(self._of(agent_id), runtime.read_key(task_id, "task_id"))

    async def delete_task(self, task_id: str, agent_id: str | None = None) -> bool:
        """Delete a task; return whether it existed."""
        return await self._removed(runtime.Task, self._key(agent_id, task_id, "task_id"))

    def register_task_worker(
        self, name: str, execute: Callable[..., Any], validate: Callable[..., Any] | None = None
    ) -> None:
        """Run the tasks of a name with `execute(runtime, options, task)`, a function or coroutine function.

        `options` is the task's metadata. `validate(runtime, task)` may postpone it.
        """
        for field, function in (("execute", execute), ("validate", validate)):
            if not callable(function) and not (field == "validate" and function is None):
                raise InvalidInputError(f"{field} must be callable, not {shown(function)}", field=field, value=function)

        async def do(task: runtime.Task) -> None:
            await _answer(execute(self, dict(task.metadata), task))

        async def may(task: runtime.Task) -> bool:
            return validate is None or bool(await _answer(validate(self, task)))

        self._workers[runtime.read_word(name, "name")] = Worker(name, do, may)

    async def run_due_tasks(self) -> list[runtime.Task]:
        """Run every due task that has a registered worker; return the completed ones in their new state.

        Among several processes, one runs each task. A task that fails or is postponed stays due; failures are logged.
        """
        return await self._tasks.run(self._agent_id, self._workers)

    async def set_cache(self, key: str, value: Any) -> bool:
        """Store a JSON value under a key of this agent, replacing an earlier one. Returns True."""
        now = self._tables.now()
        entry = runtime.CacheEntry(
            agent_id=self._agent_id,
            key=runtime.read_word(key, "key"),
            value=runtime.read_json(value, "value"),
            created_at=now,
        )
        await self._tables.put(entry)
        return True

    async def get_cache(self, key: str, agent_id: str | None = None) -> Any:
        """Return the value under a key, or None."""
        found = await self._tables.one(
            runtime.CacheEntry, {"agent_id": self._of(agent_id), "key": runtime.read_word(key, "key")}
        )
        return None if found is None else found.value

    async def delete_cache(self, key: str) -> bool:
        """Delete the value under a key, if there is one. Returns True."""
        await self._tables.remove(
            runtime.CacheEntry, {"agent_id": self._agent_id, "key": runtime.read_word(key, "key")}
        )
        return True

    async def log(self, **entry: Any) -> str:
        """Write a `LogEntry` (`type`, `body`, `entity_id`, `room_id`) and return its id."""
        return (await self._created(runtime.LogEntry, entry))[0].id

    async def get_logs(
        self,
        *,
        entity_id: str | None = None,
        room_id: str | None = None,
        type: str | None = None,
        count: int | None = None,
        offset: int | None = None,
        agent_id: str | None = None,
    ) -> list[runtime.LogEntry]:
        """Return at most `count` (10) entries after the first `offset`, newest first, of an entity, a room, a type."""
        where: dict[str, Any] = {"agent_id": self._of(agent_id), **given(entity_id=entity_id, room_id=room_id)}
        if type is not None:
            where["type"] = runtime.read_word(type, "type")
        limit, skipped = read_count(count, "count", LOGS), runtime.read_offset(offset)
        return await self._tables.find(
            Query(noun=runtime.LogEntry, where=where, newest_first=True, limit=limit, offset=skipped)
        )

    async def update_log(self, log_id: str, **entry: Any) -> bool:
        """Change the given fields of a log entry; return whether it exists."""
        return await self._updated(runtime.LogEntry, entry, log_id)

    async def delete_log(self, log_id: str, agent_id: str | None = None) -> bool:
        """Delete a log entry; return whether it existed."""
        return await self._removed(runtime.LogEntry, self._key(agent_id, log_id, "log_id"))

    async def get_agent_run_summaries(self, **asked: Any) -> runtime.RunPage:
        """Return the latest runs from the log entries of type `run_event`: `limit` (20, at most 100) of them.

        `room_id`, `entity_id` and `status` are filters, and `from` and `to` limit when a run began, in milliseconds.
        """
        values = runtime.read_names(asked, _ASKED, "get_agent_run_summaries()")
        since, until = values.get("from"), values.get("to")
        return await run_page(
            self._tables,
            self._of(values.get("agent_id")),
            limit=min(read_count(values.get("limit"), "limit", RUNS) or RUNS, MOST_RUNS),
            since=None if since is None else runtime.read_time(since, "from"),
            until=None if until is None else runtime.read_time(until, "to"),
            status=None if values.get("status") is None else runtime.read_text(values["status"], "status"),
            **given(room_id=values.get("room_id"), entity_id=values.get("entity_id")),
        )


async def _answer(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


class RuntimeTables(People, Places, Work, Servers):
    """All tables of a runtime: part of `AgentRuntime`."""
