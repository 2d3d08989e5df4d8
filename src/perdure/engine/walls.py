"""Walls: the scope inside of which every call of one view of a memory stays (U22).

They stand in the engine and not in a front end: what lies outside is neither found, nor told of, nor changed, under
whatever id it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.domain.errors import ForbiddenError
from perdure.domain.event import HistoryRecord
from perdure.domain.memory import MemoryItem
from perdure.domain.scope import SCOPE_FIELDS, Scope
from perdure.domain.text import shown

OPEN = Scope()
"""No walls at all."""


def inside(walls: Scope, given: Scope) -> Scope:
    """The scope of a call that gives these fields; ForbiddenError where one of them lies outside of the walls."""
    fields = walls.given()
    for name, value in given.given().items():
        if fields.setdefault(name, value) != value:
            raise ForbiddenError(f"{name} {shown(value)} lies outside of what this memory may be asked for")
    return Scope(**fields)


def is_inside(walls: Scope, item: MemoryItem) -> bool:
    """Whether a memory stands inside of the walls."""
    return reaches(walls, item.scope)


def reaches(walls: Scope, scope: Scope) -> bool:
    """Whether memories of a scope stand inside of the walls; a team's stand inside of those alone that name the team.

    A team has visibilities of its own inside of its walls: who is not asking as a member has no part in them.
    """
    return (scope.team_id is None or walls.team_id is not None) and walls.holds(scope)


def told_inside(walls: Scope, records: Sequence[HistoryRecord]) -> list[HistoryRecord]:
    """A memory's history, as far as it happened inside of the walls."""
    return [record for record in records if reaches(walls, scope_of(record))]


def scope_of(record: HistoryRecord) -> Scope:
    """The scope of the memory that a record tells of."""
    return Scope(**{name: getattr(record, name) for name in SCOPE_FIELDS})
