"""The contract of ledgers: one writer at a time where scopes overlap, and what kill -9 leaves."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from perdure.backends.ledgers.base import Ledger
from perdure.domain.errors import LedgerError
from perdure.domain.scope import Scope
from tests.contracts.ledgers.ledger_worker import STORE, USER, Place, add, awaited, entry, settle

BOB = Scope(user_id="bob")
ANN_IN_A_RUN = Scope(user_id="ann", run_id="r1")
SOON = 20.0
"""Seconds after which something that should happen at once has failed; the machine may be busy."""


class Track:
    """Who was inside, and whether two were at once."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0
        self.order: list[object] = []

    async def visit(self, ledger: Ledger, scope: Scope, name: object, seconds: float = 0.0) -> None:
        async with ledger.lock(scope):
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.order.append(name)
            await asyncio.sleep(seconds)
            self.inside -= 1


def line_of(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    return worker.stdout.readline().strip()


@awaited
async def test_overlapping_scopes_exclude_each_other_in_the_order_of_coming(place: Place) -> None:
    async with place.opened() as ledger:
        track = Track()
        scopes = [USER, ANN_IN_A_RUN, Scope(), Scope(run_id="r1"), USER, Scope(agent_id="a"), Scope()]
        tasks = []
        for number, scope in enumerate(scopes):
            tasks.append(asyncio.create_task(track.visit(ledger, scope, number, 0.005)))
            await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.gather(*tasks), SOON)
        assert track.most == 1
        assert track.order == list(range(len(scopes)))
        assert (await ledger.stats())["locks"] == 0


@awaited
async def test_scopes_that_do_not_overlap_go_side_by_side(place: Place) -> None:
    async with place.opened() as ledger:
        async with ledger.lock(USER), ledger.lock(BOB), ledger.lock(Scope(user_id="eve", run_id="r1")):
            assert (await ledger.stats())["locks"] == 3
            track = Track()
            waiting = asyncio.create_task(track.visit(ledger, Scope(), "everything"))
            await asyncio.sleep(0.05)
            assert track.order == []
        await asyncio.wait_for(waiting, SOON)


@awaited
async def test_nobody_overtakes_one_who_waits_for_everything(place: Place) -> None:
    async with place.opened() as ledger:
        track = Track()
        async with ledger.lock(USER):
            everything = asyncio.create_task(track.visit(ledger, Scope(), "everything"))
            await asyncio.sleep(0.02)
            later = asyncio.create_task(track.visit(ledger, BOB, "later"))
            await asyncio.sleep(0.02)
            assert track.order == []
        await asyncio.wait_for(asyncio.gather(everything, later), SOON)
        assert track.order == ["everything", "later"]


@awaited
async def test_two_handles_in_one_process_share_the_lock(place: Place) -> None:
    async with place.opened() as one, place.opened() as two:
        track = Track()
        await asyncio.wait_for(
            asyncio.gather(*(track.visit(ledger, USER, n, 0.002) for n in range(10) for ledger in (one, two))), SOON
        )
        assert track.most == 1
        assert len(track.order) == 20


