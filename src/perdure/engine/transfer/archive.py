"""The archive: what `export` writes and `import` reads, one JSON object a line (DESIGN §6).

    {"perdure": 1, ...}                                  the header, first
    {"record": "memory", "id": ..., "memory": ..., ...}  a row of the store, whole; earlier versions too
    {"record": "history", "event": "ADD", ...}           an event, with the rows that it changed
    {"record": "episode", "role": ..., "content": ...}   a message as it was said
    {"record": "seal", "lines": ..., "sha256": ...}      the end of a backup, whose rows bring their vectors

`import` also reads lines that others write: `{"messages": [...]}`, `{"role", "content"}` and `{"memory": ...}`.
Pure translation: no file and no database is touched here.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import numpy as np

from perdure.backends.vector_stores.base import Vector
from perdure.domain.clock import iso, parse_moment
from perdure.domain.errors import InvalidInputError
from perdure.domain.event import Change, Episode, HistoryRecord
from perdure.domain.memory import LIVE, MemoryItem, Tags, check_metadata, read_id, text_hash
from perdure.domain.message import ROLES
from perdure.domain.scope import SCOPE_FIELDS, Scope
from perdure.domain.text.readable import kind_of, shown
from perdure.engine.core.embedding import without_derived
from perdure.engine.core.rows import check_item
from perdure.engine.requests import (
    Addition,
    invalid,
    read_addition,
    read_brought,
    read_flag,
    read_share,
    read_text,
    read_texts,
)

FORMAT = 1  # the format version that this perdure writes; it rejects a higher one
ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False).encode
ROWS = ("before", "after", "keep")
VECTOR = "vector_f32"  # the key of a row's vector: float32, little-endian, in Base64
RECORD = tuple(name for name in HistoryRecord.__slots__ if name != "sequence")
EPISODE = ("id", "add_id", "position", "role", "name", "content", "message_id", "told_at", "created_at")
_TIMES = ("created_at", "updated_at", "told_at", "untold_at", "valid_from", "valid_to", "expires_at")
_ROW_TEXTS = ("state", "kind", "role", "type", "source", "speaker", "version_of", "lineage_id", "replaced_by")
_EVENT_TEXTS = ("old_value", "new_value", "actor", "reason", "told_at", "undoes", *SCOPE_FIELDS)
_ADDITION = frozenset({"messages", "timestamp", "metadata", "type", "expires_at", "infer", *SCOPE_FIELDS})
_MESSAGE = frozenset({"role", "content", "name", "timestamp", "id", "metadata", "type", "expires_at", *SCOPE_FIELDS})
_FACT = frozenset(
    {
        "memory", "id", "metadata", "timestamp", "told_at", "created_at", "updated_at", "valid_from", "valid_to",
        "expires_at", "type", "importance", "source", "tags", "confidence", *SCOPE_FIELDS,
        # Parts of a listed memory that are recomputed here.
        "hash", "score", "similarity", "explanation", "kind", "access_count", "last_accessed_at", "sources",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of an archive."""

    format: int
    embedder: str = ""  # the embedder of the rows' vectors, if there are any


@dataclass(frozen=True, slots=True)
class Seal:
    """The last line of a backup; `sealed_file` checks its contents."""


@dataclass(frozen=True, slots=True)
class Row:
    """A complete row of a store."""

    payload: dict[str, Any]
    vector: Vector | None = None  # its vector, by the header's embedder; then the payload also has the derived data

    @property
    def id(self) -> str:
        """The row's own id."""
        return str(self.payload["id"])

    @property
    def memory_id(self) -> str:
        """The id of the memory whose current or earlier state the row is."""
        return str(self.payload.get("version_of") or self.payload["id"])

    @property
    def is_live(self) -> bool:
        """Whether the row is the current state of the memory."""
        return bool(self.payload.get("state", LIVE) == LIVE)

    @property
    def is_message(self) -> bool:
        """Whether the row is a searchable episode, which has no history of its own."""
        return self.payload.get("kind") == "messages" and self.payload.get("id") in self.payload.get("sources", ())

    def says_the_same(self, payload: Mapping[str, Any]) -> bool:
        """Whether another row of the same id has the same text and time."""
        return all(self.payload.get(name) == payload.get(name) for name in ("memory", "updated_at", "state"))


