"""The requests that the engine carries out, and the readers that check a caller's arguments and make them.

Every front end's calls pass through here, so that each is refused for the same reasons. The objects that carry requests
out stand above this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from perdure.domain.clock import iso, parse_moment
from perdure.domain.errors import InvalidInputError, NotFoundError
from perdure.domain.filter import parse_filter
from perdure.domain.memory import check_metadata, read_id
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
"""What `add` takes: a text, a message, or a list of messages."""
Moment = str | date | datetime
"""A time: an aware datetime, a date (its midnight), or ISO 8601 text; without a zone it is UTC."""
TimeWindow = tuple[Moment | None, Moment | None]
"""A stretch of time: its first moment and the one after its last; None is open."""
Filters = Mapping[str, Any]
"""A filter expression as spec 000 §7.1 writes it."""
MAX_LIMIT = 2**31 - 1
"""What a greater limit comes to: no scope holds as many memories, and every store counts as far."""
DEEPEST = 3
"""Edges that neighbours may be away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One call of `search`, checked."""

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
    versions: bool = False
    """Earlier texts instead of those that stand now."""
    preset: Preset = field(default_factory=lambda: _presets()["best"])
    rerank: bool = False
    related: bool = True
    """Whether what the graph relates to the question joins; else each memory is judged by itself."""
    hydrate: bool = False
    """Whether each memory brings the messages that it came from."""
    also: Scope | None = None
    """A second scope, whose candidates join those of the first; for presets that rank by similarity."""
    trusted: bool = False
    """Whether what is quarantined stays away: it may be looked at, but enters no prompt."""
    files: bool = False
    """Whether the files that agents keep are searched too."""
    told: frozenset[str] = frozenset()
    """Fingerprints of messages that whoever reads the answer has before them anyway: they are no candidates."""
    reference_time: datetime | None = None
    """What "last week" in the question goes by; the clock without one."""
    meaning: str | None = None
    """What is embedded in place of the question, where it is searched by a made-up answer."""
    time_window: Window | None = None
    """The time that is asked about, in place of what the question says."""

    @property
    def reads_past(self) -> bool:
        """Whether rows are read that do not stand now."""
        return self.versions or self.as_of is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """The options of one search as a caller gives them; `read_query` checks them.

    `AsyncMemory.search` says what each of them does. The library, the REST API and the command line all make one.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """One call of `add`, checked."""

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
    """Whether all is read for facts, however long: an import has the time, and its lines are not told again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRequest:
    """What is to be forgotten: one memory, what a query finds, or all that a scope holds."""

    scope: Scope
    id: str | None = None
    query: str | None = None
    types: tuple[str, ...] = ()
    """Only memories of these types, of all that the scope holds."""
    threshold: float = 0.75
    erase: bool = True
    dry_run: bool = False
    walls: Scope | None = None
    """Inside of which what was made of the memories goes too; None where `scope` is the walls."""

    @property
    def reach(self) -> Scope:
        """The walls inside of which what was made of the memories goes too."""
        return self.scope if self.walls is None else self.walls

    @property
    def whole(self) -> Scope | None:
        """The scope of which everything goes, if that is what is asked."""
        return self.scope if self.id is None and self.query is None and not self.types else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphQuery:
    """Who asks the graph, and of which time.

    `at` is the moment at which relations are to hold, the present one by default; `as_of` leaves out what was told
    later. `sees` lets through the memories that the caller may read: nothing is told that only others state.
    """

    scope: Scope
    at: datetime | None = None
    as_of: datetime | None = None
    include_past: bool = False
    sees: Filter | None = None


def invalid(field: str, expected: str, value: object) -> InvalidInputError:
    """The error to raise where an argument is not what is expected of it."""
    return InvalidInputError(f"{field} must be {expected}, not {shown(value)}", field=field, value=value)


def read_flag(value: object, field: str) -> bool:
    """A boolean, and nothing that merely looks like one."""
    if not isinstance(value, bool):
        raise invalid(field, "true or false", value)
    return value


def read_limit(value: object, field: str = "limit") -> int:
    """A limit of at least 1; what is beyond every store's counting is cut to that."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise invalid(field, "a whole number of at least 1", value)
    return min(value, MAX_LIMIT)


def read_share(value: object, field: str) -> float:
    """A number in [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise invalid(field, "a number from 0 to 1", value)
    return float(value)


def read_text(value: object, field: str) -> str:
    """Text with something in it."""
    if not isinstance(value, str) or not value.strip():
        raise invalid(field, "text with something in it", value)
    return check_unicode(value, field)


def read_texts(value: object, field: str) -> list[str]:
    """A list of texts with something in them."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise invalid(field, "a list of texts", value)
    return [read_text(each, f"{field}[{position}]") for position, each in enumerate(value)]


def read_one_of(value: object, known: Sequence[str], field: str) -> str:
    """One of the known words."""
    if not isinstance(value, str) or value not in known:
        raise invalid(field, f"one of {', '.join(known)}", value)
    return value


def read_memory_id(value: object, field: str = "id") -> str:
    """The canonical form of a memory's id; NotFoundError for text that no memory can have as its id."""
    if not isinstance(value, str):
        raise invalid(field, "text", value)
    id = read_id(value)
    if id is None:
        raise NotFoundError(f"there is no memory with the id {shown(value)}")
    return id


def read_scope(user_id: str | None, agent_id: str | None, run_id: str | None, walls: Scope = UNRESTRICTED) -> Scope:
    """The scope of a call inside of walls; ScopeError where neither gives an owner."""
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
    """An `add`, checked."""
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


def read_forget(
    *,
    id: str | None,
    query: str | None,
    user_id: str | None,
    agent_id: str | None,
    run_id: str | None,
    threshold: float,
    erase: bool,
    dry_run: bool,
    walls: Scope = UNRESTRICTED,
) -> ForgetRequest:
    """A `forget`, checked: by id alone, by query inside a scope, or a whole scope."""
    scope = scoped(walls, Scope(user_id=user_id, agent_id=agent_id, run_id=run_id))
    if id is not None and query is not None:
        raise InvalidInputError("forget takes an id or a query, not both", field="id", value=id)
    if id is None:
        scope.require_owner()
    return ForgetRequest(
        scope=scope,
        id=None if id is None else read_memory_id(id),
        query=None if query is None else read_text(query, "query"),
        threshold=read_share(threshold, "threshold"),
        erase=read_flag(erase, "erase"),
        dry_run=read_flag(dry_run, "dry_run"),
        walls=walls,
    )


def read_query(kernel: Kernel, query: str, scope: Scope, options: SearchOptions) -> Query:
    """Check a search against what this engine has; InvalidInputError names the field that is wrong."""
    if read_flag(options.rerank, "rerank") and kernel.reranker is None:
        raise InvalidInputError(
            "no reranker is configured: name one as reranker.provider, or search with rerank=False",
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
    )


def read_preset(kernel: Kernel, name: str | None) -> Preset:
    """The preset of a name; without one the configuration's."""
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
    """A pair of moments, either of them None, as a window of time; the first must come before the second."""
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
    """A question of a caller's arguments."""
    return GraphQuery(
        scope=scope,
        at=None if at is None else parse_moment(at, "at"),
        as_of=None if as_of is None else parse_moment(as_of, "as_of"),
        include_past=read_flag(include_past, "include_past"),
        sees=sees,
    )


def read_depth(value: object) -> int:
    """How many edges away neighbours may be, 1 to 3."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= DEEPEST:
        raise invalid("depth", f"a whole number from 1 to {DEEPEST}", value)
    return value
