"""Team members, and their items and patches, validated; every wrong field is named."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from perdure.backends.ledgers.base import Ledger
from perdure.domain import memory
from perdure.domain.access import ROLES, AuditEntry, Role
from perdure.domain.errors import ForbiddenError, InvalidInputError, LedgerError, PromotionRequiredError
from perdure.domain.filter import And, Condition, Filter, Not, Or, all_of, eq
from perdure.domain.scope import Scope
from perdure.domain.text.readable import check_unicode, shown
from perdure.engine.core.access import UNRESTRICTED, scoped
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.rows import is_source
from perdure.engine.requests import invalid, read_one_of, read_share, read_text

TRUSTED: tuple[Role, ...] = ("admin", "service")
"""Roles that see the memories of every project, and may write validated facts."""
WRITERS: tuple[Role, ...] = ("member", "admin", "service")
MOST_TRUSTED_INSERT = memory.level_of("WORKING")  # the highest level at which any member may insert a memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member of one team, validated."""

    team: str
    name: str
    role: Role = "member"
    projects: frozenset[str] = frozenset()
    walls: Scope  # the team, and the one project that the member's key is limited to, if any

    def need(self, *roles: Role, to: str) -> None:
        """Raise ForbiddenError unless this member has one of the roles."""
        if self.role not in roles:
            raise ForbiddenError(f"to {to} takes the role {' or '.join(roles)}, and {self.name} has {self.role}")

    def sees(self) -> Filter:
        """The filter of the team's memories that this member may see; stores apply it."""
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
        """Whether this member's memories may be at a level without anybody's approval."""
        return memory.level_of(truth_level) <= MOST_TRUSTED_INSERT or self.role in TRUSTED


def read_member(
    *, team: object, member: object, role: object = "member", projects: object = (), walls: Scope = UNRESTRICTED
) -> Member:
    """Build a member from a caller's arguments; ForbiddenError if the scope excludes the team."""
    if not isinstance(team, str) or not team:
        raise invalid("team", "text", team)
    if not isinstance(member, str) or not member.strip():
        raise invalid("member", "text with something in it", member)
    known = next((each for each in ROLES if each == role), None)
    if known is None:
        raise invalid("role", f"one of {', '.join(ROLES)}", role)
    if isinstance(projects, (str, bytes)) or not isinstance(projects, Collection):
        raise invalid("projects", "a list of texts", projects)
    for project in projects:
        if not isinstance(project, str) or not project:
            raise invalid("projects", "texts", project)
    around = scoped(walls, Scope(team_id=team))
    outside = {*around.given()} - {"team_id", "project_id"}
    if outside:
        raise ForbiddenError(f"a team's memory has no {', '.join(sorted(outside))}: it lies outside of these walls")
    return Member(
        team=team, name=check_unicode(member, "member"), role=known, projects=frozenset(projects), walls=around
    )


PUBLISHED = all_of(eq("truth_level", "PUBLIC"), Not(eq("visibility", "private")))
"""What everybody sees, with or without a team; an author may still withdraw their own."""


def at_least(truth_level: str) -> Filter:
    """Return the filter for memories of a level or a higher one."""
    return Condition("truth_level", "in", memory.TRUTH_LEVELS[memory.level_of(truth_level) :])


def ledger_of(kernel: Kernel) -> Ledger:
    """Return the ledger with promotions and audit; LedgerError if there is none."""
    if kernel.ledger is None:
        raise LedgerError(
            "there is no ledger: it could not be opened (see the log), and a team changes nothing that is not on record"
        )
    return kernel.ledger


def audit_entry(kernel: Kernel, member: Member, action: str, subject_id: str, **details: Any) -> AuditEntry:
    """Build a line of the audit, dated now; the details contain ids, levels and field names, and no text."""
    return AuditEntry(
        id=memory.new_id(), at=kernel.clock.tick(), team=member.team, actor=member.name, action=action,
        subject_id=subject_id, details=details,
    )  # fmt: skip


def tags_of(item: memory.MemoryItem) -> memory.Tags:
    """Return the tags of a team's memory, which always has them."""
    assert item.tags is not None, "see guard.check_tags"
    return item.tags


def with_tags(tags: memory.Tags, **changes: str) -> memory.Tags:
    """Return a copy of tags with some of them changed."""
    return replace(tags, **changes)


