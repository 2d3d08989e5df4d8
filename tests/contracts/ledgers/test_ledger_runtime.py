"""The contract of ledgers: the tables of agent runtimes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perdure.backends.ledgers.repositories.base import Among, Query
from perdure.domain.errors import InvalidInputError, LedgerError
from perdure.domain.runtime import (
    Agent,
    CacheEntry,
    Channel,
    ChannelParticipant,
    Component,
    Entity,
    LogEntry,
    MessageServer,
    Participant,
    Record,
    Relationship,
    Room,
    ServerAgent,
    Task,
    World,
)
from perdure.domain.scope import Scope
from tests.contracts.ledgers.ledger_runtime import SAMPLES, everything, key, make
from tests.contracts.ledgers.ledger_worker import Place, awaited

pytestmark = pytest.mark.covers("C13", "C14", "C15", "C16", "C17", "C18", "Z39", "Z40")

CHANGES: dict[type[Record], dict[str, Any]] = {
    Agent: {"name": "Bea", "enabled": True, "bio": "short"},
    Entity: {"names": ("Anna",), "metadata": {}},
    World: {"name": "Clan", "server_id": None},
    Room: {"name": "Hall", "world_id": None},
    Participant: {"state": None},
    Relationship: {"tags": ("foe", "colleague"), "metadata": {"since": 2020}},
    Component: {"data": {"n": 2}},
    Task: {"name": "sweep", "due_at": None, "completed_at": 9},
    CacheEntry: {"value": None},
    LogEntry: {"body": {}, "type": "note"},
    MessageServer: {"name": "Matrix"},
    Channel: {"topic": None, "name": "off-topic"},
}
HOSTILE = st.text(alphabet=st.sampled_from("ab\",[]\\ '%_:é\x00\x1a\n"), max_size=5)


@pytest.mark.covers("Z39", "Z40")
@pytest.mark.parametrize("noun", SAMPLES, ids=lambda noun: noun.__name__)
@awaited
async def test_a_record_of_each_noun_is_kept_found_changed_and_removed(place: Place, noun: type[Record]) -> None:
    record = make(noun)
    async with place.opened() as ledger:
        assert await ledger.runtime.add([record]) == [True]
        assert await ledger.runtime.add([record]) == [False]
    async with place.opened() as ledger:
        assert await everything(ledger, noun) == [record]
        changed = replace(record, **CHANGES.get(noun, {}))
        assert await ledger.runtime.change(noun, key(record), CHANGES.get(noun, {}))
        assert await ledger.runtime.find(Query(noun=noun, where=key(record))) == [changed]
        assert await ledger.check() == []
        assert await ledger.runtime.remove(noun, key(record)) == 1
        assert await ledger.runtime.remove(noun, key(record)) == 0
        assert not await ledger.runtime.change(noun, key(record), CHANGES.get(noun, {}))
        assert await everything(ledger, noun) == []


@pytest.mark.covers("C17", "C18")
@awaited
async def test_two_of_the_same_cannot_be(place: Place) -> None:
    """The fault of C17, a participant twice, cannot happen; nor can a relationship or a component."""
    twins = (
        make(Participant, state=None),
        make(Relationship, id="other", tags=[]),
        make(Component, id="other", data={"n": 2}),
        make(ChannelParticipant, 9),
        make(ServerAgent, 9),
    )
    async with place.opened() as ledger:
        for twin in twins:
            first = make(type(twin))
            assert await ledger.runtime.add([first, twin]) == [True, False]
            assert await everything(ledger, type(twin)) == [first]
        assert await ledger.runtime.add([make(Relationship, id="back", source_entity_id="e2", target_entity_id="e1")])
        elsewhere = [make(Component, id=f"n{n}", **each) for n, each in enumerate(({"world_id": "w"}, {"type": "x"}))]
        assert await ledger.runtime.add([*elsewhere, make(Component, agent="other")]) == [True, True, True]
        assert len(await everything(ledger, Component)) == 4


@pytest.mark.parametrize(
    ("noun", "field"),
    [(Relationship, "target_entity_id"), (Component, "type"), (Task, "id"), (Room, "created_at"), (Room, "agent_id")],
    ids=lambda value: getattr(value, "__name__", value),
)
@awaited
async def test_what_tells_a_record_from_others_stays(place: Place, noun: type[Record], field: str) -> None:
    record = make(noun)
    async with place.opened() as ledger:
        await ledger.runtime.add([record])
        assert await ledger.runtime.change(noun, key(record), {field: getattr(record, field)}), "as it is, it may be"
        other = 77 if field == "created_at" else "other"
        with pytest.raises(InvalidInputError, match="stays as it is") as caught:
            await ledger.runtime.change(noun, key(record), {field: other, "metadata": {"lost": True}})
        assert (caught.value.field, caught.value.value) == (field, other)
        assert await everything(ledger, noun) == [record]


async def fill(place: Place, ledger: Any, agent: str) -> None:
    """One of everything, all of which names the others."""
    await ledger.runtime.add([make(noun, agent=agent) for noun in SAMPLES])
    await ledger.runtime.add(
        [
            make(Component, agent=agent, id="of room", type="r", room_id="r1", entity_id="e9"),
            make(Component, agent=agent, id="told by", type="s", source_entity_id="e1", entity_id="e9"),
            make(Relationship, agent=agent, id="back", source_entity_id="e9", target_entity_id="e1"),
            make(Task, agent=agent, id="of room", room_id="r1"),
            make(Task, agent=agent, id="of world", world_id="w1"),
            make(Task, agent=agent, id="of entity", entity_id="e1"),
            make(LogEntry, agent=agent, id="of entity", room_id=None, entity_id="e1"),
        ]
    )


LEFT: dict[type[Record], dict[type[Record], set[str]]] = {
    Room: {
        Participant: set(),
        Component: {"c1", "told by"},
        Task: {"t1", "of world", "of entity"},
        LogEntry: {"of entity"},
    },
    World: {Room: set(), Participant: set(), Task: {"t1", "of entity"}, LogEntry: {"of entity"}},
    Entity: {
        Participant: set(),
        Component: {"of room"},
        Relationship: set(),
        Task: {"t1", "of room", "of world"},
        LogEntry: {"g1"},
        Room: {"r1"},
        ChannelParticipant: {"e1"},
    },
    Agent: {noun: set() for noun in SAMPLES if "agent_id" in noun.field_names()},
    MessageServer: {Channel: set(), ChannelParticipant: set(), ServerAgent: set(), Room: {"r1"}},
    Channel: {ChannelParticipant: set(), MessageServer: {"s1"}},
}
"""What stands afterwards, by id, when one is removed."""


@pytest.mark.covers("C16")
@pytest.mark.parametrize("noun", LEFT, ids=lambda noun: noun.__name__)
@awaited
async def test_what_hangs_on_a_record_goes_with_it_and_another_agents_stays(place: Place, noun: type[Record]) -> None:
    async with place.opened() as ledger:
        for agent in ("a1", "a2"):
            await fill(place, ledger, agent)
        gone = make(noun, agent="a1")
        assert await ledger.runtime.remove(noun, key(gone)) == 1
        for other, ids in LEFT[noun].items():
            mine = {"agent_id": "a1"} if "agent_id" in other.KEY else {}
            found = await ledger.runtime.find(Query(noun=other, where=mine))
            assert {getattr(each, "id", getattr(each, "entity_id", "")) for each in found} == ids, other
        theirs = await ledger.runtime.find(Query(noun=Task, where={"agent_id": "a2"}))
        assert len(theirs) == 4, "walls of agents hold for what hangs on a record too"
        assert await ledger.check() == []


@awaited
async def test_records_are_asked_for_by_fields_lists_times_and_what_other_records_name(place: Place) -> None:
    async with place.opened() as ledger:
        entries = [make(LogEntry, n // 3, id=f"g{n}", room_id=f"r{n % 2}") for n in range(12)]
        await ledger.runtime.add(entries)

        async def asked(**query: Any) -> list[int]:
            found = await ledger.runtime.find(Query(noun=LogEntry, **query))
            return [int(each.id[1:]) for each in found]

        assert await asked() == list(range(12)), "oldest first, equal times as they came"
        assert await asked(newest_first=True, limit=5, offset=2) == [9, 8, 7, 6, 5]
        assert await asked(where={"room_id": "r1"}, since=1, until=2) == [3, 5, 7]
        assert await asked(where={"id": ["g4", "g1", "nobody"]}) == [1, 4]
        assert await asked(where={"id": []}) == []
        assert await asked(where={"entity_id": None}, limit=2) == [0, 1]
        many = [f"g{n}" for n in range(2000)]
        assert await asked(where={"id": many}) == list(range(12))
        assert await asked(where={"id": many[::-1]}, newest_first=True, limit=3, offset=1) == [10, 9, 8]
        assert await asked(limit=3, offset=50) == []
        await ledger.runtime.add([make(Participant, room_id="r1", entity_id=f"e{n}") for n in (1, 2)])
        await ledger.runtime.add([make(Room, id="r1"), make(Room, id="r0")])
        there = {"id": Among(Participant, "room_id", {"entity_id": ["e2"]})}
        assert [each.id for each in await ledger.runtime.find(Query(noun=Room, where=there))] == ["r1"]
        for wrong in ({"limit": 0}, {"offset": -1}):
            with pytest.raises(InvalidInputError):
                await asked(**wrong)


@pytest.mark.covers("C15", "C18")
def test_tags_are_found_whole_whatever_they_are(ledger_provider: str, tmp_path_factory) -> None:
    """Contains all of some tags, or any: what Python's sets say, for tags that look like JSON too."""
    place = Place(ledger_provider, tmp_path_factory.mktemp("tags"))

    @example([["[", ":"], [",", ":"], ["\\", ":"], ['",', "a"], ["\x00", "a"], [","]], [","])
    @given(st.lists(st.lists(HOSTILE, max_size=3), min_size=1, max_size=5), st.lists(HOSTILE, min_size=1, max_size=2))
    @awaited
    async def agrees(kept: list[list[str]], wanted: list[str]) -> None:
        async with place.opened() as ledger:
            await ledger.runtime.remove(Agent, {})
            await ledger.runtime.remove(Task, {})
            tasks = [make(Task, n, id=str(n), tags=tags) for n, tags in enumerate(kept)]
            await ledger.runtime.add(tasks)
            whole = await ledger.runtime.find(Query(noun=Task, all_tags=wanted))
            some = await ledger.runtime.find(Query(noun=Task, any_tag=wanted))
        assert whole == [task for task in tasks if set(wanted) <= set(task.tags)]
        assert some == [task for task in tasks if set(wanted) & set(task.tags)]

    settings(max_examples=10 if ledger_provider == "postgres" else 60, deadline=None)(agrees)()


