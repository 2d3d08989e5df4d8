"""A runtime's tables, tasks and runs: records are created with everything they name, and rooms deleted with theirs."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from perdure.backends.ledgers.repositories.base import Query, RuntimeTables, Where
from perdure.domain import runtime
from perdure.domain.errors import ForbiddenError, LedgerError, NotFoundError
from perdure.domain.scope import Scope
from perdure.domain.text.readable import shown
from perdure.engine.agent_runtime.memories import Memories, MemoryQuery
from perdure.engine.aio.calls import guarded
from perdure.engine.core.access import UNRESTRICTED, scoped
from perdure.engine.core.kernel import Kernel

_NAMES: Mapping[str, type[runtime.Record]] = {
    "entity_id": runtime.Entity,
    "source_entity_id": runtime.Entity,
    "target_entity_id": runtime.Entity,
    "room_id": runtime.Room,
    "world_id": runtime.World,
}
"""The tables that fields refer to, of the record's own agent."""


class Tables:
    """Reads and writes records inside a scope; LedgerError without a ledger, because they are stored only there."""

    def __init__(self, kernel: Kernel, memories: Memories, walls: Scope = UNRESTRICTED) -> None:
        self._kernel = kernel
        self._memories = memories
        self._walls = walls

    def now(self) -> int:
        """Return the current time in milliseconds."""
        return runtime.milliseconds(self._kernel.clock.now())

    async def _ledger(self) -> RuntimeTables:
        return (await self._kernel.required_ledger()).runtime

    def _check_walls(self, noun: type[runtime.Record], where: Where) -> None:
        """Raise ForbiddenError unless the scope allows these records: its own agent at most, nothing narrower."""
        walls = self._walls.given()
        agent = walls.pop("agent_id", None)
        if walls:
            raise ForbiddenError(f"a memory behind walls of {', '.join(walls)} has no part in an agent's tables")
        asked = where.get("id" if noun is runtime.Agent else "agent_id")
        if agent is not None and asked != agent and (noun is runtime.Agent or "agent_id" in noun.KEY):
            if noun is runtime.ServerAgent and asked is None:
                return  # the agents of a server may see each other
            raise ForbiddenError(f"agent_id {shown(asked)} lies outside of what this memory may be asked for")

    @guarded
    async def add(self, records: Sequence[runtime.Record]) -> list[bool]:
        """Store records, and return for each whether it was new; missing records that they name are created."""
        for record in records:
            self._check_walls(type(record), {name: getattr(record, name) for name in record.KEY})
        ledger = await self._ledger()
        await _check_channels(ledger, records)
        named = self._named(records)
        return (await ledger.add([*named, *records]))[len(named) :]

    @guarded
    async def ensure(
        self, agent_id: str, *, entities: Iterable[str] = (), rooms: Iterable[str] = (), worlds: Iterable[str] = ()
    ) -> None:
        """Make sure that an agent and the given records exist; a room with the agent's own id has type SELF."""
        spoken_of = _spoken_of(self.now(), agent_id, entities=entities, rooms=rooms, worlds=worlds)
        await (await self._ledger()).ensure(spoken_of)

    def _named(self, records: Sequence[runtime.Record]) -> list[runtime.Record]:
        """Return the records that others name, each once, with only an id."""
        now, found = self.now(), dict[tuple[Any, ...], runtime.Record]()
        for record in records:
            for name in record.field_names():
                id = getattr(record, name)
                if id is not None and name.endswith("_id"):
                    made = _made(name, id, record, now)
                    if made is not None:
                        found.setdefault((type(made), *(getattr(made, each) for each in made.KEY)), made)
        return list(found.values())

    @guarded
    async def put(self, record: runtime.CacheEntry) -> None:
        """Store a value, replacing an earlier one of its key."""
        self._check_walls(runtime.CacheEntry, {"agent_id": record.agent_id})
        ledger = await self._ledger()
        await ledger.ensure([_agent(record.agent_id, record.created_at)])
        await ledger.put(record)

    @guarded
    async def find(self, query: Query[runtime.R]) -> list[runtime.R]:
        """Return the records of a query."""
        self._check_walls(query.noun, query.where)
        return await (await self._ledger()).find(query)

    async def one(self, noun: type[runtime.R], where: Where) -> runtime.R | None:
        """Return the matching record, the oldest of several; None if there is none."""
        found = await self.find(Query(noun=noun, where=where, limit=1))
        return found[0] if found else None

    async def with_components(self, entities: Sequence[runtime.Entity]) -> list[runtime.Entity]:
        """Return the entities of one agent, each with its components."""
        if not entities:
            return []
        where = {"agent_id": entities[0].agent_id, "entity_id": [each.id for each in entities]}
        found = await self.find(Query(noun=runtime.Component, where=where))
        mine = {each.id: tuple(one for one in found if one.entity_id == each.id) for each in entities}
        return [replace(each, components=mine[each.id]) for each in entities]

    async def relationships(self, agent_id: str, entity_id: str, tags: Sequence[str]) -> list[runtime.Relationship]:
        """Return the relationships of an entity in either direction, with one of the tags if given; oldest first."""
        found: dict[str, runtime.Relationship] = {}
        for side in ("source_entity_id", "target_entity_id"):
            where = {"agent_id": agent_id, side: entity_id}
            for each in await self.find(Query(noun=runtime.Relationship, where=where, any_tag=tags)):
                found.setdefault(each.id, each)
        return sorted(found.values(), key=lambda each: (each.created_at, each.id))

    @guarded
    async def change(self, noun: type[runtime.Record], key: Mapping[str, str], changes: Mapping[str, Any]) -> bool:
        """Change fields of one record; return whether it exists. Records that it newly names are created."""
        self._check_walls(noun, key)
        agent_id = key.get("agent_id")
        values = dict(changes)
        if "updated_at" in noun.field_names():
            values["updated_at"] = self.now()
        ledger = await self._ledger()
        changed = await ledger.change(noun, key, values)
        if changed and agent_id is not None:
            named = {name: id for name, id in values.items() if id is not None and name in _NAMES}
            spoken_of = _spoken_of(
                self.now(),
                agent_id,
                entities=[id for name, id in named.items() if _NAMES[name] is runtime.Entity],
                rooms=[id for name, id in named.items() if _NAMES[name] is runtime.Room],
                worlds=[id for name, id in named.items() if _NAMES[name] is runtime.World],
            )
            await ledger.ensure(spoken_of)
        return changed

    @guarded
    async def remove(self, noun: type[runtime.Record], where: Where) -> int:
        """Delete records and their dependents; return how many."""
        self._check_walls(noun, where)
        return await (await self._ledger()).remove(noun, where)

    async def remove_room(self, agent_id: str, id: str) -> bool:
        """Delete a room, first the memories in it, even without a record; return whether it existed."""
        self._check_walls(runtime.Room, {"agent_id": agent_id})
        await self._forget(Scope(agent_id=agent_id, run_id=id))
        return await self.remove(runtime.Room, {"agent_id": agent_id, "id": id}) > 0

    async def remove_rooms(self, agent_id: str, where: Where) -> int:
        """Delete rooms, first the memories in them; return how many rooms."""
        mine = {**where, "agent_id": agent_id}
        for room in await self.find(Query(noun=runtime.Room, where=mine)):
            await self._forget(Scope(agent_id=agent_id, run_id=room.id))
        return await self.remove(runtime.Room, mine)

    async def remove_world(self, agent_id: str, id: str) -> bool:
        """Delete a world with its rooms and their memories, and its own; return whether it existed."""
        await self.remove_rooms(agent_id, {"world_id": id})
        await self._forget(Scope(agent_id=agent_id, world_id=id))
        return await self.remove(runtime.World, {"agent_id": agent_id, "id": id}) > 0

    async def remove_entity(self, agent_id: str, id: str) -> bool:
        """Delete an entity with its memories; return whether it existed."""
        self._check_walls(runtime.Entity, {"agent_id": agent_id})
        await self._forget(Scope(agent_id=agent_id, user_id=id))
        return await self.remove(runtime.Entity, {"agent_id": agent_id, "id": id}) > 0

    async def remove_agent(self, id: str) -> bool:
        """Delete an agent with its memories and all its records; return whether it existed."""
        self._check_walls(runtime.Agent, {"id": id})
        await self._forget(Scope(agent_id=id))
        return await self.remove(runtime.Agent, {"id": id}) > 0

    async def _forget(self, scope: Scope) -> None:
        """Delete the memories of a scope in every table, before the records that name them: a crash stays visible."""
        within = scoped(self._walls, scope)
        await self._memories.delete_all(MemoryQuery(scope=within, table=None), within)


