"""Time held against a model: whatever is added, told, updated, deleted, undone, rolled back and forgotten, in whatever
order and with whatever timestamps, every read of every moment answers as a plain list of intervals does.

The machine speaks with one engine over the in-process store and a real ledger; its curator is as plain as the model's:
"key=value" updates the memory of the same key.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from perdure import ConflictError, MemoryItem, NotFoundError, Scope
from perdure.domain.clock import iso, parse_moment
from perdure.domain.message import Message
from perdure.engine.build import build
from perdure.engine.config.config import read_config
from perdure.engine.requests import LEFT_OUT, Addition, Query, read_forget
from perdure.engine.write import add
from tests.engine.core.adversarial_world import Happened, Line, PlainCurator, State, is_valid, key_of

T = TypeVar("T")

START = datetime(2026, 6, 1, tzinfo=UTC)
MICRO = timedelta(microseconds=1)
BRIEFLY = timedelta(milliseconds=100)
STAMPS = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 2, 3)] + [START + timedelta(days=400)]
"""When things are said to have been told: often at the same moment, and sometimes in the future."""
HOMES = [
    Scope(user_id="ana"),
    Scope(user_id="ana", agent_id="x"),
    Scope(user_id="bo"),
    Scope(user_id="bo", agent_id="x"),
]
VIEWS = [*HOMES, Scope(agent_id="x")]


# ------------------------------------------------------------------ the machine


def is_about(told: datetime, stamp: datetime | None, now: datetime) -> bool:
    """Whether something counts as told at its date, or now where it has none or one that lies ahead."""
    return told == stamp if stamp is not None and stamp <= now else now <= told < now + BRIEFLY


class Machine(RuleBasedStateMachine):
    updates = "in_place"
    store = "memory"

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.clock = START
        config = read_config(
            {
                "path": self.folder.name,
                "embedder": {"provider": "hashed", "config": {"dimensions": 8}},
                "vector_store": {"provider": self.store},
                "updates": self.updates,
                "episodes": "notes",  # the model knows memories; of messages, other tests
            }
        )
        self.engine = build(config, clock=lambda: self.clock)
        self.engine.kernel.curator = PlainCurator()
        self.runner = asyncio.Runner()
        self.lines: list[Line] = []
        self.moments: list[datetime] = [START - timedelta(days=1)]
        self.count = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def step(self) -> datetime:
        """The next moment of the clock; the middle between two steps is a moment at which nothing happens."""
        self.moments.append(self.clock + timedelta(milliseconds=500))
        self.clock += timedelta(seconds=1)
        return self.clock

    def live(self) -> list[Line]:
        return [line for line in self.lines if line.now is not None]

    def happened(self, line: Line, id: str) -> Any:
        """The last record of a line, which the engine has just written, and its moments."""
        record = self.run(self.engine.read.history(id))[-1]
        at, told = parse_moment(record.timestamp), parse_moment(record.told_at)
        assert self.clock <= at < self.clock + BRIEFLY
        self.moments += [told, told - MICRO, told + MICRO, at, at - MICRO]
        return record, at, told

    def ended(self, id: str, now: datetime) -> datetime:
        item = self.run(self.engine.read.get(id))
        assert item is not None and item.valid_to is not None
        until = parse_moment(item.valid_to)
        assert now <= until < now + BRIEFLY
        return until

    def note(self, line: Line, after: State | None, id: str, undoes: str | None = None) -> None:
        record, at, told = self.happened(line, id)
        line.happen(after, told, record.event, at, record.id, undoes)

    # ------------------------------------------------------------------ rules
    @rule(home=st.sampled_from(HOMES), stamp=st.sampled_from([None, *STAMPS]), lives=st.sampled_from([None, 3, 10**6]))
    def add_as_said(self, home: Scope, stamp: datetime | None, lives: int | None) -> None:
        now = self.step()
        self.count += 1
        expires = None if lives is None else now + timedelta(seconds=lives)
        text = f"k{self.count % 3}=said {self.count}"
        addition = Addition(
            messages=[Message("user", text)],
            scope=home,
            infer=False,
            timestamp=stamp,
            expires_at=None if expires is None else iso(expires),
        )
        (event,) = self.run(self.engine.write.add(addition)).results
        line = Line(home)
        self.lines.append(line)
        self.note(line, State(event.id, text, stamp or now, False, expires, None), event.id)
        assert is_about(line.spans[0].told, stamp, now)

    @rule(
        home=st.sampled_from(HOMES),
        key=st.integers(0, 1),
        value=st.integers(0, 5),
        stamp=st.sampled_from([None, *STAMPS]),
    )
    def tell(self, home: Scope, key: int, value: int, stamp: datetime | None) -> None:
        """A message of which the curator makes a fact: new, an update, late, or known."""
        self.told(home, key, value, stamp)

    def told(self, home: Scope, key: int, value: int, stamp: datetime | None) -> None:
        now = self.step()
        told, dated = min(stamp or now, now), stamp or now
        text = f"k{key}={value}"
        known = [
            line.now
            for line in self.live()
            if line.now is not None and home.holds(line.home) and is_valid(line.now, self.clock)
        ]
        result = self.run(
            self.engine.write.add(Addition(messages=[Message("user", text)], scope=home, timestamp=stamp))
        )
        (event,) = result.results
        if any(state.text == text for state in known):
            assert event.event == "NONE"
            return
        same = sorted((state for state in known if key_of(state.text) == key_of(text)), key=lambda state: state.id)
        target = next((line for line in self.lines if same and line.now == same[0]), None)
        if target is None or told < target.spans[-1].told:
            assert event.event == "ADD"
            until = same[0].valid_from if same else None
            if until is not None and until > now:  # what a date ahead says is over as soon as that is told
                until = self.ended(event.id, now)
            line = Line(home)
            self.lines.append(line)
            self.note(line, State(event.id, text, dated, True, None, until), event.id)
            return
        assert event.event == "UPDATE" and (event.id == same[0].id) == (self.updates == "in_place")
        since = dated if same[0].valid_from > now else max(dated, same[0].valid_from)  # a date ahead gives way
        state = replace(same[0], id=event.id, text=text, sure=True, valid_from=since)
        self.note(target, state, event.id)
        assert is_about(target.spans[-1].told, stamp, now)

    @rule(values=st.lists(st.integers(0, 5), min_size=2, max_size=4), stamp=st.sampled_from([None, *STAMPS]))
    def tell_a_story(self, values: list[int], stamp: datetime | None) -> None:
        """One thing after the other about the same matter, the last of them perhaps late."""
        for value in values[:-1]:
            self.told(HOMES[0], 0, value, None)
        self.told(HOMES[0], 0, values[-1], stamp)

    @precondition(lambda self: self.live())
    @rule(which=st.integers(0, 99), same=st.booleans())
    def update(self, which: int, same: bool) -> None:
        line = self.live()[which % len(self.live())]
        assert line.now is not None
        self.step()
        self.count += 1
        text = line.now.text if same else f"k{self.count % 3}=new {self.count}"
        self.run(self.engine.revise.update(line.now.id, text, {}))
        self.note(line, replace(line.now, text=text, sure=True), line.now.id)

    @precondition(lambda self: self.live())
    @rule(which=st.integers(0, 99))
    def delete(self, which: int) -> None:
        line = self.live()[which % len(self.live())]
        assert line.now is not None
        self.step()
        self.run(self.engine.revise.delete(line.now.id))
        self.note(line, None, line.now.id)

    @rule(view=st.sampled_from(VIEWS))
    def delete_all(self, view: Scope) -> None:
        self.step()
        going = [line for line in self.live() if view.holds(line.home)]
        assert self.run(self.engine.revise.delete_all(view)) == len(going)
        for line in going:
            assert line.now is not None
            self.note(line, None, line.now.id)

    @precondition(lambda self: any(line.events for line in self.lines))
    @rule(which=st.integers(0, 99), place=st.integers(0, 99))
    def undo(self, which: int, place: int) -> None:
        lines = [line for line in self.lines if line.events]
        line = lines[which % len(lines)]
        place = place % len(line.events)
        event = line.events[place]
        self.step()
        if line.erased:
            with pytest.raises(ConflictError, match="erased"):
                self.run(self.engine.revise.undo(event.id))
            return
        later = line.standing_after(place)
        if later and not any(each.undoes == event.id for each in later):
            with pytest.raises(ConflictError, match=later[-1].id):
                self.run(self.engine.revise.undo(event.id))
            return
        result = self.run(self.engine.revise.undo(event.id))
        if any(each.undoes == event.id for each in later) or event.before == line.now:
            assert result.results == []
            return
        (made,) = result.results
        self.note(line, event.before, made.id, undoes=event.id)

    @rule(view=st.sampled_from(VIEWS), which=st.integers(0, 999))
    def rollback(self, view: Scope, which: int) -> None:
        to = self.moments[which % len(self.moments)]
        self.step()
        result = self.run(self.engine.revise.rollback(view, to))
        made = {event.id for event in result.results}
        for line in self.lines:
            if not view.holds(line.home) or line.erased:
                continue
            since = [event for event in line.events if event.at > to]
            if since and since[0].before != line.now:
                standing = since[0].before or line.now
                assert standing is not None and standing.id in made
                made.remove(standing.id)
                self.note(line, since[0].before, standing.id)
        assert made == set()

    @precondition(lambda self: self.lines)
    @rule(which=st.integers(0, 99), old=st.integers(0, 99))
    def forget(self, which: int, old: int) -> None:
        """By any id that the line ever had."""
        line = self.lines[which % len(self.lines)]
        self.step()
        ids = [span.state.id for span in line.spans] or [event.after.id for event in line.events if event.after]
        self.run(self.engine.forget(replace(forget_by(None), id=ids[old % len(ids)])))
        self.erase(line)

    @rule(view=st.sampled_from(VIEWS))
    def forget_scope(self, view: Scope) -> None:
        self.step()
        self.run(self.engine.forget(forget_by(view)))
        for line in self.lines:
            if view.holds(line.home):
                self.erase(line)

    def erase(self, line: Line) -> None:
        if line.now is not None:
            assert line.now is not None
            record = self.run(self.engine.read.history(line.now.id))[-1]
            line.events.append(Happened(record.id, "DELETE", self.clock, line.now, None))
        line.spans, line.erased = [], True

    # ------------------------------------------------------------------ what must hold
    @invariant()
    def the_present(self) -> None:
        if not hasattr(self, "lines"):
            return
        for view in VIEWS:
            for past in (False, True):
                want = [
                    (line.now.id, line.now.text)
                    for line in self.lines
                    if line.now is not None and view.holds(line.home) and (past or is_valid(line.now, self.clock))
                ]
                assert self.listed(view, None, past) == sorted(want)

    @rule(view=st.sampled_from(VIEWS), which=st.integers(0, 999), past=st.booleans())
    def look_back(self, view: Scope, which: int, past: bool) -> None:
        self.check_moment(view, self.moments[which % len(self.moments)], past)

    def check_moment(self, view: Scope, moment: datetime, past: bool) -> None:
        want = sorted(
            (span.state.id, span.state.text)
            for line in self.lines
            for span in line.spans
            if view.holds(line.home) and span.seen(moment, include_past=past)
        )
        assert self.listed(view, moment, past) == want
        query = Query(text="k1", scope=view, as_of=moment, include_past=past, limit=1000, threshold=0)
        found = self.run(self.engine.read.search(query)).results
        assert sorted((item.id, item.memory) for item in found) == want

    def listed(self, view: Scope, moment: datetime | None, past: bool) -> list[tuple[str, str]]:
        found: list[MemoryItem] = []
        cursor = None
        while True:
            page = self.run(
                self.engine.read.get_all(view, limit=4, filters=None, cursor=cursor, as_of=moment, include_past=past)
            )
            found += page.results
            cursor = page.next_cursor
            if cursor is None:
                assert [item.created_at for item in found] == sorted(item.created_at for item in found)
                return sorted((item.id, item.memory) for item in found)

    def teardown(self) -> None:
        if not hasattr(self, "lines"):
            return
        try:
            for moment in [*dict.fromkeys(self.moments[-40:]), *STAMPS]:
                self.check_moment(VIEWS[len(self.lines) % len(VIEWS)], moment, past=False)
            for line in self.lines:
                self.check_history(line)
        finally:
            self.run(self.engine.close())
            self.runner.close()
            self.folder.cleanup()

    def check_history(self, line: Line) -> None:
        ids = {state.id for event in line.events for state in (event.before, event.after) if state is not None}
        for id in ids:
            records = self.run(self.engine.read.history(id))
            assert [(record.event, record.id) for record in records] == [(each.event, each.id) for each in line.events]
            assert all(record.erased == line.erased for record in records)
            if not line.erased:
                assert [(record.old_value, record.new_value) for record in records] == [
                    (event.before and event.before.text, event.after and event.after.text) for event in line.events
                ]
            item = self.run(self.engine.read.get(id))
            now = line.now
            assert (item is None) == (now is None or now.id != id)
            if item is not None and now is not None:
                assert (item.memory, item.valid_from) == (now.text, iso(now.valid_from))


def forget_by(scope: Scope | None) -> Any:
    given = Scope(user_id="nobody") if scope is None else scope
    request = read_forget(
        id=LEFT_OUT, query=LEFT_OUT, user_id=given.user_id, agent_id=given.agent_id, run_id=None,
        threshold=LEFT_OUT, erase=True, dry_run=False,
    )  # fmt: skip
    return request if scope is not None else replace(request, scope=Scope())


class SupersedingMachine(Machine):
    updates = "supersede"


class StoredMachine(Machine):
    store = "sqlite"


QUICK = settings(
    max_examples=20,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


@pytest.fixture(autouse=True)
def every_memory_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(add, "RULES_NEIGHBOURS", 1000)


TestInPlace = Machine.TestCase
TestInPlace.settings = QUICK
TestSupersede = SupersedingMachine.TestCase
TestSupersede.settings = QUICK
TestStored = StoredMachine.TestCase
TestStored.settings = settings(QUICK, max_examples=6)


def test_an_unknown_event_is_not_found(tmp_path: Any) -> None:
    engine = build(read_config({"path": str(tmp_path), "embedder": {"provider": "hashed"}}))

    async def main() -> None:
        with pytest.raises(NotFoundError):
            await engine.revise.undo("nothing")
        await engine.close()

    asyncio.run(main())
