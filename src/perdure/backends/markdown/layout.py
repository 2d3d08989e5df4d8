"""The path of a row's file, computed from its payload alone.

`entries/<conversation>/facts/<created_at>__<id>.md`. No path leaves the folder, and different conversations never share
one: a changed name gets eight digits of its digest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from perdure.domain.memory import FILE_PATH, FILES, NOTES, VERSION
from perdure.domain.scope import SCOPE_FIELDS

ENTRIES = "entries"  # folder of all files, below the root
DELETED = "deleted"  # folder of tombstones, directly below a conversation's
COLLECTIONS = "collections"  # where other collections than the main one lie, each with `entries` of its own
SUFFIX = ".md"
LONGEST = 80  # characters of a value in a name
_LONGEST_FOLDER = 180  # characters of a folder's name; file systems take 255 bytes
_MARKED = re.compile(r"-[0-9a-f]{8}$")
_OUTSIDE = re.compile(r"[^A-Za-z0-9._-]")
_WINDOWS = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_NUMBERED = re.compile(r"\.[0-9]+\.md$")
_PASSED_OVER = (".tmp", SUFFIX)
_SAID = "said"  # the folder of notes: people and agents have folders of their own named "notes"
_SPOKEN = frozenset({"facts", _SAID, "turns", "summaries"})  # folders of the kinds of items
_FOLDERS = {"facts": "facts", "messages": "turns", "summaries": "summaries", NOTES: _SAID, FILES: FILES}


def slug(value: str, reserved: frozenset[str] = frozenset()) -> str:
    """Return the value as one part of a path; different values never collide, except by chance in 32 bits."""
    name = _OUTSIDE.sub("_", value)[:LONGEST]
    if name.startswith("."):
        name = "_" + name[1:]
    name = name.rstrip(".") or "_"
    if _WINDOWS.fullmatch(name):
        name = f"_{name}"
    if name == value and name.lower() not in reserved and not _MARKED.search(name):
        return name
    return f"{name}-{_digest(value, 8)}"


def _digest(value: str, digits: int) -> str:
    return sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


def _text(payload: Mapping[str, Any], key: str) -> str:
    value = payload.get(key)
    return value if isinstance(value, str) else ""


def folder_of(payload: Mapping[str, Any]) -> str:
    """Return the folder of a row's conversation below `entries`, from its run and its other scope fields."""
    run = _text(payload, "run_id")
    others = [
        f"@{axis.removesuffix('_id')}-{slug(_text(payload, axis))}"
        for axis in SCOPE_FIELDS
        if axis != "run_id" and _text(payload, axis)
    ]
    name = (slug(run, frozenset({DELETED})) if run else "") + "".join(others)
    if not name:
        return "@"
    if len(name) <= _LONGEST_FOLDER:
        return name
    return f"{name[:_LONGEST_FOLDER]}@-{_digest(name, 16)}"


def scope_of(folder: str) -> dict[str, str]:
    """Return the scope that a folder's name tells, for files that do not name theirs; a changed name tells none."""
    run, *others = folder.split("@")
    scope = {"run_id": run} if run else {}
    for each in others:
        axis, _, value = each.partition("-")
        if f"{axis}_id" not in SCOPE_FIELDS or not value or _MARKED.search(value):
            return {}
        scope[f"{axis}_id"] = value
    return scope


def is_changed(folder: str) -> bool:
    """Whether a folder's name may differ from its scope, because the values do not fit into a name."""
    return "@-" in folder or any(_MARKED.search(part) for part in folder.split("@"))


def subfolder_of(payload: Mapping[str, Any]) -> str:
    """Return the folder of a row's kind: `facts`, `turns/user`, `turns/assistant`, `summaries` or another kind's."""
    kind = _text(payload, "kind") or "rows"
    if kind == "messages":
        return f"turns/{slug(_text(payload, 'role') or 'user')}"
    return _FOLDERS.get(kind) or slug(kind, frozenset({DELETED, "turns"}))


