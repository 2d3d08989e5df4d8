"""The tables of agent runtimes (spec 003). Independent of today's tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_COUNTERS = sa.table("counters", sa.column("name", sa.Text()), sa.column("value", sa.BigInteger()))
_TABLES = (
    "agents",
    "entities",
    "worlds",
    "rooms",
    "participants",
    "relationships",
    "components",
    "tasks",
    "cache",
    "logs",
    "message_servers",
    "channels",
    "channel_participants",
    "server_agents",
)


def upgrade() -> None:
    _people()
    _places()
    _work()
    _servers()
    op.bulk_insert(_COUNTERS, [{"name": "runtime", "value": 0}])


def downgrade() -> None:
    op.execute(_COUNTERS.delete().where(_COUNTERS.c.name == "runtime"))
    for name in _TABLES:
        op.drop_table(name)


def _keys(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text(), primary_key=True) for name in names]


def _texts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _maybe(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text()) for name in names]


def _times(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in names]


def _numbered(name: str, *columns: sa.Column[Any]) -> None:
    op.create_table(name, *columns, sa.Column("seq", sa.BigInteger(), nullable=False))


def _index(name: str, table: str, columns: list[str], *, where: str | None = None, unique: bool = False) -> None:
    condition = None if where is None else sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


def _people() -> None:
    _numbered(
        "agents",
        *_keys("id"),
        *_texts("name"),
        *_maybe("username"),
        *_texts("bio"),
        *_maybe("system"),
        sa.Column("enabled", sa.Integer(), nullable=False),
        *_texts("settings", "metadata"),
        *_times("created_at", "updated_at"),
    )
    _numbered("entities", *_keys("agent_id", "id"), *_texts("names", "metadata"), *_times("created_at"))
    _numbered(
        "relationships",
        *_keys("agent_id", "id"),
        *_texts("source_entity_id", "target_entity_id", "tags", "metadata"),
        *_times("created_at"),
    )
    pair = ["agent_id", "source_entity_id", "target_entity_id"]
    _index("idx_relationships_of_two", "relationships", pair, unique=True)
    _index("idx_relationships_target", "relationships", ["agent_id", "target_entity_id"])
    _numbered(
        "components",
        *_keys("agent_id", "id"),
        *_texts("entity_id", "type", "world_id", "source_entity_id"),
        *_maybe("room_id"),
        *_texts("data"),
        *_times("created_at"),
    )
    one = ["agent_id", "entity_id", "type", "world_id", "source_entity_id"]
    _index("idx_components_of_entity", "components", one, unique=True)


def _places() -> None:
    _numbered(
        "worlds",
        *_keys("agent_id", "id"),
        *_texts("name"),
        *_maybe("server_id", "message_server_id"),
        *_texts("metadata"),
        *_times("created_at"),
    )
    _numbered(
        "rooms",
        *_keys("agent_id", "id"),
        *_texts("name", "source", "type"),
        *_maybe("channel_id", "server_id", "message_server_id", "world_id"),
        *_texts("metadata"),
        *_times("created_at"),
    )
    _index("idx_rooms_world_id", "rooms", ["agent_id", "world_id"])
    _numbered("participants", *_keys("agent_id", "entity_id", "room_id"), *_maybe("state"), *_times("created_at"))
    _index("idx_participants_room_id", "participants", ["agent_id", "room_id"])


def _work() -> None:
    _numbered(
        "tasks",
        *_keys("agent_id", "id"),
        *_texts("name", "description"),
        *_maybe("room_id", "world_id", "entity_id"),
        *_texts("tags", "metadata"),
        sa.Column("due_at", sa.BigInteger()),
        sa.Column("completed_at", sa.BigInteger()),
        *_times("created_at", "updated_at"),
        *_maybe("owner"),
    )
    _index("idx_tasks_name", "tasks", ["agent_id", "name"])
    _index("idx_tasks_room_id", "tasks", ["agent_id", "room_id"])
    _index("idx_tasks_due", "tasks", ["agent_id", "due_at"], where="completed_at IS NULL")
    _numbered("cache", *_keys("agent_id", "key"), *_texts("value"), *_times("created_at"))
    _numbered(
        "logs",
        *_keys("agent_id", "id"),
        *_texts("type", "body"),
        *_maybe("entity_id", "room_id"),
        *_times("created_at"),
    )
    _index("idx_logs_created_at", "logs", ["agent_id", "created_at", "seq"])
    _index("idx_logs_room_id", "logs", ["agent_id", "room_id", "created_at"])


def _servers() -> None:
    _numbered(
        "message_servers",
        *_keys("id"),
        *_texts("name", "source_type"),
        *_maybe("source_id"),
        *_texts("metadata"),
        *_times("created_at", "updated_at"),
    )
    _numbered(
        "channels",
        *_keys("id"),
        *_texts("message_server_id", "name", "type", "source_type"),
        *_maybe("source_id", "topic"),
        *_texts("metadata"),
        *_times("created_at", "updated_at"),
    )
    _index("idx_channels_message_server_id", "channels", ["message_server_id"])
    _numbered("channel_participants", *_keys("channel_id", "entity_id"), *_times("created_at"))
    _index("idx_channel_participants_entity_id", "channel_participants", ["entity_id"])
    _numbered("server_agents", *_keys("message_server_id", "agent_id"), *_times("created_at"))
    _index("idx_server_agents_agent_id", "server_agents", ["agent_id"])
