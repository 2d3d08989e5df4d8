"""Records of an agent runtime other than memories: agents, entities, rooms, worlds, tasks, logs, ...

Times are whole milliseconds since 1970. Fields are snake_case; a record can be read by key in either case
(`room["worldId"]`, `room["world_id"]`), and `model_dump()` writes camelCase.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar, Literal, Self, TypeVar, cast
from uuid import UUID, uuid5

from perdure.domain.clock import iso, read_moment
from perdure.domain.errors import InvalidInputError
from perdure.domain.memory import Answer, check_json, read_id
from perdure.domain.scope import MAX_SCOPE_LENGTH
from perdure.domain.text.readable import check_unicode, invalid, shown

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def snake(name: str) -> str:
    """Return a name in snake_case, from either case: `tableName` is `table_name`."""
    return _HUMP.sub("_", name).lower()


def camel(name: str) -> str:
    """Return a name in camelCase: `table_name` is `tableName`."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def read_names(given: Mapping[Any, Any], known: Collection[str] | None, what: str) -> dict[str, Any]:
    """Return an object's values under snake_case names; it may use either case.

    InvalidInputError if a name is unknown, with the nearest known one, or if it is present in both cases; with `known`
    None every name is accepted. `what` names the object in the error.
    """
    read: dict[str, Any] = {}
    for key, value in given.items():
        name = snake(key) if isinstance(key, str) else ""
        if not name or (known is not None and name not in known):
            near = difflib.get_close_matches(name, known or (), n=1)
            hint = f": did you mean {camel(near[0])}?" if near else f": it has {', '.join(map(camel, known or ()))}"
            raise InvalidInputError(f"{what} has no {shown(key)}{hint}", field=str(key), value=value)
        if name in read:
            raise InvalidInputError(f"{what} is given {camel(name)} twice, in both cases", field=name, value=value)
        read[name] = value
    return read


_IDS = UUID("3f0a7b52-5a86-5c0e-9d43-0f6f2f1f7c11")  # the UUID namespace for ids that are not UUIDs
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST = 253_402_300_799_999  # the last millisecond of the year 9999, the latest possible time
MOST_SKIPPED = 2**31 - 1
"""Greater offsets are reduced to this: no table is as long, and every database can count that far."""

R = TypeVar("R", bound="Record")
ParticipantState = Literal["FOLLOWED", "MUTED"]  # the agent's state in a room; None for neither
STATES: tuple[ParticipantState, ...] = ("FOLLOWED", "MUTED")


def read_uuid(value: object, name: str = "id") -> str:
    """Return the canonical UUID of an id, or the UUIDv5 of its text; InvalidInputError names an invalid field."""
    if isinstance(value, UUID):
        return str(value)
    if not isinstance(value, str) or not value:
        raise invalid(name, "an id", value, camel(name))
    return read_id(value) or str(uuid5(_IDS, check_unicode(value, name)))


def read_key(value: object, name: str = "id") -> str:
    """Return the id as it is, any text: an entity's is the `user_id` of its memories, a room's their `run_id`.

    InvalidInputError names the field if it is not text, or not a scope value.
    """
    if isinstance(value, UUID):
        return str(value)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_SCOPE_LENGTH or "\x00" in value:
        raise invalid(name, f"an id of 1 to {MAX_SCOPE_LENGTH} characters", value, camel(name))
    return check_unicode(str(value), name)


def milliseconds(moment: datetime) -> int:
    """Return the whole milliseconds from 1970 to an aware time."""
    return (moment - _EPOCH) // (_EPOCH.resolution * 1000)


def moment_of(milliseconds: int) -> str:
    """Return the time at so many milliseconds from 1970, as ISO 8601 text."""
    return iso(_EPOCH + timedelta(milliseconds=milliseconds))


def read_time(value: object, name: str) -> int:
    """Return the milliseconds that a number, a datetime or ISO 8601 text names; InvalidInputError names the field."""
    read: int | None = None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= LAST:
        read = int(value)
    elif isinstance(value, (str, date, datetime)):
        moment = read_moment(value)
        read = None if moment is None else milliseconds(moment)
    if read is None:
        raise invalid(name, "milliseconds since 1970", value, camel(name))
    return read


