"""The journal against a model of it: any order of writing, applying, syncing, dying and losing power."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from perdure.backends.ledgers.base import Ledger
from perdure.domain.errors import LedgerError
from perdure.domain.event import Change
from perdure.domain.scope import Scope
from tests.contracts.ledgers.ledger_worker import STORE, USER, Place, add, entry, update

HANDLES = st.sampled_from([0, 1])


@dataclass
class Batch:
    name: str
    changes: list[Change]
    owner: int
    boot: str
    state: str = "written"
    place: int = field(default_factory=count().__next__)


class Journal(RuleBasedStateMachine):
    """Two handles of one ledger; each opening is an owner, which dies when the handle is closed."""

    provider = ""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.place = Place(self.provider, Path(self.folder.name))
        self.boot = "boot-0"
        self.patch = patch("perdure.backends.ledgers.sql.ledger.boot_id", lambda: self.boot)
        self.patch.start()
        self.handles: list[Ledger] = [self.place.handle(), self.place.handle()]
        self.owners = [0, 0]
        self.fresh = count(1)
        self.names = count(1)
        self.batches: dict[str, Batch] = {}
        self.history: list[Change] = []
        self.last: Change | None = None
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
        self.patch.stop()
        self.folder.cleanup()

    def some(self, state: str) -> list[Batch]:
        return [batch for batch in self.batches.values() if batch.state == state]

    @rule(number=HANDLES, size=st.integers(1, 3), follow=st.booleans())
    def write(self, number: int, size: int, follow: bool) -> None:
        changes = [add(f"text {index}") for index in range(size)]
        if follow and self.last is not None:
            changes.append(update(self.last, "new text"))
        batch = Batch(f"b{next(self.names)}", changes, self.owners[number], self.boot)
        self.last = changes[-1]
        self.run(self.handles[number].write([entry(change, batch.name) for change in changes]))
        self.batches[batch.name] = batch

    @precondition(lambda self: self.batches)
    @rule(number=HANDLES, data=st.data())
    def apply(self, number: int, data: st.DataObject) -> None:
        batch = self.batches[data.draw(st.sampled_from(sorted(self.batches)))]
        self.run(self.handles[number].applied(batch.name))
        self.note_applied(batch, number)

    def note_applied(self, batch: Batch, number: int) -> None:
        known = {change.id for change in self.history}
        self.history += [change for change in batch.changes if change.id not in known]
        batch.state, batch.owner, batch.boot = "applied", self.owners[number], self.boot

    @precondition(lambda self: self.some("written"))
    @rule(number=HANDLES, data=st.data())
    def apply_and_sync(self, number: int, data: st.DataObject) -> None:
        batch = data.draw(st.sampled_from(sorted(self.some("written"), key=lambda batch: batch.name)))
        named = [other.name for other in self.some("applied")]
        self.run(self.handles[number].applied(batch.name, named))
        self.note_applied(batch, number)
        for name in (batch.name, *named):
            del self.batches[name]

    @precondition(lambda self: self.some("written"))
    @rule(number=HANDLES, data=st.data())
    def abandon(self, number: int, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(batch.name for batch in self.some("written"))))
        self.run(self.handles[number].abandon(name))
        del self.batches[name]
        with pytest.raises(LedgerError, match=name):
            self.run(self.handles[number].applied(name))

    @rule(number=HANDLES, late=st.booleans())
    def sync(self, number: int, late: bool) -> None:
        handle = self.handles[number]
        named = self.run(handle.unsynced(STORE))
        assert named == [batch.name for batch in sorted(self.some("applied"), key=lambda batch: batch.place)]
        if late and self.some("written"):
            self.run(handle.applied(self.some("written")[0].name))
            self.note_applied(self.some("written")[0], number)
        self.run(handle.synced(STORE, named))
        for name in named:
            del self.batches[name]

    @rule(number=HANDLES)
    def die(self, number: int) -> None:
        self.run(self.handles[number].close())
        self.open(number)

    @rule()
    def lose_power(self) -> None:
        for handle in self.handles:
            self.run(handle.close())
        self.boot = f"boot-{next(self.fresh)}"
        for number in (0, 1):
            self.open(number)

    @rule(number=HANDLES, apply=st.booleans())
    def heal(self, number: int, apply: bool) -> None:
        mine, other = self.owners[number], self.owners[1 - number]
        expected = [
            batch
            for batch in sorted(self.batches.values(), key=lambda batch: batch.place)
            if batch.owner != other and (batch.state == "written" or batch.boot != self.boot)
        ]
        again = [batch.place for batch in expected if batch.state == "applied"]
        if again:
            since = [batch for batch in self.some("applied") if batch.place > min(again) and batch not in expected]
            expected = sorted([*expected, *since], key=lambda batch: batch.place)
        found = self.run(self.handles[number].pending(STORE))
        assert [item.change for item in found] == [change for batch in expected for change in batch.changes]
        assert [item.state for item in found] == [batch.state for batch in expected for _ in batch.changes]
        for batch in expected:
            batch.owner = mine
            if apply:
                self.run(self.handles[number].applied(batch.name))
                self.note_applied(batch, number)

    @invariant()
    def every_applied_change_is_history_and_no_other(self) -> None:
        records = self.run(self.handles[0].events_of_scope(USER, limit=10_000))
        assert {record.id for record in records} == {change.id for change in self.history}
        assert len(records) == len(self.history)
        if self.last is not None:
            of_memory = [change for change in self.history if change.memory_id == self.last.memory_id]
            found = self.run(self.handles[1].history(self.last.memory_id))
            assert {record.id for record in found} == {change.id for change in of_memory}

    @invariant()
    def the_lock_says_what_waits(self) -> None:
        async def ask() -> bool:
            async with self.handles[0].lock(Scope(), STORE) as held:
                return held.stranded

        waits = [batch for batch in self.some("written") if batch.owner != self.owners[1]]
        assert self.run(ask()) == bool(waits)

    @invariant()
    def nothing_disagrees(self) -> None:
        assert self.run(self.handles[1].check()) == []
        stats = self.run(self.handles[1].stats())
        assert stats["written"] == sum(len(batch.changes) for batch in self.some("written"))
        assert stats["applied"] == sum(len(batch.changes) for batch in self.some("applied"))


def test_the_journal_agrees_with_its_model(ledger_provider: str) -> None:
    machine = type("JournalOfProvider", (Journal,), {"provider": ledger_provider})
    # What differs between providers are transactions, not rules; each call of a server's takes a hundred times longer.
    examples = 3 if ledger_provider == "postgres" else 15
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=25, deadline=None))
