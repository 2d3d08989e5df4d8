"""Tags: what a team's memory carries beside its walls (spec 004): who may see it, and how far it is to be trusted.

Of 004's seven, `team_scope` and `project_scope` are the scope's axes, `confidence` and `source` the item's own fields;
the other three are here, with the member who wrote it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from perdure.domain.errors import InvalidInputError
from perdure.domain.text import check_unicode, shown

TRUTH_LEVELS = ("EPHEMERAL", "WORKING", "VALIDATED", "CANONICAL", "PUBLIC")
"""From raw output to what is published; a memory only moves forward, by promotion (X39)."""
VISIBILITIES = ("team", "project", "private")
"""All members, members of the project, the author alone (X35)."""
VALIDATION_STATUSES = ("pending", "approved", "rejected")
"""Whether somebody has looked at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """A team's tags on one memory, checked."""

    visibility: str
    truth_level: str
    validation_status: str
    written_by: str | None = None
    """The member who wrote it: the `sub` of their token."""

    def __post_init__(self) -> None:
        for name, known in _KNOWN.items():
            value = getattr(self, name)
            if value not in known:
                raise InvalidInputError(
                    f"{name} must be one of {', '.join(known)}, not {shown(value)}", field=name, value=value
                )
        if self.written_by is not None:
            if not isinstance(self.written_by, str) or not self.written_by:
                raise InvalidInputError(
                    f"written_by must be text, not {shown(self.written_by)}", field="written_by", value=self.written_by
                )
            check_unicode(self.written_by, "written_by")

    @classmethod
    def read(cls, value: object) -> Tags | None:
        """The tags of an object of plain values; None for none, InvalidInputError for what is no such object."""
        if not value:
            return None
        names = {item.name for item in fields(cls)}
        if not isinstance(value, dict) or not {*value} <= names or not {*_KNOWN} <= {*value}:
            raise InvalidInputError(f"tags must be an object of {', '.join(sorted(names))}", field="tags", value=value)
        return cls(**value)

    def model_dump(self) -> dict[str, Any]:
        """The tags as plain values."""
        return {name: value for name, value in asdict(self).items() if value is not None}


_KNOWN = {"visibility": VISIBILITIES, "truth_level": TRUTH_LEVELS, "validation_status": VALIDATION_STATUSES}


def level_of(truth_level: str) -> int:
    """The place of a truth level among them all, from 0; InvalidInputError for none of them."""
    if truth_level not in TRUTH_LEVELS:
        raise InvalidInputError(
            f"truth_level must be one of {', '.join(TRUTH_LEVELS)}, not {shown(truth_level)}",
            field="truth_level",
            value=truth_level,
        )
    return TRUTH_LEVELS.index(truth_level)
