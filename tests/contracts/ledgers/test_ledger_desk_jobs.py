"""The contract of ledgers: jobs that follow changes, held by every provider."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure.backends.ledgers.base import Remembered
from perdure.domain.clock import iso
from perdure.domain.errors import InvalidInputError, LedgerError
from perdure.domain.job import Job, QueueStatus
from perdure.domain.scope import Scope
from tests.contracts.ledgers.ledger_desk import KINDS, ids_taken, job, numbers
from tests.contracts.ledgers.ledger_worker import START, USER, Place, add, at, awaited, entry, episode, settle

pytestmark = pytest.mark.covers("U4", "X61", "X62", "X63", "X64")

BOB = Scope(user_id="bob")
ANN_IN_A_RUN = Scope(user_id="ann", run_id="r1")


# ---------------------------------------------------------------------- coming
@awaited
async def test_a_closed_ledger_has_no_desk(place: Place) -> None:
    ledger = place.handle()
    for asked in (ledger.jobs.take(KINDS, 1), ledger.jobs.add([job()]), ledger.keys.any(), ledger.audit.list("t")):
        with pytest.raises(LedgerError, match="not open"):
            await asked


@pytest.mark.covers("X62")
@awaited
async def test_jobs_can_be_taken_once_their_batch_is_applied(place: Place) -> None:
    async with place.opened() as ledger:
        change = add()
        follows = job(change.memory_id, payload={"entities": ["Ána", {"n": 1.5, "none": None}]})
        await ledger.write([entry(change, "b")], jobs=[follows])
        assert await ids_taken(ledger) == []
        assert await numbers(ledger) == (0, 0, 0)
        assert await ledger.jobs.next_due(KINDS) is None
        assert await ledger.jobs.revive(KINDS) == 0
        await ledger.applied("b")
        assert await ledger.jobs.next_due(KINDS) == at(0)
        assert await ledger.jobs.take(KINDS, 5) == [
            Job(
                id=follows.id,
                kind="entities",
                memory_id=change.memory_id,
                scope=USER,
                payload={"entities": ["Ána", {"n": 1.5, "none": None}]},
                state="processing",
                not_before=at(0),
                created_at=at(0),
            )
        ]
        await ledger.jobs.done([follows.id])
        await ledger.applied("b")
        assert await ids_taken(ledger) == [], "applied a second time, it brings nothing back"
        assert await ledger.check() == []


@awaited
async def test_jobs_go_with_an_abandoned_batch(place: Place) -> None:
    async with place.opened() as ledger:
        await ledger.write([entry(add(), "b")], [episode(id="e")], Remembered("k", USER, "x"), [job(), job("m2")])
        other = job("m3")
        await ledger.write([entry(add(), "other")], jobs=[other])
        assert (await ledger.stats())["jobs"] == 3
        await ledger.abandon("b")
        assert (await ledger.stats())["jobs"] == 1
        await ledger.applied("other")
        assert await ids_taken(ledger) == [other.id]


@awaited
async def test_jobs_without_a_journal_can_be_taken_at_once(place: Place) -> None:
    async with place.opened() as ledger:
        recorded, alone, added = job("m1"), job("m2"), job("m3")
        await ledger.record([add()], jobs=[recorded])
        await ledger.write([], [episode()], jobs=[alone])
        await ledger.jobs.add([added, added])
        await ledger.jobs.add([recorded])
        assert await ids_taken(ledger) == [recorded.id, alone.id, added.id]


@awaited
async def test_a_write_that_fails_leaves_no_job_and_a_job_that_fails_no_write(place: Place) -> None:
    async with place.opened() as ledger:
        with pytest.raises(InvalidInputError, match="batch_id"):
            await ledger.write([entry(add(), "a"), entry(add(), "b")], jobs=[job()])
        for bad, field in (
            (job(payload={"x": {1, 2}}), "payload"),
            (job(payload={"x": float("nan")}), "payload"),
            (job(not_before="soon"), "not_before"),
        ):
            with pytest.raises(InvalidInputError, match=field) as caught:
                await ledger.write([entry(add(), "c")], [episode(id="e")], jobs=[job(), bad])
            assert caught.value.field == field
            with pytest.raises(InvalidInputError, match=field):
                await ledger.record([add()], jobs=[bad])
        stats = await ledger.stats()
        assert (stats["written"], stats["history"], stats["jobs"], stats["episodes"]) == (0, 0, 0, 0)


# ---------------------------------------------------------------------- going
@awaited
async def test_take_gives_the_oldest_of_the_kinds_first_and_no_more_than_asked(place: Place) -> None:
    async with place.opened() as ledger:
        jobs = [job(f"m{n}", kind=("entities", "temporal", "summary")[n % 3]) for n in range(7)]
        for each in jobs:
            await ledger.jobs.add([each])
        assert await ledger.jobs.take([], 5) == []
        assert [each.id for each in await ledger.jobs.take(["temporal"], 1)] == [jobs[1].id]
        assert await ids_taken(ledger, 3) == [jobs[0].id, jobs[3].id, jobs[4].id]
        assert await ids_taken(ledger) == [jobs[6].id]
        assert [each.id for each in await ledger.jobs.take(["summary"], 5)] == [jobs[2].id, jobs[5].id]
        for limit in (0, -1):
            with pytest.raises(InvalidInputError, match="limit"):
                await ledger.jobs.take(KINDS, limit)


@awaited
async def test_of_one_memory_and_kind_one_is_done_at_a_time(place: Place) -> None:
    async with place.opened() as one, place.opened() as two:
        first, second, third = job("m"), job("m"), job("m")
        other, elsewhere = job("m", "temporal"), job("n")
        await one.jobs.add([first, second, third, other, elsewhere])
        assert await ids_taken(one) == [first.id, other.id, elsewhere.id]
        assert await ids_taken(one) == []
        assert await ids_taken(two) == []
        assert await two.jobs.next_due(KINDS) is None, "nobody would be given anything, now or later by the clock"
        later = job("o")
        await two.jobs.add([later])
        assert await ids_taken(two) == [later.id]
        await one.jobs.done([first.id])
        assert await two.jobs.next_due(KINDS) == at(0)
        assert await ids_taken(two) == [second.id]
        await two.jobs.failed(second.id, "no", not_before=at(60), park=False)
        assert await ids_taken(one) == [third.id], "the level counts: a later one need not wait for a moment to come"
        place.now = START + timedelta(seconds=61)
        assert await ids_taken(two) == []
        await one.jobs.done([third.id])
        assert await ids_taken(two) == [second.id]
        assert await one.check() == []


@awaited
async def test_a_scope_gives_what_a_call_of_it_could_see(place: Place) -> None:
    async with place.opened() as ledger:
        scopes = [USER, ANN_IN_A_RUN, BOB, Scope(team_id="t", project_id="p")]
        jobs = [job(f"m{n}", scope=scope) for n, scope in enumerate(scopes)]
        await ledger.jobs.add(jobs)
        for asked in (USER, ANN_IN_A_RUN, BOB, Scope(project_id="p"), Scope(run_id="r2"), Scope()):
            seen = [each.id for each, scope in zip(jobs, scopes, strict=True) if asked.holds(scope)]
            assert await numbers(ledger, asked) == (len(seen), 0, 0)
            taken = await ledger.jobs.take(KINDS, 10, asked)
            assert [each.id for each in taken] == seen
            assert all(asked.holds(each.scope) for each in taken)
            await ledger.jobs.give_back(seen, not_before=at(0))


@awaited
async def test_what_waits_outside_of_a_scope_holds_up_nothing_inside(place: Place) -> None:
    async with place.opened() as ledger:
        outside, inside = job("m", scope=BOB), job("m", scope=USER)
        await ledger.jobs.add([outside, inside])
        assert await ids_taken(ledger, scope=USER) == [inside.id]
        assert await ids_taken(ledger, scope=BOB) == [], "but while one is being done, the other waits"


# ---------------------------------------------------------------------- ends
@pytest.mark.covers("X62")
@awaited
async def test_a_failed_try_is_counted_waits_and_is_parked_at_last(place: Place) -> None:
    async with place.opened() as ledger:
        each = job(not_before="2026-03-01T10:00:05+01:00")
        await ledger.jobs.add([each])
        assert await ids_taken(ledger) == []
        assert await ledger.jobs.next_due(KINDS) == at(5)
        place.now = START + timedelta(seconds=5)
        assert await ids_taken(ledger) == [each.id]
        await ledger.jobs.failed(each.id, "the model said\n  nothing", not_before=at(9.5), park=False)
        assert await numbers(ledger) == (1, 0, 0)
        assert await ids_taken(ledger) == []
        assert await ledger.jobs.next_due(KINDS) == at(9.5)
        place.now = START + timedelta(seconds=9.5)
        (again,) = await ledger.jobs.take(KINDS, 1)
        assert (again.attempts, again.error) == (1, "the model said nothing")
        await ledger.jobs.failed(each.id, "again", not_before=at(0), park=True)
        assert await numbers(ledger) == (0, 0, 1)
        assert (await ids_taken(ledger), await ledger.jobs.next_due(KINDS)) == ([], None)
        assert (await ledger.stats())["parked"] == 1
        assert await ledger.jobs.revive(["temporal"]) == 0
        assert await ledger.jobs.revive(KINDS) == 1
        (revived,) = await ledger.jobs.take(KINDS, 1)
        assert (revived.attempts, revived.error, revived.created_at) == (0, None, at(0))
        assert revived.not_before == iso(place.now)
        assert await ledger.check() == []


@pytest.mark.covers("X62")
@awaited
async def test_what_is_given_back_counts_no_try_and_is_revived_when_the_graph_is_back(place: Place) -> None:
    async with place.opened() as ledger:
        jobs = [job(f"m{n}") for n in range(3)]
        await ledger.jobs.add(jobs)
        assert len(await ids_taken(ledger, 2)) == 2
        await ledger.jobs.give_back([jobs[0].id, jobs[1].id], not_before=at(60))
        assert await ledger.jobs.next_due(KINDS) == at(0)
        assert await ids_taken(ledger) == [jobs[2].id]
        due = job("m3")
        await ledger.jobs.add([due])
        assert await ledger.jobs.revive(KINDS) == 2, "what is being done, or due anyway, is left alone"
        back = await ledger.jobs.take(KINDS, 5)
        assert [(each.id, each.attempts) for each in back] == [(jobs[0].id, 0), (jobs[1].id, 0), (due.id, 0)]
        for wrong in ("", "later"):
            with pytest.raises(InvalidInputError, match="not_before"):
                await ledger.jobs.give_back([jobs[0].id], not_before=wrong)
            with pytest.raises(InvalidInputError, match="not_before"):
                await ledger.jobs.failed(jobs[0].id, "x", not_before=wrong, park=False)
        assert await numbers(ledger) == (0, 4, 0)


@awaited
async def test_only_who_has_a_job_can_end_it(place: Place) -> None:
    async with place.opened() as one, place.opened() as two:
        taken, waiting = job("m1"), job("m2")
        await one.jobs.add([taken])
        assert await ids_taken(one) == [taken.id]
        await one.jobs.add([waiting])
        await two.jobs.done([taken.id, waiting.id, "unknown"])
        await two.jobs.give_back([taken.id], not_before=at(0))
        await two.jobs.failed(taken.id, "not mine", not_before=at(0), park=True)
        await one.jobs.done([waiting.id])
        assert await numbers(two) == (1, 1, 0)
        await one.jobs.done([taken.id])
        assert await numbers(two) == (1, 0, 0)


@awaited
async def test_jobs_of_an_owner_who_has_left_are_taken_over(place: Place) -> None:
    async with place.opened() as heir:
        dead = place.handle()
        await dead.open()
        first, second, late = job("m"), job("m"), job("n")
        await dead.jobs.add([first, second])
        assert await ids_taken(dead) == [first.id]
        await dead.jobs.give_back([first.id], not_before=at(30))
        assert await ids_taken(dead) == [second.id], "so that the later one of the two is left behind"
        await heir.jobs.add([late])
        assert await ids_taken(heir) == [late.id]
        await dead.close()
        assert await heir.jobs.next_due(KINDS) == at(0)
        assert await numbers(heir) == (2, 1, 0), "nobody alive is doing it"
        place.now = START + timedelta(seconds=30)
        assert await ids_taken(heir) == [first.id]
        await heir.jobs.done([first.id])
        (over,) = await heir.jobs.take(KINDS, 5)
        assert (over.id, over.attempts) == (second.id, 0)
        await dead.open()
        await dead.jobs.done([second.id])
        assert await numbers(dead) == (0, 2, 0), "its next opening is another owner"
        await dead.close()
        assert await heir.check() == []


# ---------------------------------------------------------------------- looking
@pytest.mark.covers("X64")
@awaited
async def test_the_status_of_the_queue(place: Place) -> None:
    async with place.opened() as ledger:
        nothing = QueueStatus(
            pending=0, processing=0, failed=0, oldest_pending_at=None, by_kind=dict.fromkeys(KINDS, 0)
        )
        assert await ledger.jobs.status(KINDS) == nothing
        parked, taken = job("m1"), job("m2", "temporal")
        await ledger.jobs.add([parked, taken, job("m0", "summary")])
        assert len(await ids_taken(ledger)) == 2
        await ledger.jobs.failed(parked.id, "x", not_before=at(0), park=True)
        place.now = START + timedelta(seconds=7)
        await ledger.jobs.add([job("m3", scope=BOB, not_before=at(100))])
        place.now = START + timedelta(seconds=8)
        await ledger.jobs.add([job("m4")])
        assert await ledger.jobs.status(KINDS) == QueueStatus(
            pending=2, processing=1, failed=1, oldest_pending_at=at(7), by_kind={"entities": 3, "temporal": 1}
        )
        assert await ledger.jobs.status(["entities"], USER) == QueueStatus(
            pending=1, processing=0, failed=1, oldest_pending_at=at(8), by_kind={"entities": 2}
        )


# ---------------------------------------------------------------------- erasure
@pytest.mark.covers("U4")
@awaited
async def test_erasing_a_memory_takes_its_jobs_of_every_state(place: Place) -> None:
    async with place.opened() as ledger:
        gone, stays = add("gone"), add("stays")
        taken, parked, other = job(gone.memory_id, "temporal"), job(gone.memory_id), job(stays.memory_id)
        await ledger.jobs.add([taken, parked, other])
        assert len(await ids_taken(ledger)) == 3
        await ledger.jobs.failed(parked.id, "x", not_before=at(0), park=True)
        await ledger.write([entry(gone, "b"), entry(stays, "b")], jobs=[job(gone.memory_id), job(stays.memory_id)])
        assert (await ledger.count_places([gone.memory_id], []))["jobs"] == 3
        assert (await ledger.stats())["jobs"] == 5
        assert (await ledger.erase([gone.memory_id], []))["jobs"] == 3
        assert (await ledger.erase([gone.memory_id], []))["jobs"] == 0
        await ledger.jobs.done([taken.id, other.id])
        assert await numbers(ledger) == (0, 0, 0)
        await ledger.applied("b")
        assert [each.memory_id for each in await ledger.jobs.take(KINDS, 5)] == [stays.memory_id]
        assert await ledger.jobs.remove([stays.memory_id, "unknown"]) == 1
        assert (await ledger.stats())["jobs"] == 0


@pytest.mark.covers("U4")
@awaited
async def test_a_job_is_not_left_waiting_for_a_batch_that_is_erased(place: Place) -> None:
    async with place.opened() as ledger:
        gone = add("gone")
        other = job("another memory")
        await ledger.write([entry(gone, "b")], jobs=[other])
        await ledger.erase([gone.memory_id], [])
        assert await ledger.check() == []
        assert await ids_taken(ledger) == [other.id]


@awaited
async def test_reset_clears_the_queue(place: Place) -> None:
    async with place.opened() as ledger:
        await settle(ledger, add())
        first = job()
        await ledger.jobs.add([first, job("m2")])
        assert len(await ids_taken(ledger, 1)) == 1
        async with ledger.lock(Scope()):
            await ledger.reset()
        assert await numbers(ledger) == (0, 0, 0)
        await ledger.jobs.done([first.id])
        again = job()
        await ledger.jobs.add([again])
        assert await ids_taken(ledger) == [again.id]
        assert await ledger.check() == []


@awaited
async def test_a_long_queue_of_one_memory_gives_one_job_and_the_others_too(place: Place) -> None:
    async with place.opened() as ledger:
        many = [job("busy") for _ in range(1500)]
        last = [job(f"m{n}") for n in range(700)]
        await ledger.jobs.add([*many, *last])
        assert await ids_taken(ledger, 2) == [many[0].id, last[0].id]
        await ledger.jobs.done([many[0].id, last[0].id])
        assert await ids_taken(ledger, 1000) == [many[1].id, *(each.id for each in last[1:])]
        await ledger.jobs.done([each.id for each in [*many, *last]])
        assert await numbers(ledger) == (1498, 0, 0)
