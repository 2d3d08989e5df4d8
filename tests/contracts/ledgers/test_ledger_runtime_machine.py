"""The runtime tables against a model: any order of keeping, changing, removing, taking."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from perdure.backends.ledgers.base import Ledger
from perdure.backends.ledgers.repositories.base import Among, Query
from perdure.domain.runtime import Component, Entity, Participant, Record, Relationship, Room, Task, World
from tests.contracts.ledgers.ledger_runtime import key, make
from tests.contracts.ledgers.ledger_worker import Place

pytestmark = pytest.mark.covers("C16", "C17", "C18", "Z39", "Z41")

HANDLES = st.sampled_from([0, 1])
AGENTS = st.sampled_from(["a", "b"])
ENTITIES = st.sampled_from(["e1", "e2"])
ROOMS = st.sampled_from(["r1", "r2"])
TAGS = st.lists(st.sampled_from(["x", "y", 'x"', ","]), max_size=3, unique=True)
NOUNS: tuple[type[Record], ...] = (World, Room, Entity, Participant, Relationship, Component, Task)


class Runtime(RuleBasedStateMachine):
    """Two handles of one ledger; the model is a list of records in the order in which they were kept."""

    provider = ""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        place = Place(self.provider, Path(self.folder.name))
        self.handles: list[Ledger] = [place.handle(), place.handle()]
        self.rows: list[Record] = []
        self.taken: dict[tuple[str, str], int] = {}
        self.at = count(1)
        for handle in self.handles:
            self.run(handle.open())

    def run(self, coroutine):
        return self.runner.run(coroutine)

    def teardown(self) -> None:
        for handle in self.handles:
            self.run(handle.close())
        self.runner.close()
        self.folder.cleanup()

    # ------------------------------------------------------------------ the model
    def of(self, noun: type[Record], **fields: Any) -> list[Any]:
        return [
            row
            for row in self.rows
            if type(row) is noun and all(getattr(row, name) == value for name, value in fields.items())
        ]

    def is_known(self, record: Record) -> bool:
        uniques = {
            Relationship: ("agent_id", "source_entity_id", "target_entity_id"),
            Component: ("agent_id", "entity_id", "type", "world_id", "source_entity_id"),
        }
        for names in (record.KEY, uniques.get(type(record), record.KEY)):
            if self.of(type(record), **{name: getattr(record, name) for name in names}):
                return True
        return False

    def keep(self, number: int, *records: Record) -> None:
        expected = []
        for record in records:
            expected.append(not self.is_known(record))
            if expected[-1]:
                self.rows.append(record)
        assert self.run(self.handles[number].runtime.add(records)) == expected

    def drop(self, record: Record) -> None:
        """Take a record out, and what hangs on it."""
        hanging = {
            World: [(Room, "world_id"), (Component, "world_id"), (Task, "world_id")],
            Room: [(Participant, "room_id"), (Component, "room_id"), (Task, "room_id")],
            Entity: [
                (Participant, "entity_id"),
                (Component, "entity_id"),
                (Component, "source_entity_id"),
                (Relationship, "source_entity_id"),
                (Relationship, "target_entity_id"),
                (Task, "entity_id"),
            ],
        }
        if record in self.rows:
            self.rows.remove(record)
            if type(record) is Task:
                self.taken.pop((record.agent_id, record.id), None)
            for noun, field in hanging.get(type(record), ()):
                for other in self.of(noun, agent_id=record["agent_id"], **{field: record["id"]}):
                    self.drop(other)

    def fresh(self, noun: type[Any], agent: str, **fields: Any) -> Any:
        return make(noun, next(self.at), agent, **fields)

    # ------------------------------------------------------------------ keeping
    @rule(number=HANDLES, agent=AGENTS, room=ROOMS, world=st.sampled_from([None, "w1"]))
    def add_room(self, number: int, agent: str, room: str, world: str | None) -> None:
        self.keep(number, self.fresh(World, agent), self.fresh(Room, agent, id=room, world_id=world))

    @rule(number=HANDLES, agent=AGENTS, entity=ENTITIES, room=ROOMS)
    def add_participant(self, number: int, agent: str, entity: str, room: str) -> None:
        who = self.fresh(Entity, agent, id=entity)
        self.keep(number, who, self.fresh(Participant, agent, entity_id=entity, room_id=room))

    @rule(number=HANDLES, agent=AGENTS, source=ENTITIES, other=ENTITIES, tags=TAGS)
    def add_relationship(self, number: int, agent: str, source: str, other: str, tags: list[str]) -> None:
        two = {"source_entity_id": source, "target_entity_id": other}
        self.keep(number, self.fresh(Relationship, agent, id=f"l{next(self.at)}", tags=tags, **two))

    @rule(number=HANDLES, agent=AGENTS, entity=ENTITIES, world=st.sampled_from([None, "w1"]), room=ROOMS)
    def add_component(self, number: int, agent: str, entity: str, world: str | None, room: str) -> None:
        where = {"entity_id": entity, "world_id": world, "room_id": room}
        self.keep(number, self.fresh(Component, agent, id=f"c{next(self.at)}", **where))

    @rule(number=HANDLES, agent=AGENTS, room=ROOMS, tags=TAGS, due=st.sampled_from([None, 3, 6]))
    def add_task(self, number: int, agent: str, room: str, tags: list[str], due: int | None) -> None:
        self.keep(number, self.fresh(Task, agent, id=f"t{next(self.at)}", room_id=room, tags=tags, due_at=due))

    # ------------------------------------------------------------------ changing and removing
    @rule(number=HANDLES, data=st.data(), tags=TAGS)
    def change(self, number: int, data: st.DataObject, tags: list[str]) -> None:
        some = [row for row in self.rows if isinstance(row, (Relationship, Task))]
        if some:
            row = data.draw(st.sampled_from(some))
            assert self.run(self.handles[number].runtime.change(type(row), key(row), {"tags": tuple(tags)}))
            self.rows[self.rows.index(row)] = replace(row, tags=tuple(tags))

    @rule(number=HANDLES, noun=st.sampled_from(NOUNS), data=st.data())
    def remove(self, number: int, noun: type[Record], data: st.DataObject) -> None:
        some = self.of(noun)
        if some:
            row = data.draw(st.sampled_from(some))
            assert self.run(self.handles[number].runtime.remove(noun, key(row))) == 1
            self.drop(row)

    @rule(number=HANDLES, agent=AGENTS)
    def remove_rooms_of_a_world(self, number: int, agent: str) -> None:
        where = {"agent_id": agent, "world_id": "w1"}
        gone = self.of(Room, **where)
        assert self.run(self.handles[number].runtime.remove(Room, where)) == len(gone)
        for room in gone:
            self.drop(room)

    # ------------------------------------------------------------------ working
    @rule(number=HANDLES, data=st.data(), now=st.integers(2, 7))
    def take(self, number: int, data: st.DataObject, now: int) -> None:
        tasks = self.of(Task)
        if tasks:
            task = data.draw(st.sampled_from(tasks))
            name = (task.agent_id, task.id)
            is_due = task.due_at is not None and task.due_at <= now and task.completed_at is None
            free = name not in self.taken
            found = self.run(self.handles[number].runtime.take(*name, now))
            assert found == (task if is_due and free else None)
            if found is not None:
                self.taken[name] = number

    @rule(number=HANDLES, data=st.data(), done=st.booleans())
    def settle(self, number: int, data: st.DataObject, done: bool) -> None:
        tasks = self.of(Task)
        if tasks:
            task = data.draw(st.sampled_from(tasks))
            name = (task.agent_id, task.id)
            mine = self.taken.get(name) == number
            changes = {"completed_at": 8} if done else {}
            assert self.run(self.handles[number].runtime.settle(*name, changes)) == mine
            if mine:
                del self.taken[name]
                self.rows[self.rows.index(task)] = replace(task, **changes)

    @rule(number=HANDLES)
    def die(self, number: int) -> None:
        self.run(self.handles[number].close())
        self.run(self.handles[number].open())
        self.taken = {name: owner for name, owner in self.taken.items() if owner != number}

    # ------------------------------------------------------------------ looking
    @invariant()
    def every_table_is_the_models(self) -> None:
        for noun in NOUNS:
            assert self.run(self.handles[0].runtime.find(Query(noun=noun))) == self.of(noun)

    @rule(agent=AGENTS, tags=TAGS, entity=ENTITIES, newest=st.booleans())
    def ask(self, agent: str, tags: list[str], entity: str, newest: bool) -> None:
        runtime = self.handles[1].runtime
        mine = {"agent_id": agent}
        tasks = [task for task in self.of(Task, **mine) if set(tags) <= set(task.tags)]
        query = Query(noun=Task, where=mine, all_tags=tags, newest_first=newest, limit=3)
        assert self.run(runtime.find(query)) == (tasks[::-1] if newest else tasks)[:3]
        known = [each for each in self.of(Relationship, **mine) if not tags or set(tags) & set(each.tags)]
        assert self.run(runtime.find(Query(noun=Relationship, where=mine, any_tag=tags))) == known
        rooms = {each.room_id for each in self.of(Participant, **mine, entity_id=entity)}
        there = {**mine, "id": Among(Participant, "room_id", {**mine, "entity_id": entity})}
        expected = [room for room in self.of(Room, **mine) if room.id in rooms]
        assert self.run(runtime.find(Query(noun=Room, where=there))) == expected

    @rule()
    def nothing_disagrees(self) -> None:
        assert self.run(self.handles[1].check()) == []


@pytest.mark.covers("Z39")
def test_the_runtime_tables_agree_with_their_model(ledger_provider: str) -> None:
    machine = type("RuntimeOfProvider", (Runtime,), {"provider": ledger_provider})
    examples = 2 if ledger_provider == "postgres" else 10
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=20, deadline=None))
