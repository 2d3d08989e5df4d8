"""The graph jobs of a change, and the retries of failed jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from perdure.backends.ledgers.repositories.base import Jobs
from perdure.domain.clock import iso, read_moment
from perdure.domain.errors import ClosedError, InvalidInputError, PerdureError
from perdure.domain.event import Change
from perdure.domain.job import Job, QueueStatus
from perdure.domain.memory import MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.aio.calls import degrade
from perdure.engine.core.store_identity import store_mark

ENTITIES = "entities"  # update the graph from the caller's own list of entities
TEMPORAL = "temporal"  # update the graph from the text
ERASE = "erase"  # remove all statements of the memory
KINDS = (ENTITIES, TEMPORAL, ERASE)
PARKED_AFTER = 5  # failures after which a job waits for `revive`
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0  # maximum seconds until the next attempt while the graph, or the model, is unreachable
GROWTH = 4.0  # factor by which each pause after a failure is longer than the one before


class JobKinds:
    """The kinds of one store's jobs: ledgers are shared, and other stores' memories are not available here."""

    def __init__(self, store_identity: str, collection: str) -> None:
        self.store = store_mark(store_identity, collection)

    def named(self, kind: str) -> str:
        """Return the kind as the ledger stores it."""
        return f"{kind}@{self.store}"

    @staticmethod
    def bare(kind: str) -> str:
        """Return the kind as people know it."""
        return kind.partition("@")[0]

    @property
    def all(self) -> tuple[str, ...]:
        """Return every kind as the ledger stores it."""
        return tuple(self.named(kind) for kind in KINDS)

    def status(self, status: QueueStatus) -> QueueStatus:
        """Return the state of the queue by readable kinds; the graph's two are always present."""
        by_kind = {ENTITIES: 0, TEMPORAL: 0}
        for kind, count in status.by_kind.items():
            if count:
                by_kind[self.bare(kind)] = by_kind.get(self.bare(kind), 0) + count
        return replace(status, by_kind=by_kind)

    def job(self, kind: str, memory_id: str, scope: Scope, cause: str, payload: dict[str, Any] | None = None) -> Job:
        """Build a job whose id is derived from its cause: the same change always makes the same job."""
        id = str(uuid5(NAMESPACE_URL, f"perdure:{self.named(kind)}:{memory_id}:{cause}"))
        return Job(id=id, kind=self.named(kind), memory_id=memory_id, scope=scope, payload=payload or {})

    def of_changes(self, changes: Iterable[Change]) -> list[Job]:
        """Return the jobs for the changes of a batch: each affected memory is read again."""
        jobs: dict[str, Job] = {}
        for change in changes:
            if change.item.kind != "facts":
                continue
            items = [item for item in (change.before, change.after) if item is not None]
            for memory_id in dict.fromkeys(item.id for item in items):
                for kind in _kinds_of(items):
                    job = self.job(kind, memory_id, change.item.scope, change.id, {"at": change.told_at})
                    jobs[job.id] = job
        return list(jobs.values())

    def of_items(self, items: Iterable[MemoryItem], cause: str) -> list[Job]:
        """Return jobs that read memories again for another cause than a change."""
        return [self.job(kind, item.id, item.scope, cause) for item in items for kind in _kinds_of([item])]

    def erasing(self, memories: Iterable[tuple[str, Scope]], cause: str) -> list[Job]:
        """Return jobs that erase memories from a graph that could not be reached."""
        return [self.job(ERASE, id, scope, cause) for id, scope in memories]


def _kinds_of(items: Sequence[MemoryItem]) -> tuple[str, ...]:
    return (ENTITIES, TEMPORAL) if any("entities" in item.metadata for item in items) else (TEMPORAL,)


def later(seconds: float) -> str:
    """Return the time so many seconds from now, by the machine's clock, which queues use."""
    return iso(datetime.now(UTC) + timedelta(seconds=seconds))


def pause_after(attempts: int, growth: float = 2.0) -> float:
    """Return the seconds to wait after so many failures, from 1 on."""
    return float(min(LONGEST_PAUSE, FIRST_PAUSE * growth ** max(0, attempts - 1)))


def seconds_until(moment: str) -> float:
    """Seconds from now to a moment, by the machine's clock; 0 for one that cannot be read."""
    due = read_moment(moment)
    return 0.0 if due is None else (due - datetime.now(UTC)).total_seconds()


async def hand_in(jobs: Jobs, done: Sequence[str], left: Sequence[str], warning: str) -> None:
    """Tell the queue which jobs are done, and give back the rest; where that fails they are done again."""
    with degrade(warning), suppress(ClosedError):  # closed, or the program is ending: nobody is there to be warned
        if done:
            await jobs.done(done)
        if left:
            await jobs.give_back(left, not_before=later(0.0))


def failure_line(error: Exception) -> str:
    """An error in one line without any text of a memory: one that names values is given by its class alone."""
    if isinstance(error, PerdureError) and not isinstance(error, InvalidInputError):
        return f"{type(error).__name__}: {' '.join(error.message.split())}"
    return type(error).__name__
