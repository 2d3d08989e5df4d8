"""Convert a memory to the text of a file and back: lossless for perdure's files, lenient with manual edits.

Fields that can be derived from others are left out, so that a file shows what matters. Unknown fields are the memory's
metadata, and metadata with plain names are fields of their own, so that fields added by people survive and can be
filtered. Rows that are not memory items are stored whole in `payload`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from perdure.backends.markdown import layout
from perdure.backends.markdown.front_matter import FENCE, RESERVED_WORDS, BrokenFrontMatter, NoFrontMatter, join, split
from perdure.domain import memory as domain_memory
from perdure.domain.clock import iso, read_moment
from perdure.domain.errors import InvalidInputError
from perdure.domain.scope import SCOPE_FIELDS, Scope

DERIVED = frozenset({"cues", "passages"})
"""What the engine makes of the rest of an item's payload, and the index alone keeps."""
ACCESS = DERIVED | {"access_count", "last_accessed_at"}
"""What is no reason to write a file: it changes with every reading, or is made of the rest."""
BOOKKEEPING = ACCESS | {"updated_at", "told_at", "version", "hash", "quarantined", "lineage_id"}
"""What the index knows better than the file, once somebody has edited the file."""

CONVERSATION, BY_HAND = "conversation", "file"
"""Sources of a memory: what was said, and whoever wrote over what was made of it."""
_TIMES = frozenset(
    {"created_at", "updated_at", "told_at", "untold_at", "valid_from", "valid_to", "expires_at", "last_accessed_at"}
) | {"first_told_at"}
_WORDS = frozenset(
    {"kind", "role", "speaker", "type", "source", "lineage_id", "replaced_by", "origin", "quarantined", "version_of"}
)
_NUMBERS = frozenset({"importance", "confidence"})
_COUNTS = frozenset({"access_count", "version", "position"})
_LISTS = frozenset({"sources", "older", "derived_from"})
_TAGS = frozenset(item.name for item in fields(domain_memory.Tags))
_SLOTS = ("subject", "attribute", "value", "polarity")
_SHAPES: dict[str, type[Any]] = {"content": dict, "unique": bool, "meta_type": str}
_BESIDE = frozenset({"scope", "tags", "score", "similarity", "explanation", "messages"})
_FIELDS = frozenset(item.name for item in fields(domain_memory.MemoryItem)) - _BESIDE
_FILE = frozenset(
    {
        "id", "conversation_id", "summary_kind", "version_id", "slots", "sources_of", "text", "newline", "payload",
        "metadata",
    }
)  # fmt: skip
_MAY_LACK = frozenset(item.name for item in fields(domain_memory.MemoryItem) if item.default is None)
"""Fields that an item may have no value of; any other that somebody left empty is what it is where it is not named."""
KNOWN = _TIMES | _WORDS | _NUMBERS | _COUNTS | _LISTS | _TAGS | _FILE | domain_memory.RESERVED_METADATA | _FIELDS
"""Fields of the front matter that are not metadata."""
_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")
_FIRST = ("id", "version_id", "conversation_id", "role", "created_at", "summary_kind", "replaced_by")
_KIND_OF_ROLE = {"memory": "facts", "summary": "summaries"}


@dataclass(frozen=True, slots=True)
class Found:
    """The row in a file, what was odd, and whether its time is only the file's."""

    id: str
    payload: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    undated: bool = False
    unsigned: bool = False  # whether nothing in it tells of which text its sources are: it may have been another


def body_of(text: str) -> str:
    """Return a text as a file's body: trimmed, with plain line ends, in characters that a file can hold."""
    return text.replace("\r\n", "\n").encode("utf-8", "replace").decode().strip()


def same(one: Mapping[str, Any], other: Mapping[str, Any], but: frozenset[str]) -> bool:
    keys = (one.keys() | other.keys()) - but
    return all(key in one and key in other and _equal(one[key], other[key]) for key in keys)


def _equal(one: Any, other: Any) -> bool:
    return (
        one is other
        or (type(one) is type(other) and one == other)
        or (_number(one) and _number(other) and one == other)
    )


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def render(id: str, payload: Mapping[str, Any]) -> str:
    text = payload.get("memory")
    body = body_of(text) if isinstance(text, str) else ""
    if isinstance(text, str) and payload.get("id") == id:
        plain = {key: value for key, value in payload.items() if key not in DERIVED}
        written = join(_fields(id, plain, text, body), body)
        try:
            if read(written, layout.place_of(id, payload), "").payload == plain:
                return written
        except NoFrontMatter:
            pass  # no memory item: what it says does not fit into the fields of one
    whole = {key: value for key, value in payload.items() if key != "memory" or not isinstance(text, str)}
    raw: dict[str, Any] = {"id": id}
    if isinstance(text, str) and (body != text or not text):
        raw["text"] = text
    return join({**raw, "payload": whole}, body)


