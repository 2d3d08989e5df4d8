"""Resolve the scopes that a request names, in its arguments or inside its filter.

Conditions that every memory must meet give the scope; the rest stays a filter within it. An OR over several scopes is a
union, and each branch must name one. ScopeError if a branch names no owner: then nothing is read or changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from perdure.domain.errors import FilterError, ScopeError
from perdure.domain.filter import And, Condition, Filter, Or, all_of, eq
from perdure.domain.scope import OWNER_FIELDS, Scope

MAX_SPLITS = 200  # maximum branches examined, which limits the cost of a filter
_AXES = (*OWNER_FIELDS, "world_id", "project_id")


@dataclass(frozen=True, slots=True)
class ScopedFilter:
    """One scope with an owner, and further conditions on its memories."""

    scope: Scope
    filters: And

    @property
    def narrows(self) -> bool:
        """Whether the filter excludes some memories of the scope."""
        return bool(self.filters.parts)

    def also(self, *filters: Filter | None) -> ScopedFilter:
        """Return the same with further conditions."""
        return ScopedFilter(self.scope, all_of(self.filters, *filters))

    def expression(self) -> dict[str, object] | None:
        """Return the filter as an argument of the library."""
        return {"AND": list(self.filters.parts)} if self.filters.parts else None


def resolve_scopes(given: Scope, filters: Filter | None, walls: Scope) -> list[ScopedFilter]:
    """Return the scopes that a request names in its arguments or its filter; ScopeError if one has no owner."""
    found = _split(given.given(), filters, walls.given(), [MAX_SPLITS])
    if not found:
        raise ScopeError(field="filters") if filters is not None else ScopeError()
    return found


def _split(
    given: Mapping[str, str], filters: Filter | None, walls: Mapping[str, str], splits_left: list[int]
) -> list[ScopedFilter]:
    """Return the scopes of a filter; none if one of its branches has no owner."""
    splits_left[0] -= 1
    if splits_left[0] < 0:
        raise FilterError(f"filters may name {MAX_SPLITS} scopes at most", field="filters")
    fields = dict(given)
    rest: list[Filter] = []
    for part in _conjunction(filters):
        # A second value for the same field stays a condition, which no memory satisfies.
        name = _axis_of(part)
        if name is None or fields.setdefault(name[0], name[1]) != name[1]:
            rest.append(part)
    if any(axis in OWNER_FIELDS for axis in (*walls, *fields)):
        return [ScopedFilter(Scope(**fields), all_of(*rest))]
    for place, part in enumerate(rest):
        others = rest[:place] + rest[place + 1 :]
        branches = [_split(fields, all_of(each, *others), walls, splits_left) for each in _branches(part)]
        if branches and all(branches):
            return [reach for branch in branches for reach in branch]
    return []


def resolve_one_scope(given: Scope, filters: Filter | None, walls: Scope) -> ScopedFilter:
    """Return the one scope that a request names; FilterError if its filter is a union of several."""
    found = resolve_scopes(given, filters, walls)
    if len(found) != 1:
        raise FilterError(f"this takes one scope, and the filter names {len(found)}", field="filters")
    return found[0]


def _conjunction(filter: Filter | None) -> Iterable[Filter]:
    """Yield the parts that must all hold, however they are nested; an OR of one part is that part."""
    if isinstance(filter, And):
        for part in filter.parts:
            yield from _conjunction(part)
    elif isinstance(filter, Or) and len(filter.parts) == 1:
        yield from _conjunction(filter.parts[0])
    elif isinstance(filter, Condition) and filter.operator == "in" and _is_one(filter.value):
        assert isinstance(filter.value, tuple), "the operand of `in` is a list"
        yield Condition(filter.field, "eq", filter.value[0])
    elif filter is not None:
        yield filter


def _is_one(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 1


def _axis_of(part: Filter) -> tuple[str, str] | None:
    if isinstance(part, Condition) and part.operator == "eq" and part.field in _AXES and isinstance(part.value, str):
        return part.field, part.value
    return None


def _branches(part: Filter) -> list[Filter]:
    """Return the alternatives of an OR, or of a list of ids."""
    if isinstance(part, Or):
        return list(part.parts)
    if isinstance(part, Condition) and part.operator == "in" and part.field in OWNER_FIELDS:
        assert isinstance(part.value, tuple), "the operand of `in` is a list"
        return [eq(part.field, value) for value in part.value]
    return []
