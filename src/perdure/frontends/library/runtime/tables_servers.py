"""Message servers, their channels, who is in them and which agents serve them.

They are the same for all agents of a store, which meet in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.backends.ledgers.repositories.base import Among, Query
from perdure.domain.runtime import Channel, ChannelParticipant, MessageServer, ServerAgent, read_key
from perdure.frontends.library.runtime.tabled import Tabled, ids, named


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
