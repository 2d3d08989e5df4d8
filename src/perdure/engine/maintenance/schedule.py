"""The schedule: due maintenance runs as jobs of the ledger's queue, each in one process.

The ledger stores when each task last ran. A process that finds it due enqueues a job whose id is derived from that
time: all processes make the same job, the queue gives it to one of them, and to another one if that dies.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from perdure.backends.ledgers.base import Ledger
from perdure.domain.clock import SKEW, iso, read_moment
from perdure.domain.errors import PerdureError
from perdure.domain.filter import eq
from perdure.domain.job import Job
from perdure.domain.memory import Answer
from perdure.domain.scope import Scope
from perdure.engine.aio.calls import degrade, shielded
from perdure.engine.core.kernel import Kernel
from perdure.engine.engine import Engine
from perdure.engine.graph.jobs import JobKinds, hand_in, later, pause_after
from perdure.engine.maintenance.deletion import walk
from perdure.engine.transfer.backup import backup
from perdure.engine.transfer.backup_erasure import settings_name

# Owners whose memories have grown since a task last ran, so that it processes only theirs.


async def grown_since(kernel: Kernel, moment: str, at_least: int = 1) -> list[Scope]:
    """Return the owners (a user, else a whole scope) with at least so many new memories after a time."""
    counts: dict[Scope, int] = {}
    grown: dict[Scope, None] = {}
    async for items in walk(kernel, Scope(), eq("kind", "facts")):
        for item in items:
            if item.scope.team_id is None:
                owner = item.scope if item.scope.user_id is None else Scope(user_id=item.scope.user_id)
                counts[owner] = counts.get(owner, 0) + 1
                if item.updated_at > moment:
                    grown[owner] = None
    return [owner for owner in grown if counts[owner] >= at_least]


logger = logging.getLogger("perdure")
LONGEST = 60.0  # seconds after which a server checks again for work that a dead process has left
_STATE = "upkeep"
_SUBJECT = "upkeep"  # the subject of these jobs: not a memory, so that erasing one leaves them


@dataclass(frozen=True, slots=True)
class Task:
    """A periodic task."""

    name: str
    hours: float  # hours between two runs; 0 is never
    work: Callable[[str], Awaitable[dict[str, Any]]]
    """Runs it, given when it last began ("" is never); returns counts, without text of a memory."""


@dataclass(frozen=True, slots=True)
class Done(Answer):
    """A task that ran, and its result; `error` if it failed and will be retried."""

    task: str
    told: dict[str, Any]
    error: str | None = None

    def model_dump(self) -> dict[str, Any]:
        """The task as plain values."""
        return {"task": self.task, **self.told, **({} if self.error is None else {"error": self.error})}


class Schedule:
    """The tasks of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kernel = engine.kernel
        self._tasks = {task.name: task for task in tasks_of(engine) if task.hours > 0}

    @property
    def tasks(self) -> Sequence[Task]:
        """The enabled tasks."""
        return list(self._tasks.values())

    async def due(self) -> list[str]:
        """Return the names of the due tasks."""
        ledger = await self._ready()
        last, now = await self._last(ledger), self._kernel.clock.now()
        return [name for name, task in self._tasks.items() if _wait(task, last.get(name), now) <= 0]

    async def run(self, *, everything: bool = False) -> list[Done]:
        """Run the due tasks, or all, and return their results; tasks that another process runs are left to it."""
        ledger = await self._ready()
        last, now = await self._last(ledger), self._kernel.clock.now()
        wanted = [task for name, task in self._tasks.items() if everything or _wait(task, last.get(name), now) <= 0]
        await ledger.jobs.add([self._job(task.name, last.get(task.name, "")) for task in wanted])
        if everything:  # also tasks that failed a moment ago
            await ledger.jobs.revive(list(self._kinds))
        done: list[Done] = []
        kinds = self._kinds
        while kinds and (taken := await ledger.jobs.take(list(kinds), 1)):
            left = {job.id for job in taken}
            try:
                for job in taken:
                    told = await self._do(ledger, job, kinds[job.kind])
                    left.discard(job.id)
                    if told is not None:
                        done.append(told)
            finally:
                if left:  # cancelled: another process, or the next one, runs it
                    await shielded(
                        hand_in(ledger.jobs, (), sorted(left), "a task of upkeep is done again by the next process")
                    )
        return done

    async def turn(self) -> float:
        """Run the due tasks; return the seconds until there may be more."""
        for done in await self.run():
            if done.error is None:
                logger.info("upkeep: %s: %s", done.task, done.told)
        ledger = await self._ready()
        last, now = await self._last(ledger), self._kernel.clock.now()
        waits = [_wait(task, last.get(name), now) for name, task in self._tasks.items()]
        return min(LONGEST, max(1.0, min(waits, default=LONGEST)))

    async def _ready(self) -> Ledger:
        await self._kernel.ready()
        return await self._kernel.required_ledger()

    @property
    def _kinds(self) -> dict[str, str]:
        """Return the ledger's kinds of jobs, and their tasks."""
        kernel = self._kernel
        kinds = JobKinds(kernel.identity, kernel.config.vector_store.collection_name)
        return {kinds.named(f"upkeep-{name}"): name for name in self._tasks}

    async def _last(self, ledger: Ledger) -> dict[str, str]:
        return {name: str(at) for name, at in (await ledger.settings.get(self._state)).items()}

    @property
    def _state(self) -> str:
        return settings_name(self._kernel, _STATE)

    def _job(self, name: str, last: str) -> Job:
        kind = next(kind for kind, task in self._kinds.items() if task == name)
        id = str(uuid5(NAMESPACE_URL, f"perdure:{kind}:{last}"))
        return Job(id=id, kind=kind, memory_id=_SUBJECT, scope=Scope(), payload={"last": last})

    async def _do(self, ledger: Ledger, job: Job, name: str) -> Done | None:
        """Run one task, unless another process has run it since the job was made."""
        last = (await self._last(ledger)).get(name, "")
        if last != job.payload.get("last"):
            await ledger.jobs.done([job.id])
            return None
        begun = iso(self._kernel.clock.now())
        try:
            told = await self._tasks[name].work(last)
        except Exception as error:  # whatever it is, it must not stop the tasks after it
            sentence = (
                f"{type(error).__name__}: {error.message}" if isinstance(error, PerdureError) else type(error).__name__
            )
            logger.warning("upkeep: %s failed and is tried again: %s", name, sentence)
            pause = pause_after(job.attempts + 1)
            await ledger.jobs.failed(job.id, sentence, not_before=later(pause), park=False)
            return Done(name, {}, sentence)
        await ledger.settings.merge(self._state, {name: begun})
        await ledger.jobs.done([job.id])
        return Done(name, told)


