"""Reading what a member gives: an item with all of its seven tags, or a patch; each thing that is wrong is named."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from perdure.domain.errors import ForbiddenError, InvalidInputError, PromotionRequiredError
from perdure.domain.memory import TRUTH_LEVELS, VALIDATION_STATUSES, VISIBILITIES, check_metadata
from perdure.domain.scope import Scope
from perdure.domain.text.readable import check_unicode, shown
from perdure.engine.arguments import read_share, read_text
from perdure.engine.core.rows import is_source

TAG_FIELDS = (
    "team_scope", "project_scope", "visibility", "confidence", "truth_level", "source", "validation_status",
)  # fmt: skip
"""Spec 004's seven: an item without one of them is refused (X2 to X8)."""
PATCHABLE = ("content", "project_scope", "visibility", "confidence", "validation_status", "metadata")
"""What a patch may change (X52)."""
BY_PROMOTION = "truth_level is only moved by a promotion: POST /v1/promotions, or request_promotion in the library"


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamItem:
    """One item as a member gives it, checked."""

    content: str
    team_scope: str
    project_scope: str | None
    visibility: str
    confidence: float
    truth_level: str
    source: str
    validation_status: str
    metadata: dict[str, Any] | None = None
    """None where none was given: an item that is there keeps its own."""


def read_item(value: object, team: str) -> TeamItem:
    """The item of a caller's object; ForbiddenError where it names another team than the caller asks for (X23)."""
    if isinstance(value, TeamItem):
        item = value
    else:
        item = TeamItem(**_read(value, "item", required=("content", *TAG_FIELDS), known=(*_READERS,)))
    check_placed(item.visibility, item.project_scope)
    if item.team_scope != team:
        raise ForbiddenError(f"team_scope is {shown(item.team_scope)}, and the caller asks for the team {shown(team)}")
    return item


def read_patch(value: object) -> dict[str, Any]:
    """The changes of a caller's object, also where it holds them under `patch`; PromotionRequiredError for a level."""
    if isinstance(value, Mapping) and {*value} == {"patch"}:
        value = value["patch"]
    if isinstance(value, Mapping):
        if _names_level(value):
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


def _names_level(value: Mapping[Any, Any]) -> bool:
    nested = value.get("patch")
    return "truth_level" in value or (isinstance(nested, Mapping) and "truth_level" in nested)


def check_placed(visibility: str, project: str | None) -> None:
    """InvalidInputError where a memory would be for the members of no project."""
    if visibility == "project" and project is None:
        raise InvalidInputError(
            "visibility project needs a project_scope: without one the memory is for the members of no project",
            field="project_scope",
            value=None,
        )


def _read(value: object, what: str, *, required: Collection[str], known: Collection[str]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{what} must be an object, not {shown(value)}", field=what, value=value)
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


def _one_of(known: tuple[str, ...]) -> Callable[[object, str], str]:
    def read(value: object, field: str) -> str:
        if not isinstance(value, str) or value not in known:
            raise InvalidInputError(f"{field} must be one of {', '.join(known)}, not {shown(value)}")
        return value

    return read


def _read_source(value: object, field: str) -> str:
    if not isinstance(value, str) or not is_source(value):
        raise InvalidInputError(
            f"{field} must be prefix:id, such as librechat:conv_abc123, not {shown(value)}", field=field, value=value
        )
    return check_unicode(value, field)


def _read_wall(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(f"{field} must be text, not {shown(value)}", field=field, value=value)
    try:
        Scope(project_id=value)
    except InvalidInputError as error:
        raise InvalidInputError(error.message.replace("project_id", field), field=field, value=value) from error
    return value


def read_project(value: object, field: str = "project_scope") -> str | None:
    """A project's name; None is the whole team (X9)."""
    return None if value is None else _read_wall(value, field)


def _read_metadata(value: object, field: str) -> dict[str, Any] | None:
    return None if value is None else check_metadata(value)


_READERS: Mapping[str, Callable[[object, str], Any]] = {
    "content": read_text,
    "team_scope": _read_wall,
    "project_scope": read_project,
    "visibility": _one_of(VISIBILITIES),
    "confidence": read_share,
    "truth_level": _one_of(TRUTH_LEVELS),
    "source": _read_source,
    "validation_status": _one_of(VALIDATION_STATUSES),
    "metadata": _read_metadata,
}
