"""Runs of an agent, put together from its log entries (C14).

An entry of type `run_event` tells of a run: `body` has `runId` and `status`, and what more is known. Entries of other
types that name the same `runId` are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from perdure.backends.ledgers.repositories.base import Query
from perdure.domain.runtime import LogEntry, RunPage, RunSummary
from perdure.engine.agent_runtime.tables import Tables

EVENT = "run_event"
"""The type of the entries that tell of runs."""
_COUNTED = {"action": "actions", "useModel": "modelCalls", "evaluator": "evaluators"}
"""What entries are counted as, by their type up to a colon."""
_OWN = frozenset({"runId", "status", "messageId", "roomId", "entityId", "startTime", "endTime", "duration"})


async def run_page(
    tables: Tables,
    agent_id: str,
    *,
    limit: int,
    room_id: str | None = None,
    entity_id: str | None = None,
    status: str | None = None,
    since: int | None = None,
    until: int | None = None,
) -> RunPage:
    """At most `limit` runs, the latest first: those of a room, an entity or a status, begun between two times."""
    where = {"agent_id": agent_id, **_given(room_id=room_id, entity_id=entity_id)}
    events = await tables.find(Query(noun=LogEntry, where={**where, "type": EVENT}))
    runs = [run for run in summaries(events) if status in (None, run.status) and _is_within(run, since, until)]
    page = runs[:limit]
    if page:
        first = min(run.started_at for run in page)
        entries = await tables.find(Query(noun=LogEntry, where={"agent_id": agent_id}, since=first))
        page = [counted(run, entries) for run in page]
    return RunPage(runs=tuple(page), total=len(runs), has_more=len(runs) > len(page))


def _given(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _is_within(run: RunSummary, since: int | None, until: int | None) -> bool:
    return (since is None or run.started_at >= since) and (until is None or run.started_at <= until)


def summaries(events: Iterable[LogEntry]) -> list[RunSummary]:
    """The runs that entries, oldest first, tell of, the latest begun first."""
    of_run: dict[str, list[LogEntry]] = {}
    for event in events:
        run = event.body.get("runId")
        if isinstance(run, str) and run:
            of_run.setdefault(run, []).append(event)
    runs = [_summary(run, entries) for run, entries in of_run.items()]
    return sorted(runs, key=lambda run: run.started_at, reverse=True)


def _summary(run_id: str, events: Sequence[LogEntry]) -> RunSummary:
    said: dict[str, Any] = {}
    for event in events:
        said.update({name: value for name, value in event.body.items() if value is not None})
    started = _time(said.get("startTime"))
    started = events[0].created_at if started is None else started
    status = str(said.get("status", "started"))
    ended = _time(said.get("endTime"))
    if ended is None and status != "started":
        ended = events[-1].created_at
    return RunSummary(
        run_id=run_id,
        status=status,
        started_at=started,
        ended_at=ended,
        duration_ms=_time(said.get("duration")) if ended is None else ended - started,
        message_id=_word(said.get("messageId")),
        room_id=_word(said.get("roomId")) or events[-1].room_id,
        entity_id=_word(said.get("entityId")) or events[-1].entity_id,
        metadata={name: value for name, value in said.items() if name not in _OWN},
    )


def counted(run: RunSummary, entries: Iterable[LogEntry]) -> RunSummary:
    """The run with how many entries are of it."""
    counts = {"actions": 0, "modelCalls": 0, "evaluators": 0, "errors": 0}
    for entry in entries:
        if entry.body.get("runId") != run.run_id:
            continue
        kind = _COUNTED.get(entry.type.partition(":")[0])
        if kind is not None:
            counts[kind] += 1
        if entry.body.get("error") or entry.body.get("status") == "error":
            counts["errors"] += 1
    return replace(run, counts=counts)


def _time(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
