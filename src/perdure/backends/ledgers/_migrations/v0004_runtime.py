"""The tables of agent runtimes (spec 003). Independent of today's tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from perdure.backends.ledgers._migrations import COUNTERS, index, keys, maybe, texts

_NEW = sa.MetaData()


def _times(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in names]


def _numbered(name: str, *columns: sa.Column[Any]) -> None:
    sa.Table(name, _NEW, *columns, sa.Column("seq", sa.BigInteger(), nullable=False))


_numbered(
    "agents",
    *keys("id"),
    *texts("name"),
    *maybe("username"),
    *texts("bio"),
    *maybe("system"),
    sa.Column("enabled", sa.Integer(), nullable=False),
    *texts("settings", "metadata"),
    *_times("created_at", "updated_at"),
)
_numbered("entities", *keys("agent_id", "id"), *texts("names", "metadata"), *_times("created_at"))
_numbered(
    "relationships",
    *keys("agent_id", "id"),
    *texts("source_entity_id", "target_entity_id", "tags", "metadata"),
    *_times("created_at"),
)
pair = ["agent_id", "source_entity_id", "target_entity_id"]
index(_NEW, "relationships", "idx_relationships_of_two", *pair, unique=True)
index(_NEW, "relationships", "idx_relationships_target", "agent_id", "target_entity_id")
_numbered(
    "components",
    *keys("agent_id", "id"),
    *texts("entity_id", "type", "world_id", "source_entity_id"),
    *maybe("room_id"),
    *texts("data"),
    *_times("created_at"),
)
one = ["agent_id", "entity_id", "type", "world_id", "source_entity_id"]
index(_NEW, "components", "idx_components_of_entity", *one, unique=True)

_numbered(
    "worlds",
    *keys("agent_id", "id"),
    *texts("name"),
    *maybe("server_id", "message_server_id"),
    *texts("metadata"),
    *_times("created_at"),
)
_numbered(
    "rooms",
    *keys("agent_id", "id"),
    *texts("name", "source", "type"),
    *maybe("channel_id", "server_id", "message_server_id", "world_id"),
    *texts("metadata"),
    *_times("created_at"),
)
index(_NEW, "rooms", "idx_rooms_world_id", "agent_id", "world_id")
_numbered("participants", *keys("agent_id", "entity_id", "room_id"), *maybe("state"), *_times("created_at"))
index(_NEW, "participants", "idx_participants_room_id", "agent_id", "room_id")

_numbered(
    "tasks",
    *keys("agent_id", "id"),
    *texts("name", "description"),
    *maybe("room_id", "world_id", "entity_id"),
    *texts("tags", "metadata"),
    sa.Column("due_at", sa.BigInteger()),
    sa.Column("completed_at", sa.BigInteger()),
    *_times("created_at", "updated_at"),
    *maybe("owner"),
)
index(_NEW, "tasks", "idx_tasks_name", "agent_id", "name")
index(_NEW, "tasks", "idx_tasks_room_id", "agent_id", "room_id")
index(_NEW, "tasks", "idx_tasks_due", "agent_id", "due_at", where="completed_at IS NULL")
_numbered("cache", *keys("agent_id", "key"), *texts("value"), *_times("created_at"))
_numbered(
    "logs",
    *keys("agent_id", "id"),
    *texts("type", "body"),
    *maybe("entity_id", "room_id"),
    *_times("created_at"),
)
index(_NEW, "logs", "idx_logs_created_at", "agent_id", "created_at", "seq")
index(_NEW, "logs", "idx_logs_room_id", "agent_id", "room_id", "created_at")

_numbered(
    "message_servers",
    *keys("id"),
    *texts("name", "source_type"),
    *maybe("source_id"),
    *texts("metadata"),
    *_times("created_at", "updated_at"),
)
_numbered(
    "channels",
    *keys("id"),
    *texts("message_server_id", "name", "type", "source_type"),
    *maybe("source_id", "topic"),
    *texts("metadata"),
    *_times("created_at", "updated_at"),
)
index(_NEW, "channels", "idx_channels_message_server_id", "message_server_id")
_numbered("channel_participants", *keys("channel_id", "entity_id"), *_times("created_at"))
index(_NEW, "channel_participants", "idx_channel_participants_entity_id", "entity_id")
_numbered("server_agents", *keys("message_server_id", "agent_id"), *_times("created_at"))
index(_NEW, "server_agents", "idx_server_agents_agent_id", "agent_id")


def upgrade(connection: sa.Connection) -> None:
    _NEW.create_all(connection, checkfirst=False)
    connection.execute(sa.insert(COUNTERS), {"name": "runtime", "value": 0})
