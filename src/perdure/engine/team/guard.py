"""The guard: no way to change anything leads past a team's tags (X22)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from perdure.domain.errors import InvalidInputError
from perdure.domain.event import Change
from perdure.domain.memory import MemoryItem
from perdure.domain.scope import OWNER_FIELDS
from perdure.domain.text import shown

_SOURCE = re.compile(r"[A-Za-z][A-Za-z0-9_-]*:[^\s\x00-\x1f\x7f]+")


def is_source(value: object) -> bool:
    """Whether a value says who or what wrote something, as `prefix:id` (X15)."""
    return isinstance(value, str) and _SOURCE.fullmatch(value) is not None


def check_tags(changes: Iterable[Change]) -> None:
    """Refuse changes after which a team's memory would stand without its tags, or tags without a team."""
    for change in changes:
        if change.after is not None:
            check_item(change.after)


def check_item(item: MemoryItem) -> MemoryItem:
    """The memory, if it may stand; `check_tags` of one that comes from elsewhere as it is."""
    given = item.scope.given()
    if "team_id" not in given:
        if item.tags is not None:
            raise InvalidInputError("tags are a team's: the memory has no team_id", field="team_id", value=None)
        return item
    if item.tags is None:
        raise InvalidInputError(
            f"a memory of the team {shown(given['team_id'])} needs its tags: visibility, truth_level and"
            f" validation_status",
            field="tags",
            value=None,
        )
    if item.confidence is None or not 0 <= item.confidence <= 1:
        raise InvalidInputError(
            f"confidence of a team's memory must be a number from 0 to 1, not {shown(item.confidence)}",
            field="confidence",
            value=item.confidence,
        )
    if not is_source(item.source):
        raise InvalidInputError(
            f"source of a team's memory must be prefix:id, such as agent-runtime:run_1, not {shown(item.source)}",
            field="source",
            value=item.source,
        )
    for name in OWNER_FIELDS:
        if name in given:
            raise InvalidInputError(
                f"a team's memory has no {name}: who wrote it is written_by", field=name, value=given[name]
            )
    return item
