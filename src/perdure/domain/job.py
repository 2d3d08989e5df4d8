"""A job: work that follows a change and survives a crash."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from perdure.domain.scope import Scope

JobState = Literal["pending", "processing", "failed"]
"""Waiting, in work by an owner that is alive, or parked after too many failures; a completed job is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One piece of work for one memory in one scope; the ledger sets all but the first five fields."""

    id: str
    kind: str
    """The kind of work: `entities` and `temporal` are the graph's."""
    memory_id: str
    scope: Scope
    payload: dict[str, Any] = field(default_factory=dict)
    """JSON without any text of a memory, so that erasing a memory leaves none here."""
    state: JobState = "pending"
    attempts: int = 0
    """Number of failed attempts."""
    not_before: str = ""
    """Earliest time at which it may run, ISO 8601 UTC."""
    created_at: str = ""
    error: str | None = None
    """Why the last attempt failed, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """Number of waiting jobs of some kinds."""

    pending: int
    processing: int
    failed: int
    oldest_pending_at: str | None
    by_kind: dict[str, int]
    """Unfinished jobs of each kind, in any state."""