def _fields(id: str, payload: Mapping[str, Any], text: str, body: str) -> dict[str, Any]:
    tombstone = layout.is_tombstone(payload)
    fields: dict[str, Any] = {"id": payload["version_of"] if tombstone else id}
    if tombstone:
        fields["version_id"] = id
    if "run_id" in payload:
        fields["conversation_id"] = payload["run_id"]
    if payload.get("kind") == "summaries":
        fields["summary_kind"] = "summary"
    fields.update({key: payload[key] for key in ("role", "created_at", "replaced_by") if key in payload})
    first = {key: fields[key] for key in _FIRST if key in fields}
    derived = _derived(payload, text)
    rest: dict[str, Any] = {}
    if payload.get("kind") == domain_memory.FILES and text in (body, f"{body}\n"):
        rest |= {"newline": False} if text == body else {}  # as files end, unless this one is told to end otherwise
    elif body != text:
        rest["text"] = text
    for key in payload.keys() | derived.keys():
        if key in first or key in ("id", "memory", "metadata", "run_id", "state", "version_of", *_SLOTS):
            continue
        value = payload.get(key)
        if key not in derived or value != derived[key]:
            rest[key] = value
    slots = {key: payload[key] for key in _SLOTS if key in payload}
    if slots:
        rest["slots"] = {**slots, "of": domain_memory.text_hash(body)[:8]}
    if payload.get("sources"):
        rest["sources_of"] = domain_memory.text_hash(body)[:8]
    metadata = payload.get("metadata", {})
    if isinstance(metadata, Mapping):
        plain = {key for key in metadata if _is_plain_name(key)}
        nested = {key: value for key, value in metadata.items() if key not in plain}
        rest = {key: rest[key] for key in sorted(rest)}
        if nested:
            rest["metadata"] = nested
        rest.update({key: value for key, value in metadata.items() if key in plain})
    return {**first, **rest}


def _is_plain_name(key: object) -> bool:
    return (
        isinstance(key, str)
        and _PLAIN_NAME.fullmatch(key) is not None
        and key not in KNOWN
        and key.lower() not in RESERVED_WORDS
    )