@dataclass(frozen=True, slots=True)
class Event:
    """A history record, and its change unless that was erased or never known."""

    record: HistoryRecord
    change: Change | None


@dataclass(frozen=True, slots=True)
class ConversationLine:
    """One conversation to add; `digest` is the line's, which identifies it in a repeated import."""

    addition: Addition
    digest: str
    ignored: tuple[str, ...] = ()
    is_part: bool = False  # whether it is a part of another tool's conversation, whose messages are counted


@dataclass(frozen=True, slots=True)
class FactLine:
    """One fact to store as it is; `item` has no slots yet, nor a time if none was given."""

    item: MemoryItem
    has_own_id: bool = True  # whether the line gave the id; a derived id means "this text in this scope"
    ignored: tuple[str, ...] = ()
    where: str = ""  # its place in another tool's export, for people


Line = Header | Seal | Row | Event | Episode | ConversationLine | FactLine  # the kinds of lines


def read_line(text: str, default: Scope) -> Line:
    """Parse a line; InvalidInputError says what is wrong. `default` fills in missing scope fields."""
    value = _read_json(text)
    record = value.pop("record", None)
    if record is None and "perdure" in value:
        format = value["perdure"]
        if isinstance(format, bool) or not isinstance(format, int) or format < 1:
            raise invalid("perdure", "the number of a format", format)
        embedder = value.get("embedder", "")
        return Header(format, embedder if isinstance(embedder, str) else "")
    if record == "memory":
        vector = _read_vector(value.pop(VECTOR, None))
        return Row(_read_row(value), vector)
    if record == "seal":
        return Seal()
    if record == "history":
        return _read_event(value)
    if record == "episode":
        return _read_episode(value)
    if record is not None:
        raise invalid("record", "memory, history or episode", record)
    if "messages" in value or ("role" in value and "content" in value):
        return _read_said(value, text, default)
    if "memory" in value:
        return _read_stated(value, default)
    raise InvalidInputError("it has none of `record`, `messages`, `role` with `content`, or `memory`")


def read_foreign(value: dict[str, Any], where: str, default: Scope) -> ConversationLine | FactLine:
    """Convert the result of another tool's reader into a line: a part of a conversation, or a fact."""
    text = _checked(value)
    if "messages" in value:
        return replace(_read_said(value, text, default), is_part=True)
    return replace(_read_stated(value, default), where=where)


def _read_json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"it is not JSON: {error}") from error
    _checked(value)
    if not isinstance(value, dict):
        raise InvalidInputError(f"it is {kind_of(value)}, not an object: write one object a line")
    return value


def _checked(value: Any) -> str:
    """Return a value's text if it can be written again; else InvalidInputError."""
    try:
        text = ENCODE(value)
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError("it is not UTF-8, or holds half of a surrogate pair") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"it is not JSON: {error}") from error
    return text


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _read_vector(packed: object) -> Vector | None:
    if packed is None:
        return None
    try:
        data = base64.b64decode(packed, validate=True) if isinstance(packed, str) else b""
        vector = np.frombuffer(data, dtype="<f4").astype(np.float32)
    except ValueError as error:
        raise InvalidInputError(f"{VECTOR} is no vector: {error}", field=VECTOR) from error
    if not len(vector) or not np.isfinite(vector).all():
        raise InvalidInputError(f"{VECTOR} is no vector: it is empty or not finite", field=VECTOR)
    return vector


def _read_row(payload: dict[str, Any]) -> dict[str, Any]:
    _check_texts(payload, ("id", "memory", "hash", "created_at", "updated_at", "told_at"), _ROW_TEXTS)
    for name in ("id", "version_of"):
        if payload.get(name) is not None and read_id(payload[name]) != payload[name]:
            raise invalid(name, "a UUID", payload[name])
    for name in _TIMES:
        if payload.get(name) is not None and iso(parse_moment(payload[name], name)) != payload[name]:
            raise invalid(name, "written as 2026-03-01T09:30:00.000000+00:00", payload[name])
    check_metadata(payload.get("metadata"))
    for name in ("sources", "older", "derived_from"):
        read_texts(payload.get(name, []), name)
    for name in ("importance", "confidence"):
        if payload.get(name) is not None:
            read_share(payload[name], name)
    for name in ("version", "access_count"):
        _check_count(payload.get(name, 0), name)
    try:
        _scope_of(payload)
        check_item(MemoryItem.from_payload(payload))
    except InvalidInputError:
        raise
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"it is no memory: {error}") from error
    return payload


