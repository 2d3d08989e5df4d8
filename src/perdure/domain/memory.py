"""The memory item: one short fact with its scope, its times and its provenance."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, Final, cast
from uuid import UUID, uuid4

from perdure.domain.clock import LATEST, read_moment
from perdure.domain.errors import InvalidInputError
from perdure.domain.scope import SCOPE_FIELDS, Scope
from perdure.domain.text.readable import check_unicode, invalid

# Tags of a team's memory: who may see it, and how far it can be trusted.
#
# Of 004's seven, `team_scope` and `project_scope` are the scope's axes, `confidence` and `source` the item's own
# fields; the other three are here, with the member who wrote it.

TRUTH_LEVELS = ("EPHEMERAL", "WORKING", "VALIDATED", "CANONICAL", "PUBLIC")
"""From raw output to published; a memory only moves forward, by promotion."""
VISIBILITIES = ("team", "project", "private")
"""Visible to all members, to members of the project, or to the author alone."""
VALIDATION_STATUSES = ("pending", "approved", "rejected")  # whether somebody has reviewed it


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """A team's tags on one memory, validated."""

    visibility: str
    truth_level: str
    validation_status: str
    written_by: str | None = None
    """The member who wrote it: the `sub` of their token."""

    def __post_init__(self) -> None:
        for name, known in _KNOWN.items():
            value = getattr(self, name)
            if value not in known:
                raise invalid(name, f"one of {', '.join(known)}", value)
        if self.written_by is not None:
            if not isinstance(self.written_by, str) or not self.written_by:
                raise invalid("written_by", "text", self.written_by)
            check_unicode(self.written_by, "written_by")

    @classmethod
    def read(cls, value: object) -> Tags | None:
        """Return the tags of an object of plain values; None for None, InvalidInputError for an invalid object."""
        if not value:
            return None
        names = {item.name for item in fields(cls)}
        if not isinstance(value, dict) or not {*value} <= names or not {*_KNOWN} <= {*value}:
            raise InvalidInputError(f"tags must be an object of {', '.join(sorted(names))}", field="tags", value=value)
        return cls(**value)

    def model_dump(self) -> dict[str, Any]:
        """The tags as plain values."""
        return {name: value for name, value in asdict(self).items() if value is not None}


_KNOWN = {"visibility": VISIBILITIES, "truth_level": TRUTH_LEVELS, "validation_status": VALIDATION_STATUSES}


def level_of(truth_level: str) -> int:
    """Return the index of a truth level, from 0; InvalidInputError for an unknown one."""
    if truth_level not in TRUTH_LEVELS:
        raise invalid("truth_level", f"one of {', '.join(TRUTH_LEVELS)}", truth_level)
    return TRUTH_LEVELS.index(truth_level)


LIVE = "live"  # state of an item that current reads return
VERSION = "version"  # state of a row that keeps an earlier text of an item: hidden, read by `as_of` only
FILES = "files"  # kind of an item that is a file of an agent, with its text as it is
FILE_PATH = "path"  # the metadata key of such an item's path, with forward slashes
MAX_NUMBER = 2**1023  # whole numbers below this fit into a double, at least approximately, wherever JSON is read
MAX_DEPTH = 32  # levels of lists and objects in metadata
RESERVED_METADATA = frozenset(SCOPE_FIELDS) | {"id", "memory", "hash", "created_at", "updated_at"}
"""Keys that metadata may not have: they are the item's own fields."""


def text_hash(text: str) -> str:
    """MD5 of the text in hexadecimal, which finds exact repeats."""
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def new_id() -> str:
    """A fresh UUIDv4 as text."""
    return str(uuid4())


def new_ids(count: int) -> list[str]:
    """So many fresh UUIDv4s that share their first 32 bits.

    Indexes then hold them side by side, and writing them changes few pages, however many rows there are. 90 random bits
    are left to each.
    """
    first = str(uuid4())[:8]
    return [f"{first}{str(uuid4())[8:]}" for _ in range(count)]


