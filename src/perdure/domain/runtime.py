"""What an agent runtime keeps beside memories: agents, entities, rooms, worlds, tasks, logs, ... (spec 003).

Times are whole milliseconds since 1970, as spec 003 has them. Fields are snake_case; a record answers by key in either
case (`room["worldId"]`, `room["world_id"]`), and `model_dump()` has spec 003's camelCase.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from perdure.domain.runtime import AS_TEXT, ParticipantState, R, Record, milliseconds, read_key, read_time, read_uuid

__all__ = [
    "Agent",
    "CacheEntry",
    "Channel",
    "ChannelParticipant",
    "ChannelType",
    "Component",
    "Entity",
    "LogEntry",
    "MessageServer",
    "Participant",
    "ParticipantState",
    "R",
    "Record",
    "Relationship",
    "Room",
    "RunPage",
    "RunSummary",
    "ServerAgent",
    "Task",
    "World",
    "milliseconds",
    "read_key",
    "read_time",
    "read_uuid",
]


class ChannelType(StrEnum):
    """What kinds of rooms and channels there are; any other word may stand there too."""

    SELF = "SELF"
    DM = "DM"
    GROUP = "GROUP"
    VOICE_DM = "VOICE_DM"
    VOICE_GROUP = "VOICE_GROUP"
    FEED = "FEED"
    THREAD = "THREAD"
    WORLD = "WORLD"
    FORUM = "FORUM"
    API = "API"


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent(Record):
    """Who has memories: a configuration with a name."""

    KEY = ("id",)
    FIXED = ("created_at",)

    id: str
    name: str = ""
    username: str | None = None
    bio: Any = None
    """Text, or a list of texts."""
    system: str | None = None
    enabled: bool = True
    settings: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Component(Record):
    """A piece of data about an entity: one for its type, the world it holds in and the entity that told it."""

    FIXED = ("entity_id", "type", "world_id", "source_entity_id", "created_at")

    id: str
    agent_id: str
    entity_id: str
    type: str
    world_id: str | None = None
    source_entity_id: str | None = None
    room_id: str | None = None
    data: dict[str, Any] = field(default_factory=dict)
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity(Record):
    """Somebody, or something, that an agent knows; the agent itself is one too."""

    FIXED = ("created_at",)
    LISTED = ("components",)

    id: str
    agent_id: str
    names: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: int
    components: tuple[Component, ...] | None = None
    """None where they were not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World(Record):
    """What holds rooms together: a server, a workspace."""

    FIXED = ("created_at",)

    id: str
    agent_id: str
    name: str = ""
    server_id: str | None = field(default=None, metadata=AS_TEXT)
    """As the platform calls it."""
    message_server_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Room(Record):
    """Where a conversation takes place."""

    FIXED = ("created_at",)

    id: str
    agent_id: str
    name: str = ""
    source: str = ""
    """The platform, such as `discord`."""
    type: str = ChannelType.GROUP.value
    channel_id: str | None = field(default=None, metadata=AS_TEXT)
    """As the platform calls it."""
    server_id: str | None = field(default=None, metadata=AS_TEXT)
    message_server_id: str | None = None
    world_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Participant(Record):
    """An entity that is in a room."""

    KEY = ("agent_id", "entity_id", "room_id")
    FIXED = ("created_at",)

    agent_id: str
    entity_id: str
    room_id: str
    state: ParticipantState | None = None
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Relationship(Record):
    """What one entity is to another: one for each direction."""

    FIXED = ("source_entity_id", "target_entity_id", "created_at")

    id: str
    agent_id: str
    source_entity_id: str
    target_entity_id: str
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Record):
    """Something to do, once or again and again; due from `due_at` on, until it is completed."""

    FIXED = ("created_at",)

    id: str
    agent_id: str
    name: str
    description: str = ""
    room_id: str | None = None
    world_id: str | None = None
    entity_id: str | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    due_at: int | None = None
    completed_at: int | None = None
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry(Record):
    """A value that an agent keeps under a key until it is deleted."""

    KEY = ("agent_id", "key")

    agent_id: str
    key: str
    value: Any
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry(Record):
    """What an agent did, for whoever looks after it."""

    FIXED = ("created_at",)

    id: str
    agent_id: str
    type: str
    body: dict[str, Any] = field(default_factory=dict)
    entity_id: str | None = None
    room_id: str | None = None
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary(Record):
    """One run of an agent, as its log entries tell of it."""

    run_id: str
    status: str
    """started, completed, timeout or error; whatever the last entry says."""
    started_at: int
    ended_at: int | None = None
    duration_ms: int | None = None
    message_id: str | None = None
    room_id: str | None = None
    entity_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    """What else its entries say."""
    counts: dict[str, int] = field(default_factory=dict)
    """How many entries of it are of `actions`, `modelCalls`, `evaluators` and `errors`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage(Record):
    """Runs, the latest first."""

    runs: tuple[RunSummary, ...]
    total: int
    """How many there are in all."""
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageServer(Record):
    """A server that carries messages, the same for all agents of a store."""

    KEY = ("id",)
    FIXED = ("created_at",)

    id: str
    name: str = ""
    source_type: str = ""
    source_id: str | None = field(default=None, metadata=AS_TEXT)
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel(Record):
    """A channel of a message server, the same for all agents of a store."""

    KEY = ("id",)
    FIXED = ("message_server_id", "created_at")

    id: str
    message_server_id: str
    name: str = ""
    type: str = ChannelType.GROUP.value
    source_type: str = ""
    source_id: str | None = field(default=None, metadata=AS_TEXT)
    topic: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelParticipant(Record):
    """An entity that is in a channel."""

    KEY = ("channel_id", "entity_id")

    channel_id: str
    entity_id: str
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAgent(Record):
    """An agent that serves a message server."""

    KEY = ("message_server_id", "agent_id")

    message_server_id: str
    agent_id: str
    created_at: int
