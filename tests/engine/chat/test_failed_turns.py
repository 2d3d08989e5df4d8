"""What no model will ever read, a model that is away, and what is forgotten while it is read."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

import pytest

from perdure.engine.chat import memory_writer, session_reader
from perdure.engine.chat.session_reader import FailedTurns
from perdure.engine.chat.settings import Dialect
from perdure.engine.chat.turn_log import own_session
from perdure.engine.graph import jobs
from perdure.engine.requests import ForgetRequest
from tests.engine.chat.talks import ANN, World, facts, read_calls, run, scripted, talk

pytestmark = pytest.mark.covers("K41", "V6", "V7", "V65")

ONE_TURN = {"extraction_batch_size": 1, "summaries": False}
NAMES = ("Rex", "Tom", "Kit", "Bo", "Su", "Max", "Zoe")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is tried again at once."""
    monkeypatch.setattr(jobs, "pause_after", lambda attempts, growth=2.0: 0.0)
    monkeypatch.setattr(memory_writer, "LATER", 0.0)


async def read_turns(opened: World) -> int:
    ledger = opened.engine.kernel.ledger
    assert ledger is not None
    session = await own_session(opened.engine.kernel, ledger, "s1", ANN)
    assert session is not None
    return session.read_turns


@pytest.mark.covers("K41", "V7")
@pytest.mark.parametrize("failure", ["I cannot help with that.", {"error": "authentication"}], ids=["words", "silence"])
@pytest.mark.parametrize(("dialect", "every"), [("chat", 1), ("chat", 3), ("responses", 1), ("responses", 3)])
def test_a_turn_that_no_model_will_ever_read_keeps_no_other_from_being_read(
    failure: Any, dialect: Dialect, every: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(opened: World) -> None:
        talked = talk(dialect=dialect)
        await opened.say(talked, ["I live in Lisbon", "Here is the poison"])
        for name in NAMES:
            await opened.say(talked, [f"I have a pet named {name}"])
            await opened.settle()
        await opened.remembering.end_session("s1", ANN)
        await opened.settle()
        assert await read_turns(opened) == 9
        good = [said for said in read_calls(opened.llm) if "poison" not in said]
        assert all(any(word in said for said in good) for word in ("Lisbon", *NAMES))
        assert len(read_calls(opened.llm)) <= 30

    llm = scripted(rules=[("the poison", failure), ("You read a conversation", facts())])
    with caplog.at_level(logging.DEBUG, "perdure"):
        run(work, tmp_path, llm=llm, settings={"extraction_batch_size": every, "summaries": False})
    assert caplog.text.count("is passed over") == 1
    assert "poison" not in caplog.text and "I cannot help" not in caplog.text  # words are in no log


@pytest.mark.covers("K41", "U21")
@pytest.mark.parametrize("dialect", ["chat", "responses"])
def test_without_a_place_for_messages_it_keeps_no_other_from_being_read_either(
    dialect: Dialect, tmp_path: Path
) -> None:
    async def work(opened: World) -> None:
        for text in ("Here is the poison", *NAMES):
            await opened.say(talk(dialect=dialect), [text])
            await opened.settle()
        good = [said for said in read_calls(opened.llm) if "poison" not in said]
        assert all(any(name in said for said in good) for name in NAMES)
        assert sum("poison" in said for said in read_calls(opened.llm)) <= session_reader.TRIES + 1
        assert "User has a pet" in await opened.facts()

    rules = [("the poison", "No."), (".", facts("User has a pet"))]
    run(work, tmp_path, llm=scripted(rules=rules), settings=ONE_TURN, episodes="off")


@pytest.mark.covers("V6", "V65")
@pytest.mark.parametrize("dialect", ["chat", "responses"])
def test_a_model_that_was_away_for_long_costs_no_turn(dialect: Dialect, tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        await opened.say(talk(dialect=dialect), ["I live in Lisbon", "Hello!", "I have a dog"])
        await opened.remembering.end_session("s1", ANN)
        async with asyncio.timeout(60):
            while await read_turns(opened) < 3:
                await asyncio.sleep(0.01)
        assert sum("Lisbon" in said for said in read_calls(opened.llm)) > jobs.PARKED_AFTER
        assert "User lives in Lisbon" in await opened.facts()

    away = [{"error": "server"}] * 24
    run(work, tmp_path, llm=scripted([*away, *[facts("User lives in Lisbon")] * 9]), settings=ONE_TURN)


@pytest.mark.covers("U4")
@pytest.mark.parametrize("dialect", ["chat", "responses"])
@pytest.mark.parametrize("whole", [True, False], ids=["scope", "taken back"])
def test_what_is_forgotten_while_a_model_reads_it_is_not_learned(dialect: Dialect, whole: bool, tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        ledger = opened.engine.kernel.ledger
        assert ledger is not None
        await opened.say(talk(dialect=dialect), ["I live in Lisbon"])
        async with asyncio.timeout(60):
            while not read_calls(opened.llm):
                await asyncio.sleep(0.005)
        if whole:
            await opened.engine.forget(ForgetRequest(scope=ANN))
        else:
            await ledger.hide_episodes([each.id for each in (await ledger.list_episodes(ANN, 10)).episodes])
        await asyncio.sleep(0.3)
        await opened.settle()
        assert await opened.facts() == []
        await opened.say(talk(dialect=dialect), ["I have a dog"])  # and what comes next is
        await opened.settle()
        assert await opened.facts() == ["User has a dog"]

    rules = [("I have a dog", facts("User has a dog")), ("Lisbon", {"text": facts_text(), "delay": 0.2})]
    run(work, tmp_path, llm=scripted(rules=rules), settings=ONE_TURN)


def facts_text() -> str:
    return '{"facts": [{"text": "User lives in Lisbon"}]}'


@pytest.mark.covers("V65")
@pytest.mark.parametrize("words", ["I’m sorry, but I can't help with that.", {"error": "server"}])
def test_a_refusal_is_no_account_and_no_summary_and_rules_tell_of_the_session(words: Any, tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        await opened.say(talk(), ["I live in Lisbon"])
        assert (await opened.remembering.end_session("s1", ANN)).summary_id is not None
        fact, account = await opened.facts()
        assert fact == "User lives in Lisbon" and account.endswith("user told: user lives in Lisbon.")
        assert await opened.rows("summaries") == []

    rules = [
        ("You read a conversation", facts("User lives in Lisbon")),
        (".", words),
    ]
    run(work, tmp_path, llm=scripted(rules=rules))


@pytest.mark.covers("U4", "V65")
@pytest.mark.parametrize("way", ["delete", "said"])
def test_what_is_taken_back_is_told_by_no_account_of_its_session(way: str, tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        await opened.say(talk(), ["I live in Lisbon", "I have a dog named Rex"])
        await opened.remembering.end_session("s1", ANN)
        assert [row.source for row in await opened.rows()] == ["conversation", "conversation", "session"]
        if way == "delete":
            await opened.engine.revise.delete((await opened.rows())[0].id)
        else:
            await opened.say(talk("s2"), ["Please forget that I live in Lisbon."])
            await opened.settle()
        assert await opened.facts() == ["User has a dog named Rex"]
        await opened.say(talk(), ["I love tea"])  # the session goes on, and is told of anew
        await opened.remembering.end_session("s1", ANN)
        (account,) = [row.memory for row in await opened.rows() if row.source == "session"]
        assert "Rex" in account and "tea" in account and "Lisbon" not in account

    run(work, tmp_path)


class MovableClock:
    """The time of a module, which a test moves on, and how often it was asked for."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self.looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return time.monotonic() + self.ahead


@pytest.mark.covers("V65")
def test_whoever_ends_a_session_waits_for_a_slow_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first turn that rules read in a process takes a second of computing: several on a machine that is busy."""
    clock, step = MovableClock(), session_reader.SessionReader._step

    async def work(opened: World) -> None:
        begun, goes_on = asyncio.Event(), asyncio.Event()

        async def slowly(*asked: Any) -> Any:
            begun.set()
            await goes_on.wait()
            return await step(*asked)

        monkeypatch.setattr(session_reader.SessionReader, "_step", slowly)
        monkeypatch.setattr(memory_writer, "time", clock)
        await opened.say(talk(), ["I live in Lisbon"])
        await begun.wait()
        clock.looks = 0
        ending = asyncio.create_task(opened.remembering.end_session("s1", ANN))
        for ahead, looks in ((0.0, 2), (30.0, 4)):  # it waits; and it still does after half a minute
            clock.ahead = ahead
            while clock.looks < looks and not ending.done():
                await asyncio.sleep(0.005)
        goes_on.set()
        end = await ending
        assert end.is_read and end.facts == 1 and end.summary_id is not None
        assert [row.source for row in await opened.rows()] == ["conversation", "session"]

    run(work, tmp_path)


@pytest.mark.covers("V69", "V70")
def test_what_tells_of_sessions_is_neither_merged_nor_a_pattern(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        for day in ("one", "two", "three"):
            await opened.say(talk(day), ["I have a dog named Rex", "I love tea"])
            await opened.remembering.end_session(day, ANN)
        accounts = [row.memory for row in await opened.rows() if row.source == "session"]
        assert accounts
        await opened.engine.consolidate.scope(ANN)
        insights = (await opened.engine.reflect(ANN)).insights
        assert not [each.content for each in insights if "told" in each.content]
        assert [row.memory for row in await opened.rows() if row.source == "session"] == accounts

    run(work, tmp_path)


@pytest.mark.covers("U4")
def test_what_a_model_told_of_a_message_goes_with_the_message(tmp_path: Path) -> None:
    async def work(opened: World) -> None:
        await opened.say(talk(), ["The code of my safe is 4711", "I have a dog named Rex"])
        await opened.remembering.end_session("s1", ANN)
        await opened.remembering.written()
        assert any("4711" in row.memory for row in await opened.rows() if row.source == "session")
        (message,) = [row for row in await opened.rows("messages") if "4711" in row.memory]
        await opened.engine.forget(ForgetRequest(scope=ANN, id=message.id))
        assert await opened.facts() == ["User has a dog named Rex"]

    rules = [
        ("You read a conversation(.|\n)*4711", facts()),
        ("You read a conversation", facts("User has a dog named Rex")),
        (".", "User opened a safe with 4711 and has a dog."),
    ]
    run(work, tmp_path, llm=scripted(rules=rules), settings=ONE_TURN, episodes="search")


def test_troubles_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_reader, "MOST_FAILED_SESSIONS", 2)
    known = FailedTurns()
    for name in ("a", "b", "c"):
        known.failed(name, 1, 1)
    assert [known.of(name).times for name in ("a", "b", "c")] == [0, 1, 1]
    known.read("b", 1)
    assert known.of("b").times == 0
