"""The contract of ledgers: life and journal, held by every provider."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.backends.ledgers.base import Remembered
from perdure.backends.ledgers.sql import tables
from perdure.domain.errors import InvalidInputError, LedgerError
from perdure.domain.event import HistoryRecord
from perdure.domain.memory import TRUTH_LEVELS, VALIDATION_STATUSES, VISIBILITIES, MemoryItem, Slots, Tags
from perdure.domain.scope import Scope
from tests.contracts.ledgers.ledger_worker import (
    STORE,
    USER,
    Place,
    add,
    at,
    awaited,
    entry,
    episode,
    make_item,
    settle,
    update,
)

pytestmark = pytest.mark.covers("U1")


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
async def test_a_batch_that_the_store_has_synced_is_dropped_with_those_before_it(place: Place) -> None:
    async with place.opened() as ledger:
        first = await settle(ledger, add())
        change = add("one of many")
        await ledger.write([entry(change, "bulk"), entry(add("another"), "bulk")])
        await ledger.write([entry(add(), "open")])
        late = await settle(ledger, add())
        await ledger.applied("bulk", [first])
        assert await ledger.unsynced(STORE) == [late], "what the store may not have synced stays"
        assert plain(await ledger.history(change.memory_id)) == [("ADD", None, "one of many")]
        assert (await ledger.stats())["written"] == 1
        with pytest.raises(LedgerError, match="bulk"):
            await ledger.applied("bulk", [])
        await ledger.applied("open", [late, "open"])
        assert await ledger.unsynced(STORE) == []


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
    monkeypatch.setattr("perdure.backends.ledgers.sql.ledger.boot_id", lambda: boot)
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
    monkeypatch.setattr("perdure.backends.ledgers.sql.ledger.boot_id", lambda: "")
    async with place.opened() as ledger:
        applied = await settle(ledger, add())
    async with place.opened() as ledger:
        assert [item.batch_id for item in await ledger.pending(STORE)] == [applied]


@awaited
async def test_what_is_applied_again_is_followed_by_what_was_applied_since(place: Place, monkeypatch) -> None:
    """Owners on several machines: one that died may have left an older text than one that lives has written since."""
    boots = iter(["boot of one machine", "boot of another", "boot of a third"])
    monkeypatch.setattr("perdure.backends.ledgers.sql.ledger.boot_id", lambda: next(boots))
    dying, living, healing = place.handle(), place.handle(), place.handle()
    for handle in (dying, living, healing):
        await handle.open()
    first = add("one")
    before = await settle(living, add("before"))
    older = await settle(dying, first)
    newer = await settle(living, update(first, "two"))
    assert await healing.pending(STORE) == [], "everyone lives"
    await dying.close()
    assert [item.batch_id for item in await healing.pending(STORE)] == [older, newer]
    for batch in (older, newer):
        await healing.applied(batch)
    assert await healing.pending(STORE) == []
    assert await living.unsynced(STORE) == [before, older, newer]
    assert plain(await living.history(first.memory_id)) == [("ADD", None, "one"), ("UPDATE", "one", "two")]
    await living.close()
    await healing.close()


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
TAGS = st.builds(
    Tags,
    visibility=st.sampled_from(VISIBILITIES),
    truth_level=st.sampled_from(TRUTH_LEVELS),
    validation_status=st.sampled_from(VALIDATION_STATUSES),
    written_by=st.none() | st.just("ann"),
)
ITEMS = st.builds(
    make_item,
    TEXT,
    st.builds(Scope, user_id=st.none() | st.text("ab", min_size=1), world_id=st.none() | st.just("w")),
    metadata=st.dictionaries(TEXT, st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT),
    sources=st.lists(TEXT).map(tuple),
    slots=st.none() | st.builds(Slots, TEXT, TEXT, TEXT, st.booleans()),
    confidence=st.none() | st.floats(0, 1),
    older=st.lists(TEXT).map(tuple),
    tags=st.none() | TAGS,
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
    assert tables.change_from_json(tables.change_to_json(change)) == change