def name_of(id: str, payload: Mapping[str, Any]) -> str:
    """Return a row's file name: `<created_at>__<id>.md`, `summary.md`, or an agent's file with its folders."""
    if path := path_in(payload):
        return file_of(path)
    if payload.get("kind") == "summaries":
        return f"summary{SUFFIX}"
    created = re.sub(r"[^A-Za-z0-9._-]", "-", _text(payload, "created_at"))[:LONGEST].lstrip(".")
    return f"{created}__{slug(id)}{SUFFIX}"


def path_in(payload: Mapping[str, Any]) -> str:
    """Return an agent's path for its file; "" for any other row."""
    metadata = payload.get("metadata")
    path = metadata.get(FILE_PATH) if payload.get("kind") == FILES and isinstance(metadata, Mapping) else None
    return path if isinstance(path, str) and all(path.split("/")) else ""


def file_of(path: str) -> str:
    """Return the place of an agent's file below its folder: `notes/plan.txt` is in `notes/plan.txt.md`.

    No part of it leaves that folder, or has a name that a scan skips.
    """
    *folders, name = path.split("/")
    parts = [f"{slug(each)}-{_digest(each, 8)}" if each.endswith(_PASSED_OVER) else slug(each) for each in folders]
    return "/".join([*parts, slug(name.removesuffix(SUFFIX)) + SUFFIX])


def path_at(place: str, named: object) -> str:
    """Return the path of an agent's file at a place below `entries`, unless it was moved by hand."""
    parts = place.split("/")[1:]
    parts = parts[1:] if parts[:1] == [DELETED] else parts
    path = named if isinstance(named, str) and all(named.split("/")) else ""
    if parts[:1] != [FILES] or len(parts) == 1:
        return path
    here = "/".join(parts[1:])
    if path and file_of(path) in (here, unnumbered(here)):
        return path
    return here.removesuffix(SUFFIX) if path and not path.endswith(SUFFIX) else here


def is_tombstone(payload: Mapping[str, Any]) -> bool:
    """Whether a row stores the old text of a replaced or deleted memory."""
    return payload.get("state") == VERSION and isinstance(payload.get("version_of"), str)


def place_of(id: str, payload: Mapping[str, Any]) -> str:
    """Return a row's place below `entries`, unless another row has that name already (`numbered`)."""
    folder, subfolder = folder_of(payload), subfolder_of(payload)
    if is_tombstone(payload):
        return f"{folder}/{DELETED}/{subfolder}/{name_of(payload['version_of'], payload)}"
    return f"{folder}/{subfolder}/{name_of(id, payload)}"


def numbered(place: str, number: int) -> str:
    """Return the name of the second, third, ... file of the same name; the first is unchanged."""
    return place if number == 1 else f"{place.removesuffix(SUFFIX)}.{number}{SUFFIX}"


def unnumbered(place: str) -> str:
    return _NUMBERED.sub(SUFFIX, place)


def in_deleted(place: str) -> bool:
    """Whether a place below `entries` is among the tombstones of its conversation, directly below it.

    Tombstones of agent-cli are in `deleted/<conversation>/facts`; a conversation named `deleted` lies elsewhere.
    """
    parts = place.split("/")
    return parts[1:2] == [DELETED] or (parts[0] == DELETED and len(parts) > 3 and parts[2] in _SPOKEN)


def kind_in(place: str) -> tuple[str, str]:
    """Return the kind and role that a file's folder tells, for files that do not name theirs."""
    parts = place.split("/")[1:-1]
    if parts[:1] == [DELETED]:
        parts = parts[1:]
    if parts[:1] == ["turns"]:
        return "messages", parts[1] if len(parts) > 1 else "user"
    if parts[:1] == ["summaries"]:
        return "summaries", "summary"
    if parts[:1] in ([FILES], [_SAID]):
        return NOTES if parts[0] == _SAID else FILES, "memory"
    return "facts", "memory"


def root_of(base: str, main: str) -> str:
    """Return the folder of a collection's entries, below the root."""
    return ENTRIES if base == main else f"{COLLECTIONS}/{slug(base)}/{ENTRIES}"


def generation(name: str) -> tuple[str, int]:
    """Return a collection's base name and number: `memories--2` is the second of `memories`, with the same files."""
    base, mark, number = name.rpartition("--")
    if mark and base and number.isascii() and number.isdigit() and not number.startswith("0"):
        return base, int(number)
    return name, 1
