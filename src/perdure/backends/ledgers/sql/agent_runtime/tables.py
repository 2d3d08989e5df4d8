"""The tables of agent runtimes: a column for each field of a noun, and `seq`, the order in which records were kept.

A change here needs a migration beside it, as in `ledgers/_tables.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, Table, Text, text

from perdure.backends.ledgers.sql.tables import metadata
from perdure.domain import runtime as nouns
from perdure.domain.runtime import Record

COUNTER = "runtime"
"""The counter that numbers records, and by which those who write them take turns."""


def _keys(*names: str) -> list[Column[Any]]:
    return [Column(name, Text, primary_key=True) for name in names]


def _texts(*names: str) -> list[Column[Any]]:
    return [Column(name, Text, nullable=False) for name in names]


def _maybe(*names: str) -> list[Column[Any]]:
    return [Column(name, Text) for name in names]


def _blank(*names: str) -> list[Column[Any]]:
    """Text in which "" stands for none, so that none equals none in a unique index."""
    return [Column(name, Text, nullable=False, info={"blank": True}) for name in names]


def _json(*names: str) -> list[Column[Any]]:
    return [Column(name, Text, nullable=False, info={"json": True}) for name in names]


def _tags(name: str) -> Column[Any]:
    return Column(name, Text, nullable=False, info={"tags": True})


def _times(*names: str) -> list[Column[Any]]:
    """Milliseconds since 1970."""
    return [Column(name, BigInteger, nullable=False) for name in names]


def _numbered(name: str, *columns: Column[Any]) -> Table:
    return Table(name, metadata, *columns, Column("seq", BigInteger, nullable=False))


def _open(name: str, *columns: Column[Any]) -> None:
    given = text("completed_at IS NULL")
    Index(name, *columns, sqlite_where=given, postgresql_where=given)


agents = _numbered(
    "agents",
    *_keys("id"),
    *_texts("name"),
    *_maybe("username"),
    *_json("bio"),
    *_maybe("system"),
    Column("enabled", Integer, nullable=False, info={"flag": True}),
    *_json("settings", "metadata"),
    *_times("created_at", "updated_at"),
)

entities = _numbered("entities", *_keys("agent_id", "id"), _tags("names"), *_json("metadata"), *_times("created_at"))

worlds = _numbered(
    "worlds",
    *_keys("agent_id", "id"),
    *_texts("name"),
    *_maybe("server_id", "message_server_id"),
    *_json("metadata"),
    *_times("created_at"),
)

rooms = _numbered(
    "rooms",
    *_keys("agent_id", "id"),
    *_texts("name", "source", "type"),
    *_maybe("channel_id", "server_id", "message_server_id", "world_id"),
    *_json("metadata"),
    *_times("created_at"),
)
Index("idx_rooms_world_id", rooms.c.agent_id, rooms.c.world_id)

participants = _numbered(
    "participants", *_keys("agent_id", "entity_id", "room_id"), *_maybe("state"), *_times("created_at")
)
Index("idx_participants_room_id", participants.c.agent_id, participants.c.room_id)

relationships = _numbered(
    "relationships",
    *_keys("agent_id", "id"),
    *_texts("source_entity_id", "target_entity_id"),
    _tags("tags"),
    *_json("metadata"),
    *_times("created_at"),
)
Index(
    "idx_relationships_of_two",
    relationships.c.agent_id,
    relationships.c.source_entity_id,
    relationships.c.target_entity_id,
    unique=True,
)
Index("idx_relationships_target", relationships.c.agent_id, relationships.c.target_entity_id)

components = _numbered(
    "components",
    *_keys("agent_id", "id"),
    *_texts("entity_id", "type"),
    *_blank("world_id", "source_entity_id"),
    *_maybe("room_id"),
    *_json("data"),
    *_times("created_at"),
)
Index(
    "idx_components_of_entity",
    components.c.agent_id,
    components.c.entity_id,
    components.c.type,
    components.c.world_id,
    components.c.source_entity_id,
    unique=True,
)

tasks = _numbered(
    "tasks",
    *_keys("agent_id", "id"),
    *_texts("name", "description"),
    *_maybe("room_id", "world_id", "entity_id"),
    _tags("tags"),
    *_json("metadata"),
    Column("due_at", BigInteger),
    Column("completed_at", BigInteger),
    *_times("created_at", "updated_at"),
    *_maybe("owner"),
)
"""`owner` is who has taken a task that is due, and is set to work on it."""
Index("idx_tasks_name", tasks.c.agent_id, tasks.c.name)
Index("idx_tasks_room_id", tasks.c.agent_id, tasks.c.room_id)
_open("idx_tasks_due", tasks.c.agent_id, tasks.c.due_at)

cache = _numbered("cache", *_keys("agent_id", "key"), *_json("value"), *_times("created_at"))

logs = _numbered(
    "logs",
    *_keys("agent_id", "id"),
    *_texts("type"),
    *_json("body"),
    *_maybe("entity_id", "room_id"),
    *_times("created_at"),
)
Index("idx_logs_created_at", logs.c.agent_id, logs.c.created_at, logs.c.seq)
Index("idx_logs_room_id", logs.c.agent_id, logs.c.room_id, logs.c.created_at)

message_servers = _numbered(
    "message_servers",
    *_keys("id"),
    *_texts("name", "source_type"),
    *_maybe("source_id"),
    *_json("metadata"),
    *_times("created_at", "updated_at"),
)

channels = _numbered(
    "channels",
    *_keys("id"),
    *_texts("message_server_id", "name", "type", "source_type"),
    *_maybe("source_id", "topic"),
    *_json("metadata"),
    *_times("created_at", "updated_at"),
)
Index("idx_channels_message_server_id", channels.c.message_server_id)

channel_participants = _numbered("channel_participants", *_keys("channel_id", "entity_id"), *_times("created_at"))
Index("idx_channel_participants_entity_id", channel_participants.c.entity_id)

server_agents = _numbered("server_agents", *_keys("message_server_id", "agent_id"), *_times("created_at"))
Index("idx_server_agents_agent_id", server_agents.c.agent_id)

TABLES: Mapping[type[Record], Table] = {
    nouns.Agent: agents,
    nouns.Entity: entities,
    nouns.World: worlds,
    nouns.Room: rooms,
    nouns.Participant: participants,
    nouns.Relationship: relationships,
    nouns.Component: components,
    nouns.Task: tasks,
    nouns.CacheEntry: cache,
    nouns.LogEntry: logs,
    nouns.MessageServer: message_servers,
    nouns.Channel: channels,
    nouns.ChannelParticipant: channel_participants,
    nouns.ServerAgent: server_agents,
}
"""Where the records of each noun stand."""
