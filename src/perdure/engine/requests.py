"""Validated requests of the engine, and the functions that build them from a caller's arguments.

Every front end's calls pass through here, so that each is rejected for the same reasons. Code that carries requests out
imports this module, not the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal

from perdure.domain.clock import SKEW, iso, parse_moment
from perdure.domain.errors import InvalidInputError, NotFoundError
from perdure.domain.filter import dump_filter, load_filter, parse_filter
from perdure.domain.memory import NOTES, check_metadata, read_id
from perdure.domain.message import Message, read_messages
from perdure.domain.scope import Scope
from perdure.domain.text.readable import check_unicode, shown
from perdure.engine.core.access import UNRESTRICTED, scoped

if TYPE_CHECKING:
    from perdure.domain.filter import Filter
    from perdure.engine.core.kernel import Kernel
    from perdure.pipeline.retrieval.presets import Preset
    from perdure.pipeline.retrieval.time_window import Window

Messages = str | Message | Mapping[str, Any] | Sequence[Message | Mapping[str, Any]]
"""The input of `add`: a text, a message, or a list of messages."""
Moment = str | date | datetime
"""A time: an aware datetime, a date (its midnight), or ISO 8601 text; without a zone it is UTC."""
TimeWindow = tuple[Moment | None, Moment | None]  # a period: its first time and the one after its last; None is open
Filters = Mapping[str, Any]  # a caller's filter expression


class _Left(Enum):
    OUT = "left out"


LEFT_OUT: Final = _Left.OUT
"""An argument that was not given, where None may be a mistake: a variable that was never set erases nobody."""
LeftOut = Literal[_Left.OUT]
MAX_LIMIT = 2**31 - 1
"""Greater limits are reduced to this: no scope has as many memories, and every store can count that far."""
FORGET_THRESHOLD = 0.75
"""The score from which what lacks a word of a query is forgotten too, where a call names none."""
NOT_EVERYTHING = (
    "nothing was forgotten: a request to forget everything is not carried out from a conversation; call "
    "forget(user_id=...), POST /v1/forget, or perdure forget --all"
)
"""The warning of an addition whose messages ask to forget all that there is."""
DEEPEST = 3  # maximum number of edges to a neighbour
ORDERS = ("score", "time")
"""The orders of results: best first, or oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A validated `search`."""

    text: str
    scope: Scope
    limit: int = 100
    filters: Filter | None = None
    threshold: float | None = None
    types: tuple[str, ...] = ()
    history: tuple[Message, ...] = ()
    as_of: datetime | None = None
    include_past: bool = False
    explain: bool = False
    versions: bool = False  # search earlier texts instead of current ones
    preset: Preset = field(default_factory=lambda: _presets()["best"])
    rerank: bool = False
    related: bool = True  # whether memories related by the graph join the results; else each memory is scored by itself
    hydrate: bool = False  # whether each memory comes with its source messages
    also: Scope | None = None
    """A second scope whose candidates join those of the first; for presets that rank by similarity."""
    trusted: bool = False  # whether quarantined memories are left out, because the result enters a prompt
    files: bool = False  # whether agents' files are searched too
    messages: bool = False  # whether messages are searched where the preset leaves them out
    told: frozenset[str] = frozenset()  # fingerprints of messages that the reader already has: they are not candidates
    reference_time: datetime | None = None
    """The time that "last week" in the question is relative to; default the clock."""
    meaning: str | None = None  # the text to embed in place of the question, for a search by a made-up answer
    time_window: Window | None = None  # the period to use instead of the one in the question
    order: str = "score"  # one of ORDERS; the results are the same ones

    @property
    def reads_past(self) -> bool:
        """Whether rows are read that are not current."""
        return self.versions or self.as_of is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """A caller's search options; `read_query` validates them.

    `AsyncMemory.search` documents each of them. The library, the REST API and the command line all build one.
    """

    limit: int = 100
    filters: Filters | None = None
    threshold: float | None = None
    types: Sequence[str] | None = None
    rerank: bool = False
    history: Sequence[Message | Mapping[str, Any]] | None = None
    as_of: Moment | None = None
    include_past: bool = False
    preset: str | None = None
    explain: bool = False
    hydrate: bool = False
    reference_time: Moment | None = None
    time_window: TimeWindow | None = None
    order: str = "score"


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """A validated `add`."""

    messages: list[Message]
    scope: Scope
    metadata: dict[str, Any] = field(default_factory=dict)
    filters: Filter | None = None
    prompt: str | None = None
    infer: bool = True
    timestamp: datetime | None = None
    type: str | None = None
    expires_at: str | None = None
    idempotency_key: str | None = None
    whole: bool = False
    """Whether everything is read for facts, however long: an import has the time, and is not repeated."""
    later: bool = False
    """Whether the messages are stored now and wait to be read by `WritePath.extract_pending`, where that can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRequest:
    """A validated `forget`: one memory, what a query finds, or a whole scope."""

    scope: Scope
    id: str | None = None
    query: str | None = None
    types: tuple[str, ...] = ()  # only memories of these types in the scope
    threshold: float = FORGET_THRESHOLD
    erase: bool = True
    dry_run: bool = False
    walls: Scope | None = None  # the scope in which derived memories are erased too; None means `scope`

    @property
    def reach(self) -> Scope:
        """The scope in which derived memories are erased too."""
        return self.scope if self.walls is None else self.walls

    @property
    def whole(self) -> Scope | None:
        """The scope to erase entirely, if the request is for one."""
        return self.scope if self.id is None and self.query is None and not self.types else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphQuery:
    """A caller's scope and times for the graph.

    `at` is the time at which relations must hold, default now; `as_of` leaves out what was said later. `sees` matches
    the memories that the caller may read: nothing that only others state is returned.
    """

    scope: Scope
    at: datetime | None = None
    as_of: datetime | None = None
    include_past: bool = False
    sees: Filter | None = None


