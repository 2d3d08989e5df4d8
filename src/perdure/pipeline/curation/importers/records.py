"""What a reader finds in another tool's export: facts, conversations, what it leaves out, and what is damaged."""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid5

from perdure.domain.clock import iso, read_moment
from perdure.domain.memory import RESERVED_METADATA, read_id
from perdure.domain.text.readable import is_unicode

MESSAGES: Final = 20
"""Messages of a stretch: what came just before is known to the curator from the messages that were kept."""
CHARACTERS: Final = 12_000
"""Characters of a stretch, some three thousand tokens: a model reads it well, and one long message stays whole."""
PAUSE: Final = timedelta(hours=6)
"""A pause after which a conversation goes on as another: what was said elsewhere meanwhile is read in between."""


def windows(messages: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The messages in stretches that follow each other; a stretch begins with the user's words if it can."""
    found: list[list[dict[str, Any]]] = []
    length = 0
    for message in messages:
        size = len(message["content"])
        last = found[-1] if found else []
        is_full = len(last) >= MESSAGES or length + size > CHARACTERS
        is_nearly_full = len(last) >= MESSAGES - 1 or length + size > CHARACTERS * 3 // 4
        turns = is_full or (is_nearly_full and message["role"] == "user")
        if not last or turns or _pause(last[-1], message):
            found.append([])
            length = 0
        found[-1].append(message)
        length += size
    return found


def _pause(earlier: dict[str, Any], later: dict[str, Any]) -> bool:
    """Whether much time, in either direction, lies between two messages that tell theirs."""
    before, after = read_moment(earlier.get("timestamp") or ""), read_moment(later.get("timestamp") or "")
    return before is not None and after is not None and abs(after - before) > PAUSE


NAMESPACE: Final = UUID("a70c5f04-6c1e-5d3a-9d4e-0f3f8c6b7a21")
"""Under which ids are made from what names a thing elsewhere; a drawn number, never to be changed."""

_SHOWN = 60
_MILLISECONDS = 10**11  # seconds since 1970 beyond this are milliseconds: it is the year 5138


def short(value: object) -> str:
    """A title or id as a report may show it: one line, printable, cut where it is long."""
    text = value if isinstance(value, str) else "" if value is None else str(value)[: _SHOWN * 2]
    plain = "".join(each if unicodedata.category(each)[0] != "C" else " " for each in text[: _SHOWN * 2])
    plain = " ".join(plain.split())
    return plain if len(plain) <= _SHOWN and len(text) <= _SHOWN * 2 else f"{plain[:_SHOWN]}..."


def moment_of(value: object) -> str | None:
    """The moment that ISO text or seconds since 1970 name, as perdure writes it; None if they name none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        try:
            seconds = float(value)
            if not math.isfinite(seconds):
                return None
            return iso(datetime.fromtimestamp(seconds / 1000 if abs(seconds) > _MILLISECONDS else seconds, UTC))
        except (OverflowError, ValueError, OSError):
            return None
    moment = read_moment(value) if isinstance(value, str) else None
    return None if moment is None else iso(moment)


def told_time(value: object) -> object:
    """The value as a line of the archive takes it: seconds become text, what cannot be read stays and is refused."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return moment_of(value) or value
    return value


def lasting_id(given: object, *names: object) -> str:
    """The id itself if it is a UUID, else the one that these names always get."""
    return read_id(given) or str(uuid5(NAMESPACE, json.dumps(names, ensure_ascii=True, default=str)))


def mark(*names: object) -> str:
    """A short text that stands for these names, wherever they come up again."""
    return hashlib.sha256(json.dumps(names, ensure_ascii=True, default=str).encode()).hexdigest()[:32]


def merged(own: Mapping[str, Any], tool: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata: the memory's own, and the tool's fields beside it, under the tool's name where a key is taken.

    A key that is a field of every memory here (a scope, an id, a time) goes under the tool's name too.
    """
    result: dict[str, Any] = {}
    for key, value in own.items():
        result[f"{tool}_{key}" if key in RESERVED_METADATA else key] = value
    for key, value in fields.items():
        result[f"{tool}_{key}" if key in RESERVED_METADATA or key in result else key] = value
    return result


@dataclass(frozen=True, slots=True)
class ForeignFact:
    """A memory of another tool; `line` says it as a line of perdure's own archive would."""

    where: str
    line: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ForeignTalk:
    """A conversation: its messages in order, each with role, content, id, and a timestamp where one is known.

    `id` is the tool's own; a message's `id` is the same in every export, so that a second import knows the message.
    """

    where: str
    source: str
    id: str
    title: str | None
    messages: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something sound that is no memory, and why; `where` is for people and says no more than names and numbers."""

    reason: str
    where: str


@dataclass(frozen=True, slots=True)
class Damaged:
    """Something that should be a memory or a conversation and cannot be read."""

    reason: str
    where: str


Found = ForeignFact | ForeignTalk | LeftOut | Damaged  # what a reader finds


class Reader:
    """Base of the readers: each takes the items of one format, one after the other."""

    def read(self, value: Any, where: str) -> Iterator[Found]:
        """Yield what an item holds; `where` is its place in the file."""
        raise NotImplementedError

    def finish(self) -> Iterator[Found]:
        """Yield what is known only after the last item; nothing where every item stands alone."""
        return iter(())


def joined_text(texts: Sequence[str], spot: str) -> Generator[Found, None, str | None]:
    """Return the parts of a message as one text; without a usable one yield why, and return None."""
    text = "\n".join(each for each in texts if each.strip())
    if not is_unicode(text):
        yield Damaged("a message that is no Unicode text", spot)
        return None
    if not text:
        yield LeftOut("an empty message", spot)
        return None
    return text


def conversation_of(place: str, tool: str, id: str, title: object, messages: list[dict[str, Any]]) -> Found:
    """Return the conversation of these messages, or say that there are none."""
    if not messages:
        return LeftOut("a conversation in which nobody said anything", place)
    usable = title if isinstance(title, str) and title.strip() and is_unicode(title) else None
    return ForeignTalk(place, tool, id, usable, messages)


def branch_to(leaf: str | None, parents: dict[str, str | None]) -> list[str]:
    """The nodes from the root to a leaf; a circle ends where it closes."""
    taken: dict[str, None] = {}
    node = leaf
    while node is not None and node in parents and node not in taken:
        taken[node] = None
        node = parents[node]
    return list(taken)[::-1]


def newest_leaf(parents: dict[str, str | None], times: dict[str, str]) -> str | None:
    """The leaf with the latest time, the later in the file among equals; None where there is no leaf."""
    inner = set(parents.values())
    best: str | None = None
    for node in parents:
        if node not in inner and (best is None or times.get(node, "") >= times.get(best, "")):
            best = node
    return best
