"""The contract of ledgers: the feed of rows that may have changed, held by every provider."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from perdure.backends.ledgers.base import Ledger, Mark, Touched
from perdure.domain.event import HistoryRecord
from perdure.domain.memory import new_id
from perdure.domain.scope import Scope
from tests.contracts.ledgers.ledger_worker import USER, Place, add, at, awaited, entry, episode, remove, settle, update

BOB = Scope(user_id="bob")


async def mark_of(ledger: Ledger, scope: Scope = USER) -> Mark:
    found = await ledger.touched(scope)
    assert (found.written, found.gone, found.reset) == ((), (), False), "without a mark only the mark of now"
    return found.mark


def told(found: Touched) -> tuple[set[str], set[str]]:
    assert not found.reset
    assert set(found.written).isdisjoint(found.gone)
    return set(found.written), set(found.gone)


@awaited
async def test_an_empty_ledger_has_a_mark_and_tells_nothing(place: Place) -> None:
    async with place.opened() as ledger:
        mark = await mark_of(ledger)
        assert mark == Mark(0, 0)
        assert await ledger.touched(USER, mark) == Touched(mark, (), ())


@awaited
async def test_a_mark_without_since_tells_nothing_of_what_was_before(place: Place) -> None:
    async with place.opened() as ledger:
        before = add()
        await settle(ledger, before)
        mark = await mark_of(ledger)
        after = add("User likes coffee")
        await settle(ledger, after)
        assert told(await ledger.touched(USER, mark)) == ({after.memory_id}, set())
        assert told(await ledger.touched(USER, Mark(0, 0))) == ({before.memory_id, after.memory_id}, set())


@awaited
async def test_what_was_told_is_not_told_again(place: Place) -> None:
    async with place.opened() as ledger:
        mark = await mark_of(ledger)
        await settle(ledger, add())
        await ledger.insert_episodes([episode()])
        found = await ledger.touched(USER, mark)
        assert len(found.written) == 2
        assert found.mark > mark
        again = await ledger.touched(USER, found.mark)
        assert (again.written, again.gone, again.mark) == ((), (), found.mark)


@awaited
async def test_written_and_gone_by_what_happened_last(place: Place) -> None:
    async with place.opened() as ledger:
        kept, changed, deleted = add("kept"), add("changed"), add("deleted")
        await settle(ledger, changed, deleted)
        mark = await mark_of(ledger)
        brought_back = replace(deleted, id=new_id(), undoes="x")
        await settle(ledger, kept, update(changed, "changed too"), remove(deleted))
        assert told(await ledger.touched(USER, mark)) == ({kept.memory_id, changed.memory_id}, {deleted.memory_id})
        await settle(ledger, brought_back)
        assert told(await ledger.touched(USER, mark))[0] == {kept.memory_id, changed.memory_id, deleted.memory_id}
        await settle(ledger, remove(kept))
        written, gone = told(await ledger.touched(USER, mark))
        assert (written, gone) == ({changed.memory_id, deleted.memory_id}, {kept.memory_id})


@awaited
async def test_a_memory_that_was_superseded_is_gone_and_its_successor_written(place: Place) -> None:
    async with place.opened() as ledger:
        old = add("lives in Paris")
        await settle(ledger, old)
        mark = await mark_of(ledger)
        new = replace(update(old, "lives in Rome"), memory_id="new", after=replace(old.item, id="new"))
        await settle(ledger, new)
        assert told(await ledger.touched(USER, mark)) == ({"new"}, {old.memory_id})


@awaited
async def test_messages_are_written_gone_when_hidden_and_back_when_shown(place: Place) -> None:
    async with place.opened() as ledger:
        mark = await mark_of(ledger)
        await ledger.insert_episodes([episode(id="e1"), episode("I had tea", id="e2")])
        first = add()
        await settle(ledger, first)
        assert told(await ledger.touched(USER, mark)) == ({"e1", "e2", first.memory_id}, set())
        gone = remove(first, hides=("e1",))
        await settle(ledger, gone)
        assert told(await ledger.touched(USER, mark)) == ({"e2"}, {"e1", first.memory_id})
        back = replace(first, id=new_id(), hides=("e1",), undoes=gone.id)
        await settle(ledger, back)
        assert told(await ledger.touched(USER, mark)) == ({"e1", "e2", first.memory_id}, set())


@awaited
async def test_a_message_that_was_known_is_not_told_again(place: Place) -> None:
    async with place.opened() as ledger:
        await ledger.insert_episodes([episode(id="e1")])
        mark = await mark_of(ledger)
        await ledger.insert_episodes([episode(id="e1"), episode(id="e2")])
        assert told(await ledger.touched(USER, mark)) == ({"e2"}, set())


# ------------------------------------------------------------------ what is under way


@awaited
async def test_a_batch_that_is_written_and_not_applied_is_told_by_the_next_call(place: Place) -> None:
    async with place.opened() as ledger:
        mark = await mark_of(ledger)
        change = add()
        await ledger.write([entry(change, "b")], [episode(id="e")])
        during = await ledger.touched(USER, mark)
        assert during.mark.change < 1, "the batch is still to come"
        assert "e" in during.written, "the message itself is kept by now"
        await ledger.applied("b")
        after = await ledger.touched(USER, during.mark)
        assert change.memory_id in after.written
        assert (await ledger.touched(USER, after.mark)).written == ()


@awaited
async def test_numbers_that_become_visible_out_of_order_are_not_missed(place: Place) -> None:
    async with place.opened() as ledger:
        mark = await mark_of(ledger)
        slow, quick = add("slow"), add("quick")
        await ledger.write([entry(slow, "slow")])
        await settle(ledger, quick, batch="quick")
        first = await ledger.touched(USER, mark)
        assert quick.memory_id in first.written
        await ledger.applied("slow")
        second = await ledger.touched(USER, first.mark)
        assert slow.memory_id in second.written
        third = await ledger.touched(USER, second.mark)
        assert (third.written, third.gone) == ((), ())


@awaited
async def test_a_first_mark_taken_while_a_batch_is_under_way_does_not_skip_it(place: Place) -> None:
    async with place.opened() as ledger:
        slow = add("slow")
        await ledger.write([entry(slow, "slow")])
        await settle(ledger, add("quick", BOB))
        mark = await mark_of(ledger)
        await ledger.applied("slow")
        assert slow.memory_id in (await ledger.touched(USER, mark)).written


@awaited
async def test_a_batch_that_was_abandoned_is_never_told_and_holds_nobody_up(place: Place) -> None:
    async with place.opened() as ledger:
        mark = await mark_of(ledger)
        refused = add("refused")
        await ledger.write([entry(refused, "b")], [episode(id="e")])
        await ledger.abandon("b")
        after = add("after")
        await settle(ledger, after)
        found = await ledger.touched(USER, mark)
        assert told(found) == ({after.memory_id}, set())
        assert (await ledger.touched(USER, found.mark)).written == ()


@awaited
async def test_whoever_follows_step_by_step_has_seen_all(place: Place) -> None:
    """Twelve writers at once, and a reader that asks again and again with the mark it was given."""
    async with place.opened() as ledger:
        mark = await mark_of(ledger)
        changes = [add(f"fact {number}") for number in range(12)]
        seen: set[str] = set()

        async def follow(mark: Mark, until: asyncio.Event) -> None:
            while True:
                last = until.is_set()
                found = await ledger.touched(USER, mark)
                seen.update(found.written)
                assert found.mark >= mark, "marks never go back"
                mark = found.mark
                if last:
                    return
                await asyncio.sleep(0)

        done = asyncio.Event()
        reader = asyncio.create_task(follow(mark, done))
        await asyncio.gather(*(settle(ledger, change) for change in changes))
        done.set()
        await reader
        assert seen == {change.memory_id for change in changes}


# ------------------------------------------------------------------ walls, openings, other ways in


@awaited
async def test_another_scopes_writes_are_not_told(place: Place) -> None:
    narrow = Scope(user_id="ann", run_id="r1")
    async with place.opened() as ledger:
        mark = await mark_of(ledger)
        mine, inside, other = add("a"), add("b", narrow), add("c", BOB)
        await settle(ledger, mine, inside)
        await settle(ledger, other)
        await ledger.insert_episodes(
            [episode(id="mine"), episode(id="inside", scope=narrow), episode(id="other", scope=BOB)]
        )
        assert told(await ledger.touched(USER, mark))[0] == {mine.memory_id, inside.memory_id, "mine", "inside"}
        assert told(await ledger.touched(narrow, mark))[0] == {inside.memory_id, "inside"}
        assert told(await ledger.touched(BOB, mark))[0] == {other.memory_id, "other"}
        assert told(await ledger.touched(Scope(user_id="ann", run_id="r2"), mark))[0] == set()
        everything = told(await ledger.touched(Scope(), mark))[0]
        assert everything == {mine.memory_id, inside.memory_id, other.memory_id, "mine", "inside", "other"}


@awaited
async def test_two_openings_of_one_ledger_tell_each_other(place: Place) -> None:
    async with place.opened() as one, place.opened() as other:
        mark = await mark_of(one)
        change = add()
        await settle(other, change)
        found = await one.touched(USER, mark)
        assert told(found) == ({change.memory_id}, set())
        assert found.mark == await mark_of(other)
        await settle(one, remove(change))
        assert told(await other.touched(USER, found.mark)) == (set(), {change.memory_id})


@awaited
async def test_history_without_a_journal_and_imported_history_are_told(place: Place) -> None:
    async with place.opened() as ledger:
        mark = await mark_of(ledger)
        recorded = add("recorded")
        await ledger.record([recorded], [episode(id="e")])
        foreign = HistoryRecord(
            id="h1",
            memory_id="m1",
            event="ADD",
            old_value=None,
            new_value="new",
            timestamp=at(-5),
            is_deleted=False,
            user_id="ann",
        )
        await ledger.import_history([foreign, replace(foreign, id="h2", memory_id="m2", event="DELETE")])
        assert told(await ledger.touched(USER, mark)) == ({recorded.memory_id, "e", "m1"}, {"m2"})


@awaited
async def test_what_was_erased_is_never_written(place: Place) -> None:
    async with place.opened() as ledger:
        mark = await mark_of(ledger)
        change = add()
        await settle(ledger, change, remove(change))
        await ledger.insert_episodes([episode(id="e")])
        await ledger.erase([change.memory_id], ["e"])
        found = await ledger.touched(USER, mark)
        assert change.memory_id not in found.written
        assert "e" not in found.written


@awaited
async def test_a_ledger_that_counts_less_than_the_mark_is_another_one(place: Place) -> None:
    async with place.opened() as ledger:
        await settle(ledger, add())
        for mark in (Mark(7, 0), Mark(0, 7)):
            found = await ledger.touched(USER, mark)
            assert found.reset
            assert (found.written, found.gone) == ((), ())
            assert not (await ledger.touched(USER, found.mark)).reset


@awaited
async def test_a_ledger_that_was_cleared_says_so(place: Place) -> None:
    async with place.opened() as ledger:
        await settle(ledger, add())
        mark = await mark_of(ledger)
        async with ledger.lock(Scope()):
            await ledger.reset()
        await settle(ledger, add("after"))
        assert (await ledger.touched(USER, mark)).reset


def test_marks_are_ordered() -> None:
    assert Mark(1, 9) < Mark(2, 0) < Mark(2, 1)