def _read_event(value: dict[str, Any]) -> Event:
    _check_texts(value, ("id", "memory_id", "timestamp", "event"), _EVENT_TEXTS)
    confidence = read_share(value.get("confidence", 1.0), "confidence")
    if value["event"] not in ("ADD", "UPDATE", "DELETE"):
        raise invalid("event", "ADD, UPDATE or DELETE", value["event"])
    if iso(parse_moment(value["timestamp"])) != value["timestamp"]:
        raise InvalidInputError(f"timestamp is not written in full: {shown(value['timestamp'])}", field="timestamp")
    fields = {name: value[name] for name in RECORD if name in value}
    fields |= {"is_deleted": value["event"] == "DELETE", "erased": read_flag(value.get("erased", False), "erased")}
    record = HistoryRecord(**{"old_value": None, "new_value": None, **fields, "confidence": confidence})
    given = {name: value[name] for name in ROWS if value.get(name) is not None}
    for name, row in given.items():
        if not isinstance(row, dict):
            raise invalid(name, "an object", row)
    rows = {name: MemoryItem.from_payload(_read_row(row)) for name, row in given.items()}
    sources, hides = (tuple(read_texts(value.get(name, []), name)) for name in ("sources", "hides"))
    if record.erased or not ("before" in rows or "after" in rows):
        return Event(record, None)
    change = Change(
        id=record.id,
        event=record.event,
        memory_id=record.memory_id,
        at=record.timestamp,
        told_at=record.told_at or record.timestamp,
        actor=record.actor,
        reason=record.reason,
        confidence=record.confidence,
        undoes=record.undoes,
        sources=sources,
        hides=hides,
        **rows,
    )
    return Event(record, change)


def _read_episode(value: dict[str, Any]) -> Episode:
    _check_texts(value, ("id", "add_id", "role", "content", "told_at", "created_at"), ("name", "message_id"))
    if value["role"] not in ROLES:
        raise invalid("role", f"one of {', '.join(ROLES)}", value["role"])
    for name in ("told_at", "created_at"):
        if iso(parse_moment(value[name], name)) != value[name]:
            raise InvalidInputError(f"{name} is not written in full: {shown(value[name])}", field=name)
    position = _check_count(value.get("position", 0), "position")
    return Episode(
        **{name: value[name] for name in EPISODE if name in value and name != "position"},
        position=position,
        scope=_scope_of(value).given(),
        hidden=read_flag(value.get("hidden", False), "hidden"),
        pending=read_flag(value.get("pending", False), "pending"),
        brought=_read_brought(value),
    )


def _read_brought(value: dict[str, Any]) -> dict[str, Any]:
    brought = value.get("brought", {})
    if not isinstance(brought, dict):
        raise invalid("brought", "an object", brought)
    read_brought(brought, _scope_of(value))
    return brought


def _read_said(value: dict[str, Any], text: str, default: Scope) -> ConversationLine:
    known = _ADDITION
    messages: Any = value.get("messages")
    if "messages" not in value:
        known = _MESSAGE
        messages = {name: value[name] for name in ("role", "content", "name", "timestamp", "id") if name in value}
    addition = read_addition(
        messages,
        _scope_of(value, default).require_owner(),
        metadata=value.get("metadata"),
        filters=None,
        prompt=None,
        infer=value.get("infer", True),
        timestamp=value.get("timestamp"),
        type=value.get("type"),
        expires_at=value.get("expires_at"),
        idempotency_key=None,
    )
    digest = hashlib.sha256(text.strip().encode()).hexdigest()
    return ConversationLine(addition, digest, tuple(sorted(value.keys() - known)))


