"""What one batch of changes writes, computed before any of it is begun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.backends.ledgers.base import JournalEntry, Remembered
from perdure.backends.vector_stores.base import Point
from perdure.domain.event import Episode
from perdure.domain.job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """What one batch writes: into the ledger, and the rows that this leaves in the store."""

    batch: str
    entries: Sequence[JournalEntry]
    episodes: Sequence[Episode]
    answer: Remembered | None
    puts: Sequence[Point]
    deletes: Sequence[str]
    jobs: Sequence[Job]
    """What has to follow it."""