@pytest.mark.covers("Z41")
@awaited
async def test_a_task_is_due_from_its_time_on_and_taken_by_one(place: Place) -> None:
    async with place.opened() as ledger, place.opened() as other:
        tasks = [make(Task, id=f"t{due}", due_at=due) for due in (9, 5, 7)]
        await ledger.runtime.add([*tasks, make(Task, id="never", due_at=None), make(Task, id="done", completed_at=1)])

        async def due(at: int) -> list[str]:
            return [each.id for each in await ledger.runtime.find(Query(noun=Task, due=at))]

        assert [await due(at) for at in (4, 5, 8, 100)] == [[], ["t5"], ["t5", "t7"], ["t5", "t7", "t9"]]
        assert await ledger.runtime.take("bot", "t5", 4) is None, "it is not due"
        assert await ledger.runtime.take("else", "t5", 9) is None, "it is another agent's"
        assert await ledger.runtime.take("bot", "t5", 9) == tasks[1]
        for taker in (ledger, other):
            assert await taker.runtime.take("bot", "t5", 9) is None
        assert not await other.runtime.settle("bot", "t5", {"completed_at": 9}), "it does not have it"
        assert await ledger.runtime.settle("bot", "t5", {})
        assert await other.runtime.take("bot", "t5", 9) == tasks[1]
        assert await other.runtime.settle("bot", "t5", {"completed_at": 9})
        assert await due(100) == ["t7", "t9"]
        assert await ledger.runtime.take("bot", "t5", 9) is None
        assert await other.runtime.take("bot", "t7", 9) is not None
        await other.close()
        assert await ledger.runtime.take("bot", "t7", 9) is not None, "who had it is gone"