def _read_stated(value: dict[str, Any], default: Scope) -> FactLine:
    text = read_text(value["memory"], "memory")
    scope = _scope_of(value, default)
    if scope.team_id is None:
        scope.require_owner()
    times = {name: _moment(value, name) for name in (*_TIMES, "timestamp")}
    told = times["timestamp"] or times["told_at"] or times["created_at"] or ""
    item = MemoryItem(
        id=_stated_id(value.get("id"), text, scope, told),
        memory=text,
        hash=text_hash(text),
        scope=scope,
        created_at=times["created_at"] or "",
        updated_at=times["updated_at"] or times["created_at"] or "",
        told_at=told,
        valid_from=times["valid_from"] or told or None,
        valid_to=times["valid_to"],
        expires_at=times["expires_at"],
        type=read_text(value.get("type", "semantic"), "type"),
        importance=read_share(value.get("importance", 0.5), "importance"),
        source=read_text(value.get("source", "import"), "source"),
        metadata=check_metadata(value.get("metadata")),
        tags=Tags.read(value.get("tags")),
        confidence=read_share(value.get("confidence", 1.0), "confidence"),
    )
    return FactLine(check_item(item), value.get("id") is not None, tuple(sorted(value.keys() - _FACT)))


def _stated_id(given: object, text: str, scope: Scope, told: str) -> str:
    """Return the given id, else one derived from the fact, so that a repeated import recognises it."""
    if given is not None:
        id = read_id(given)
        if id is None:
            raise invalid("id", "a UUID", given)
        return id
    digest = hashlib.sha256(ENCODE([text, scope.given(), told]).encode()).digest()
    return str(UUID(bytes=digest[:16], version=4))


def _check_texts(value: Mapping[str, Any], needed: Sequence[str], optional: Sequence[str]) -> None:
    for name in (*needed, *optional):
        given = value.get(name)
        if not isinstance(given, str) and (given is not None or name in needed):
            raise invalid(name, "text", given)


def _check_count(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid(name, "a whole number", value)
    return value


def _moment(value: Mapping[str, Any], name: str) -> str | None:
    return None if value.get(name) is None else iso(parse_moment(value[name], name))


def _scope_of(value: Mapping[str, Any], default: Scope | None = None) -> Scope:
    own = {name: value[name] for name in SCOPE_FIELDS if value.get(name) is not None}
    return Scope(**{**(default.given() if default else {}), **own})


def at_moment(item: MemoryItem, moment: str) -> MemoryItem:
    """Return the item with the given time where it has none; no fact is dated later than that."""
    created = item.created_at or moment
    dated = item.told_at or moment
    return item.with_(
        created_at=created,
        updated_at=item.updated_at or created,
        told_at=min(dated, moment),
        valid_from=item.valid_from or dated,
    )


# Writing an archive, one item a line.

_SEPARATORS = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""Characters that JSON allows in a text and that many readers take for the end of a line."""


def header_line(*, written_by: str, written_at: str, scope: Scope, embedder: str) -> str:
    """Write the first line: the format, the writer and the exported scope."""
    told = {"written_by": written_by, "written_at": written_at, "scope": scope.given(), "embedder": embedder}
    return _line({"perdure": FORMAT}, told)


def row_line(payload: Mapping[str, Any], vector: Vector | None = None) -> str:
    """Write a complete row of the store; without a vector, an import recomputes it and the derived data."""
    if vector is None:
        return _line({"record": "memory"}, without_derived(payload))
    packed = base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode("ascii")
    return _line({"record": "memory"}, {**payload, VECTOR: packed})


def event_line(record: HistoryRecord, change: Change | None) -> str:
    """Write a history record with the rows of its change; the order of the lines replaces `sequence`."""
    fields = {name: value for name in RECORD if (value := getattr(record, name)) is not None}
    if change is not None:
        fields |= {name: list(value) for name in ("sources", "hides") if (value := getattr(change, name))}
        fields |= {name: item.to_payload() for name in ROWS if (item := getattr(change, name)) is not None}
    return _line({"record": "history"}, fields)


def episode_line(episode: Episode) -> str:
    """Write a message."""
    fields = {name: value for name in EPISODE if (value := getattr(episode, name)) is not None}
    fields |= {name: value for name in ("hidden", "pending", "brought") if (value := getattr(episode, name))}
    return _line({"record": "episode"}, {**fields, **episode.scope})


def _line(head: dict[str, Any], rest: Mapping[str, Any]) -> str:
    """Write the kind of the line, then the fields by name, so that equal content gives equal text."""
    text = f"{ENCODE(head)[:-1]},{ENCODE(dict(rest))[1:]}"
    for separator, escape in _SEPARATORS.items():
        text = text.replace(separator, escape)
    return text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate becomes a JSON escape
