"""Two stores that share a ledger: what was said to one is never learned by the other."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure.engine.chat import memory_writer
from perdure.engine.chat.turn_log import own_session, own_session_of
from tests.engine.chat.talks import ANN, World, talk, user, world
from tests.engine.chat.test_sessions import Hands

pytestmark = pytest.mark.covers("V33", "V34", "V65")

RESPONSES = talk(dialect="responses")


def shared(folder: Path, name: str, **options: Any) -> Any:
    return world(folder / name, history={"db_path": str(folder / "history.db")}, **options)


async def come(opened: World, count: int) -> None:
    """Wait until so many sessions were told of, and nothing is due any more."""
    async with asyncio.timeout(60):
        while len([row for row in await opened.rows() if row.source == "session"]) < count:
            await asyncio.sleep(0.01)
    await opened.settle()


@pytest.mark.covers("V65")
def test_a_store_ends_and_reads_its_own_silent_sessions_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Hands()
    monkeypatch.setattr(memory_writer, "SWEEP", 0.01)

    async def work() -> None:
        async with shared(tmp_path, "one", clock=clock) as one:
            await one.say(RESPONSES, ["I have a dog named Rex"])
        async with shared(tmp_path, "two", clock=clock) as two:
            await two.say(RESPONSES, ["I live in Lisbon"])
            clock.now += timedelta(minutes=31)
            await come(two, 1)
            told = [row.memory for row in await two.rows()]
            assert "User lives in Lisbon" in told and not any("Rex" in text for text in told)
        async with shared(tmp_path, "one", clock=clock) as one:
            await come(one, 1)
            told = [row.memory for row in await one.rows()]
            assert "User has a dog named Rex" in told and not any("Lisbon" in text for text in told)

    asyncio.run(work())


@pytest.mark.covers("V32")
def test_a_session_of_the_same_name_counts_its_turns_in_each_store(tmp_path: Path) -> None:
    async def work() -> None:
        async with shared(tmp_path, "one") as one, shared(tmp_path, "two") as two:
            for opened, turns in ((one, 3), (two, 1)):
                turn = [await opened.begin(RESPONSES, user(f"I have {n} cats")) for n in range(turns)][-1]
                assert turn.number == turns
            kernel, ledger = two.engine.kernel, await two.engine.kernel.required_ledger()
            mine = await own_session(kernel, ledger, "s1", ANN)
            theirs = await own_session(one.engine.kernel, ledger, "s1", ANN)
            assert mine is not None and theirs is not None and (mine.turns, theirs.turns) == (1, 3)
            assert await own_session_of(kernel, ledger, mine.id) == mine
            assert await own_session_of(kernel, ledger, theirs.id) is None
            end = await two.remembering.end_session("s1", ANN)
            assert (end.session_id, end.turns) == (mine.id, 1)
            theirs = await own_session(one.engine.kernel, ledger, "s1", ANN)
            assert theirs is not None and theirs.ended_at is None

    asyncio.run(work())