def invalid(field: str, expected: str, value: object) -> InvalidInputError:
    """Return the error for an argument that is not as expected."""
    return InvalidInputError(f"{field} must be {expected}, not {shown(value)}", field=field, value=value)


def read_flag(value: object, field: str) -> bool:
    """Read a boolean, and nothing that merely resembles one."""
    if not isinstance(value, bool):
        raise invalid(field, "true or false", value)
    return value


def read_kinds(value: object, *, deleted: bool) -> tuple[str, ...]:
    """Read the kind of memories to list: facts or notes; by default facts, and of deleted memories both."""
    if value is None:
        return ("facts", NOTES) if deleted else ("facts",)
    if value not in ("facts", NOTES):
        raise invalid("kind", f"facts or {NOTES}", value)
    return (str(value),)


def read_limit(value: object, field: str = "limit") -> int:
    """Read a limit of at least 1; greater values are reduced to MAX_LIMIT."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise invalid(field, "a whole number of at least 1", value)
    return min(value, MAX_LIMIT)


def read_share(value: object, field: str) -> float:
    """Read a number in [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise invalid(field, "a number from 0 to 1", value)
    return float(value)


def read_text(value: object, field: str) -> str:
    """Read a text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise invalid(field, "text with something in it", value)
    return check_unicode(value, field)


def read_texts(value: object, field: str) -> list[str]:
    """Read a list of texts that are not blank."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise invalid(field, "a list of texts", value)
    return [read_text(each, f"{field}[{position}]") for position, each in enumerate(value)]


def read_one_of(value: object, known: Sequence[str], field: str) -> str:
    """Read one of the known words."""
    if not isinstance(value, str) or value not in known:
        raise invalid(field, f"one of {', '.join(known)}", value)
    return value


def read_memory_id(value: object, field: str = "id") -> str:
    """Read a memory's id in canonical form; NotFoundError for text that cannot be an id."""
    if not isinstance(value, str):
        raise invalid(field, "text", value)
    id = read_id(value)
    if id is None:
        raise NotFoundError(f"there is no memory with the id {shown(value)}")
    return id


def read_scope(user_id: str | None, agent_id: str | None, run_id: str | None, walls: Scope = UNRESTRICTED) -> Scope:
    """Read the scope of a call inside the access scope; ScopeError if neither names an owner."""
    return scoped(walls, Scope(user_id=user_id, agent_id=agent_id, run_id=run_id)).require_owner()


def read_addition(
    messages: Messages,
    scope: Scope,
    *,
    metadata: dict[str, Any] | None,
    filters: Filters | None,
    prompt: str | None,
    infer: bool,
    timestamp: Moment | None,
    type: str | None,
    expires_at: Moment | None,
    idempotency_key: str | None,
) -> Addition:
    """Validate an `add`."""
    return Addition(
        messages=read_messages(messages),
        scope=scope,
        metadata=check_metadata(metadata),
        filters=parse_filter(filters),
        prompt=None if prompt is None else read_text(prompt, "prompt"),
        infer=read_flag(infer, "infer"),
        timestamp=None if timestamp is None else parse_moment(timestamp),
        type=None if type is None else read_text(type, "type"),
        expires_at=None if expires_at is None else iso(parse_moment(expires_at, "expires_at")),
        idempotency_key=None if idempotency_key is None else read_text(idempotency_key, "idempotency_key"),
    )


def date_warnings(addition: Addition, messages: Sequence[Message], now: datetime) -> list[str]:
    """Return warnings of dates that a caller may not have meant: one well in the future, an end that has passed."""
    warnings: list[str] = []
    given = [("timestamp", addition.timestamp)]
    given += [(f"messages[{place}].timestamp", message.timestamp) for place, message in enumerate(messages)]
    ahead = [(name, moment) for name, moment in given if moment is not None and moment > now + SKEW]
    if ahead:
        (name, moment), others = ahead[0], len(ahead) - 1
        more = f", and so {'is' if others == 1 else 'are'} {others} more" if others else ""
        warnings.append(
            f"{name} {iso(moment)} is later than now{more}: what was said counts as told now, so that later news"
            " replaces it, and as true from that date on"
        )
    if addition.expires_at is not None and addition.expires_at <= iso(now):
        warnings.append(f"expires_at {addition.expires_at} has passed already: no read returns what is added")
    return warnings


def brought_by(addition: Addition, message: Message, *, forged: bool) -> dict[str, Any]:
    """Return as JSON what an addition brings for the facts of one of its messages; `read_brought` reads it."""
    moment = message.timestamp or addition.timestamp
    given = {
        "metadata": addition.metadata,
        "filters": None if addition.filters is None else dump_filter(addition.filters),
        "prompt": addition.prompt,
        "timestamp": None if moment is None else iso(moment),
        "type": addition.type,
        "expires_at": addition.expires_at,
        "forged": forged,
    }
    return {name: value for name, value in given.items() if value}


def shared_of(brought: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of what was brought that the messages of one call share."""
    return {name: value for name, value in brought.items() if name not in ("timestamp", "forged")}


def read_brought(brought: Mapping[str, Any], scope: Scope) -> Addition:
    """Return the addition, without its messages, that brought this; InvalidInputError if none could have."""
    read_flag(brought.get("forged", False), "forged")
    filters = brought.get("filters")
    return replace(
        read_addition(
            (),
            scope,
            metadata=brought.get("metadata"),
            filters=None,
            prompt=brought.get("prompt"),
            infer=True,
            timestamp=brought.get("timestamp"),
            type=brought.get("type"),
            expires_at=brought.get("expires_at"),
            idempotency_key=None,
        ),
        filters=None if filters is None else load_filter(filters),
    )


def read_forget(
    *,
    id: str | LeftOut,
    query: str | LeftOut,
    user_id: str | None,
    agent_id: str | None,
    run_id: str | None,
    threshold: float | LeftOut,
    erase: bool,
    dry_run: bool,
    walls: Scope = UNRESTRICTED,
) -> ForgetRequest:
    """Validate a `forget`: by id alone, by query inside a scope, or of a whole scope."""
    scope = scoped(walls, Scope(user_id=user_id, agent_id=agent_id, run_id=run_id))
    for name, value in (("id", id), ("query", query)):
        if value is None:
            raise InvalidInputError(
                f"{name} is None, which names nothing: leave it out to forget the whole scope", field=name, value=None
            )
    if id is not LEFT_OUT and query is not LEFT_OUT:
        raise InvalidInputError("forget takes an id or a query, not both", field="id", value=id)
    if threshold is not LEFT_OUT and query is LEFT_OUT:  # else a call meant to narrow would erase the whole scope
        raise InvalidInputError(
            "threshold is of a query, and there is none: add query, or leave threshold out to forget "
            f"{'the whole scope' if id is LEFT_OUT else 'the memory of this id'}",
            field="threshold",
            value=threshold,
        )
    if id is LEFT_OUT:
        scope.require_owner()
    return ForgetRequest(
        scope=scope,
        id=None if id is LEFT_OUT else read_memory_id(id),
        query=None if query is LEFT_OUT else read_text(query, "query"),
        threshold=FORGET_THRESHOLD if threshold is LEFT_OUT else read_share(threshold, "threshold"),
        erase=read_flag(erase, "erase"),
        dry_run=read_flag(dry_run, "dry_run"),
        walls=walls,
    )


def read_query(kernel: Kernel, query: str, scope: Scope, options: SearchOptions) -> Query:
    """Validate a search against this engine; InvalidInputError names the wrong field."""
    if read_flag(options.rerank, "rerank") and kernel.reranker is None:
        raise InvalidInputError(
            "no reranker is configured: name one as reranker.provider, or search without rerank",
            field="rerank",
            value=options.rerank,
        )
    return Query(
        text=read_text(query, "query"),
        scope=scope,
        limit=read_limit(options.limit),
        filters=parse_filter(options.filters),
        threshold=None if options.threshold is None else read_share(options.threshold, "threshold"),
        types=() if options.types is None else tuple(read_texts(options.types, "types")),
        history=() if options.history is None else tuple(read_messages(options.history)),
        as_of=None if options.as_of is None else parse_moment(options.as_of, "as_of"),
        include_past=read_flag(options.include_past, "include_past"),
        explain=read_flag(options.explain, "explain"),
        preset=read_preset(kernel, options.preset),
        rerank=options.rerank,
        hydrate=read_flag(options.hydrate, "hydrate"),
        files=True,
        reference_time=None
        if options.reference_time is None
        else parse_moment(options.reference_time, "reference_time"),
        time_window=None if options.time_window is None else read_window(options.time_window),
        order=read_one_of(options.order, ORDERS, "order"),
    )


def read_preset(kernel: Kernel, name: str | None) -> Preset:
    """Return the preset of a name; without one the configured preset."""
    presets = _presets()
    if name is None:
        return presets[kernel.config.preset]
    if not isinstance(name, str) or name not in presets:
        raise InvalidInputError(
            f"unknown preset {shown(name)}: there is {', '.join(presets)}", field="preset", value=name
        )
    return presets[name]


def _presets() -> Mapping[str, Preset]:
    from perdure.pipeline.retrieval.presets import PRESETS  # here: it imports NumPy

    return PRESETS


def read_window(value: object) -> Window:
    """Read a pair of times, either of them None, as a period; the first must come before the second."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) or len(value) != 2:
        raise invalid("time_window", "a pair of moments", value)
    start, end = (
        None if moment is None else parse_moment(moment, f"time_window[{place}]").astimezone(UTC)
        for place, moment in enumerate(value)
    )
    if start is None and end is None:
        raise InvalidInputError("time_window needs a start or an end", field="time_window", value=value)
    if start is not None and end is not None and start >= end:
        raise InvalidInputError(
            f"time_window must end after it starts, not {shown(value)}", field="time_window", value=value
        )
    from perdure.pipeline.retrieval.time_window import Window  # here: its patterns take a while to compile

    return Window(start, end, "span")


def read_graph_query(
    scope: Scope,
    *,
    at: Moment | None = None,
    as_of: Moment | None = None,
    include_past: bool = False,
    sees: Filter | None = None,
) -> GraphQuery:
    """Build a graph query from a caller's arguments."""
    return GraphQuery(
        scope=scope,
        at=None if at is None else parse_moment(at, "at"),
        as_of=None if as_of is None else parse_moment(as_of, "as_of"),
        include_past=read_flag(include_past, "include_past"),
        sees=sees,
    )


def read_depth(value: object) -> int:
    """Read the maximum number of edges to a neighbour, 1 to 3."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= DEEPEST:
        raise invalid("depth", f"a whole number from 1 to {DEEPEST}", value)
    return value