def read_id(value: object) -> str | None:
    """Return the canonical UUID of an id, bare or `mem_`-prefixed, or None if it is neither."""
    if not isinstance(value, str):
        return None
    try:
        return str(UUID(value.removeprefix("mem_")))
    except ValueError:
        return None


TRUSTED: Final[dict[str, Any]] = {"NOT": [{"quarantined": {"gte": ""}}]}
"""The filter for memories that may enter a prompt: a tool's answer and a hook's enter one."""
NOTES: Final = "notes"
"""The kind of rows that hold sentences as the user said them, for what no fact says."""


class Answer:
    """Base of result dataclasses, which also answer by key: `item["memory"]`, `"score" in item`, `dict(item)`."""

    __slots__ = ()

    HIDDEN: ClassVar[tuple[str, ...]] = ()
    """Fields that `model_dump` never shows."""
    OMITTED_WHEN_EMPTY: ClassVar[tuple[str, ...]] = ()
    """Fields that `model_dump` leaves out if they are None or an empty collection."""

    def keys(self) -> list[str]:
        """Return the names of the fields."""
        return list(self.model_dump())

    def __getitem__(self, key: str) -> Any:
        return self.model_dump()[key]

    def __contains__(self, key: object) -> bool:
        return key in self.model_dump()

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a field, or the default if there is no such field."""
        return self.model_dump().get(key, default)

    def model_dump(self) -> dict[str, Any]:
        """Return the fields in their order as plain JSON-ready values."""
        dump = {}
        for each in fields(cast("Any", self)):
            value = _plain(getattr(self, each.name))
            is_left_out = each.name in self.OMITTED_WHEN_EMPTY and value in (None, [], {})
            if each.name not in self.HIDDEN and not is_left_out:
                dump[each.name] = value
        return dump


def _plain(value: Any) -> Any:
    """Return a copy of a value as JSON: results and scopes as objects, tuples as lists."""
    if isinstance(value, Answer):
        return value.model_dump()
    if isinstance(value, Scope):
        return value.given()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value


@dataclass(frozen=True, slots=True)
class Slots:
    """A statement taken apart: the `attribute` of `subject` is `value`, or is not if `polarity` is false."""

    subject: str
    attribute: str
    value: str
    polarity: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted(Answer):
    """When and why a memory was deleted, and what brings it back."""

    at: str
    """Clock time."""
    told_at: str | None
    """When it was said, if a message asked for it."""
    actor: str
    """The call that deleted it: add, delete, delete_all, forget, prune, expiry, undo, ..."""
    reason: str
    """The rule that decided."""
    said: str | None
    """The message that asked for it, or told that it is over; None if no message did."""
    event_id: str | None
    """What `undo` takes; None if it cannot be undone, because it was imported without its contents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryItem(Answer):
    """One memory with all its data; times are ISO 8601 UTC text.

    `score` in [0, 1], `similarity` (raw cosine) and `explanation` are set on search results only.
    """

    id: str
    memory: str
    hash: str
    scope: Scope
    created_at: str
    updated_at: str
    told_at: str
    """When it was said: a message's own time, else the clock. `as_of` uses it."""
    first_told_at: str | None = None
    """The message time with which it was first stored, if there was one; updates do not change it."""
    untold_at: str | None = None
    """When a later statement replaced it; set on versions only."""
    kind: str = "facts"
    role: str = "memory"
    speaker: str | None = None
    """The speaker of a message that is stored as it is: the given name, else None."""
    type: str = "semantic"
    metadata: dict[str, Any] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    """Ids of its source messages (episodes)."""
    source: str = "conversation"
    importance: float = 0.5
    access_count: int = 0
    last_accessed_at: str | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    expires_at: str | None = None
    state: str = LIVE
    version: int = 1
    version_of: str | None = None
    lineage_id: str | None = None
    replaced_by: str | None = None
    slots: Slots | None = None
    confidence: float | None = None
    older: tuple[str, ...] = ()
    """Ids of memories that this one may have replaced: a soft link, which hides nothing."""
    derived_from: tuple[str, ...] = ()
    """Ids of the source memories of a summary, an insight or a merged memory; it is erased with them. A summary of a
    session by a model names its messages, too."""
    origin: str | None = None
    """Whose words it comes from if they are not the user's own: `tool`, `assistant`, `system`, `import`, ..."""
    quarantined: str | None = None
    """Why it is kept out of prompts: it came from a tool, or reads like an instruction. None if it is trusted."""
    tags: Tags | None = None
    """Set on a team's memory."""
    position: int | None = None
    content: dict[str, Any] = field(default_factory=dict)
    """Other keys of an agent runtime's content, by the caller's own names."""
    unique: bool | None = None
    """The agent runtime's flag; None for memories of other interfaces."""
    meta_type: str | None = None
    """The type in the agent runtime's metadata: document, fragment, message, description, custom, ..."""
    score: float | None = None
    similarity: float | None = None
    explanation: dict[str, Any] | None = None
    messages: tuple[dict[str, Any], ...] | None = None
    """Its source messages as they were said, if the search asked for them (`hydrate`)."""
    deleted: Deleted | None = None
    """Set on lists of deleted memories only."""

    @property
    def is_said(self) -> bool:
        """Whether it is a message of the ledger, indexed for search; its history is that of its facts."""
        return self.kind == "messages" and self.id in self.sources

    @classmethod
    def new(cls, id: str, text: str, scope: Scope, moment: str, **fields: Any) -> MemoryItem:
        """Return an item that is created, told and valid from a moment on, unless `fields` say otherwise."""
        times = dict.fromkeys(("created_at", "updated_at", "told_at", "valid_from"), moment)
        return cls(id=id, memory=text, hash=text_hash(text), scope=scope, **{**times, **fields})

    def with_(self, **changes: Any) -> MemoryItem:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    def with_text(self, text: str, **changes: Any) -> MemoryItem:
        """Return a copy with another text, and some fields changed."""
        return replace(self, memory=text, hash=text_hash(text), **changes)

    def to_payload(self) -> dict[str, Any]:
        """Return the flat JSON object for a vector store; fields without a value are left out."""
        payload: dict[str, Any] = dict(self.scope.given())
        for name in _STORED:
            value = getattr(self, name)
            if value is None or value in ((), {}):
                continue
            payload[name] = list(value) if isinstance(value, tuple) else value
        if self.slots is not None:
            payload.update(
                subject=self.slots.subject,
                attribute=self.slots.attribute,
                value=self.slots.value,
                polarity=self.slots.polarity,
            )
        if self.tags is not None:
            payload.update(self.tags.model_dump())
        return payload

    @classmethod
    def from_payload(
        cls, payload: dict[str, Any], *, score: float | None = None, similarity: float | None = None
    ) -> MemoryItem:
        """Return the item of a payload; unknown keys are ignored, so an older perdure reads a newer one's."""
        values = {name: payload[name] for name in _STORED if name in payload}
        for name in ("sources", "older", "derived_from"):
            values[name] = tuple(values.get(name, ()))
        if "subject" in payload and "attribute" in payload:
            values["slots"] = Slots(
                payload["subject"], payload["attribute"], payload.get("value", ""), payload.get("polarity", True)
            )
        if "truth_level" in payload:
            values["tags"] = Tags(**{name: payload[name] for name in _TAGS if name in payload})
        scope = Scope(**{name: payload[name] for name in SCOPE_FIELDS if name in payload})
        return cls(scope=scope, score=score, similarity=similarity, **values)

    def model_dump(self) -> dict[str, Any]:
        """Return the public view: the standard fields always, the others if they have a value."""
        dump: dict[str, Any] = {"id": self.id, "memory": self.memory, "hash": self.hash}
        dump["metadata"] = dict(self.metadata)
        if self.score is not None:
            dump["score"] = self.score
            dump["similarity"] = self.similarity
        dump["created_at"] = self.created_at
        dump["updated_at"] = self.updated_at
        dump.update(self.scope.given())
        dump.update(
            kind=self.kind,
            type=self.type,
            importance=self.importance,
            access_count=self.access_count,
            last_accessed_at=self.last_accessed_at,
            expires_at=self.expires_at,
            valid_from=self.valid_from,
            valid_to=self.valid_to,
            sources=list(self.sources),
            source=self.source,
        )
        if self.tags is not None:
            dump["tags"] = self.tags.model_dump()
            dump["confidence"] = self.confidence
        for name in ("explanation", "replaced_by", "origin", "quarantined"):
            if getattr(self, name) is not None:
                dump[name] = getattr(self, name)
        for name in ("content", "meta_type"):
            if getattr(self, name):
                dump[name] = getattr(self, name)
        if self.older:
            dump["older"] = list(self.older)
        if self.derived_from:
            dump["derived_from"] = list(self.derived_from)
        if self.messages is not None:
            dump["messages"] = [dict(message) for message in self.messages]
        if self.deleted is not None:
            dump["deleted"] = self.deleted.model_dump()
        return dump


