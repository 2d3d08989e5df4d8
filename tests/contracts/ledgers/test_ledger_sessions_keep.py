"""The contract of ledgers: what was said in many turns is kept in one transaction, in its order, all or none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perdure.domain.errors import InvalidInputError
from perdure.domain.job import Job
from perdure.domain.scope import Scope
from perdure.domain.session import Said, SessionTurn, session_id
from tests.contracts.ledgers.ledger_desk import ids_taken, job
from tests.contracts.ledgers.ledger_worker import USER, Place, at, awaited, episode

ID = session_id("s", USER)
BOB = Scope(user_id="bob")


def begun(*ids: str, moment: int = 1, scope: Scope = USER) -> Said:
    said = tuple(episode(f"text of {id}", moment, scope, id=id) for id in ids)
    return Said(scope=scope, name="s", episodes=said, at=at(moment))


@pytest.mark.covers("K37", "V32")
@awaited
async def test_many_turns_are_kept_and_counted_in_the_order_of_saying(place: Place) -> None:
    asked: list[tuple[str, int]] = []

    def due(id: str, number: int) -> list[Job]:
        asked.append((id, number))
        return [job(id, kind="entities")]

    async with place.opened() as ledger:
        kept = await ledger.sessions.keep(
            [
                begun("u1"),
                replace(begun("u2", "a2", moment=2), jobs=due),
                begun("b1", scope=BOB),
                Said(scope=USER, turn=(ID, 1), episodes=begun("a1").episodes, at=at(3)),
            ]
        )
        assert [(turn.session_id, turn.number) for turn in kept if turn] == [
            (ID, 1),
            (ID, 2),
            (session_id("s", BOB), 1),
            (ID, 1),
        ]
        assert asked == [(ID, 2)] and len(await ids_taken(ledger)) == 1
        turns = await ledger.sessions.turns(ID)
        assert [turn.episodes for turn in turns] == [("u1", "a1"), ("u2", "a2")]
        assert [each.id for each in await ledger.recent_episodes(USER, 9)] == ["u1", "a1", "u2", "a2"]
        session = await ledger.sessions.by_id(ID)
        assert session is not None and (session.turns, session.last_at) == (2, at(3))
        assert await ledger.check() == []


@awaited
async def test_all_of_it_is_kept_or_none(place: Place) -> None:
    async with place.opened() as ledger:
        bad = begun("bad")
        wrong = replace(bad, episodes=(replace(bad.episodes[0], content="lone \ud800"),))
        with pytest.raises(InvalidInputError):
            await ledger.sessions.keep([begun("good"), wrong])
        assert await ledger.get_episodes(["good", "bad"]) == []
        assert await ledger.sessions.by_id(ID) is None
        assert await ledger.sessions.keep([]) == []


@awaited
async def test_what_goes_on_with_a_turn_that_is_gone_begins_one_where_it_has_a_name(place: Place) -> None:
    async with place.opened() as ledger:
        gone = replace(begun("t1"), turn=(ID, 7))
        (turn,) = await ledger.sessions.keep([gone])
        assert turn == SessionTurn(session_id=ID, number=1, episodes=("t1",), at=at(1))
        assert await ledger.sessions.keep([replace(gone, name=None)]) == [None]
        assert len(await ledger.sessions.turns(ID)) == 1


@pytest.mark.covers("V77")
@awaited
async def test_what_was_put_into_a_prompt_is_known_behind_its_walls(place: Place) -> None:
    async with place.opened() as ledger:
        noted = Said(scope=USER, injected=frozenset({"f1", "f2"}))
        assert await ledger.sessions.keep([noted, replace(begun("u1"), injected=frozenset({"f3"}))]) != [None, None]
        assert await ledger.known_fingerprints(USER, ["f1", "f3", "f4"]) == {"f1", "f3"}
        assert await ledger.known_fingerprints(BOB, ["f1"]) == set()