async def _check_channels(ledger: RuntimeTables, records: Sequence[runtime.Record]) -> None:
    """Check that channels exist: one cannot be created from its id alone, because it belongs to a server."""
    wanted = {record.channel_id for record in records if isinstance(record, runtime.ChannelParticipant)}
    if wanted:
        known = {each.id for each in await ledger.find(Query(noun=runtime.Channel, where={"id": sorted(wanted)}))}
        for id in sorted(wanted - known):
            raise NotFoundError(f"there is no channel {id!r}: create it first")


def _spoken_of(
    now: int, agent_id: str, *, entities: Iterable[str], rooms: Iterable[str], worlds: Iterable[str]
) -> list[runtime.Record]:
    """Return records for an agent and others, built from their ids."""
    return [
        _agent(agent_id, now),
        *(runtime.World(id=id, agent_id=agent_id, created_at=now) for id in dict.fromkeys(worlds)),
        *(_room(id, agent_id, now) for id in dict.fromkeys(rooms)),
        *(runtime.Entity(id=id, agent_id=agent_id, created_at=now) for id in dict.fromkeys(entities)),
    ]


def _made(name: str, id: str, record: runtime.Record, now: int) -> runtime.Record | None:
    """Return a record for the id in a field; None for a field that refers to no table."""
    if name == "agent_id":
        return _agent(id, now)
    if name == "message_server_id" and isinstance(record, (runtime.Channel, runtime.ServerAgent)):
        return runtime.MessageServer(id=id, created_at=now, updated_at=now)
    noun, agent_id = _NAMES.get(name), getattr(record, "agent_id", None)
    if noun is None or agent_id is None:
        return None
    return _room(id, agent_id, now) if noun is runtime.Room else noun(id=id, agent_id=agent_id, created_at=now)  # type: ignore[call-arg]  # an entity or a world