TAG_FIELDS = (
    "team_scope", "project_scope", "visibility", "confidence", "truth_level", "source", "validation_status",
)  # fmt: skip
"""The seven tags: an item without one of them is rejected."""
PATCHABLE = ("content", "project_scope", "visibility", "confidence", "validation_status", "metadata")
"""Fields that a patch may change."""
BY_PROMOTION = "truth_level is only moved by a promotion: POST /v1/promotions, or request_promotion in the library"


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamItem:
    """One item from a member, validated."""

    content: str
    team_scope: str
    project_scope: str | None
    visibility: str
    confidence: float
    truth_level: str
    source: str
    validation_status: str
    metadata: dict[str, Any] | None = None  # none if not given: an existing item keeps its own


def read_item(value: object, team: str) -> TeamItem:
    """Read the item of a caller's object; ForbiddenError if it names another team than the caller's."""
    if isinstance(value, TeamItem):
        item = value
    else:
        item = TeamItem(**_read(value, "item", required=("content", *TAG_FIELDS), known=(*_READERS,)))
    check_placed(item.visibility, item.project_scope)
    if item.team_scope != team:
        raise ForbiddenError(f"team_scope is {shown(item.team_scope)}, and the caller asks for the team {shown(team)}")
    return item


def read_patch(value: object) -> dict[str, Any]:
    """Read the changes of a caller's object, or of its `patch`; PromotionRequiredError for a level."""
    if isinstance(value, Mapping) and {*value} == {"patch"}:
        value = value["patch"]
    if isinstance(value, Mapping):
        nested = value.get("patch")
        if "truth_level" in value or (isinstance(nested, Mapping) and "truth_level" in nested):
            raise PromotionRequiredError(BY_PROMOTION)
        fixed = [name for name in ("team_scope", "source") if name in value]
        if fixed:
            raise InvalidInputError(
                f"{fixed[0]} cannot be patched: with team_scope and source a memory is told from all others",
                field=fixed[0],
                value=value[fixed[0]],
            )
        if not value:
            raise InvalidInputError(f"a patch changes something: {', '.join(PATCHABLE)}", field="patch", value=value)
    return _read(value, "patch", required=(), known=PATCHABLE)


def check_placed(visibility: str, project: str | None) -> None:
    """Raise InvalidInputError for a memory that is visible to the members of no project."""
    if visibility == "project" and project is None:
        raise InvalidInputError(
            "visibility project needs a project_scope: without one the memory is for the members of no project",
            field="project_scope",
            value=None,
        )


def _read(value: object, what: str, *, required: Collection[str], known: Collection[str]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise invalid(what, "an object", value)
    problems: list[tuple[str, str]] = [
        (name, f"Missing required field: {name}") for name in required if name not in value
    ]
    problems += [
        (str(name), f"Unknown field: {shown(name)}; what has no field of its own goes into metadata")
        for name in value
        if name not in known
    ]
    read: dict[str, Any] = {}
    for name in known:
        if name in value:
            try:
                read[name] = _READERS[name](value[name], name)
            except InvalidInputError as error:
                problems.append((name, error.message))
    if problems:
        field = problems[0][0]
        raise InvalidInputError(". ".join(sentence for _, sentence in problems), field=field, value=value.get(field))
    return read


def _read_source(value: object, field: str) -> str:
    if not isinstance(value, str) or not is_source(value):
        raise invalid(field, "prefix:id, such as librechat:conv_abc123", value)
    return check_unicode(value, field)


def _read_wall(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise invalid(field, "text", value)
    try:
        Scope(project_id=value)
    except InvalidInputError as error:
        raise InvalidInputError(error.message.replace("project_id", field), field=field, value=value) from error
    return value


def read_project(value: object, field: str = "project_scope") -> str | None:
    """Read a project's name; None is the whole team."""
    return None if value is None else _read_wall(value, field)


def _read_metadata(value: object, field: str) -> dict[str, Any] | None:
    return None if value is None else memory.check_metadata(value)


_READERS: Mapping[str, Callable[[object, str], Any]] = {
    "content": read_text,
    "team_scope": _read_wall,
    "project_scope": read_project,
    "visibility": lambda value, field: read_one_of(value, memory.VISIBILITIES, field),
    "confidence": read_share,
    "truth_level": lambda value, field: read_one_of(value, memory.TRUTH_LEVELS, field),
    "source": _read_source,
    "validation_status": lambda value, field: read_one_of(value, memory.VALIDATION_STATUSES, field),
    "metadata": _read_metadata,
}
