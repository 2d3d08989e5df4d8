"""Tasks, the cache and the logs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from perdure.backends.ledgers.repositories.base import Query
from perdure.domain.errors import InvalidInputError
from perdure.domain.records import (
    read_flag,
    read_json,
    read_names,
    read_offset,
    read_text,
    read_time,
    read_word,
    read_words,
)
from perdure.domain.runtime import CacheEntry, LogEntry, RunPage, Task, read_key
from perdure.domain.text.readable import shown
from perdure.engine.agent_runtime.runs import run_page
from perdure.engine.agent_runtime.tasks import Worker, moved, with_due
from perdure.frontends.library.runtime.tabled import Tabled, count, given

RUNS = 20
"""Runs that are told unless more are asked for."""
MOST_RUNS = 100
LOGS = 10
"""Log entries that are given unless more are asked for."""
_ASKED = ("limit", "room_id", "entity_id", "status", "from", "to", "agent_id")


class Work(Tabled):
    """What an agent has to do, keeps for later, and did."""

    # ------------------------------------------------------------------ tasks
    async def create_task(self, **task: Any) -> str:
        """Make a task of the fields of `Task`, and answer with its id; one that is there is left as it is.

        It is due at `due_at`, else at `metadata.scheduledFor`; with neither it is never due by itself.
        """
        return (await self._created(Task, with_due(task)))[0].id

    async def get_tasks(
        self,
        room_id: str | None = None,
        tags: Sequence[str] | None = None,
        entity_id: str | None = None,
        completed: bool | None = None,
        agent_id: str | None = None,
    ) -> list[Task]:
        """The tasks of a room, of an entity, with all of these tags, completed or not; the first made first."""
        where: dict[str, Any] = {"agent_id": self._of(agent_id), **given(room_id=room_id, entity_id=entity_id)}
        wanted = read_words(() if tags is None else tags, "tags")
        found = await self._tables.find(Query(noun=Task, where=where, all_tags=wanted))
        if completed is None:
            return found
        done = read_flag(completed, "completed")
        return [task for task in found if (task.completed_at is not None) == done]

    async def get_task(self, task_id: str, agent_id: str | None = None) -> Task | None:
        """A task by its id."""
        return await self._tables.one(Task, self._key(agent_id, task_id, "task_id"))

    async def get_tasks_by_name(self, name: str, agent_id: str | None = None) -> list[Task]:
        """The tasks of a name, the first made first."""
        where = {"agent_id": self._of(agent_id), "name": read_text(name, "name")}
        return await self._tables.find(Query(noun=Task, where=where))

    async def get_due_tasks(self, limit: int | None = None, agent_id: str | None = None) -> list[Task]:
        """The tasks whose time has come and that are not completed, soonest due first."""
        return await self._tasks.due(self._of(agent_id), count(limit, "limit"))

    async def update_task(self, task_id: str, **task: Any) -> bool:
        """Change the given fields of a task; whether there is one. It is due at a new `metadata.scheduledFor` too."""
        if "metadata" in task and "due_at" not in task:
            found = await self.get_task(task_id, task.get("agent_id"))
            task = task if found is None else moved(task, found)
        return await self._updated(Task, task, task_id)

    async def complete_task(self, task_id: str, agent_id: str | None = None) -> bool:
        """Complete a task: it is due no more, or, with the tag `repeat`, `metadata.updateInterval` ms from now.

        False for one that there is not.
        """
        return await self._tasks.complete(self._of(agent_id), read_key(task_id, "task_id"))

    async def delete_task(self, task_id: str, agent_id: str | None = None) -> bool:
        """Delete a task; whether there was one."""
        return await self._removed(Task, self._key(agent_id, task_id, "task_id"))

    def register_task_worker(
        self, name: str, execute: Callable[..., Any], validate: Callable[..., Any] | None = None
    ) -> None:
        """Have the tasks of a name done by `execute(runtime, options, task)`, a function or coroutine function.

        `options` is the task's metadata. `validate(runtime, task)` may say that it is not to be done yet.
        """
        for field, function in (("execute", execute), ("validate", validate)):
            if not callable(function) and not (field == "validate" and function is None):
                raise InvalidInputError(f"{field} must be callable, not {shown(function)}", field=field, value=function)

        async def do(task: Task) -> None:
            await _answer(execute(self, dict(task.metadata), task))

        async def may(task: Task) -> bool:
            return validate is None or bool(await _answer(validate(self, task)))

        self._workers[read_word(name, "name")] = Worker(name, do, may)

    async def run_due_tasks(self) -> list[Task]:
        """Have every due task done that a worker is registered for; those that were done, as they stand now.

        Of several processes one does each. What fails, or is not to be done yet, stays due; the failure is logged.
        """
        return await self._tasks.run(self._agent_id, self._workers)

    # ------------------------------------------------------------------ cache
    async def set_cache(self, key: str, value: Any) -> bool:
        """Keep a value of JSON under a key of this agent's, in the place of an earlier one, until it goes. True."""
        now = self._tables.now()
        entry = CacheEntry(
            agent_id=self._agent_id, key=read_word(key, "key"), value=read_json(value, "value"), created_at=now
        )
        await self._tables.put(entry)
        return True

    async def get_cache(self, key: str, agent_id: str | None = None) -> Any:
        """The value under a key; None where there is none."""
        found = await self._tables.one(CacheEntry, {"agent_id": self._of(agent_id), "key": read_word(key, "key")})
        return None if found is None else found.value

    async def delete_cache(self, key: str) -> bool:
        """Let go of the value under a key, if there is one. True."""
        await self._tables.remove(CacheEntry, {"agent_id": self._agent_id, "key": read_word(key, "key")})
        return True

    # ------------------------------------------------------------------ logs
    async def log(self, **entry: Any) -> str:
        """Write a line (`LogEntry`: `type`, `body`, `entity_id`, `room_id`), and answer with its id."""
        return (await self._created(LogEntry, entry))[0].id

    async def get_logs(
        self,
        *,
        entity_id: str | None = None,
        room_id: str | None = None,
        type: str | None = None,
        count: int | None = None,
        offset: int | None = None,
        agent_id: str | None = None,
    ) -> list[LogEntry]:
        """At most `count` (10) entries after the first `offset`, newest first: of an entity, a room, a type."""
        where: dict[str, Any] = {"agent_id": self._of(agent_id), **given(entity_id=entity_id, room_id=room_id)}
        if type is not None:
            where["type"] = read_word(type, "type")
        limit, skipped = _count(count, "count", LOGS), read_offset(offset)
        return await self._tables.find(
            Query(noun=LogEntry, where=where, newest_first=True, limit=limit, offset=skipped)
        )

    async def update_log(self, log_id: str, **entry: Any) -> bool:
        """Change the given fields of a log entry; whether there is one."""
        return await self._updated(LogEntry, entry, log_id)

    async def delete_log(self, log_id: str, agent_id: str | None = None) -> bool:
        """Delete a log entry; whether there was one."""
        return await self._removed(LogEntry, self._key(agent_id, log_id, "log_id"))

    async def get_agent_run_summaries(self, **asked: Any) -> RunPage:
        """The latest runs, as the log entries of type `run_event` tell of them: `limit` (20, at most 100) of them.

        `room_id`, `entity_id` and `status` are filters, and `from` and `to` bound when a run began, in milliseconds.
        """
        values = read_names(asked, _ASKED, "get_agent_run_summaries()")
        since, until = values.get("from"), values.get("to")
        return await run_page(
            self._tables,
            self._of(values.get("agent_id")),
            limit=min(_count(values.get("limit"), "limit", RUNS) or RUNS, MOST_RUNS),
            since=None if since is None else read_time(since, "from"),
            until=None if until is None else read_time(until, "to"),
            status=None if values.get("status") is None else read_text(values["status"], "status"),
            **given(room_id=values.get("room_id"), entity_id=values.get("entity_id")),
        )


async def _answer(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


_count = count
"""The function, where a parameter has its name."""