def test_threads_with_loops_of_their_own_share_the_lock(place: Place) -> None:
    ledger = place.handle()
    asyncio.run(ledger.open())
    track = Track()

    async def several(name: int) -> None:
        for number in range(10):
            await track.visit(ledger, USER, (name, number), 0.001)

    threads = [threading.Thread(target=lambda name=name: asyncio.run(several(name))) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive()
    assert track.most == 1
    assert len(track.order) == 40
    asyncio.run(ledger.close())


@awaited
async def test_waiters_of_one_process_do_not_burden_the_database(place: Place) -> None:
    async with place.opened() as ledger, place.opened() as other:
        track = Track()
        async with ledger.lock(USER):
            tasks = [asyncio.create_task(track.visit(handle, USER, n)) for n in range(5) for handle in (ledger, other)]
            await asyncio.sleep(0.05)
            assert (await ledger.stats())["locks"] == 1
        await asyncio.wait_for(asyncio.gather(*tasks), SOON)
        assert track.most == 1


@awaited
async def test_a_cancelled_waiter_leaves_the_queue(place: Place) -> None:
    async with place.opened() as ledger:
        track = Track()
        async with ledger.lock(USER):
            waiters = [asyncio.create_task(track.visit(ledger, USER, n)) for n in range(3)]
            await asyncio.sleep(0.02)
            waiters[0].cancel()
            waiters[1].cancel()
            await asyncio.sleep(0.02)
        await asyncio.wait_for(asyncio.gather(*waiters, return_exceptions=True), SOON)
        assert track.order == [2]
        assert (await ledger.stats())["locks"] == 0


@awaited
async def test_a_cancelled_holder_gives_the_lock_back(place: Place) -> None:
    async with place.opened() as ledger:
        track = Track()
        for delay in (0.0, 0.0002, 0.0005, 0.001, 0.002, 0.05):
            holder = asyncio.create_task(track.visit(ledger, USER, "cancelled", 60))
            await asyncio.sleep(delay)
            holder.cancel()
            with pytest.raises(asyncio.CancelledError):
                await holder
            await asyncio.wait_for(track.visit(ledger, USER, "next"), SOON)
        assert track.order.count("next") == 6
        assert (await ledger.stats())["locks"] == 0


@awaited
async def test_an_error_under_the_lock_gives_it_back(place: Place) -> None:
    async with place.opened() as ledger:
        with pytest.raises(ZeroDivisionError):
            async with ledger.lock(USER):
                raise ZeroDivisionError
        await asyncio.wait_for(Track().visit(ledger, USER, "next"), SOON)


def test_a_loop_that_ends_under_the_lock_gives_it_back(place: Place) -> None:
    ledger = place.handle()

    async def leave_it_running() -> None:
        await ledger.open()
        track = Track()
        for scope in (USER, USER, BOB):
            task = asyncio.create_task(track.visit(ledger, scope, "forgotten", 60))
            tasks.append(task)
        await asyncio.sleep(0.05)

    async def afterwards() -> None:
        await asyncio.wait_for(Track().visit(ledger, Scope(), "next"), SOON)
        assert (await ledger.stats())["locks"] == 0
        await ledger.close()

    tasks: list[asyncio.Task[None]] = []
    asyncio.run(leave_it_running())
    asyncio.run(afterwards())


@awaited
async def test_a_lock_is_for_one_use_and_needs_an_open_ledger(place: Place) -> None:
    ledger = place.handle()
    with pytest.raises(LedgerError, match="not open"):
        async with ledger.lock(USER):
            pass
    async with place.opened() as ledger:
        lock = ledger.lock(USER)
        async with lock:
            with pytest.raises(LedgerError, match="call lock"):
                async with lock:
                    pass


@awaited
async def test_a_closed_ledger_holds_no_lock(place: Place) -> None:
    one, two = place.handle(), place.handle()
    await one.open()
    await two.open()
    lock = one.lock(USER)
    await lock.__aenter__()
    await one.close()
    assert (await two.stats())["locks"] == 0
    await lock.__aexit__(None, None, None)
    await asyncio.wait_for(Track().visit(two, USER, "next"), SOON)
    await two.close()


@awaited
async def test_entries_left_unapplied_are_reported_to_the_next_who_could_see_them(place: Place) -> None:
    async def stranded(ledger: Ledger, scope: Scope, store: str | None = STORE) -> bool:
        async with ledger.lock(scope, store) as held:
            return held.stranded

    dead, living = place.handle(), place.handle()
    await dead.open()
    await living.open()
    assert not await stranded(living, USER)
    await living.write([entry(add(), "own")])
    assert await stranded(living, ANN_IN_A_RUN), "a call of this owner gave up"
    assert not await stranded(living, BOB), "another call of this owner may be under way there"
    assert not await stranded(dead, BOB), "another living owner's call may be under way there"
    await living.applied("own")
    assert not await stranded(living, USER)
    await dead.write([entry(add(), "left")])
    await dead.close()
    assert await stranded(living, BOB), "the dead do not say what they were about"
    assert not await stranded(living, USER, "store-2")
    assert not await stranded(living, USER, None)
    async with living.lock(Scope()):
        for left in await living.pending(STORE):
            await living.applied(left.batch_id)
    assert not await stranded(living, USER)
    await living.close()


# ---------------------------------------------------------------------- several processes
@awaited
async def test_two_processes_lose_no_update_under_the_lock(place: Place) -> None:
    (place.folder / "number").write_text("0")
    async with place.opened():
        workers = [place.worker("count", "60") for _ in range(2)]
        for worker in workers:
            assert await asyncio.to_thread(line_of, worker) == "ready"
        for worker in workers:
            worker.stdin.write("go\n")
            worker.stdin.flush()
        for worker in workers:
            assert await asyncio.to_thread(line_of, worker) == "done"
            worker.communicate()
            assert worker.wait(SOON) == 0
    assert (place.folder / "number").read_text() == "120"


@awaited
async def test_a_killed_holder_holds_nothing_and_its_work_is_found(place: Place) -> None:
    async with place.opened() as ledger:
        worker = place.worker("hold", "ann")
        assert await asyncio.to_thread(line_of, worker) == "held"
        waiting = asyncio.create_task(ledger.lock(ANN_IN_A_RUN, STORE).__aenter__())
        await asyncio.sleep(0.2)
        assert not waiting.done()
        worker.kill()
        worker.communicate()
        killed = time.monotonic()
        held = await asyncio.wait_for(waiting, SOON)
        assert time.monotonic() - killed < 5.0
        assert held.stranded
        (left,) = await ledger.pending(STORE)
        assert left.change.after.memory == "User was interrupted"
        await ledger.applied(left.batch_id)
    async with place.opened() as ledger:
        assert (await ledger.stats())["locks"] == 0


@awaited
async def test_kill_in_the_middle_of_writes_loses_nothing_acknowledged(place: Place) -> None:
    acknowledged: list[str] = []
    for run in range(6):
        worker = place.worker("churn", f"run{run}")
        lines: list[str] = [await asyncio.to_thread(line_of, worker)]
        threading.Timer(0.03 + 0.037 * run, worker.kill).start()
        rest, _ = await asyncio.to_thread(worker.communicate)
        lines += [line for line in rest.split("\n") if line]
        acknowledged += [line.split()[1] for line in lines if line.startswith("written ") and len(line.split()) == 2]
    async with place.opened() as ledger:
        assert await ledger.check() == []
        left: dict[str, int] = {}
        for item in await ledger.pending(STORE):
            left[item.batch_id] = left.get(item.batch_id, 0) + 1
        assert set(left.values()) <= {3}, "a batch is whole"
        for batch in left:
            await ledger.applied(batch)
        history = await ledger.events_of_scope(USER, limit=100_000)
        told: dict[str, int] = {}
        for record in history:
            told[record.new_value] = told.get(record.new_value, 0) + 1
        assert set(told.values()) == {3}
        assert {f"User said {batch}" for batch in acknowledged} <= set(told)
        kept = await ledger.get_episodes([f"episode-{batch}" for batch in acknowledged])
        assert [item.content for item in kept] == acknowledged
        assert len(acknowledged) >= 6


@awaited
async def test_two_processes_writing_at_once_keep_one_order(place: Place) -> None:
    async with place.opened() as ledger:
        worker = place.worker("churn", "other")
        assert (await asyncio.to_thread(line_of, worker)).startswith("written")
        until = time.monotonic() + SOON
        mine = theirs = 0
        while (mine < 2 or theirs < 30) and time.monotonic() < until:
            await settle(ledger, add("mine"))
            mine += 1
            theirs = sum(record.new_value != "mine" for record in await ledger.events_of_scope(USER, limit=100_000))
        worker.kill()
        worker.communicate()
        records = await ledger.events_of_scope(USER, limit=100_000)
        assert sum(record.new_value == "mine" for record in records) > 1
        assert sum(record.new_value != "mine" for record in records) >= 30
        sequences = [record.sequence for record in records]
        assert len(sequences) == len(set(sequences))
        assert sequences == sorted(sequences)
        assert await ledger.check() == []


def test_exit_without_closing_does_not_hang(place: Place) -> None:
    code = (
        "import asyncio, sys; from pathlib import Path; from tests.contracts.ledgers.ledger_worker import Place, USER;"
        f"place = Place({place.provider!r}, Path({str(place.folder)!r})); ledger = place.handle();"
        "asyncio.run(ledger.open()); asyncio.run(ledger.lock(USER).__aenter__()); print('leaving')"
    )
    run = [sys.executable, "-c", code]
    root = Path(__file__).parents[3]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False, cwd=root)
    # The tests' server does without fsync, which a ledger says.
    said = [line for line in done.stderr.splitlines() if not line.endswith("does not survive power loss")]
    assert (done.returncode, done.stdout, said) == (0, "leaving\n", [])
