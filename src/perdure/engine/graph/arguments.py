"""The arguments of a question to the graph, checked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from perdure.domain.clock import parse_moment
from perdure.domain.errors import InvalidInputError
from perdure.domain.filter import Filter
from perdure.domain.scope import Scope
from perdure.domain.text.readable import shown
from perdure.engine.arguments import Moment, read_flag

DEEPEST = 3
"""Edges that neighbours may be away (X59)."""


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
        raise InvalidInputError(
            f"depth must be a whole number from 1 to {DEEPEST}, not {shown(value)}", field="depth", value=value
        )
    return value