def oldest_first(items: Iterable[MemoryItem]) -> list[MemoryItem]:
    """Return the items by the time that they are about (`valid_from`), else by when they were told.

    Equal times go by when they were told, then by when they were stored, then by place in the conversation; what is
    equal in all of that keeps its order. Items without a readable time come last.
    """
    return sorted(items, key=_age_key)


def _age_key(item: MemoryItem) -> tuple[datetime, datetime, str, int]:
    told = read_moment(item.told_at) or LATEST
    begun = None if item.valid_from is None else read_moment(item.valid_from)
    return begun or told, told, item.created_at, item.position or 0


_NOT_STORED = {"scope", "slots", "tags", "score", "similarity", "explanation", "messages", "deleted"}
_TAGS = tuple(item.name for item in fields(Tags))
_STORED = tuple(item.name for item in fields(MemoryItem) if item.name not in _NOT_STORED)


def check_metadata(metadata: object) -> dict[str, Any]:
    """Validate a caller's metadata: an object of JSON values without reserved keys; None is an empty one."""
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise invalid("metadata", "an object", metadata)
    for key, value in metadata.items():
        _check_key(key)
        if key in RESERVED_METADATA:
            raise InvalidInputError(
                f"metadata may not set {key!r}: it is the memory's own field", field=f"metadata.{key}", value=value
            )
        _check_json(f"metadata.{key}", value, 0)
    return dict(metadata)