def read_offset(value: object) -> int:
    """Return how many rows to skip, 0 for None; InvalidInputError if it is not a whole number from 0 on."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInputError("offset must be a non-negative number", field="offset", value=value)
    return min(value, MOST_SKIPPED)


def read_text(value: object, name: str) -> str:
    """Return the text; InvalidInputError names the field."""
    if not isinstance(value, str):
        raise invalid(name, "text", value, camel(name))
    return check_unicode(str(value), name)


def read_word(value: object, name: str) -> str:
    """Return the text, which must not be empty; InvalidInputError names the field."""
    if not read_text(value, name):
        raise InvalidInputError(f"{camel(name)} must not be empty", field=name, value=value)
    return str(value)


def read_words(value: object, name: str) -> tuple[str, ...]:
    """Return the texts of a list, each once, in order; InvalidInputError names the field."""
    if isinstance(value, str) or not isinstance(value, (list, tuple, set, frozenset)):
        raise invalid(name, "a list of texts", value, camel(name))
    elements = sorted(value) if isinstance(value, (set, frozenset)) else value
    return tuple(dict.fromkeys(read_text(each, name) for each in elements))


def read_object(value: object, name: str) -> dict[str, Any]:
    """Return the JSON object; InvalidInputError names the field."""
    if not isinstance(value, Mapping):
        raise invalid(name, "an object", value, camel(name))
    read = dict(value)
    check_json(name, read)
    return read


def read_json(value: object, name: str) -> Any:
    """Return the JSON value, None included; InvalidInputError names the field."""
    check_json(name, value)
    return value


def read_flag(value: object, name: str) -> bool:
    """Return True or False; InvalidInputError names the field."""
    if not isinstance(value, bool):
        raise invalid(name, "true or false", value, camel(name))
    return value


def read_state(value: object, name: str) -> ParticipantState:
    """Return the agent's state in a room; InvalidInputError names the field."""
    for state in STATES:
        if value == state:
            return state
    raise invalid(name, "FOLLOWED, MUTED or None", value, camel(name))


_READERS: dict[str, Any] = {
    **dict.fromkeys(("metadata", "data", "settings", "body"), read_object),
    **dict.fromkeys(("created_at", "updated_at", "due_at", "completed_at"), read_time),
    **dict.fromkeys(("tags", "names"), read_words),
    **dict.fromkeys(("bio", "value"), read_json),
    **dict.fromkeys(("key", "type"), read_word),
    "enabled": read_flag,
    "state": read_state,
}
"""The reader of each field by its name; ids use `read_key`, every other field is text."""
AS_TEXT = {"read": read_text}  # metadata of a field that is plain text, whatever its name


def _read(name: str, given: Mapping[str, Any], metadata: Mapping[str, Any]) -> Any:
    by_name = read_key if name == "id" or name.endswith("_id") else _READERS.get(name, read_text)
    return metadata.get("read", by_name)(given[name], name)


