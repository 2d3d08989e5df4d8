"""The contract of ledgers: history, held by every provider."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perdure.backends.ledgers.base import JournalEntry, Remembered
from perdure.domain.errors import InvalidInputError
from perdure.domain.event import Change, HistoryRecord
from perdure.domain.scope import Scope
from tests.contracts.ledgers.ledger_worker import (
    START,
    STORE,
    USER,
    Place,
    add,
    at,
    awaited,
    entry,
    episode,
    remove,
    settle,
    update,
)

pytestmark = pytest.mark.covers("U2", "U3", "U15")


def plain(records: list[HistoryRecord]) -> list[tuple[str, str | None, str | None]]:
    return [(record.event, record.old_value, record.new_value) for record in records]


@awaited
async def test_history_keeps_the_order_of_events_when_the_clock_goes_back(place: Place) -> None:
    async with place.opened() as ledger:
        first = add("one", seconds=100)
        second = update(first, "two", seconds=100)
        third = update(second, "three", seconds=40)
        other = add("unrelated", seconds=40)
        for change in (first, second, third, other, remove(third, seconds=200)):
            await settle(ledger, change)
        records = await ledger.history(first.memory_id)
        assert plain(records) == [
            ("ADD", None, "one"),
            ("UPDATE", "one", "two"),
            ("UPDATE", "two", "three"),
            ("DELETE", "three", None),
        ]
        assert [record.is_deleted for record in records] == [False, False, False, True]
        assert [record.timestamp for record in records] == [at(100), at(100), at(100), at(200)]
        assert [record.sequence for record in records] == [1, 2, 3, 5]
        assert [record.timestamp for record in await ledger.history(other.memory_id)] == [at(40)]
        assert (await ledger.event(third.id)).at == at(40), "the change keeps what the clock said"


@awaited
async def test_the_clock_may_go_back_inside_a_batch(place: Place) -> None:
    async with place.opened() as ledger:
        first = add("one", seconds=10)
        await settle(ledger, first, update(first, "two", seconds=5))
        assert plain(await ledger.history(first.memory_id))[-1] == ("UPDATE", "one", "two")


@pytest.mark.covers("U3")
@pytest.mark.parametrize("line", ["own", "first"])
@awaited
async def test_history_of_either_shows_the_whole_lineage(place: Place, line: str) -> None:
    async with place.opened() as ledger:
        old = add("lives in Paris")
        lineage = old.memory_id if line == "first" else "lineage-1"
        new = add("lives in Rome", seconds=9, lineage_id=lineage)
        retired = update(old, "lives in Paris", seconds=9, lineage_id=lineage, replaced_by=new.memory_id)
        newest = add("lives in Oslo", seconds=10, lineage_id=lineage)
        await settle(ledger, old)
        await settle(ledger, add("unrelated"))
        await settle(ledger, retired, new)
        await settle(ledger, newest)
        whole = [old.id, retired.id, new.id, newest.id]
        for memory_id in (old.memory_id, new.memory_id, newest.memory_id):
            assert [record.id for record in await ledger.history(memory_id)] == whole
        assert await ledger.history("nobody") == []


@pytest.mark.covers("U3")
@awaited
async def test_a_line_that_bears_the_id_of_its_first_memory_is_found_by_it(place: Place) -> None:
    """The first was added where updates keep their id, so that no row of its own names the line."""
    async with place.opened() as ledger:
        old = add("lives in Paris")
        new = add("lives in Rome", seconds=9, lineage_id=old.memory_id)
        newest = add("lives in Oslo", seconds=10, lineage_id=old.memory_id)
        for change in (old, add("unrelated"), new, newest):
            await settle(ledger, change)
        for memory_id in (old.memory_id, new.memory_id, newest.memory_id):
            records = await ledger.history(memory_id)
            assert [record.id for record in records] == [old.id, new.id, newest.id]


@awaited
async def test_later_events_are_those_of_exactly_this_memory(place: Place) -> None:
    async with place.opened() as ledger:
        first = add("one", lineage_id="line")
        second = update(first, "two")
        for change in (first, add("two", lineage_id="line"), second, remove(second)):
            await settle(ledger, change)
        events = [record.event for record in await ledger.later_events(first.memory_id, 1)]
        assert events == ["UPDATE", "DELETE"]
        assert await ledger.later_events(first.memory_id, 4) == []


@awaited
async def test_events_since_are_newest_first_inside_the_scope(place: Place) -> None:
    async with place.opened() as ledger:
        narrow = Scope(user_id="ann", run_id="r1")
        changes = [add("a", USER, 1), add("b", narrow, 2), add("c", Scope(user_id="bob"), 3), add("d", narrow, 3)]
        for change in changes:
            await settle(ledger, change)

        async def found(scope: Scope, seconds: float) -> list[str]:
            return [change.after.memory for change in await ledger.events_since(scope, at(seconds))]

        assert await found(USER, 0) == ["d", "b", "a"]
        assert await found(USER, 1) == ["d", "b"], "after the moment, not at it"
        assert await found(narrow, 0) == ["d", "b"]
        assert await found(Scope(), 2) == ["d", "c"]
        assert await found(Scope(user_id="ann", run_id="r2"), 0) == []


@awaited
async def test_events_of_scope_come_page_by_page(place: Place) -> None:
    async with place.opened() as ledger:
        changes = [add(str(number)) for number in range(7)]
        await settle(ledger, *changes)
        await settle(ledger, add("x", Scope(user_id="bob")))
        seen: list[str] = []
        after = 0
        while page := await ledger.events_of_scope(USER, limit=3, after=after):
            assert len(page) <= 3
            seen += [record.id for record in page]
            after = page[-1].sequence
        assert seen == [change.id for change in changes]
        with pytest.raises(InvalidInputError, match="limit"):
            await ledger.events_of_scope(USER, limit=0)


@awaited
async def test_deletions_that_still_hold_come_newest_first(place: Place) -> None:
    async with place.opened() as ledger:
        kept, back, erased, *gone = (add(str(number)) for number in range(7))
        await settle(ledger, kept, back, erased, *gone, add("x", Scope(user_id="bob")))
        deletions = [remove(change, seconds=9 - place) for place, change in enumerate(gone)]
        await settle(ledger, remove(back), remove(erased), *deletions)
        again = replace(add("1", seconds=20), memory_id=back.memory_id, after=back.item)
        await settle(ledger, again)
        await ledger.erase([erased.memory_id], [])
        assert [record.id for record in await ledger.deletions(USER)] == [change.id for change in deletions]
        seen: list[str] = []
        before: tuple[str, int] | None = None
        while page := await ledger.deletions(USER, limit=3, before=before):
            seen += [record.id for record in page]
            before = page[-1].timestamp, page[-1].sequence
        assert seen == [change.id for change in deletions]
        assert await ledger.deletions(Scope(user_id="bob")) == []
        assert len(await ledger.deletions(Scope())) == len(deletions)
        with pytest.raises(InvalidInputError, match="limit"):
            await ledger.deletions(USER, limit=0)


@awaited
async def test_every_axis_of_scope_is_a_wall(place: Place) -> None:
    scope = Scope("u", "a", "r", "p", "t", "ro", "w")
    async with place.opened() as ledger:
        await settle(ledger, add("all axes", scope))
        await ledger.insert_episodes([episode(scope=scope)])
        for name, value in scope.given().items():
            assert len(await ledger.events_of_scope(Scope(**{name: value}))) == 1
            assert len((await ledger.list_episodes(Scope(**{name: value}))).episodes) == 1
            assert await ledger.events_of_scope(Scope(**{name: "other"})) == []
            assert (await ledger.list_episodes(Scope(**{name: "other"}))).episodes == []


@awaited
async def test_record_is_history_without_a_journal(place: Place) -> None:
    async with place.opened() as ledger:
        first = add("one")
        await ledger.record([first, update(first, "two")], [episode(id="e")], Remembered("k", USER, "{}"))
        assert plain(await ledger.history(first.memory_id)) == [("ADD", None, "one"), ("UPDATE", "one", "two")]
        assert await ledger.remembered("k", USER) == "{}"
        assert len(await ledger.get_episodes(["e"])) == 1
        assert await ledger.pending(STORE) == []
        assert await ledger.unsynced(STORE) == []


@awaited
async def test_foreign_history_is_kept_as_it_is(place: Place) -> None:
    def record(id: str, event: str, moment: str, sequence: int = 0) -> HistoryRecord:
        return HistoryRecord(
            id=id,
            memory_id="m",
            event=event,
            old_value=None if event == "ADD" else "old",
            new_value=None if event == "DELETE" else "new",
            timestamp=moment,
            is_deleted=event == "DELETE",
            user_id="ann",
            sequence=sequence,
        )

    async with place.opened() as ledger:
        await settle(ledger, add())
        records = [record("h3", "DELETE", at(-5)), record("h1", "ADD", at(-9), 77), record("h2", "UPDATE", at(-7))]
        assert await ledger.import_history(records) == 3
        assert await ledger.import_history([*records, record("h4", "ADD", at(1))]) == 1
        found = await ledger.history("m")
        assert [item.id for item in found] == ["h1", "h2", "h3", "h4"]
        assert [item.sequence for item in found] == [2, 3, 4, 5]
        assert replace(found[0], sequence=77) == records[1]
        assert await ledger.event("h1") is None
        assert await ledger.history_record("h1") == found[0]
        assert await ledger.history_record("h9") is None


@awaited
async def test_hides_follow_the_event(place: Place) -> None:
    async def hidden() -> bool:
        return (await ledger.get_episodes(["e"]))[0].hidden

    async with place.opened() as ledger:
        await ledger.insert_episodes([episode(id="e")])
        first = add()
        gone = remove(first, hides=("e",))
        back = Change(
            id="undo", event="ADD", memory_id=first.memory_id, at=at(1), told_at=at(1), after=first.after, hides=("e",)
        )
        await ledger.write([entry(gone, "b")])
        assert not await hidden()
        await ledger.applied("b")
        assert await hidden()
        await settle(ledger, back)
        assert not await hidden()
        await ledger.record([gone])
        assert await hidden()


@awaited
async def test_reset_clears_everything_and_no_number_is_given_twice(place: Place) -> None:
    async with place.opened() as ledger:
        change = add()
        await settle(ledger, change)
        await ledger.write([entry(add(), "open")], [episode(id="e")], Remembered("k", USER, "{}"))
        await ledger.cache("c", USER, "value")
        await ledger.add_fingerprints(USER, ["f"])
        async with ledger.lock(Scope()):
            await ledger.reset()
            stats = await ledger.stats()
            assert stats.pop("locks") == 1
        assert {name for name, count in stats.items() if count} == {"bytes"}
        await settle(ledger, change)
        sequences = [record.sequence for record in await ledger.history(change.memory_id)]
        assert sequences == [4], "the clearing itself took 3"
        assert await ledger.check() == []


def test_entries_compare_without_their_vectors() -> None:
    change = add()
    assert entry(change, "b") == JournalEntry(change=change, batch_id="b", store_identity=STORE, collection="memories")
    assert entry(change, "b").id == change.id
    assert at(0) == START.isoformat(timespec="microseconds")
