"""Sessions against a model of them: any order of talking, reading, ending, keeping states, forgetting."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.backends.ledgers.base import Ledger
from perdure.domain.scope import Scope
from perdure.domain.session import Session, SessionTurn, session_id
from tests.contracts.ledgers.ledger_worker import USER, Place, at, awaited, episode

pytestmark = pytest.mark.covers("U4", "V32")

SCOPES = (USER, Scope(user_id="ann", run_id="r1"), Scope(user_id="bob"))
MESSAGES = ("e1", "e2", "e3")
ACTIONS = ("open", "open", "add", "read", "state", "end", "hide", "show", "erase", "erase scope")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(ACTIONS),
        st.sampled_from(SCOPES),
        st.sampled_from([(), *((each,) for each in MESSAGES), MESSAGES[:2]]),
        st.integers(1, 4),
    ),
    max_size=16,
)
UNTIL = at(9_000)


@dataclass
class Model:
    """What a ledger should hold: one session for each scope."""

    sessions: dict[Scope, Session] = field(default_factory=dict)
    turns: dict[Scope, list[SessionTurn]] = field(default_factory=dict)
    made_of: dict[Scope, tuple[str, ...]] = field(default_factory=dict)
    there: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)

    def change(self, scope: Scope, **values: object) -> None:
        if scope in self.sessions:
            self.sessions[scope] = replace(self.sessions[scope], **values)

    def shown(self, scope: Scope) -> Session | None:
        """The session as the ledger tells it."""
        found = self.sessions.get(scope)
        if found is not None and found.state and self.hidden.intersection(self.made_of[scope]):
            return replace(found, state={}, state_until=None)
        return found

    def forget_states(self, ids: tuple[str, ...]) -> list[Scope]:
        lost = [scope for scope, each in self.sessions.items() if each.state and set(ids) & set(self.made_of[scope])]
        for scope in lost:
            self.change(scope, state={}, state_until=None)
        return lost


async def step(ledger: Ledger, model: Model, action: str, scope: Scope, ids: tuple[str, ...], number: int) -> None:
    """Do the same to both."""
    name, id, moment = "s", session_id("s", scope), at(number)
    known, turns = model.sessions.get(scope), model.turns.setdefault(scope, [])
    match action:
        case "open":
            opened = await ledger.sessions.open_turn(name, scope, ids, moment)
            turns.append(SessionTurn(session_id=id, number=len(turns) + 1, episodes=ids, at=moment))
            assert opened == turns[-1]
            fresh = Session(id=id, name=name, scope=scope, turns=0, read_turns=0, started_at=moment, last_at=moment)
            before = known or fresh
            model.sessions[scope] = replace(
                before, turns=len(turns), last_at=max(before.last_at, moment), ended_at=None
            )
        case "add":
            there = number <= len(turns)
            assert await ledger.sessions.add_to_turn(id, number, ids, moment) == there
            if there and known is not None:
                said = tuple(dict.fromkeys([*turns[number - 1].episodes, *ids]))
                turns[number - 1] = replace(turns[number - 1], episodes=said)
                model.change(scope, last_at=max(known.last_at, moment))
        case "read":
            await ledger.sessions.mark_read(id, number)
            if known is not None:
                model.change(scope, read_turns=max(known.read_turns, min(number, known.turns)))
        case "state":
            stands = known is not None and model.there.issuperset(ids)
            assert await ledger.sessions.put_state(id, {"n": number}, UNTIL, episodes=ids) == stands
            if stands:
                model.change(scope, state={"n": number}, state_until=UNTIL)
                model.made_of[scope] = ids
        case "end":
            ends = known is not None and known.ended_at is None and known.last_at < moment
            assert await ledger.sessions.end(id, UNTIL, silent_since=moment) == ends
            if ends:
                model.change(scope, ended_at=UNTIL)
        case "hide" | "show":
            await ledger.hide_episodes(ids, action == "hide")
            model.hidden = model.hidden | (model.there & set(ids)) if action == "hide" else model.hidden - set(ids)
        case "erase":
            counts = await ledger.erase([], ids)
            assert counts["sessions"] == len(model.forget_states(ids))
            model.there -= set(ids)
            model.hidden -= set(ids)
            for kept in model.turns.values():
                kept[:] = [replace(t, episodes=tuple(e for e in t.episodes if e not in ids)) for t in kept]
        case _:
            counts = await ledger.erase([], [], scope)
            gone = [each for each in model.sessions if scope.holds(each)]
            assert counts["sessions"] == len(gone)
            for each in gone:
                del model.sessions[each], model.turns[each]


def test_any_order_of_calls_agrees_with_a_model(ledger_provider: str, tmp_path_factory) -> None:
    @given(STEPS)
    @awaited
    async def agrees(steps: list[tuple]) -> None:
        model = Model()
        async with place.opened() as ledger:
            await ledger.reset()
            await ledger.insert_episodes([episode(id=each) for each in MESSAGES])
            model.there = set(MESSAGES)
            for each in steps:
                await step(ledger, model, *each)
            for scope in SCOPES:
                assert await ledger.sessions.get("s", scope) == model.shown(scope)
                assert await ledger.sessions.turns(session_id("s", scope)) == model.turns.get(scope, [])
            due = [
                each.id
                for each in sorted(model.sessions.values(), key=lambda each: (each.last_at, each.id))
                if each.last_at < at(3) and (each.ended_at is None or each.read_turns < each.turns)
            ]
            assert [each.id for each in await ledger.sessions.idle(at(3))] == due
            assert await ledger.check() == []

    place = Place(ledger_provider, tmp_path_factory.mktemp("sessions"))
    settings(max_examples=5 if ledger_provider == "postgres" else 25, deadline=None)(agrees)()
