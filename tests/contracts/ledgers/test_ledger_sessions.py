"""The contract of ledgers: sessions, their turns and their states, held by every provider."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from perdure.backends.ledgers.base import Ledger
from perdure.domain.clock import iso
from perdure.domain.errors import InvalidInputError, LedgerError
from perdure.domain.scope import Scope
from perdure.domain.session import Link, Session, SessionTurn, session_id
from tests.contracts.ledgers.ledger_desk import ids_taken, job
from tests.contracts.ledgers.ledger_worker import START, USER, Place, add, at, awaited, episode, remove, settle
from tests.contracts.ledgers.test_ledger_desk_processes import set_to_work

pytestmark = pytest.mark.covers("V32", "V33", "V34", "V65", "V84")

BOB = Scope(user_id="bob")
ANN_IN_A_RUN = Scope(user_id="ann", run_id="r1")
ID = session_id("s", USER)


async def talked(ledger: Ledger, turns: int = 1, name: str = "s", scope: Scope = USER) -> Session:
    """A session of so many turns, each of one message that is kept."""
    for number in range(1, turns + 1):
        said = episode(f"turn {number}", number, scope, id=f"{name}-{number}")
        await ledger.insert_episodes([said])
        await ledger.sessions.open_turn(name, scope, [said.id], at(number))
    found = await ledger.sessions.get(name, scope)
    assert found is not None
    return found


# ---------------------------------------------------------------------- turns
@awaited
async def test_a_closed_ledger_has_no_sessions(place: Place) -> None:
    ledger = place.handle()
    for asked in (ledger.sessions.open_turn("s", USER, [], at(0)), ledger.sessions.by_id("x")):
        with pytest.raises(LedgerError, match="not open"):
            await asked


@pytest.mark.covers("V32")
@awaited
async def test_turns_are_counted_from_one_on_and_hold_what_was_said(place: Place) -> None:
    async with place.opened() as ledger:
        first = await ledger.sessions.open_turn("s", USER, ["e1", "e1"], at(1))
        assert first == SessionTurn(session_id=ID, number=1, episodes=("e1",), at=at(1))
        follows = job(ID, kind="entities")
        assert await ledger.sessions.add_to_turn(ID, 1, ["e2", "e1"], at(3), [follows])
        second = await ledger.sessions.open_turn("s", USER, [], "2026-03-01T09:00:02Z")
        assert (second.number, second.at) == (2, at(2))
        told = replace(first, episodes=("e1", "e2"))
        assert await ledger.sessions.turns(ID) == [told, second]
        assert await ledger.sessions.turns(ID, 2) == [second]
        assert await ledger.sessions.turns(ID, 0, 1) == [told]
        assert await ledger.sessions.turns(ID, 3, 9) == []
        expected = Session(
            id=ID, name="s", scope=USER, turns=2, read_turns=0, started_at=at(1), last_at=at(3)
        )  # what was told late does not set the clock back
        assert await ledger.sessions.get("s", USER) == expected
        assert await ledger.sessions.by_id(ID) == expected
        assert await ids_taken(ledger) == [follows.id]
        assert await ledger.check() == []


@awaited
async def test_sessions_of_one_name_behind_other_walls_are_others(place: Place) -> None:
    async with place.opened() as ledger:
        walls = (USER, BOB, ANN_IN_A_RUN, Scope())
        found = [await talked(ledger, 1, "s", scope) for scope in walls]
        assert len({each.id for each in found}) == 4
        assert [each.turns for each in found] == [1] * 4
        assert [each.scope for each in found] == list(walls)
        other = await ledger.sessions.open_turn("S ", USER, [], at(0))
        assert other.number == 1, "names are compared as they are"


@awaited
async def test_bad_input_is_named_and_changes_nothing(place: Place) -> None:
    async with place.opened() as ledger:
        for name, moment, field in (("", at(0), "session"), ("\ud800", at(0), "session"), ("s", "soon", "at")):
            with pytest.raises(InvalidInputError) as caught:
                await ledger.sessions.open_turn(name, USER, ["e"], moment)
            assert caught.value.field == field
        await talked(ledger)
        for asked, field in (
            (ledger.sessions.add_to_turn(ID, 1, ["e2"], at(9), [job(payload={"x": {1}})]), "payload"),
            (ledger.sessions.add_to_turn(ID, 1, ["e2"], "later"), "at"),
            (ledger.sessions.put_state(ID, {"x": float("nan")}, at(9)), "state"),
            (ledger.sessions.put_state(ID, {"x": 1}, "long"), "until"),
            (ledger.sessions.idle(at(0), 0), "limit"),
            (ledger.sessions.idle("", 1), "before"),
            (ledger.sessions.list(USER, 0), "limit"),
            (ledger.sessions.end(ID, "now"), "at"),
        ):
            with pytest.raises(InvalidInputError) as caught:
                await asked
            assert caught.value.field == field
        assert [each.episodes for each in await ledger.sessions.turns(ID)] == [("s-1",)]
        assert (await ledger.stats())["sessions"] == (await ledger.stats())["turns"] == 1


@awaited
async def test_what_is_not_there_is_left_alone(place: Place) -> None:
    async with place.opened() as ledger:
        await talked(ledger)
        assert not await ledger.sessions.add_to_turn(ID, 2, ["e"], at(1), [job()])
        assert not await ledger.sessions.add_to_turn("nobody", 1, ["e"], at(1), [job()])
        assert await ids_taken(ledger) == []
        await ledger.sessions.mark_read("nobody", 4)
        assert not await ledger.sessions.end("nobody", at(1))
        assert not await ledger.sessions.put_state("nobody", {"topic": "x"}, at(100))
        assert await ledger.sessions.turns("nobody") == []
        assert await ledger.sessions.by_id("nobody") is await ledger.sessions.get("nobody", USER) is None


@pytest.mark.covers("V32")
@awaited
async def test_two_processes_count_the_turns_of_one_session_without_gaps_or_repeats(place: Place) -> None:
    async with place.opened() as ledger:
        said = await set_to_work(place, "turn", "40")
        numbers = [[int(line.split()[1]) for line in lines] for lines in said]
        assert sorted(numbers[0] + numbers[1]) == list(range(1, 81))
        assert all(each == sorted(each) for each in numbers)
        turns = await ledger.sessions.turns(session_id("shared", USER))
        assert [each.number for each in turns] == list(range(1, 81))
        assert sorted(len(each.episodes) for each in turns) == [1] * 64 + [2] * 16
        assert await ledger.check() == []


@awaited
async def test_tasks_of_several_replicas_count_without_gaps_or_repeats(place: Place) -> None:
    async with place.opened() as one, place.opened() as two:
        asked = [ledger.sessions.open_turn("s", USER, [], at(0)) for ledger in (one, two) for _ in range(20)]
        assert sorted(each.number for each in await asyncio.gather(*asked)) == list(range(1, 41))


# ---------------------------------------------------------------------- ends
@pytest.mark.covers("V33")
@awaited
async def test_read_turns_only_grow_and_never_beyond_those_there_are(place: Place) -> None:
    async with place.opened() as ledger:
        await talked(ledger, 5)
        for through, read in ((3, 3), (1, 3), (9, 5), (-1, 5)):
            await ledger.sessions.mark_read(ID, through)
            assert (await ledger.sessions.by_id(ID)).read_turns == read


@pytest.mark.covers("V33")
@awaited
async def test_silent_sessions_are_found_until_they_are_ended_and_read(place: Place) -> None:
    async with place.opened() as ledger:
        await talked(ledger, 3, "b")
        await talked(ledger, 2, "a")
        await talked(ledger, 1, "run", ANN_IN_A_RUN)
        await talked(ledger, 9, "bob", BOB)

        async def idle(before: float = 5, limit: int = 100, scope: Scope | None = None) -> list[str]:
            return [each.name for each in await ledger.sessions.idle(at(before), limit, scope)]

        assert await idle() == ["run", "a", "b"], "longest silent first"
        assert await idle(limit=2) == ["run", "a"]
        assert await idle(3) == ["run", "a"], "what was said just then is not silent"
        assert await idle(100, scope=BOB) == ["bob"]
        assert await idle(100, scope=USER) == ["run", "a", "b"]
        assert await idle(100, scope=ANN_IN_A_RUN) == ["run"]
        ended = session_id("a", USER)
        assert await ledger.sessions.end(ended, at(4))
        assert not await ledger.sessions.end(ended, at(5)), "it has ended already"
        assert (await ledger.sessions.by_id(ended)).ended_at == at(4)
        assert await idle() == ["run", "a", "b"], "ended, it has turns still that nobody read"
        await ledger.sessions.mark_read(ended, 2)
        assert await idle() == ["run", "b"]
        again = await ledger.sessions.open_turn("a", USER, [], at(4.5))
        assert again.number == 3
        assert (await ledger.sessions.by_id(ended)).ended_at is None
        assert await idle() == ["run", "b", "a"]


@pytest.mark.covers("V33")
@awaited
async def test_a_session_that_goes_on_meanwhile_is_not_ended_for_its_silence(place: Place) -> None:
    async with place.opened() as ledger:
        await talked(ledger, 2)
        assert not await ledger.sessions.end(ID, at(9), silent_since=at(2))
        assert await ledger.sessions.end(ID, at(9), silent_since=at(2.5))


@awaited
async def test_lists_show_what_is_inside_of_the_scope_latest_first(place: Place) -> None:
    async with place.opened() as ledger:
        await talked(ledger, 3, "b")
        await talked(ledger, 2, "a", ANN_IN_A_RUN)
        await talked(ledger, 1, "bob", BOB)
        assert [each.name for each in await ledger.sessions.list(USER)] == ["b", "a"]
        assert [each.name for each in await ledger.sessions.list(Scope(), 2)] == ["b", "a"]
        assert [each.name for each in await ledger.sessions.list(ANN_IN_A_RUN)] == ["a"]


# ---------------------------------------------------------------------- states
STATE = {"topic": "a trip to 日本", "budget": 4000.5, "decisions": ["fly\x00"], "open": []}


@pytest.mark.covers("V84")
@awaited
async def test_a_state_is_kept_until_its_moment(place: Place) -> None:
    async with place.opened() as ledger:
        await talked(ledger, 2)
        assert await ledger.sessions.put_state(ID, STATE, "2026-03-01T11:00:00+01:00")
        found = await ledger.sessions.by_id(ID)
        assert (found.state, found.state_until) == (STATE, iso(START + timedelta(hours=1)))
        assert (await ledger.sessions.list(USER))[0] == found
        place.now = START + timedelta(hours=1)
        found = await ledger.sessions.by_id(ID)
        assert (found.state, found.state_until) == ({}, None)
        other = await talked(ledger, 1, "other")
        assert await ledger.sessions.put_state(other.id, {"topic": "x"}, at(9000))
        place.now = START
        assert (await ledger.sessions.by_id(ID)).state == {}, "nobody keeps what is over"
        assert await ledger.sessions.put_state(other.id, {}, at(9000))
        assert (await ledger.sessions.by_id(other.id)).state_until is None


@pytest.mark.covers("U4")
@awaited
async def test_a_state_goes_with_any_of_what_it_was_made_of(place: Place) -> None:
    async with place.opened() as ledger:
        await talked(ledger, 2)
        for memories, episodes in ((["m1"], []), ([], ["s-2"])):
            await ledger.insert_episodes([episode(id="s-2")])
            assert await ledger.sessions.put_state(ID, STATE, at(9), episodes=["s-1", "s-2"], memories=["m1", "m2"])
            before = await ledger.count_places(memories, episodes)
            assert await ledger.erase(memories, episodes) == before
            assert (before["sessions"], before["chains"]) == (1, 0)
            assert (await ledger.sessions.by_id(ID)).state == {}
            assert (await ledger.erase(memories, episodes))["sessions"] == 0
        assert [each.episodes for each in await ledger.sessions.turns(ID)] == [("s-1",), ()]
        assert await ledger.check() == []
        renewed = {"topic": "another"}
        assert await ledger.sessions.put_state(ID, renewed, at(9), episodes=["s-1"])
        assert (await ledger.erase(["m1"], ["s-2"]))["sessions"] == 0, "this one was made without them"
        assert (await ledger.sessions.by_id(ID)).state == renewed


@pytest.mark.covers("U4")
@awaited
async def test_a_state_that_was_made_of_what_is_erased_meanwhile_is_not_kept(place: Place) -> None:
    async with place.opened() as ledger:
        await talked(ledger, 2)
        change = add()
        await settle(ledger, change)
        made_of = {"episodes": ["s-1", "s-2"], "memories": [change.memory_id]}
        await ledger.erase([], ["s-1"])
        assert not await ledger.sessions.put_state(ID, STATE, at(9), **made_of)
        made_of["episodes"] = ["s-2"]
        assert await ledger.sessions.put_state(ID, STATE, at(9), **made_of)
        await settle(ledger, remove(change))
        await ledger.erase([change.memory_id], [])
        assert not await ledger.sessions.put_state(ID, STATE, at(9), **made_of)
        assert (await ledger.sessions.by_id(ID)).state == {}
        await ledger.erase([], [], USER)
        assert not await ledger.sessions.put_state(ID, STATE, at(9))


@awaited
async def test_a_state_is_not_shown_while_a_message_of_it_is_hidden(place: Place) -> None:
    async with place.opened() as ledger:
        await talked(ledger, 2)
        assert await ledger.sessions.put_state(ID, STATE, at(9), episodes=["s-1", "s-2"])
        await ledger.hide_episodes(["s-2"])
        assert (await ledger.sessions.get("s", USER)).state == {}
        await ledger.hide_episodes(["s-2"], hidden=False)
        assert (await ledger.sessions.get("s", USER)).state == STATE


# ---------------------------------------------------------------------- erasure
@pytest.mark.covers("U4")
@awaited
async def test_a_whole_scope_takes_its_sessions_with_turns_states_and_jobs(place: Place) -> None:
    async with place.opened() as ledger:
        for name, scope in (("s", USER), ("run", ANN_IN_A_RUN), ("bob", BOB)):
            kept = await talked(ledger, 2, name, scope)
            await ledger.sessions.add_to_turn(kept.id, 1, [], at(1), [job(kept.id, scope=scope)])
            await ledger.sessions.put_state(kept.id, STATE, at(9), episodes=[f"{name}-1"])
        before = await ledger.count_places([], [], ANN_IN_A_RUN)
        assert (before["sessions"], before["jobs"]) == (1, 1)
        assert await ledger.erase([], [], ANN_IN_A_RUN) == before
        assert [each.name for each in await ledger.sessions.list(Scope())] == ["s", "bob"]
        assert (await ledger.erase([], [], USER))["sessions"] == 1
        stats = await ledger.stats()
        assert (stats["sessions"], stats["turns"], stats["jobs"]) == (1, 2, 1)
        assert (await ledger.sessions.by_id(session_id("bob", BOB))).state == STATE
        assert not await ledger.sessions.add_to_turn(ID, 1, ["e"], at(3), [job()])
        assert (await ledger.sessions.open_turn("s", USER, [], at(5))).number == 1, "a session of its own"
        assert await ledger.check() == []


@awaited
async def test_reset_clears_sessions_too(place: Place) -> None:
    async with place.opened() as ledger:
        await talked(ledger, 2)
        await ledger.sessions.put_state(ID, STATE, at(9), episodes=["s-1"])
        await ledger.reset()
        stats = await ledger.stats()
        assert stats["sessions"] == stats["turns"] == stats["chains"] == 0
        assert await ledger.check() == []
        assert (await ledger.sessions.open_turn("s", USER, [], at(5))).number == 1


@awaited
async def test_check_tells_of_turns_that_are_missing_and_of_states_that_are_broken(place: Place) -> None:
    from sqlalchemy import text

    async with place.opened() as ledger:
        await talked(ledger, 3)

        def harm(statement: str) -> None:
            with ledger._database.writing(durable=True) as connection:
                connection.execute(text(statement))

        await asyncio.to_thread(harm, "DELETE FROM session_turns WHERE number = 2")
        await asyncio.to_thread(harm, "UPDATE sessions SET state = '{', state_until = '9'")
        assert await ledger.check() == [
            f"the turns of session {ID} are not those that it has counted",
            f"the state of session {ID} is not JSON",
        ]
        await asyncio.to_thread(harm, "DELETE FROM sessions")
        assert await ledger.check() == ["2 turns are of no session"]


@pytest.mark.covers("U4")
@awaited
async def test_erased_states_and_responses_are_not_in_the_bytes_of_the_files(tmp_path: Path) -> None:
    place, secret = Place("sqlite", tmp_path), b"a secret of Ann's"
    async with place.opened() as ledger:
        await talked(ledger, 2)
        await ledger.sessions.put_state(ID, {"topic": secret.decode()}, at(9), episodes=["s-1"])
        items = [{"role": "user", "content": secret.decode()}]
        kept = Link(id="r", scope=USER, session="s", model="m", items=items, episodes=("s-1",), created_at=at(0))
        await ledger.chains.put(kept)

        def held() -> int:
            return sum(file.read_bytes().count(secret) for file in tmp_path.glob("history.db*") if file.is_file())

        assert held() >= 2
        await ledger.erase([], ["s-1"])
        assert await ledger.scrub()
        assert held() == 0
