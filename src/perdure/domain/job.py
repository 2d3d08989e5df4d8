"""A job: work that follows a change and that a crash must not lose."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from perdure.domain.scope import Scope

JobState = Literal["pending", "processing", "failed"]
"""Waiting to be done, being done by an owner that is alive, or parked after too many tries; a job that is done goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One piece of work, of which memory it is and inside which walls; what it does is its kind's matter.

    The writer gives the first five fields; the ledger gives the rest.
    """

    id: str
    kind: str
    """Who does it: `entities` and `temporal` are the graph's."""
    memory_id: str
    scope: Scope
    payload: dict[str, Any] = field(default_factory=dict)
    """JSON; no text of a memory stands in it, so that erasing a memory leaves none here."""
    state: JobState = "pending"
    attempts: int = 0
    """Tries that have failed."""
    not_before: str = ""
    """It is not done before this moment, ISO 8601 UTC."""
    created_at: str = ""
    error: str | None = None
    """What the last try failed of, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """How much work of some kinds waits."""

    pending: int
    processing: int
    failed: int
    oldest_pending_at: str | None
    by_kind: dict[str, int]
    """Jobs of each kind that are not done, whatever their state."""
