"""Tasks, cache and logs of spec 003's runtime."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from perdure import AgentRuntime, InvalidInputError, LedgerError
from perdure.backends.ledgers.sql.ledger import SqlRuntime
from perdure.domain.runtime import Task
from tests.frontends.library.runtime.runtimes import awaited, opened

pytestmark = pytest.mark.covers("C13", "C14", "C15", "Z34", "Z39", "Z41", "Z42")

SOON = 10_000
"""Milliseconds from now on that a test does not reach."""


def now(runtime: AgentRuntime) -> int:
    return runtime._tables.now()


@pytest.mark.covers("C15", "Z39")
@awaited
async def test_tasks_are_created_read_changed_and_deleted(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        report = await runtime.createTask(
            {"name": "report", "description": "Send it", "roomId": "lobby", "tags": ["queue", "weekly"]}
        )
        other = await runtime.create_task(name="report", tags=["queue"], entity_id="ann")
        found = await runtime.getTask(report)
        assert (found.name, found["roomId"], found.tags, found.world_id) == (
            "report",
            "lobby",
            ("queue", "weekly"),
            None,
        )
        assert await runtime.create_task(id=report, name="again") == report
        assert [task.id for task in await runtime.getTasksByName("report")] == [report, other]

        async def ids(**asked: Any) -> list[str]:
            return [task.id for task in await runtime.get_tasks(**asked)]

        assert await ids() == [report, other]
        assert await ids(tags=["queue"]) == [report, other]
        assert await ids(tags=["weekly", "queue"]) == [report], "a task has all of the tags"
        assert await ids(room_id="lobby") == [report]
        assert await ids(entity_id="ann") == [other], "the entity is a filter here"
        assert await runtime.updateTask(report, {"tags": [], "metadata": {"n": 1}})
        changed = await runtime.get_task(report)
        assert (changed.tags, changed.metadata, changed.name) == ((), {"n": 1}, "report")
        assert changed.updated_at >= found.updated_at
        assert await runtime.deleteTask(report)
        assert not await runtime.delete_task(report)
        assert not await runtime.update_task(report, name="gone")
        assert await runtime.get_task(report) is None


@pytest.mark.covers("Z41")
@awaited
async def test_a_task_is_due_after_its_time_and_can_be_completed(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        past = now(runtime) - 5
        due = await runtime.createTask({"name": "due", "dueAt": past})
        spec = await runtime.createTask({"name": "spec", "metadata": {"scheduledFor": past - 1}})
        later = await runtime.create_task(name="later", metadata={"scheduledFor": past + SOON})
        await runtime.create_task(name="whenever")
        assert [task.id for task in await runtime.getDueTasks()] == [spec, due]
        assert [task.id for task in await runtime.get_due_tasks(limit=1)] == [spec]
        assert (await runtime.get_task(later)).due_at == past + SOON
        assert await runtime.completeTask(due)
        assert not await runtime.complete_task("nobody's")
        assert [task.id for task in await runtime.get_due_tasks()] == [spec]
        assert [task.id for task in await runtime.get_tasks(completed=True)] == [due]
        assert due not in [task.id for task in await runtime.get_tasks(completed=False)]
        assert (await runtime.get_task(due)).completed_at >= past
        await runtime.update_task(later, due_at=past)
        assert [task.id for task in await runtime.get_due_tasks()] == [spec, later]
        same = {"scheduledFor": past + SOON, "note": "the same time"}
        await runtime.update_task(later, metadata=same)
        assert (await runtime.get_task(later)).due_at == past, "it was set apart from its metadata"
        await runtime.updateTask(later, {"metadata": {"scheduledFor": past + 2 * SOON}})
        assert [task.id for task in await runtime.get_due_tasks()] == [spec]
        assert (await runtime.get_task(later)).due_at == past + 2 * SOON


@pytest.mark.covers("Z41")
@awaited
async def test_an_interval_beyond_all_time_is_its_end(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        for interval in (1e300, 2**80):
            task = await runtime.create_task(
                name="rarely", due_at=1, tags=["repeat"], metadata={"updateInterval": interval}
            )
            runtime.register_task_worker("rarely", lambda *_: None)
            assert [each.id for each in await runtime.run_due_tasks()] == [task]
            assert (await runtime.get_task(task)).due_at == 253_402_300_799_999
        assert await runtime.get_due_tasks(limit=2**70) == []


@pytest.mark.covers("Z41")
@awaited
async def test_due_tasks_are_worked_off_by_who_is_registered(tmp_path: Path, caplog) -> None:
    done: list[tuple[str, Any]] = []

    async def send(runtime: AgentRuntime, options: dict[str, Any], task: Task) -> None:
        assert runtime.agent_id == "agent"
        done.append((task.name, options.get("n")))

    def fail(runtime: AgentRuntime, options: dict[str, Any], task: Task) -> None:
        raise RuntimeError("a secret of Ann's")

    async with opened(tmp_path) as runtime:
        past = now(runtime) - SOON
        ids = {
            name: await runtime.create_task(name=name, due_at=past + n, metadata={"n": n})
            for n, name in enumerate(("fail", "send", "wait", "nobody"))
        }
        again = await runtime.create_task(name="send", due_at=past, tags=["repeat"], metadata={"updateInterval": SOON})
        runtime.registerTaskWorker({"name": "send", "execute": send})
        runtime.register_task_worker("fail", fail)
        runtime.register_task_worker(name="wait", execute=send, validate=lambda runtime, task: False)
        with caplog.at_level(logging.WARNING, logger="perdure"):
            ran = await runtime.runDueTasks()
        assert done == [("send", None), ("send", 1)], "soonest first, each once"
        assert {task.id for task in ran} == {again, ids["send"]}
        assert {task.name for task in await runtime.get_due_tasks()} == {"fail", "wait", "nobody"}
        repeated = await runtime.get_task(again)
        assert repeated.completed_at is None
        assert past + SOON < repeated.due_at <= now(runtime) + SOON
        assert "RuntimeError" in caplog.text
        assert "secret" not in caplog.text
        assert await runtime.run_due_tasks() == []
        with pytest.raises(InvalidInputError, match="execute must be callable"):
            runtime.register_task_worker("x", "not a function")


@pytest.mark.covers("Z41")
@awaited
async def test_a_run_that_is_cancelled_leaves_its_task_to_the_next(tmp_path: Path) -> None:
    begun, many = asyncio.Event(), []

    async def slow(runtime: AgentRuntime, options: dict[str, Any], task: Task) -> None:
        begun.set()
        many.append(task.id)
        if len(many) == 1:
            await asyncio.sleep(600)

    async with opened(tmp_path) as runtime:
        task = await runtime.create_task(name="slow", due_at=1)
        runtime.register_task_worker("slow", slow)
        running = asyncio.create_task(runtime.run_due_tasks())
        await begun.wait()
        assert await runtime.run_due_tasks() == [], "it is taken"
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert [each.id for each in await runtime.run_due_tasks()] == [task]
        assert many == [task, task]


@pytest.mark.covers("Z41")
@awaited
async def test_what_a_failing_ledger_was_not_told_of_a_task_it_is_told_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    async def fails(*_: Any) -> bool:
        raise LedgerError("the disk is full")

    async with opened(tmp_path) as runtime:
        task = await runtime.create_task(name="once", due_at=1)
        runtime.register_task_worker("once", lambda runtime, options, task: done.append(task.id))
        monkeypatch.setattr(SqlRuntime, "settle", fails)
        with pytest.raises(LedgerError):
            await runtime.run_due_tasks()
        monkeypatch.undo()
        assert await runtime.run_due_tasks() == []
        assert done == [task], "it is not done twice"
        assert (await runtime.get_task(task)).completed_at is not None
        await runtime.update_task(task, completed_at=None)
        assert [each.id for each in await runtime.run_due_tasks()] == [task], "nor is it taken for ever"


@pytest.mark.covers("C13", "Z34", "Z39")
@awaited
async def test_the_cache_keeps_any_json_for_each_agent(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        for value in ({"theme": "dark", "list": [1, None, True]}, "text", 0, 1.5, [], None):
            assert await runtime.setCache("user_preferences", value)
            assert await runtime.getCache("user_preferences") == value
        await runtime.set_cache("user_preferences", {"theme": "dark"})
        assert await runtime.deleteCache("user_preferences")
        assert await runtime.getCache("user_preferences") is None
        assert await runtime.delete_cache("user_preferences"), "an absent one is no error"
        assert await runtime.set_cache("kept", [1])
        for wrong in (object(), {1: "x"}, float("inf")):
            with pytest.raises(InvalidInputError):
                await runtime.set_cache("kept", wrong)
        with pytest.raises(InvalidInputError, match="key must not be empty"):
            await runtime.set_cache("", 1)
    async with opened(tmp_path) as runtime:
        assert await runtime.get_cache("kept") == [1], "it has no end of its own, and outlives the process"


@pytest.mark.covers("Z42")
@awaited
async def test_log_entries_newest_first_by_room_type_and_entity(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        ids = [
            await runtime.log(
                {"body": {"n": n}, "entityId": f"e{n % 2}", "roomId": f"r{n % 3}", "type": ("action", "note")[n % 2]}
            )
            for n in range(12)
        ]

        async def numbers(**asked: Any) -> list[int]:
            return [entry.body["n"] for entry in await runtime.getLogs(asked)]

        assert await numbers() == list(range(11, 1, -1)), "ten unless told otherwise"
        assert await numbers(count=3, offset=2) == [9, 8, 7]
        assert await numbers(roomId="r1") == [10, 7, 4, 1]
        assert await numbers(type="note", room_id="r0") == [9, 3]
        assert await numbers(entityId="e0", count=100) == [10, 8, 6, 4, 2, 0]
        assert await numbers(offset=50) == [] == await numbers(offset=2**70)
        assert await numbers(count=2**70, offset=None) == list(range(11, -1, -1))
        assert await runtime.update_log(ids[11], body={"n": 110})
        assert await runtime.deleteLog(ids[10])
        assert not await runtime.delete_log(ids[10])
        assert await numbers(count=2) == [110, 9]
        for wrong in ({"count": 0}, {"offset": -1}, {"type": ""}):
            with pytest.raises(InvalidInputError) as caught:
                await runtime.get_logs(**wrong)
            assert caught.value.field == next(iter(wrong))
        with pytest.raises(InvalidInputError, match="type of the log entry is required"):
            await runtime.log(body={})


@pytest.mark.covers("C14")
@awaited
async def test_runs_are_put_together_from_their_log_entries(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:

        async def tell(type: str, room: str = "r", **body: Any) -> None:
            await runtime.log(type=type, room_id=room, entity_id="ann", body=body)

        for n, end in enumerate(("completed", "error", None)):
            run = f"run-{n}"
            await tell("run_event", runId=run, status="started", startTime=1000 * (n + 1), messageId=f"m{n}")
            await tell("action", runId=run, name="REPLY")
            await tell("useModel:TEXT_LARGE", runId=run)
            if end is not None:
                failure = {"error": "no"} if end == "error" else {}
                await tell("run_event", runId=run, status=end, endTime=1000 * (n + 1) + 50, source="chat", **failure)
        await tell("run_event", "elsewhere", runId="other", status="started", startTime=500)
        page = await runtime.getAgentRunSummaries({"limit": 2})
        assert ([run.run_id for run in page.runs], page.total, page["hasMore"]) == (["run-2", "run-1"], 4, True)
        open_run, failed = page.runs
        assert (open_run.status, open_run.ended_at, open_run.message_id) == ("started", None, "m2")
        assert (failed.status, failed.started_at, failed.duration_ms) == ("error", 2000, 50)
        assert failed.counts == {"actions": 1, "modelCalls": 1, "evaluators": 0, "errors": 1}
        assert failed.metadata == {"source": "chat", "error": "no"}
        done = await runtime.get_agent_run_summaries(status="completed")
        assert [run["runId"] for run in done["runs"]] == ["run-0"]
        assert (await runtime.get_agent_run_summaries(roomId="elsewhere")).total == 1
        within = await runtime.get_agent_run_summaries({"from": 1000, "to": 2000})
        assert [run.run_id for run in within.runs] == ["run-1", "run-0"]
        with pytest.raises(InvalidInputError, match="did you mean limit"):
            await runtime.get_agent_run_summaries(limits=2)