def _agent(id: str, now: int) -> runtime.Agent:
    return runtime.Agent(id=id, created_at=now, updated_at=now)


def _room(id: str, agent_id: str, now: int) -> runtime.Room:
    type = runtime.ChannelType.SELF if id == agent_id else runtime.ChannelType.GROUP
    return runtime.Room(id=id, agent_id=agent_id, type=type.value, created_at=now)


EVENT = "run_event"  # the type of log entries about runs
_COUNTED = {"action": "actions", "useModel": "modelCalls", "evaluator": "evaluators"}
"""The counter of an entry, by its type up to a colon."""
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
) -> runtime.RunPage:
    """Return at most `limit` runs, the latest first: of a room, an entity or a status, begun between two times."""
    where = {"agent_id": agent_id, **_given(room_id=room_id, entity_id=entity_id)}
    events = await tables.find(Query(noun=runtime.LogEntry, where={**where, "type": EVENT}))
    runs = [run for run in summaries(events) if status in (None, run.status) and _is_within(run, since, until)]
    page = runs[:limit]
    if page:
        first = min(run.started_at for run in page)
        entries = await tables.find(Query(noun=runtime.LogEntry, where={"agent_id": agent_id}, since=first))
        page = [counted(run, entries) for run in page]
    return runtime.RunPage(runs=tuple(page), total=len(runs), has_more=len(runs) > len(page))


