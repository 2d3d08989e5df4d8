"""Sessions of a conversation, counted in turns, and links, which are the responses of a chain."""

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

_SESSIONS = UUID("6f0c1e0a-54b5-5d0b-9c1e-2b7a6c1d8f30")  # the UUID namespace of session ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One session of a conversation in its scope; times are ISO 8601 UTC."""

    id: str
    """The same for the same name in exactly the same scope, on every machine."""
    name: str
    scope: Scope
    store: str = ""
    """The mark of the store that learns from it (stores may share a ledger); empty for old sessions."""
    turns: int
    """Number of turns so far: they are numbered from 1 on."""
    read_turns: int
    """Turns up to this number have been read for facts."""
    started_at: str
    last_at: str
    """When something was last said."""
    ended_at: str | None = None
    """When it ended; a later turn opens it again."""
    state: dict[str, Any] = field(default_factory=dict)
    """The compacted state of the conversation, JSON; empty if there is none or it expired."""
    state_until: str | None = None
    """When the state expires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTurn:
    """The messages of one turn by their ids, those of the user first."""

    session_id: str
    number: int
    """From 1 on, without gaps or repeats."""
    episodes: tuple[str, ...]
    at: str


def no_jobs(session_id: str, number: int) -> Sequence[Job]:
    """Return no jobs for a turn."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Messages to store together with their turn, and the memory text that they may repeat."""

    scope: Scope
    name: str | None = None
    """The session whose next turn they begin; without it and without `turn`, there are no messages."""
    store: str = ""
    """The mark of that session's store."""
    turn: tuple[str, int] | None = None
    """The session's id and the number of the turn that they continue; if that is gone, they begin a turn if `name` is
    given."""
    episodes: tuple[Episode, ...] = ()
    at: str = ""
    """When they were said, ISO 8601."""
    jobs: Callable[[str, int], Sequence[Job]] = no_jobs
    """Return the jobs that follow a turn; called within the transaction, once session and turn are known."""
    injected: frozenset[str] = frozenset()
    """Fingerprints of what was injected into the prompt before them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One response of a model, and the response that it continues."""

    id: str
    previous_id: str | None = None
    scope: Scope
    session: str
    """The name of its session."""
    model: str
    items: list[dict[str, Any]]
    """JSON: the input, then the output; empty once something of it is forgotten."""
    episodes: tuple[str, ...] = ()
    """The ids of its stored messages."""
    created_at: str


def session_id(name: str, scope: Scope, store: str = "") -> str:
    """Return the id (UUIDv5) of a store's session of this name and scope; InvalidInputError for an empty name."""
    if not name:
        raise InvalidInputError("a session must have a name", field="session", value=name)
    check_unicode(name, "session")
    made_of = [scope.given(), name, *([store] if store else [])]
    return str(uuid5(_SESSIONS, json.dumps(made_of, ensure_ascii=True, sort_keys=True)))
