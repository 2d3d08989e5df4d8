"""Worlds, rooms, and who is in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.backends.ledgers.repositories.base import Query
from perdure.domain.records import read_state
from perdure.domain.runtime import Participant, ParticipantState, Room, World, read_key
from perdure.frontends.library.runtime.tabled import Tabled, ids, named, objects


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
