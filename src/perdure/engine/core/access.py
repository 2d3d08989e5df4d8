"""Access scope (tenant isolation) and visibility: which rows a call may read and change.

The engine enforces both, not the front ends: rows outside the access scope are neither found, reported nor changed,
whichever id a call names.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from perdure.domain.clock import iso
from perdure.domain.errors import ForbiddenError
from perdure.domain.filter import And, Condition, Moment, Not, all_of, eq, scope_filter
from perdure.domain.memory import LIVE, VERSION
from perdure.domain.scope import SCOPE_FIELDS, Scope
from perdure.domain.text.readable import shown

if TYPE_CHECKING:
    from perdure.domain.event import HistoryRecord
    from perdure.domain.filter import Filter
    from perdure.domain.memory import MemoryItem

TRUSTED = Not(Condition("quarantined", "gte", ""))
"""Filter for memories that may enter a prompt: those that are not quarantined."""

CONFIRMED = Not(And((eq("kind", "messages"), eq("role", "assistant"))))
"""Filter for what a person said or confirmed, without what an assistant said by itself."""


def visible(
    scope: Scope,
    *,
    now: datetime,
    kinds: tuple[str, ...] = ("facts",),
    as_of: datetime | None = None,
    include_past: bool = False,
    filters: Filter | None = None,
    state: str = LIVE,
) -> And:
    """Return the filter of a read, for current rows unless `state` or `as_of` says otherwise; without kinds, for any.

    With `as_of`, it matches rows that were known then and not yet replaced, versions included; rows past their
    `valid_to` or `expires_at` at that time (else now) are left out unless `include_past`.
    """
    kind: Filter | None = None
    if kinds:
        kind = eq("kind", kinds[0]) if len(kinds) == 1 else Condition("kind", "in", kinds)
    moment = Moment(iso(as_of or now))
    parts: list[Filter | None] = [scope_filter(scope), kind]
    if as_of is None:
        parts.append(eq("state", state))
    else:
        parts += [
            Condition("state", "in", (LIVE, VERSION)),
            Condition("told_at", "lte", moment),
            Not(Condition("untold_at", "lte", moment)),
        ]
    if not include_past:
        parts += [Not(Condition("valid_to", "lte", moment)), Not(Condition("expires_at", "lte", moment))]
    parts.append(filters)
    return all_of(*parts)


UNRESTRICTED = Scope()  # no restriction at all


def scoped(walls: Scope, given: Scope) -> Scope:
    """Return the scope of a call with these fields; ForbiddenError if one of them lies outside the access scope."""
    fields = walls.given()
    for name, value in given.given().items():
        if fields.setdefault(name, value) != value:
            raise ForbiddenError(f"{name} {shown(value)} lies outside of what this memory may be asked for")
    return Scope(**fields)


def is_inside(walls: Scope, item: MemoryItem) -> bool:
    """Whether a memory is inside the access scope."""
    return reaches(walls, item.scope)


def reaches(walls: Scope, scope: Scope) -> bool:
    """Whether a scope is inside the access scope; a team's memories are seen by its members only."""
    return (scope.team_id is None or walls.team_id is not None) and walls.holds(scope)


def records_inside(walls: Scope, records: Sequence[HistoryRecord]) -> list[HistoryRecord]:
    """Return a memory's history, as far as it happened inside the access scope."""
    return [record for record in records if reaches(walls, scope_of(record))]


def scope_of(record: HistoryRecord) -> Scope:
    """Return the scope of a record's memory."""
    return Scope(**{name: getattr(record, name) for name in SCOPE_FIELDS})