def check_json(field: str, value: object) -> None:
    """Raise InvalidInputError if a value is not JSON, or is nested deeper than MAX_DEPTH levels."""
    _check_json(field, value, 0)


def _check_key(key: object, field: str = "metadata") -> None:
    if not isinstance(key, str):
        raise invalid(field, "text", key, f"{field} keys")
    check_unicode(key, field)


def _check_json(field: str, value: object, depth: int) -> None:
    if isinstance(value, str):
        check_unicode(value, field)
    elif isinstance(value, int):
        if abs(value) >= MAX_NUMBER:
            raise InvalidInputError(f"{field} must be a number that a float can hold", field=field, value=value)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInputError(f"{field} must be a finite number, not {value!r}", field=field, value=value)
    elif isinstance(value, (list, tuple, dict)):
        if depth == MAX_DEPTH:
            raise InvalidInputError(f"{field} is nested deeper than {MAX_DEPTH} levels", field=field, value=value)
        for element in _elements(value, field):
            _check_json(field, element, depth + 1)
    elif value is not None:
        raise InvalidInputError(
            f"{field} must be text, a number, a boolean, a list or an object, not {type(value).__name__}",
            field=field,
            value=value,
        )


def _elements(value: list[Any] | tuple[Any, ...] | dict[Any, Any], field: str) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, element in value.items():
            _check_key(key, field)
            yield element
    else:
        yield from value


# Owners: the users, agents, runs and worlds that memories are kept for.

OWNER_AXES = ("user_id", "agent_id", "run_id", "world_id")  # the scope fields that can name an owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner(Answer):
    """One value of one scope field, and the data stored for it; times are ISO 8601 UTC text."""

    axis: str
    """One of `OWNER_AXES`."""
    name: str
    memories: int
    """Number of current memories, including those that are no longer valid."""
    created_at: str
    """When the oldest one was created."""
    updated_at: str
    """When one was last changed."""