class EitherCaseAnswer(Answer):
    """A dataclass whose fields are read by key and by attribute in snake_case and in camelCase."""

    __slots__ = ()

    @classmethod
    def noun(cls) -> str:
        """Its name in a sentence."""
        return snake(cls.__name__).replace("_", " ")

    @classmethod
    def field_names(cls) -> list[str]:
        """The names of its fields."""
        return [each.name for each in fields(cast("Any", cls))]

    def model_dump(self) -> dict[str, Any]:
        """Return the object in camelCase, without fields that have no value."""
        return {camel(name): _plain(value) for name in self.field_names() if (value := getattr(self, name)) is not None}

    def __getattr__(self, name: str) -> Any:
        """Return a field by its name in camelCase: `relationship.targetEntityId`."""
        plain = snake(name)
        if plain == name or plain not in self.field_names():
            raise AttributeError(f"a {self.noun()} has no {name!r}")
        return getattr(self, plain)

    def __getitem__(self, key: str) -> Any:
        name = snake(key) if isinstance(key, str) else ""
        if name not in self.field_names():
            raise KeyError(key)
        return _plain(getattr(self, name))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and snake(key) in self.field_names() and getattr(self, snake(key)) is not None

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a name in either case, or the default if there is none."""
        answers = key in self
        return self[key] if answers else default


class Record(EitherCaseAnswer):
    """One row of a runtime's tables; equal to another with the same values."""

    __slots__ = ()

    KEY: ClassVar[tuple[str, ...]] = ("agent_id", "id")
    """The fields that identify it."""
    FIXED: ClassVar[tuple[str, ...]] = ()
    """Further fields that do not change after creation."""
    LISTED: ClassVar[tuple[str, ...]] = ()
    """Fields that are not columns: a read adds them."""

    @classmethod
    def of(cls, given: Mapping[Any, Any], **defaults: Any) -> Self:
        """Build the record from a caller's object in either case; missing fields come from `defaults`.

        Fields that a read adds are ignored.

        InvalidInputError names a field that is unknown, missing or wrong.
        """
        every = {each.name: each for each in fields(cast("Any", cls))}
        values = {**defaults, **read_names(given, every, cls.noun())}
        for name in cls.LISTED:
            values.pop(name, None)
        for name, each in every.items():
            optional = each.default is not MISSING or each.default_factory is not MISSING
            if name in values and not (values[name] is None and each.default is None):
                values[name] = _read(name, values, each.metadata)
            elif name not in values and not optional:
                raise InvalidInputError(f"{camel(name)} of the {cls.noun()} is required", field=name)
        return cls(**values)

    @classmethod
    def changes(cls, given: Mapping[Any, Any]) -> dict[str, Any]:
        """Return the validated fields of a caller's object, without those that a read adds. Errors as for `of`."""
        every = {each.name: each for each in fields(cast("Any", cls))}
        values = read_names(given, every, cls.noun())
        return {
            name: None if value is None and every[name].default is None else _read(name, values, every[name].metadata)
            for name, value in values.items()
            if name not in cls.LISTED
        }


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [each.model_dump() if isinstance(each, EitherCaseAnswer) else each for each in value]
    return value


class ChannelType(StrEnum):
    """Kinds of rooms and channels; any other word is accepted too."""

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
    """An agent: the owner of memories, with a name and a configuration."""

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
    """Data about an entity; unique for its type, its world and the entity that added it."""

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
    """A person or thing that an agent knows; the agent itself is one too."""

    FIXED = ("created_at",)
    LISTED = ("components",)

    id: str
    agent_id: str
    names: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: int
    components: tuple[Component, ...] | None = None
    """None if they were not requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World(Record):
    """A group of rooms: a server, a workspace."""

    FIXED = ("created_at",)

    id: str
    agent_id: str
    name: str = ""
    server_id: str | None = field(default=None, metadata=AS_TEXT)
    """The platform's own id."""
    message_server_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Room(Record):
    """A place of conversations."""

    FIXED = ("created_at",)

    id: str
    agent_id: str
    name: str = ""
    source: str = ""
    """The platform, such as `discord`."""
    type: str = ChannelType.GROUP.value
    channel_id: str | None = field(default=None, metadata=AS_TEXT)
    """The platform's own id."""
    server_id: str | None = field(default=None, metadata=AS_TEXT)
    message_server_id: str | None = None
    world_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Participant(Record):
    """An entity in a room."""

    KEY = ("agent_id", "entity_id", "room_id")
    FIXED = ("created_at",)

    agent_id: str
    entity_id: str
    room_id: str
    state: ParticipantState | None = None
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Relationship(Record):
    """A directed relation between two entities."""

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
    """Something to do, once or repeatedly; due from `due_at` on, until it is completed."""

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
    """A value that an agent stores under a key until it is deleted."""

    KEY = ("agent_id", "key")

    agent_id: str
    key: str
    value: Any
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry(Record):
    """An entry of an agent's activity log."""

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
    """One run of an agent, summarised from its log entries."""

    run_id: str
    status: str
    """started, completed, timeout or error, from the last entry."""
    started_at: int
    ended_at: int | None = None
    duration_ms: int | None = None
    message_id: str | None = None
    room_id: str | None = None
    entity_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    """Other data of its entries."""
    counts: dict[str, int] = field(default_factory=dict)
    """Number of its entries for each of `actions`, `modelCalls`, `evaluators` and `errors`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage(Record):
    """A page of runs, the latest first."""

    runs: tuple[RunSummary, ...]
    total: int
    """Number of runs in all."""
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageServer(Record):
    """A server that carries messages, shared by all agents of a store."""

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
    """A channel of a message server, shared by all agents of a store."""

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
    """An entity in a channel."""

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
