"""Agents, entities, their components and their relationships."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.backends.ledgers.repositories.base import Among, Query
from perdure.domain.records import read_flag, read_text, read_word, read_words
from perdure.domain.runtime import Agent, Component, Entity, Participant, Relationship, read_key
from perdure.frontends.library.runtime.tabled import Tabled, count, given, ids, named, objects


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
        most, wanted = count(limit, "limit", 10), read_text(query, "query").casefold()
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
