"""A session is one sitting of a conversation, counted in turns; a link is one response of a chain of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid5

from perdure.domain.errors import InvalidInputError
from perdure.domain.event import Episode
from perdure.domain.job import Job
from perdure.domain.scope import Scope
from perdure.domain.text.readable import check_unicode

_SESSIONS = UUID("6f0c1e0a-54b5-5d0b-9c1e-2b7a6c1d8f30")
"""What the ids of sessions are derived under."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One sitting of a conversation behind its walls; moments are ISO 8601 UTC."""

    id: str
    """The same for the same name behind exactly the same walls, on every machine."""
    name: str
    scope: Scope
    store: str = ""
    """The mark of the store that learns from it: ledgers are shared; empty for one of before stores were told apart."""
    turns: int
    """How many turns there have been: they are numbered from 1 on."""
    read_turns: int
    """Turns up to this number have been read for facts."""
    started_at: str
    last_at: str
    """When something was last said."""
    ended_at: str | None = None
    """When it ended; a turn that follows opens it again."""
    state: dict[str, Any] = field(default_factory=dict)
    """What the conversation has come to, JSON; empty where nothing is known, or not any more."""
    state_until: str | None = None
    """The state is kept until then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTurn:
    """What was said in one turn: the ids of the messages, those of the user first."""

    session_id: str
    number: int
    """From 1 on, without gaps or repeats."""
    episodes: tuple[str, ...]
    at: str


def no_jobs(session_id: str, number: int) -> Sequence[Job]:
    """Nothing follows a turn."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Messages that are to be kept together with the turn that they are of, and what of memory they may repeat."""

    scope: Scope
    name: str | None = None
    """The session whose next turn they begin; without one, and without `turn`, there are no messages."""
    store: str = ""
    """The mark of the store whose session that is."""
    turn: tuple[str, int] | None = None
    """The session's id and the number of a turn that they go on with; where it is gone, they begin one if `name` is
    given."""
    episodes: tuple[Episode, ...] = ()
    at: str = ""
    """When they were said, ISO 8601."""
    jobs: Callable[[str, int], Sequence[Job]] = no_jobs
    """What follows, once it is known which turn of which session it is; called within the transaction."""
    injected: frozenset[str] = frozenset()
    """Fingerprints of what was put into the prompt that they come after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One response of a model, and the response that it goes on from."""

    id: str
    previous_id: str | None = None
    scope: Scope
    session: str
    """The name of the session in which it was given."""
    model: str
    items: list[dict[str, Any]]
    """JSON: what went in, then what came out; empty once something of it is forgotten."""
    episodes: tuple[str, ...] = ()
    """The ids of the messages that were kept of it."""
    created_at: str


def session_id(name: str, scope: Scope, store: str = "") -> str:
    """The id of a store's session of this name behind exactly these walls (UUIDv5).

    `store` is the store's mark. An empty name is InvalidInputError.
    """
    if not name:
        raise InvalidInputError("a session must have a name", field="session", value=name)
    check_unicode(name, "session")
    made_of = [scope.given(), name, *([store] if store else [])]
    return str(uuid5(_SESSIONS, json.dumps(made_of, ensure_ascii=True, sort_keys=True)))
