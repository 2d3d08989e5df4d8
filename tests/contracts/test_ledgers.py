"""The contract of ledgers: life, journal and history, held by every provider (DESIGN §3; 000 §5; U1, U2, U3, U15)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.backends.ledgers import _rows
from perdure.backends.ledgers.base import JournalEntry, Remembered
from perdure.domain.errors import InvalidInputError, LedgerError
from perdure.domain.event import Change, HistoryRecord
from perdure.domain.memory import MemoryItem, Slots
from perdure.domain.scope import Scope
from tests.contracts.ledger_worker import (
    PROVIDERS,
    START,
    STORE,
    USER,
    Place,
    add,
    at,
    awaited,
    entry,
    episode,
    make_item,
    remove,
    settle,
    update,
)


@pytest.fixture(params=list(PROVIDERS))
def place(request: pytest.FixtureRequest, tmp_path) -> Place:
    return Place(request.param, tmp_path)


def plain(records: list[HistoryRecord]) -> list[tuple[str, str | None, str | None]]:
    return [(record.event, record.old_value, record.new_value) for record in records]


# ---------------------------------------------------------------------- life
@awaited
async def test_opening_is_repeatable_and_gives_a_fresh_owner(place: Place) -> None:
    ledger = place.handle()
    with pytest.raises(LedgerError, match="not open"):
        await ledger.history("x")
    with pytest.raises(LedgerError, match="not open"):
        _ = ledger.owner
    await ledger.open()
    first = ledger.owner
    await ledger.open()
    assert ledger.owner == first
    await ledger.close()
    await ledger.close()
    with pytest.raises(LedgerError, match="not open"):
        await ledger.write([])
    await ledger.open()
    assert ledger.owner != first
    await ledger.close()


@awaited
async def test_two_handles_are_one_ledger(place: Place) -> None:
    async with place.opened() as one, place.opened() as two:
        assert one.identity == two.identity
        assert one.owner != two.owner
        change = add()
        await settle(one, change)
        assert plain(await two.history(change.memory_id)) == [("ADD", None, "User likes tea")]


# ---------------------------------------------------------------------- journal
@awaited
async def test_a_written_batch_becomes_history_when_it_is_applied(place: Place) -> None:
    async with place.opened() as ledger:
        change = add("Él vive en Ōsaka 🏯, 名前は太郎")
        await ledger.write([entry(change, "b1")], [episode("hola", id="e1")])
        assert await ledger.history(change.memory_id) == []
        assert [item.id for item in await ledger.get_episodes(["e1"])] == ["e1"]
        await ledger.applied("b1")
        await ledger.applied("b1")
        (record,) = await ledger.history(change.memory_id)
        assert record == HistoryRecord(
            id=change.id,
            memory_id=change.memory_id,
            event="ADD",
            old_value=None,
            new_value="Él vive en Ōsaka 🏯, 名前は太郎",
            timestamp=at(0),
            is_deleted=False,
            user_id="ann",
            sequence=1,
            actor="add",
            told_at=at(0),
        )
        assert await ledger.event(change.id) == change
        assert await ledger.history_record(change.id) == record


@awaited
async def test_a_batch_is_dropped_once_it_is_synced_and_not_before(place: Place) -> None:
    async with place.opened() as ledger:
        first = await settle(ledger, add(), add())
        await ledger.write([entry(add(), "open")])
        await ledger.write([entry(add(), "elsewhere", "store-2")])
        await ledger.applied("elsewhere")
        assert await ledger.unsynced(STORE) == [first]
        second = await settle(ledger, add())
        await ledger.synced(STORE, [first, "open", "elsewhere"])
        assert await ledger.unsynced(STORE) == [second], "what was applied after the store began to sync stays"
        assert await ledger.unsynced("store-2") == ["elsewhere"]
        assert (await ledger.stats())["written"] == 1
        with pytest.raises(LedgerError, match=first):
            await ledger.applied(first)


@awaited
async def test_pending_is_what_the_dead_and_one_self_left(place: Place) -> None:
    dead, living = place.handle(), place.handle()
    await dead.open()
    await living.open()
    change = update(add(), "User likes coffee")
    await dead.write([entry(change, "left"), entry(add("second"), "left")])
    await dead.write([entry(add(), "other", "store-2")])
    await settle(dead, add())
    assert await living.pending(STORE) == [], "its writer lives"
    await dead.close()
    left = await living.pending(STORE)
    assert [(item.change.after.memory, item.batch_id, item.state) for item in left] == [
        ("User likes coffee", "left", "written"),
        ("second", "left", "written"),
    ]
    assert left[0].change == change
    assert left[0].sequence < left[1].sequence
    assert left[0].collection == "memories"
    np.testing.assert_array_equal(left[0].vector, np.arange(8, dtype=np.float32) / 7)
    np.testing.assert_array_equal(left[0].keep_vector, -np.arange(8, dtype=np.float32) / 7)
    assert left[0].vector.dtype == np.float32
    assert left[1].keep_vector is None
    assert {item.owner for item in left} == {living.owner}, "taken over, so that nobody else applies it too"
    async with place.opened() as third:
        assert await third.pending(STORE) == []
    assert await living.pending(STORE) == left, "until it is applied"
    await living.applied("left")
    assert await living.pending(STORE) == []
    assert plain(await living.history(change.memory_id)) == [("UPDATE", "User likes tea", "User likes coffee")]
    await living.close()


@awaited
async def test_what_was_applied_before_the_power_failed_is_pending_again(place: Place, monkeypatch) -> None:
    boot = "boot-1"
    monkeypatch.setattr("perdure.backends.ledgers._ledger.boot_id", lambda: boot)
    async with place.opened() as ledger:
        applied = await settle(ledger, add("one"))
        synced = await settle(ledger, add("two"))
        await ledger.synced(STORE, [synced])
        await ledger.write([entry(add("three"), "written")])
    async with place.opened() as ledger:
        assert [item.batch_id for item in await ledger.pending(STORE)] == ["written"]
    boot = "boot-2"
    async with place.opened() as ledger:
        assert [item.batch_id for item in await ledger.pending(STORE)] == [applied, "written"]
        await ledger.applied(applied)
        await ledger.applied("written")
        assert await ledger.pending(STORE) == [], "applied in this run of the machine"
        assert sorted(await ledger.unsynced(STORE)) == sorted([applied, "written"])
        assert (await ledger.stats())["history"] == 3, "no record twice"


@awaited
async def test_without_a_boot_id_applied_batches_count_as_lost(place: Place, monkeypatch) -> None:
    monkeypatch.setattr("perdure.backends.ledgers._ledger.boot_id", lambda: "")
    async with place.opened() as ledger:
        applied = await settle(ledger, add())
    async with place.opened() as ledger:
        assert [item.batch_id for item in await ledger.pending(STORE)] == [applied]


@awaited
async def test_an_abandoned_batch_leaves_nothing(place: Place) -> None:
    async with place.opened() as ledger:
        change = add()
        await ledger.write([entry(change, "b1")], [episode(id="e1")], Remembered("k", USER, "[]"))
        await ledger.write([entry(add(), "b2")], [episode(id="e2")], Remembered("k2", USER, "[2]"))
        assert await ledger.remembered("k", USER) == "[]"
        await ledger.abandon("b1")
        assert [item.batch_id for item in await ledger.pending(STORE)] == ["b2"]
        assert [item.id for item in await ledger.get_episodes(["e1", "e2"])] == ["e2"]
        assert await ledger.remembered("k", USER) is None
        assert await ledger.remembered("k2", USER) == "[2]"
        with pytest.raises(LedgerError, match="b1"):
            await ledger.applied("b1")


@awaited
async def test_one_write_is_one_batch(place: Place) -> None:
    async with place.opened() as ledger:
        with pytest.raises(InvalidInputError, match="batch_id"):
            await ledger.write([entry(add(), "a"), entry(add(), "b")])
        assert (await ledger.stats())["written"] == 0


@awaited
async def test_text_that_is_no_unicode_changes_nothing(place: Place) -> None:
    async with place.opened() as ledger:
        with pytest.raises(InvalidInputError, match=r"surrogate.*\\udc80"):
            await ledger.write([entry(add("broken \udc80"), "b")], [episode(id="e")])
        with pytest.raises(InvalidInputError, match="surrogate"):
            await ledger.write([entry(add(), "b")], [episode("broken \udc80", id="e")])
        assert await ledger.get_episodes(["e"]) == []
        assert (await ledger.stats())["written"] == 0


@awaited
async def test_large_values_and_large_batches_come_back_whole(place: Place) -> None:
    async with place.opened() as ledger:
        long = add("ä" * 3_000_000, metadata={"deep": {"list": [1, 2.5, None, True, "x" * 1000]}})
        many = [add(f"User has {number}") for number in range(1200)]
        await ledger.write([entry(long, "long", dimension=4096)])
        await settle(ledger, *many)
        (left,) = await ledger.pending(STORE)
        assert left.change == long
        assert left.vector.shape == (4096,)
        page = await ledger.events_of_scope(USER, limit=2000)
        assert [record.memory_id for record in page] == [change.memory_id for change in many]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
ITEMS = st.builds(
    make_item,
    TEXT,
    st.builds(Scope, user_id=st.none() | st.text("ab", min_size=1), world_id=st.none() | st.just("w")),
    metadata=st.dictionaries(TEXT, st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT),
    sources=st.lists(TEXT).map(tuple),
    slots=st.none() | st.builds(Slots, TEXT, TEXT, TEXT, st.booleans()),
    confidence=st.none() | st.floats(0, 1),
    older=st.lists(TEXT).map(tuple),
    tags=st.dictionaries(TEXT, st.lists(TEXT)),
    valid_to=st.none() | st.just(at(9)),
    lineage_id=st.none() | TEXT,
    position=st.none() | st.integers(0, 9),
)


@given(before=ITEMS, after=ITEMS, keep=st.none() | ITEMS, words=st.lists(TEXT, max_size=3).map(tuple), undoes=TEXT)
def test_a_change_comes_back_from_its_json(
    before: MemoryItem, after: MemoryItem, keep: MemoryItem | None, words: tuple[str, ...], undoes: str
) -> None:
    change = replace(update(add(), ""), before=before, after=after, keep=keep)
    change = replace(
        change, sources=words, hides=words[:1], undoes=undoes, confidence=0.25, reason="rule", actor="undo"
    )
    assert _rows.change_from_json(_rows.change_to_json(change)) == change


# ---------------------------------------------------------------------- history
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


@pytest.mark.parametrize("line", ["own", "first"])
@awaited
async def test_u3_history_of_either_shows_the_whole_lineage(place: Place, line: str) -> None:
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
        assert [record.sequence for record in await ledger.history(change.memory_id)] == [3]
        assert await ledger.check() == []


def test_entries_compare_without_their_vectors() -> None:
    change = add()
    assert entry(change, "b") == JournalEntry(change=change, batch_id="b", store_identity=STORE, collection="memories")
    assert entry(change, "b").id == change.id
    assert at(0) == START.isoformat(timespec="microseconds")