def tasks_of(engine: Engine) -> list[Task]:
    """Return every task, with its interval from the configuration."""
    settings, chores = engine.kernel.config.upkeep, engine.maintenance

    async def expire(last: str) -> dict[str, Any]:
        return {"count": await chores.expire.everywhere()}

    async def prune(last: str) -> dict[str, Any]:
        return {"count": (await chores.prune(Scope())).count}

    async def quota(last: str) -> dict[str, Any]:
        return {"count": (await chores.quotas(Scope())).count} if settings.when_full == "evict" else {"count": 0}

    async def consolidate(last: str) -> dict[str, Any]:
        count = merged = 0
        for owner in await grown_since(engine.kernel, last, settings.consolidate_from):
            done = await engine.consolidate.scope(owner, at_least=settings.consolidate_from)
            count, merged = count + len(done), merged + sum(len(each.removed) for each in done)
        return {"count": count, "merged": merged}

    async def reflect(last: str) -> dict[str, Any]:
        owners = await grown_since(engine.kernel, last)
        return {"count": sum([len((await engine.reflect(owner)).insights) for owner in owners])}

    async def back_up(last: str) -> dict[str, Any]:
        report = await backup(engine, scheduled=True)
        told = {"file": report.file, "bytes": report.bytes, "removed": len(report.removed)}
        return {**told, "owed": report.owed} if report.owed else told

    return [
        Task("expire", settings.expire_hours, expire),
        Task("prune", settings.prune_hours, prune),
        Task("quota", settings.quota_hours if settings.max_memories_per_user else 0.0, quota),
        Task("consolidate", settings.consolidate_hours, consolidate),
        Task("reflect", settings.reflect_hours, reflect),
        Task("backup", settings.backup_hours, back_up),
    ]


@asynccontextmanager
async def running_schedule(engine: Engine) -> AsyncIterator[None]:
    """Run due tasks, at once and repeatedly, until the block ends; no failure ends it."""
    task = asyncio.create_task(_keep(Schedule(engine)), name="perdure-upkeep")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _keep(schedule: Schedule) -> None:
    while True:
        pause = LONGEST
        with degrade("upkeep is done later"):
            pause = await schedule.turn()
        await asyncio.sleep(pause)


def _wait(task: Task, last: str | None, now: datetime) -> float:
    """Return the seconds until a task is due; 0 or below if it is, also after a run dated by a wrong clock."""
    done = None if last is None else read_moment(last)
    if done is None or done - now > SKEW:  # a run dated later than now would not be due again until then
        return 0.0
    return (done + timedelta(hours=task.hours) - now).total_seconds()