@pytest.mark.covers("C13")
@awaited
async def test_a_cached_value_is_replaced_whole(place: Place) -> None:
    async with place.opened() as ledger:
        for value in ({"a": 1}, None, [1.5, "x\x00"], "", False):
            await ledger.runtime.put(make(CacheEntry, value=value))
            await ledger.runtime.put(make(CacheEntry, agent="other", value="theirs"))
            where = {"agent_id": "bot", "key": "k"}
            (found,) = await ledger.runtime.find(Query(noun=CacheEntry, where=where))
            assert (found.value, type(found.value)) == (value, type(value))
        assert len(await everything(ledger, CacheEntry)) == 2


@pytest.mark.covers("C19")
@pytest.mark.covers("C19")
@awaited
async def test_what_is_missing_is_made_and_what_is_there_stays(place: Place) -> None:
    async with place.opened() as ledger:
        room = make(Room, name="Lobby")
        await ledger.runtime.add([room])
        await ledger.runtime.ensure([make(Agent), make(Room, name="made"), make(World), make(World)])
        assert await everything(ledger, Room) == [room]
        assert [len(await everything(ledger, noun)) for noun in (Agent, World)] == [1, 1]


@pytest.mark.covers("U26")
@awaited
async def test_reset_leaves_what_runtimes_keep_and_check_reads_it(place: Place) -> None:
    async with place.opened() as ledger:
        await ledger.runtime.add([make(Room), make(Task)])
        async with ledger.lock(Scope()):
            await ledger.reset()
        assert len(await everything(ledger, Room)) == 1
        assert await ledger.check() == []

        def spoil() -> None:
            from sqlalchemy import text

            with ledger._database.writing(durable=True) as connection:
                connection.execute(text("UPDATE tasks SET tags = '[', seq = 99"))

        await asyncio.to_thread(spoil)
        found = await ledger.check()
        assert len(found) == 2
        assert any("tags of task" in each for each in found)
        assert any("'runtime' stands at" in each for each in found)


@awaited
async def test_a_ledger_that_is_not_open_keeps_nothing(place: Place) -> None:
    ledger = place.handle()
    for call in (ledger.runtime.add([make(Room)]), ledger.runtime.find(Query(noun=Room))):
        with pytest.raises(LedgerError, match="not open"):
            await call