def _derived(payload: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return values derived from a row's first fields and text; they are written only if they differ."""
    created = payload.get("created_at")
    told_at = payload.get("told_at", created)
    role = payload.get("role", "memory")
    return {
        "hash": domain_memory.text_hash(text),
        "updated_at": created,
        "told_at": created,
        "valid_from": told_at,
        "kind": _KIND_OF_ROLE.get(role, "messages") if isinstance(role, str) else "facts",
        "type": "semantic",
        "source": CONVERSATION,
        "importance": 0.5,
        "access_count": 0,
        "version": 1,
    }


def read(text: str, place: str, moment: str, beside: Callable[[], Mapping[str, str]] = dict) -> Found:
    """Return the row of a file at a place below `entries`, last changed at `moment`; NoFrontMatter gives the reason.

    `beside` finds the scope of a file that names none, in a folder whose name may not tell it.
    """
    given, body, notes = _parts(text, place)
    if isinstance(given.get("payload"), dict):
        return _read_whole(given, body, notes)
    if layout.in_deleted(place) and "version_id" not in given:
        raise NoFrontMatter("lies among the deleted ones, and is none of perdure's tombstones")
    exact = given.get("text")
    memory = exact if isinstance(exact, str) and body_of(exact) == body else body
    if not memory:
        raise NoFrontMatter("has no text below its front matter")
    payload: dict[str, Any] = dict(_scope_values(given, place, beside))
    kind, role = layout.kind_in(place)
    if given.get("kind", kind) == domain_memory.FILES and memory == body and exact != body:
        memory += "" if given.get("newline") is False else "\n"
    if isinstance(given.get("role"), str) and given["role"]:
        role = given["role"]
        kind = _KIND_OF_ROLE.get(role, "messages")
    if given.get("summary_kind") and "kind" not in given:
        kind = "summaries"
    created = _moment(given.get("created_at"))
    if created is None and "created_at" in given:
        notes.append("has a created_at that is no time: the file's own is taken")
    start = created or moment
    payload.update(_derived({"created_at": start, "role": role}, memory))
    payload.update(
        id=_id(given, place, notes), memory=memory, created_at=start, role=role, kind=kind, state=domain_memory.LIVE
    )
    _overlay(payload, given, notes)
    _add_slots(payload, given, body)
    if given.get("sources_of", digest := domain_memory.text_hash(body)[:8]) != digest:
        payload = without_sources(payload)
    _add_tags(payload, given, notes)
    _add_metadata(payload, given, notes)
    if payload.get("kind") == domain_memory.FILES:  # the row of another's than a memory may have no kind
        _add_path(payload, place)
    if layout.in_deleted(place):
        payload.update(version_of=payload["id"], id=str(given["version_id"]), state=domain_memory.VERSION)
    elif "version_id" in given:  # somebody took it out from among the deleted ones: it stands again
        payload = {key: value for key, value in payload.items() if key not in ("untold_at", "replaced_by")}
    if payload["state"] == domain_memory.LIVE and payload["kind"] != "summaries":  # agent-cli's have other ids
        payload["id"] = _addressable(payload["id"])
    unsigned = bool(payload.get("sources")) and "sources_of" not in given
    return Found(payload["id"], payload, notes, undated=created is None, unsigned=unsigned)


def ids_told(text: str, place: str) -> frozenset[str]:
    """Return the possible row ids of an unreadable file, from its name and from lines that look like an id."""
    is_buried = layout.in_deleted(place)
    ids = re.findall(r"^version_id:[ \t]*[\"']?([^\s\"']+)", text, re.MULTILINE)[:1] if is_buried else []
    ids += [] if ids else re.findall(r"^id:[ \t]*[\"']?([^\s\"']+)", text, re.MULTILINE)[:1]
    if named := domain_memory.read_id(place.rsplit("/", 1)[-1].removesuffix(layout.SUFFIX).rpartition("__")[2]):
        ids.append(named)
    return frozenset(ids)


def _add_path(payload: dict[str, Any], place: str) -> None:
    """Put the path of an agent's file into its metadata."""
    metadata = payload.get("metadata", {})
    if isinstance(metadata, dict) and (path := layout.path_at(place, metadata.get(domain_memory.FILE_PATH))):
        payload["metadata"] = {**metadata, domain_memory.FILE_PATH: path}


def _parts(text: str, place: str) -> tuple[dict[str, Any], str, list[str]]:
    """Return what `split` gives; an agent's file may be any text, also without front matter."""
    plain = text.removeprefix("\ufeff")
    if layout.kind_in(place)[0] == domain_memory.FILES and not plain.startswith(FENCE):
        return {}, body_of(plain), []
    return split(text)


def _read_whole(given: dict[str, Any], body: str, notes: list[str]) -> Found:
    payload = dict(given["payload"])
    exact = given.get("text")
    if isinstance(exact, str) and body_of(exact) == body:
        payload["memory"] = exact
    elif body:
        payload["memory"] = body
    extra = {key: value for key, value in given.items() if key not in ("id", "payload", "text")}
    if not isinstance(given.get("id"), str):
        raise NoFrontMatter("holds a row without an id")
    return Found(given["id"], {**payload, **extra}, notes)


def _scope_values(given: dict[str, Any], place: str, beside: Callable[[], Mapping[str, str]]) -> dict[str, str]:
    scope: dict[str, Any] = {axis: given[axis] for axis in SCOPE_FIELDS if given.get(axis) is not None}
    if given.get("conversation_id") is not None:
        scope["run_id"] = given["conversation_id"]
    if not scope and "/" in place:
        folder = place.split("/", maxsplit=1)[0]
        scope = dict((beside() if layout.is_changed(folder) else {}) or layout.scope_of(folder))
    if not scope:
        raise NoFrontMatter("names no conversation and lies in no conversation's folder")
    for axis, value in scope.items():
        if isinstance(value, int) and not isinstance(value, bool):
            scope[axis] = str(value)
    try:
        return Scope(**scope).given()
    except InvalidInputError as error:
        raise BrokenFrontMatter(f"has a {error.field} that is none") from None


def _id(given: dict[str, Any], place: str, notes: list[str]) -> str:
    id = given.get("id")
    if isinstance(id, int) and not isinstance(id, bool):
        id = str(id)
    if isinstance(id, str) and id and "\x00" not in id:
        return id
    name = place.rsplit("/", 1)[-1].removesuffix(layout.SUFFIX)
    notes.append("has no id: it is told from its name")
    return domain_memory.read_id(name.rpartition("__")[2]) or str(uuid5(NAMESPACE_URL, f"perdure:file:{place}"))


def _addressable(id: str) -> str:
    """Return a memory's id as every command and call takes it."""
    found = domain_memory.read_id(id)
    if found is None:
        raise BrokenFrontMatter("has an id that is no UUID: remove that line, and the memory gets one")
    return found


def _moment(value: object) -> str | None:
    """Return a time as text; one in the fixed form, as nearly all are, is unchanged."""
    if not isinstance(value, str):
        return None
    try:
        found = read_moment(value)
        return None if found is None else iso(found)
    except (ValueError, OverflowError):
        return None


def _overlay(payload: dict[str, Any], given: dict[str, Any], notes: list[str]) -> None:
    """Return the file's values of the item's fields over the derived ones."""
    told_at = given.get("told_at")
    if told_at is not None and (moment := _moment(told_at)):
        payload["valid_from"] = moment
    for key in given.keys() & _OWN:
        value = given[key]
        if value is None:
            if key in _MAY_LACK:
                payload.pop(key, None)
            continue
        checked = _checked(key, value)
        if checked is None:
            notes.append(f"has a {key} that is none: it is passed over")
        elif checked not in ([], {}):
            payload[key] = checked


_OWN = _FIELDS - {"id", "memory", "created_at", "role", "version_of", "state", "slots", "metadata"}


def _checked(key: str, value: Any) -> Any:
    """Return the value as the item stores it; None if it is invalid for this field."""
    if key in _TIMES:
        return _moment(value)
    if key in _WORDS or key == "hash":
        return value if isinstance(value, str) and value else None
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if key in _NUMBERS:
        return value if number else None
    if key in _COUNTS:
        return value if number and isinstance(value, int) else None
    if key not in _LISTS:
        return value if isinstance(value, _SHAPES.get(key, object)) else None
    return value if isinstance(value, list) and all(isinstance(each, str) for each in value) else None


def _add_slots(payload: dict[str, Any], given: dict[str, Any], body: str) -> None:
    """Add the statement's slots, unless the text was changed since."""
    slots = given.get("slots")
    if not isinstance(slots, dict) or slots.get("of") != domain_memory.text_hash(body)[:8]:
        return
    said = {key: slots[key] for key in _SLOTS if key in slots}
    words = all(isinstance(said.get(key, ""), str) for key in _SLOTS[:3])
    if {"subject", "attribute"} <= said.keys() and words and isinstance(said.get("polarity", True), bool):
        payload.update(said)


def without_sources(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the sources of a row whose text was edited by hand: they say something else."""
    bare = {key: value for key, value in payload.items() if key != "sources"}
    return {**bare, "source": BY_HAND} if bare.get("source") == CONVERSATION else bare


def _add_tags(payload: dict[str, Any], given: dict[str, Any], notes: list[str]) -> None:
    tags = {key: given[key] for key in _TAGS if given.get(key) is not None}
    if not tags:
        return
    try:
        payload.update(domain_memory.Tags(**tags).model_dump())
    except (InvalidInputError, TypeError):
        notes.append("has tags that are none: they are passed over")


def _add_metadata(payload: dict[str, Any], given: dict[str, Any], notes: list[str]) -> None:
    nested = given.get("metadata")
    if nested is not None and not isinstance(nested, dict):
        notes.append("has metadata that is no list of fields: it is passed over")
    metadata = dict(nested) if isinstance(nested, dict) else {}
    metadata.update({key: value for key, value in given.items() if key not in KNOWN})
    for key in metadata.keys() & domain_memory.RESERVED_METADATA:
        del metadata[key]
        notes.append(f"has a {key} in its metadata, which is the memory's own: it is passed over")
    if metadata:
        payload["metadata"] = metadata


def as_item(payload: dict[str, Any]) -> domain_memory.MemoryItem | None:
    """Return the memory item of a payload, or None."""
    try:
        return domain_memory.MemoryItem.from_payload(payload)
    except (TypeError, KeyError, InvalidInputError):
        return None
