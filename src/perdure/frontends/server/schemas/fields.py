"""Fields shared by requests: the scope, lists of names, and times as mem0's clients send them."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from perdure.domain.clock import iso, parse_moment, read_moment
from perdure.domain.errors import InvalidInputError
from perdure.domain.scope import Scope
from perdure.domain.text.readable import shown

ORGANIZATION = "perdure"  # the only organization, as `ping` returns it
DEFAULT_PROJECT = "default"  # the project that `ping` returns for a caller that is bound to none
Time = float | str  # seconds since 1970, or ISO 8601 text


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_listed)]  # a list of words, or one word


def project_wall(org_id: str | None, project_id: str | None) -> str | None:
    """Return the project that a request names; None also if it only repeats the default that `ping` returned."""
    return None if (org_id, project_id) == (ORGANIZATION, DEFAULT_PROJECT) else project_id


class Form(BaseModel):
    """A request of one of mem0's clients."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True, protected_namespaces=())


class Strict(BaseModel):
    """A request whose unknown fields are rejected (422) to catch typos; to be named as the last base."""

    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=False)


class ScopeFields(Form):
    """The scope of a request, given beside its filters, as clients before v3 do."""

    user_id: str | None = Field(None, examples=["alice"])
    agent_id: str | None = None
    app_id: str | None = Field(None, description="perdure's `world_id`; needs a user, an agent or a run")
    run_id: str | None = None
    session_id: str | None = Field(None, description="Another name of `run_id`")
    project_id: str | None = Field(None, description="The project; needs a user, an agent or a run")
    org_id: str | None = Field(None, description="Sent by mem0's clients with a project; there is only one")

    def scope(self) -> Scope:
        """Return the scope of these fields."""
        run = self.run_id if self.run_id is not None else self.session_id
        project = project_wall(self.org_id, self.project_id)
        return Scope(user_id=self.user_id, agent_id=self.agent_id, run_id=run, world_id=self.app_id, project_id=project)


_MILLISECONDS_FROM = 100_000_000_000
"""As seconds this is the year 5138: greater numbers count milliseconds, as JavaScript's clock does."""
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,9})?")


def read_time(value: object, field: str) -> datetime:
    """Return the time that a number of seconds or a text names; InvalidInputError if it names none."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return parse_moment(value, field)
    try:
        seconds = float(value)
        if not math.isfinite(seconds):
            raise ValueError(value)
        return datetime.fromtimestamp(seconds / 1000 if abs(seconds) >= _MILLISECONDS_FROM else seconds, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInputError(
            f"{field} must be seconds since 1970 or ISO 8601 text, not {shown(value)}", field=field, value=value
        ) from error


def is_day(value: object) -> bool:
    """Whether a value is a date without a time."""
    return isinstance(value, str) and _DAY.fullmatch(value) is not None


def day_end(value: object, field: str) -> datetime:
    """Return the end of a day, the next midnight, for a date; a full time is returned as it is."""
    moment = read_time(value, field)
    if not is_day(value):
        return moment
    try:
        return moment + timedelta(days=1)
    except OverflowError as error:
        raise InvalidInputError(f"{field} must be a day before {shown(value)}", field=field, value=value) from error


def last_day(expires_at: str | None) -> str | None:
    """Return the last day before an expiry, as mem0 shows it; None if there is no expiry."""
    moment = None if expires_at is None else read_moment(expires_at)
    if moment is None:
        return None
    return iso(moment - timedelta(microseconds=1))[:10]