def _given(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _is_within(run: runtime.RunSummary, since: int | None, until: int | None) -> bool:
    return (since is None or run.started_at >= since) and (until is None or run.started_at <= until)


def summaries(events: Iterable[runtime.LogEntry]) -> list[runtime.RunSummary]:
    """Return the runs in entries, oldest first, the latest begun first."""
    of_run: dict[str, list[runtime.LogEntry]] = {}
    for event in events:
        run = event.body.get("runId")
        if isinstance(run, str) and run:
            of_run.setdefault(run, []).append(event)
    runs = [_summary(run, entries) for run, entries in of_run.items()]
    return sorted(runs, key=lambda run: run.started_at, reverse=True)


def _summary(run_id: str, events: Sequence[runtime.LogEntry]) -> runtime.RunSummary:
    said: dict[str, Any] = {}
    for event in events:
        said.update({name: value for name, value in event.body.items() if value is not None})
    started = _time(said.get("startTime"))
    started = events[0].created_at if started is None else started
    status = str(said.get("status", "started"))
    ended = _time(said.get("endTime"))
    if ended is None and status != "started":
        ended = events[-1].created_at
    return runtime.RunSummary(
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


def counted(run: runtime.RunSummary, entries: Iterable[runtime.LogEntry]) -> runtime.RunSummary:
    """Return the run with the number of its entries."""
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


logger = logging.getLogger("perdure")
REPEAT = "repeat"  # the tag of a task that is due again after it ran, `metadata.updateInterval` milliseconds later


@dataclass(frozen=True, slots=True)
class Worker:
    """Runs the tasks of a name."""

    name: str
    execute: Callable[[runtime.Task], Awaitable[Any]]
    validate: Callable[[runtime.Task], Awaitable[bool]]  # whether a task may run now; else it stays due


class Tasks:
    """The tasks of runtimes, by due time."""

    def __init__(self, kernel: Kernel, tables: Tables) -> None:
        self._kernel = kernel
        self._tables = tables
        self._owed: dict[tuple[str, str], dict[str, Any]] = {}
        """Results of tasks that the ledger could not store yet: the tasks stay taken until then."""

    async def due(self, agent_id: str, limit: int | None = None) -> list[runtime.Task]:
        """Return the due tasks that are not completed, soonest first."""
        now = self._tables.now()
        return await self._tables.find(Query(noun=runtime.Task, where={"agent_id": agent_id}, due=now, limit=limit))

    async def complete(self, agent_id: str, id: str) -> bool:
        """Complete a task; a repeating one is due at its next time. False for an unknown one."""
        task = await self._tables.one(runtime.Task, {"agent_id": agent_id, "id": id})
        if task is None:
            return False
        return await self._tables.change(
            runtime.Task, {"agent_id": agent_id, "id": id}, _done(task, self._tables.now())
        )

    @guarded
    async def run(self, agent_id: str, workers: Mapping[str, Worker]) -> list[runtime.Task]:
        """Run due tasks with the worker of their name; return those completed or due again.

        A task is taken while it runs, so that no two processes run it, and free again if its process dies. One that its
        worker rejects or fails stays due; the failure is logged. If the ledger fails, the next call stores the results.
        """
        ledger = (await self._kernel.required_ledger()).runtime
        for (agent, id), owed in list(self._owed.items()):
            await ledger.settle(agent, id, owed)
            self._owed.pop((agent, id), None)
        done: list[runtime.Task] = []
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
    """Return a new task's fields, due at `metadata.scheduledFor` if they give no time."""
    when = _scheduled(given.get("metadata"))
    return {**given, "due_at": when} if given.get("due_at") is None and when is not None else dict(given)


def moved(changes: Mapping[str, Any], task: runtime.Task) -> dict[str, Any]:
    """Return a task's changes, due at their `metadata.scheduledFor` if that is new."""
    when = _scheduled(changes.get("metadata"))
    return dict(changes) if when in (None, _scheduled(task.metadata)) else {**changes, "due_at": when}


def _scheduled(metadata: object) -> Any:
    return metadata.get("scheduledFor") if isinstance(metadata, Mapping) else None


async def _did(task: runtime.Task, worker: Worker) -> bool:
    """Whether the worker did the task; its error is not the caller's, who has others to do."""
    try:
        if not await worker.validate(task):
            return False
        await worker.execute(task)
    except Exception as error:  # whatever it is, a task must not stop those after it
        logger.warning("the task %s failed, and stays due: %s", task.id, type(error).__name__)
        return False
    return True


def _done(task: runtime.Task, now: int) -> dict[str, Any]:
    interval = task.metadata.get("updateInterval")
    if REPEAT in task.tags and isinstance(interval, (int, float)) and not isinstance(interval, bool) and interval > 0:
        return {"due_at": min(now + int(interval), runtime.LAST), "updated_at": now}
    return {"completed_at": now, "updated_at": now}
