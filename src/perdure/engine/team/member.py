"""A member: who asks a team's memory, and what of it they see (X33 to X36)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from perdure.domain.access import ROLES, Role
from perdure.domain.errors import ForbiddenError, InvalidInputError
from perdure.domain.filter import And, Condition, Filter, Not, Or, all_of, eq
from perdure.domain.memory import TRUTH_LEVELS, level_of
from perdure.domain.scope import Scope
from perdure.domain.text.readable import check_unicode, shown
from perdure.engine.core.access import UNRESTRICTED, scoped

TRUSTED: tuple[Role, ...] = ("admin", "service")
"""They see the memories of every project, and may write what a team holds for validated (U23)."""
WRITERS: tuple[Role, ...] = ("member", "admin", "service")
MOST_TRUSTED_INSERT = level_of("WORKING")
"""The highest level at which any member may put a memory in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member of one team, checked."""

    team: str
    name: str
    role: Role = "member"
    projects: frozenset[str] = frozenset()
    walls: Scope
    """The team, and the one project that their key may be used for if it names one."""

    def need(self, *roles: Role, to: str) -> None:
        """ForbiddenError where this member has none of the roles."""
        if self.role not in roles:
            raise ForbiddenError(f"to {to} takes the role {' or '.join(roles)}, and {self.name} has {self.role}")

    def sees(self) -> Filter:
        """The memories of the team that this member sees: a filter, so that a store finds no others (X34)."""
        shared: list[Filter] = [
            eq("visibility", "team"),
            And((eq("visibility", "private"), eq("written_by", self.name))),
        ]
        if self.role in TRUSTED:
            shared.append(eq("visibility", "project"))
        elif self.projects:
            mine = Condition("project_id", "in", tuple(sorted(self.projects)))
            shared.append(And((eq("visibility", "project"), mine)))
        return Or(tuple(shared))

    def may_vouch(self, truth_level: str) -> bool:
        """Whether what this member writes may stand at a level without anybody's approval."""
        return level_of(truth_level) <= MOST_TRUSTED_INSERT or self.role in TRUSTED


def read_member(
    *, team: object, member: object, role: object = "member", projects: object = (), walls: Scope = UNRESTRICTED
) -> Member:
    """A member of a caller's arguments; ForbiddenError where walls stand between them and the team."""
    if not isinstance(team, str) or not team:
        raise InvalidInputError(f"team must be text, not {shown(team)}", field="team", value=team)
    if not isinstance(member, str) or not member.strip():
        raise InvalidInputError(
            f"member must be text with something in it, not {shown(member)}", field="member", value=member
        )
    known = next((each for each in ROLES if each == role), None)
    if known is None:
        raise InvalidInputError(f"role must be one of {', '.join(ROLES)}, not {shown(role)}", field="role", value=role)
    if isinstance(projects, (str, bytes)) or not isinstance(projects, Collection):
        raise InvalidInputError(f"projects must be a list of texts, not {shown(projects)}", field="projects")
    for project in projects:
        if not isinstance(project, str) or not project:
            raise InvalidInputError(f"projects must be texts, not {shown(project)}", field="projects", value=project)
    around = scoped(walls, Scope(team_id=team))
    outside = {*around.given()} - {"team_id", "project_id"}
    if outside:
        raise ForbiddenError(f"a team's memory has no {', '.join(sorted(outside))}: it lies outside of these walls")
    return Member(
        team=team, name=check_unicode(member, "member"), role=known, projects=frozenset(projects), walls=around
    )


PUBLISHED = all_of(eq("truth_level", "PUBLIC"), Not(eq("visibility", "private")))
"""What everybody sees, of any team and without one (X36); an author may still take their own back."""


def at_least(truth_level: str) -> Filter:
    """Memories of a level or a higher one."""
    return Condition("truth_level", "in", TRUTH_LEVELS[level_of(truth_level) :])
