"""The queue against a model of it: any order of putting in, taking, failing, dying, erasing."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from perdure.backends.ledgers.base import Ledger
from perdure.domain.clock import iso
from perdure.domain.job import Job, QueueStatus
from perdure.domain.scope import Scope
from tests.contracts.ledgers.ledger_desk import KINDS, job
from tests.contracts.ledgers.ledger_worker import USER, Place, add, entry

pytestmark = pytest.mark.covers("X62", "X64")

HANDLES = st.sampled_from([0, 1])
MEMORIES = ("m1", "m2", "m3")
SCOPES = (USER, Scope(user_id="ann", run_id="r1"), Scope(user_id="bob"))
ASKED = st.sampled_from([None, Scope(), *SCOPES, Scope(run_id="r1")])
DRAWN = st.builds(
    lambda memory, kind, scope, wait: (memory, kind, scope, wait),
    st.sampled_from(MEMORIES),
    st.sampled_from(KINDS),
    st.sampled_from(SCOPES),
    st.sampled_from([None, None, 0, 5]),
)
SOME_KINDS = st.sampled_from([KINDS, KINDS[:1], KINDS[1:]])


@dataclass
class Kept:
    job: Job
    not_before: str
    created_at: str
    batch: str | None
    state: str = "pending"
    owner: int | None = None
    attempts: int = 0
    error: str | None = None

    @property
    def line(self) -> tuple[str, str]:
        return self.job.memory_id, self.job.kind


class Queue(RuleBasedStateMachine):
    """Two handles of one ledger; each opening is an owner, which dies when the handle is closed."""

    provider = ""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.place = Place(self.provider, Path(self.folder.name))
        self.handles: list[Ledger] = [self.place.handle(), self.place.handle()]
        self.fresh = count(1)
        self.owners = [0, 0]
        self.queue: list[Kept] = []
        self.batches: set[str] = set()
        for number in (0, 1):
            self.open(number)

    def run(self, coroutine):
        return self.runner.run(coroutine)

    def open(self, number: int) -> None:
        self.run(self.handles[number].open())
        self.owners[number] = next(self.fresh)

    def teardown(self) -> None:
        for handle in self.handles:
            self.run(handle.close())
        self.runner.close()
        self.folder.cleanup()

    # ------------------------------------------------------------------ the model
    @property
    def now(self) -> str:
        return iso(self.place.now)

    def make(self, drawn: list[tuple], batch: str | None = None) -> list[Job]:
        made = []
        for memory, kind, scope, wait in drawn:
            moment = "" if wait is None else iso(self.place.now + timedelta(seconds=wait))
            made.append(job(memory, kind, scope, not_before=moment))
            self.queue.append(Kept(made[-1], moment or self.now, self.now, batch))
        return made

    def waits(self, kept: Kept) -> bool:
        """Whether it is nobody's who lives."""
        return kept.state == "pending" or (kept.state == "processing" and kept.owner not in self.owners)

    def asked(self, kinds: tuple[str, ...], scope: Scope | None = None) -> list[Kept]:
        walls = scope or Scope()
        return [
            kept for kept in self.queue if kept.batch is None and kept.job.kind in kinds and walls.holds(kept.job.scope)
        ]

    def busy(self) -> set[tuple[str, str]]:
        return {kept.line for kept in self.queue if kept.state == "processing" and not self.waits(kept)}

    def mine(self, number: int) -> list[Kept]:
        return [kept for kept in self.queue if kept.state == "processing" and kept.owner == self.owners[number]]

    # ------------------------------------------------------------------ coming
    @rule(number=HANDLES, drawn=st.lists(DRAWN, min_size=1, max_size=4))
    def put_in(self, number: int, drawn: list[tuple]) -> None:
        self.run(self.handles[number].jobs.add(self.make(drawn)))

    @rule(number=HANDLES, drawn=st.lists(DRAWN, min_size=1, max_size=3))
    def write(self, number: int, drawn: list[tuple]) -> None:
        batch = f"b{next(self.fresh)}"
        self.batches.add(batch)
        self.run(self.handles[number].write([entry(add(), batch)], jobs=self.make(drawn, batch)))

    @precondition(lambda self: self.batches)
    @rule(number=HANDLES, data=st.data(), applied=st.booleans())
    def end_batch(self, number: int, data: st.DataObject, applied: bool) -> None:
        batch = data.draw(st.sampled_from(sorted(self.batches)))
        self.batches.remove(batch)
        ledger = self.handles[number]
        self.run(ledger.applied(batch) if applied else ledger.abandon(batch))
        if not applied:
            self.queue = [kept for kept in self.queue if kept.batch != batch]
        for kept in self.queue:
            kept.batch = None if kept.batch == batch else kept.batch

    # ------------------------------------------------------------------ going
    @rule(number=HANDLES, kinds=SOME_KINDS, limit=st.integers(1, 4), scope=ASKED)
    def take(self, number: int, kinds: tuple[str, ...], limit: int, scope: Scope | None) -> None:
        taken = self.run(self.handles[number].jobs.take(kinds, limit, scope))
        busy = self.busy()
        expected: list[Kept] = []
        for kept in self.asked(kinds, scope):
            if len(expected) < limit and self.waits(kept) and kept.not_before <= self.now and kept.line not in busy:
                busy.add(kept.line)
                expected.append(kept)
        assert [each.id for each in taken] == [kept.job.id for kept in expected]
        for kept, each in zip(expected, taken, strict=True):
            kept.state, kept.owner = "processing", self.owners[number]
            assert (each.state, each.attempts, each.error) == ("processing", kept.attempts, kept.error)
            assert (each.memory_id, each.kind, each.scope) == (*kept.line, kept.job.scope)
            assert (each.not_before, each.created_at) == (kept.not_before, kept.created_at)

    @precondition(lambda self: self.queue)
    @rule(number=HANDLES, data=st.data())
    def finish(self, number: int, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from([kept.job.id for kept in self.queue]), max_size=5))
        self.run(self.handles[number].jobs.done(chosen))
        gone = [kept for kept in self.mine(number) if kept.job.id in chosen]
        self.queue = [kept for kept in self.queue if kept not in gone]

    @precondition(lambda self: self.queue)
    @rule(number=HANDLES, data=st.data(), park=st.booleans(), wait=st.integers(-1, 6))
    def fail(self, number: int, data: st.DataObject, park: bool, wait: int) -> None:
        chosen = data.draw(st.sampled_from([kept.job.id for kept in self.mine(number) or self.queue]))
        moment = iso(self.place.now + timedelta(seconds=wait))
        self.run(self.handles[number].jobs.failed(chosen, "a reason", not_before=moment, park=park))
        for kept in self.mine(number):
            if kept.job.id == chosen:
                kept.state, kept.owner = "failed" if park else "pending", None
                kept.attempts, kept.error, kept.not_before = kept.attempts + 1, "a reason", moment

    @precondition(lambda self: self.queue)
    @rule(number=HANDLES, data=st.data(), wait=st.integers(-1, 6))
    def give_back(self, number: int, data: st.DataObject, wait: int) -> None:
        chosen = data.draw(st.lists(st.sampled_from([kept.job.id for kept in self.queue]), max_size=5))
        moment = iso(self.place.now + timedelta(seconds=wait))
        self.run(self.handles[number].jobs.give_back(chosen, not_before=moment))
        for kept in self.mine(number):
            if kept.job.id in chosen:
                kept.state, kept.owner, kept.not_before = "pending", None, moment

    @rule(number=HANDLES, kinds=SOME_KINDS)
    def revive(self, number: int, kinds: tuple[str, ...]) -> None:
        put_off = [
            kept
            for kept in self.asked(kinds)
            if kept.state == "failed" or (kept.state == "pending" and kept.not_before > self.now)
        ]
        assert self.run(self.handles[number].jobs.revive(kinds)) == len(put_off)
        for kept in put_off:
            kept.state, kept.attempts, kept.error, kept.not_before = "pending", 0, None, self.now

    @rule(number=HANDLES)
    def die(self, number: int) -> None:
        self.run(self.handles[number].close())
        self.open(number)

    @rule(number=HANDLES, memories=st.lists(st.sampled_from(MEMORIES), max_size=2, unique=True), erase=st.booleans())
    def erase(self, number: int, memories: list[str], erase: bool) -> None:
        gone = [kept for kept in self.queue if kept.job.memory_id in memories]
        ledger = self.handles[number]
        assert self.run(ledger.count_places(memories, []))["jobs"] == len(gone)
        counted = self.run(ledger.erase(memories, []))["jobs"] if erase else self.run(ledger.jobs.remove(memories))
        assert counted == len(gone)
        self.queue = [kept for kept in self.queue if kept not in gone]

    @rule(seconds=st.sampled_from([1, 5]))
    def tick(self, seconds: int) -> None:
        self.place.now += timedelta(seconds=seconds)

    # ------------------------------------------------------------------ looking
    @invariant()
    def the_status_is_the_models(self) -> None:
        for kinds, scope in ((KINDS, None), (KINDS[:1], SCOPES[0])):
            seen = self.asked(kinds, scope)
            waiting = [kept for kept in seen if self.waits(kept)]
            parked = [kept for kept in seen if kept.state == "failed"]
            assert self.run(self.handles[0].jobs.status(kinds, scope)) == QueueStatus(
                pending=len(waiting),
                processing=len(seen) - len(waiting) - len(parked),
                failed=len(parked),
                oldest_pending_at=min((kept.created_at for kept in waiting), default=None),
                by_kind={kind: sum(kept.job.kind == kind for kept in seen) for kind in kinds},
            )

    @invariant()
    def what_is_due_next_is_the_models(self) -> None:
        free = [kept for kept in self.asked(KINDS) if self.waits(kept) and kept.line not in self.busy()]
        expected = min((kept.not_before for kept in free), default=None)
        assert self.run(self.handles[1].jobs.next_due(KINDS)) == expected

    @invariant()
    def nothing_disagrees(self) -> None:
        assert self.run(self.handles[1].check()) == []
        assert self.run(self.handles[1].stats())["jobs"] == len(self.queue)


@pytest.mark.covers("X62")
def test_the_queue_agrees_with_its_model(ledger_provider: str) -> None:
    machine = type("QueueOfProvider", (Queue,), {"provider": ledger_provider})
    # What differs between providers are transactions, not rules; each call of a server's takes a hundred times longer.
    examples = 3 if ledger_provider == "postgres" else 15
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=30, deadline=None))
