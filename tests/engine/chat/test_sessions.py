"""Sessions: their ends, changes of subject, crashes, other processes, and one user's many."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure.domain.errors import NotFoundError
from perdure.domain.scope import Scope
from perdure.engine.chat import memory_writer
from perdure.engine.write.explicit import Statement
from tests.engine.chat.talks import ANN, World, facts, read_calls, run, scripted, talk, user, world

pytestmark = pytest.mark.covers("V65", "V66", "V78")

DAY = datetime(2024, 12, 29, 18, tzinfo=UTC)


class Hands:
    """A clock whose hands are moved by the test."""

    def __init__(self) -> None:
        self.now = DAY

    def __call__(self) -> datetime:
        return self.now


# ------------------------------------------------------------------ ends
@pytest.mark.covers("V65")
def test_an_end_reads_what_is_unread_and_tells_of_the_session(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        conversation = talk(dialect="responses")
        await opened.say(conversation, ["I plan a vacation in Hawaii", "My budget for the trip is $10,000"])
        assert await opened.facts() == []
        end = await opened.remembering.end_session("s1", ANN)
        assert (end.turns, end.facts, end.is_read) == (2, 2, True)
        *known, account = await opened.rows()
        assert account.memory.startswith("On 29 December 2024, user told: ")
        assert "Hawaii" in account.memory
        assert "$10,000" in account.memory
        assert (account.id, account.type, account.source) == (end.summary_id, "episodic", "session")
        assert set(account.derived_from) == {item.id for item in known}
        assert len(account.sources) == 4
        assert account.valid_from is not None
        assert account.valid_from.startswith("2024-12-29")

    run(work, tmp_path, clock=Hands())


@pytest.mark.covers("V65")
def test_ending_twice_makes_no_second_memory(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        await opened.say(talk(), ["I plan a vacation in Hawaii"])
        first = await opened.remembering.end_session("s1", ANN)
        before = await opened.rows()
        assert await opened.remembering.end_session("s1", ANN) == first
        assert await opened.rows() == before
        await opened.say(talk(), ["I have a dog named Rex"])
        again = await opened.remembering.end_session("s1", ANN)
        assert again.summary_id == first.summary_id
        assert [row.source for row in await opened.rows()].count("session") == 1
        assert any("Rex" in row.memory for row in await opened.rows() if row.source == "session")

    run(work, tmp_path)


@pytest.mark.covers("V65")
def test_a_session_that_goes_on_the_next_day_is_told_of_twice(tmp_path: Path) -> None:
    clock = Hands()

    async def work(opened: World) -> None:
        await opened.say(talk(), ["I plan a vacation in Hawaii"])
        await opened.remembering.end_session("s1", ANN)
        clock.now += timedelta(days=1)
        await opened.say(talk(), ["I have a dog named Rex"])
        await opened.remembering.end_session("s1", ANN)
        first, second = [row.memory for row in await opened.rows() if row.source == "session"]
        assert first.startswith("On 29 December 2024")
        assert second == "On 30 December 2024, user told: user has a dog named Rex."

    run(work, tmp_path, clock=clock)


@pytest.mark.covers("V65")
def test_a_session_with_nothing_in_it_is_not_told_of(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        await opened.say(talk(), ["Hi", "What is the capital of Peru?"])
        end = await opened.remembering.end_session("s1", ANN)
        assert (end.turns, end.facts, end.summary_id) == (2, 0, None)
        assert await opened.rows() == []

    run(work, tmp_path)


@pytest.mark.covers("V65")
def test_a_session_that_nobody_knows_or_of_another_user_is_not_found(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        await opened.say(talk(), ["I have a dog"])
        for name, scope in (("s2", ANN), ("s1", Scope(user_id="bob"))):
            with pytest.raises(NotFoundError, match=name):
                await opened.remembering.end_session(name, scope)

    run(work, tmp_path)


@pytest.mark.covers("V65")
def test_silence_ends_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Hands()
    monkeypatch.setattr(memory_writer, "SWEEP", 0.01)

    async def work(opened: World) -> None:
        await opened.say(talk(dialect="responses"), ["I have a dog named Rex"])
        clock.now += timedelta(minutes=29)
        await opened.say(talk("other", "responses"), ["I live in Lisbon"])
        clock.now += timedelta(minutes=2)
        async with asyncio.timeout(60):
            while not any(row.source == "session" for row in await opened.rows()):
                await asyncio.sleep(0.01)
        await opened.settle()
        assert len([row for row in await opened.rows() if row.source == "session"]) == 1
        assert "User lives in Lisbon" not in await opened.facts()

    run(work, tmp_path, clock=clock)


@pytest.mark.covers("V65")
def test_a_model_tells_of_a_session(tmp_path: Path) -> None:
    rules = [
        ("You note what happened", "On 29 December 2024, user planned a Hawaii vacation with a $10,000 budget."),
        (".", facts("User's budget for Hawaii is $10,000")),
    ]

    async def work(opened: World) -> None:
        await opened.say(talk(dialect="responses"), ["I want to go to Hawaii for $10,000"], "A fine plan.")
        await opened.remembering.end_session("s1", ANN)
        account = (await opened.rows())[-1]
        assert account.memory == "On 29 December 2024, user planned a Hawaii vacation with a $10,000 budget."
        asked = opened.llm.calls[-1].user_message
        assert "- User's budget for Hawaii is $10,000" in asked
        assert "assistant: A fine plan." in asked

    run(work, tmp_path, llm=scripted(rules=rules), settings={"summaries": False}, clock=Hands())


@pytest.mark.covers("V65")
def test_a_model_that_fails_at_the_end_ends_it_all_the_same_and_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_writer, "ENDING", 1.0)
    answers = [{"error": "server"}, "\n", facts("User has a dog"), "On 29 December 2024, user got a dog."]

    async def work(opened: World) -> None:
        await opened.say(talk(dialect="responses"), ["I got a dog"])
        end = await opened.remembering.end_session("s1", ANN)
        assert not end.is_read or end.facts == 1
        async with asyncio.timeout(60):
            while len(await opened.rows()) < 2:
                await asyncio.sleep(0.02)
        assert await opened.facts() == ["User has a dog", "On 29 December 2024, user got a dog."]

    run(work, tmp_path, llm=scripted(answers), settings={"summaries": False}, clock=Hands())


def test_no_later_fact_overwrites_what_tells_of_a_session(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        await opened.say(talk(), ["I live in Lisbon"])
        await opened.remembering.end_session("s1", ANN)
        await opened.say(talk("s2"), ["I live in Porto now"])
        await opened.settle()
        (account,) = [row for row in await opened.rows() if row.source == "session"]
        assert "user lives in Lisbon" in account.memory
        assert "User lives in Lisbon" not in await opened.facts()

    run(work, tmp_path)


@pytest.mark.covers("K54")
@pytest.mark.covers("K54")
def test_a_conversation_keeps_its_newest_entries_and_its_summary(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        ledger = opened.engine.kernel.ledger
        assert ledger is not None
        for count in (3, 8):
            await opened.say(talk(), [f"I have a dog named Rex{number}" for number in range(count - 3, count)])
            await opened.settle()
            kept = (await ledger.list_episodes(ANN)).episodes
            assert len(kept) + len(await opened.facts()) == 9  # three of each: exactly as many lose none
        assert await opened.facts() == [f"User has a dog named Rex{number}" for number in (5, 6, 7)]
        assert len(await opened.rows("summaries")) == 1

    run(work, tmp_path, settings={"max_entries": 9})


# ------------------------------------------------------------------ drift
@pytest.mark.covers("V66")
@pytest.mark.usefixtures("loaded_model")
@pytest.mark.parametrize("threshold", [None, 0.2])
def test_a_change_of_subject_has_what_is_unread_read(threshold: float | None, tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        conversation = talk(dialect="responses")
        for text in ("Which beaches in Hawaii are good for surfing?", "Are Hawaii beaches good for surfing in May?"):
            await opened.say(conversation, [text])
            await opened.settle()
        assert read_calls(opened.llm) == []
        await opened.say(conversation, ["How do I rename a column in a PostgreSQL table?"])
        await opened.settle()
        assert len(read_calls(opened.llm)) == (0 if threshold is None else 1)

    settings = {"drift_threshold": threshold, "summaries": False}
    config: dict[str, Any] = {"llm": scripted(rules=[(".", facts())]), "embedder": {"provider": "minilm"}}
    run(work, tmp_path, settings=settings, **config)


# ------------------------------------------------------------------ crashes and company
def _speaker(folder: Path, dialect: str, count: int, how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.engine.chat.speaker", str(folder), dialect, str(count), how]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3])


def test_killed_between_answer_and_extraction_the_next_process_reads(tmp_path: Path) -> None:
    speaker = _speaker(tmp_path, "responses", 10, "killed")
    said, _ = speaker.communicate()
    assert (said, speaker.returncode) == ("said\n", -signal.SIGKILL)

    async def work(opened: World) -> None:
        async with asyncio.timeout(60):
            while len(found := await opened.facts()) < 10:  # what the dead one said may not be due at once
                await asyncio.sleep(0.05)
                await opened.settle()
        assert sorted(found) == sorted(f"User has a dog named Rexk{number}" for number in range(10))

    run(work, tmp_path)


def test_several_processes_share_what_is_due(tmp_path: Path) -> None:
    dead = _speaker(tmp_path, "chat", 6, "killed")
    dead.communicate()
    living = _speaker(tmp_path, "chat", 6, "working")

    async def work(opened: World) -> None:
        for number in range(6):
            await opened.say(talk("here"), [f"I have a dog named Rexh{number}"])
        await asyncio.to_thread(living.communicate)
        assert living.returncode == 0
        await opened.settle()
        found = await opened.facts()
        assert sorted(found) == sorted(f"User has a dog named Rex{who}{n}" for who in "khw" for n in range(6))

    run(work, tmp_path)


@pytest.mark.covers("V78")
def test_sessions_of_one_user_do_not_race(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        async def one(session: int) -> None:
            for number in range(3):
                turn = await opened.begin(talk(f"s{session}"), user(f"I have a dog named Rex{session}x{number}"))
                await asyncio.sleep(0)
                await opened.end(turn, "A fine name.")

        await asyncio.gather(*(one(session) for session in range(8)))
        await opened.settle()
        found = await opened.facts()
        assert sorted(found) == sorted(f"User has a dog named Rex{s}x{n}" for s in range(8) for n in range(3))
        ledger = opened.engine.kernel.ledger
        assert ledger is not None
        for session in await ledger.sessions.list(ANN):
            assert (session.turns, session.read_turns) == (3, 3)
        assert len(await opened.rows("summaries")) == 1

    run(work, tmp_path)


@pytest.mark.covers("V78")
def test_turns_of_one_session_at_once_are_each_counted(tmp_path: Path) -> None:
    async def work() -> None:
        async with world(tmp_path) as opened:
            turns = await asyncio.gather(
                *(opened.begin(talk(), user(f"I have a dog named Rex{number}")) for number in range(12))
            )
            assert sorted(turn.number for turn in turns) == list(range(1, 13))
            await asyncio.gather(*(opened.end(turn, "Nice.") for turn in turns))
            await opened.settle()
            assert len(await opened.facts()) == 12

    asyncio.run(work())


@pytest.mark.covers("V69", "V70")
@pytest.mark.parametrize("chores", [[], ["consolidate", "reflect"]])
def test_the_end_of_a_session_tidies_up_where_that_is_set(tmp_path: Path, chores: list[str]) -> None:
    async def work(opened: World) -> None:
        for text in ("Budget for Hawaii is $10,000", "Added $2,000 to Hawaii budget", "Final Hawaii budget is $12,000"):
            await opened.engine.explicit.store(Statement(content=text, type="semantic"), ANN)
        await opened.say(talk(), [f"I deployed payment-service {time}" for time in ("today", "again", "once more")])
        await opened.remembering.end_session("s1", ANN)
        told = await opened.facts()
        merged = "Hawaii budget is $12,000 (updated from initial $10,000)"
        assert (merged in told) == bool(chores)
        assert any("times)" in text for text in told) == bool(chores), told

    run(work, tmp_path, settings={"at_session_end": chores})
