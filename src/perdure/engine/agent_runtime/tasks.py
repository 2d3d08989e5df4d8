"""Tasks: which are due, and working them off, each by one process at a time (Z41; C15)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from perdure.backends.ledgers.repositories.base import Query
from perdure.domain.errors import LedgerError
from perdure.domain.records import LAST
from perdure.domain.runtime import Task
from perdure.engine.agent_runtime.tables import Tables
from perdure.engine.aio.lifecycle import guarded
from perdure.engine.core.kernel import Kernel

logger = logging.getLogger("perdure")

REPEAT = "repeat"
"""The tag of a task that is due again after it was done, `metadata.updateInterval` milliseconds later."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Who does the tasks of a name."""

    name: str
    execute: Callable[[Task], Awaitable[Any]]
    validate: Callable[[Task], Awaitable[bool]]
    """Whether a task is to be done now; else it stays due."""


class Tasks:
    """The tasks of runtimes, by their time."""

    def __init__(self, kernel: Kernel, tables: Tables) -> None:
        self._kernel = kernel
        self._tables = tables
        self._owed: dict[tuple[str, str], dict[str, Any]] = {}
        """What the ledger could not be told of tasks that were worked on: they are taken until it is."""

    async def due(self, agent_id: str, limit: int | None = None) -> list[Task]:
        """The tasks whose time has come and that are not completed, soonest first."""
        now = self._tables.now()
        return await self._tables.find(Query(noun=Task, where={"agent_id": agent_id}, due=now, limit=limit))

    async def complete(self, agent_id: str, id: str) -> bool:
        """Complete a task: it is not due any more, or, where it repeats, at its next time. False for an unknown one."""
        task = await self._tables.one(Task, {"agent_id": agent_id, "id": id})
        if task is None:
            return False
        return await self._tables.change(Task, {"agent_id": agent_id, "id": id}, _done(task, self._tables.now()))

    @guarded
    async def run(self, agent_id: str, workers: Mapping[str, Worker]) -> list[Task]:
        """Have what is due done by the worker of its name; the tasks that were, completed or due again.

        A task is taken while it is worked on, so that no two processes do it, and free again where its process dies.
        One that its worker refuses or fails at stays due; the failure is logged. Where the ledger fails, what was done
        is told to it by the next call.
        """
        ledger = (await self._kernel.required_ledger()).runtime
        for (agent, id), owed in list(self._owed.items()):
            await ledger.settle(agent, id, owed)
            self._owed.pop((agent, id), None)
        done: list[Task] = []
        for each in await self.due(agent_id):
            task = await ledger.take(agent_id, each.id, self._tables.now()) if each.name in workers else None
            if task is not None:
                changes: dict[str, Any] = {}
                try:
                    if await _did(task, workers[task.name]):
                        changes = _done(task, self._tables.now())
                finally:
                    try:
                        stood = await ledger.settle(agent_id, task.id, changes)
                    except LedgerError:
                        self._owed[agent_id, task.id] = changes
                        raise
                if stood and changes:
                    done.append(replace(task, **changes))
        return done


def with_due(given: Mapping[str, Any]) -> dict[str, Any]:
    """A new task's fields, due at `metadata.scheduledFor`, as spec 003 writes it, where they do not say when."""
    when = _scheduled(given.get("metadata"))
    return {**given, "due_at": when} if given.get("due_at") is None and when is not None else dict(given)


def moved(changes: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """A task's changes, due at their `metadata.scheduledFor` where that is another than it had."""
    when = _scheduled(changes.get("metadata"))
    return dict(changes) if when in (None, _scheduled(task.metadata)) else {**changes, "due_at": when}


def _scheduled(metadata: object) -> Any:
    return metadata.get("scheduledFor") if isinstance(metadata, Mapping) else None


async def _did(task: Task, worker: Worker) -> bool:
    """Whether the worker did the task; its error is not the caller's, who has others to do."""
    try:
        if not await worker.validate(task):
            return False
        await worker.execute(task)
    except Exception as error:  # whatever it is, a task must not stop those after it
        logger.warning("the task %s failed, and stays due: %s", task.id, type(error).__name__)
        return False
    return True


def _done(task: Task, now: int) -> dict[str, Any]:
    """The changes that complete a task."""
    interval = task.metadata.get("updateInterval")
    if REPEAT in task.tags and isinstance(interval, (int, float)) and not isinstance(interval, bool) and interval > 0:
        return {"due_at": min(now + int(interval), LAST), "updated_at": now}
    return {"completed_at": now, "updated_at": now}
