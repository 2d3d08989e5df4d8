"""A conversation of several sessions, read from lines of JSON: what was said, and questions to memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure.domain.clock import parse_moment
from perdure.domain.errors import InvalidInputError, PerdureError
from perdure.domain.scope import OWNER_FIELDS, SCOPE_FIELDS, Scope

STORY = "household.jsonl"
"""The conversation that comes with perdure."""
NOBODY = Scope(user_id="demo")
"""Whose memories lines without a scope become."""

_SAID = ("role", "name", "content", "timestamp", "id")


@dataclass(frozen=True, slots=True)
class Said:
    """One message."""

    message: dict[str, Any]
    scope: dict[str, str]


@dataclass(frozen=True, slots=True)
class Asked:
    """One question to memory."""

    question: str
    scope: dict[str, str]


@dataclass(slots=True)
class Session:
    """What was said and asked at one sitting."""

    title: str
    day: str
    lines: list[Said | Asked] = field(default_factory=list)


def find_story() -> Path:
    """The conversation that comes with perdure: in the installed package, else in the repository's examples."""
    here = Path(__file__).parent
    places = (here / STORY, *(parent / "examples" / STORY for parent in here.parents[:4]))
    for place in places:
        if place.is_file():
            return place
    raise PerdureError(
        f"{STORY} came neither with this installation nor lies in the repository's examples folder:"
        " give a FILE of your own"
    )


def read_story(text: str) -> list[Session]:
    """The sessions of a story; InvalidInputError names the line that is none.

    A line is `{"role", "content", ...}` or `{"ask": ...}`, each with `timestamp`, a scope, and `session`: the lines
    that follow each other with the same title are one sitting.
    """
    sessions: list[Session] = []
    for number, value in _objects(text.split("\n")):
        moment = value.get("timestamp")
        day = parse_moment(moment, f"line {number}: timestamp").date().isoformat() if moment is not None else ""
        title = str(value.get("session") or day)
        if not sessions or sessions[-1].title != title:
            sessions.append(Session(title, day))
        sessions[-1].lines.append(_line(number, value))
    if not sessions:
        raise InvalidInputError("the story has no lines", field="FILE")
    return sessions


def _line(number: int, value: dict[str, Any]) -> Said | Asked:
    own = Scope(**{name: value[name] for name in SCOPE_FIELDS if value.get(name) is not None})
    scope = {name: text for name, text in (own.given() or NOBODY.given()).items() if name in OWNER_FIELDS}
    if isinstance(value.get("ask"), str):
        return Asked(value["ask"], scope)
    if isinstance(value.get("role"), str) and isinstance(value.get("content"), str):
        return Said({name: value[name] for name in _SAID if name in value}, scope)
    raise InvalidInputError(f"line {number} has neither `role` and `content` nor `ask`", field="FILE", value=value)


def _objects(lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise InvalidInputError(f"line {number} is not JSON: {error}", field="FILE") from error
        if not isinstance(value, dict):
            raise InvalidInputError(f"line {number} is not a JSON object", field="FILE", value=value)
        yield number, value
