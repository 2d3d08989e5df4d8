"""Scope: who a memory belongs to, and so who can see it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from perdure.domain.errors import InvalidInputError, ScopeError
from perdure.domain.text.readable import check_unicode, invalid

SCOPE_FIELDS = ("user_id", "agent_id", "run_id", "project_id", "team_id", "room_id", "world_id")
"""Every scope field, in the order in which a store chooses the one to cluster by."""

OWNER_FIELDS = ("user_id", "agent_id", "run_id")  # the scope fields of which `Memory` requires at least one
MAX_SCOPE_LENGTH = 1024
"""Maximum characters of a scope value: ample for ids and e-mail addresses, and an index key in every store."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The value of each scope field, compared literally; None means that it was not given."""

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    project_id: str | None = None
    team_id: str | None = None
    room_id: str | None = None
    world_id: str | None = None

    def __post_init__(self) -> None:
        for name in SCOPE_FIELDS:
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, str):
                raise invalid(name, "text", value)
            if not value or len(value) > MAX_SCOPE_LENGTH or "\x00" in value:
                raise InvalidInputError(
                    f"{name} must have 1 to {MAX_SCOPE_LENGTH} characters and no NUL, not {value[:80]!r}",
                    field=name,
                    value=value,
                )
            check_unicode(value, name)

    def given(self) -> dict[str, str]:
        """Return the fields that have a value."""
        return {name: value for name in SCOPE_FIELDS if (value := getattr(self, name)) is not None}

    def require_owner(self) -> Scope:
        """Return this scope if it names a user, an agent or a run; raise ScopeError otherwise."""
        if self.user_id is None and self.agent_id is None and self.run_id is None:
            raise ScopeError
        return self

    def overlaps(self, other: Scope) -> bool:
        """Whether some item could be visible from both scopes: false only if they differ on a field that both give."""
        theirs = other.given()
        return all(theirs.get(name, value) == value for name, value in self.given().items())

    def holds(self, other: Scope) -> bool:
        """Whether items of the other scope are visible from this one."""
        theirs = other.given()
        return all(theirs.get(name) == value for name, value in self.given().items())


def shared_walls(scopes: Iterable[Scope]) -> Scope:
    """Return the values that all of the scopes share; an empty scope if there are none."""
    given = [set(scope.given().items()) for scope in scopes]
    return Scope(**dict(set.intersection(*given))) if given else Scope()
