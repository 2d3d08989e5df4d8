"""Recalls come first: what nobody waits for stands back while one is under way, and not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure.backends.ledgers.base import Ledger
from perdure.domain.errors import VectorStoreError
from perdure.engine.aio import priority
from perdure.engine.aio.calls import background
from perdure.engine.aio.priority import PriorityGate
from perdure.engine.chat.memory_reader import MemoryReader, RecallRequest
from perdure.engine.chat.memory_writer import MemoryWriter
from perdure.engine.chat.settings import GatewaySettings
from perdure.engine.chat.turn_log import PendingTurn
from perdure.frontends.gateway.gateway import BackgroundTasks
from tests.contracts.ledgers.ledger_worker import awaited
from tests.engine.chat.talks import World, talk, user, world

pytestmark = pytest.mark.covers("V63")

LONG = 60.0


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work stands back for as long as a test takes."""
    monkeypatch.setattr(priority, "MAX_WAIT_SECONDS", LONG)


async def steps(told: list[str], count: int = 3) -> str:
    for number in range(count):
        told.append(f"step {number}")
        await asyncio.sleep(0)
    return "done"


async def turns(count: int = 20) -> None:
    """Let whatever can go on do so."""
    for _ in range(count):
        await asyncio.sleep(0.001)


# ------------------------------------------------------------------ the order
@pytest.mark.covers("V63")
@pytest.mark.usefixtures("patient")
@awaited
async def test_work_does_not_begin_while_a_recall_is_under_way() -> None:
    way, told = PriorityGate(), list[str]()
    with way.first():
        work = asyncio.ensure_future(way.behind(steps(told)))
        await turns()
        assert told == []
    assert await work == "done" and told == ["step 0", "step 1", "step 2"]


@pytest.mark.covers("V63")
@pytest.mark.usefixtures("patient")
@awaited
async def test_work_under_way_stands_back_where_it_next_awaits_something() -> None:
    way, told = PriorityGate(), list[str]()
    work = asyncio.ensure_future(way.behind(steps(told)))
    while not told:
        await asyncio.sleep(0)
    with way.first():
        before = list(told)
        await turns()
        assert told == before and not work.done()
    assert await work == "done" and len(told) == 3


@pytest.mark.covers("V63")
@pytest.mark.usefixtures("patient")
@awaited
async def test_several_recalls_at_once_all_come_first() -> None:
    way, told = PriorityGate(), list[str]()
    with way.first():
        with way.first():
            work = asyncio.ensure_future(way.behind(steps(told)))
            await turns()
        await turns()
        assert told == [], "the other one is still under way"
    assert await work == "done"


@pytest.mark.covers("V63")
@awaited
async def test_without_a_recall_work_does_not_wait() -> None:
    told: list[str] = []
    work = asyncio.ensure_future(PriorityGate().behind(steps(told, 1)))
    for _ in range(3):
        await asyncio.sleep(0)
    assert work.done() and work.result() == "done"


@pytest.mark.covers("V63")
@awaited
async def test_recalls_without_end_do_not_keep_work_from_its_end() -> None:
    way, told = PriorityGate(), list[str]()
    with way.first():
        async with asyncio.timeout(LONG):
            assert await way.behind(steps(told, 50)) == "done"
    assert len(told) == 50


# ------------------------------------------------------------------ as if nothing stood between
@awaited
async def test_what_work_raises_and_what_it_awaits_in_vain_come_through() -> None:
    way = PriorityGate()

    async def fails() -> None:
        await asyncio.sleep(0)
        raise VectorStoreError("down")

    async def hangs() -> str:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            return "given up"
        return "never"

    with pytest.raises(VectorStoreError, match="down"):
        await way.behind(fails())
    assert await way.behind(hangs()) == "given up"


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("is_begun", [False, True], ids=["before it begins", "between two steps"])
@awaited
async def test_work_that_stands_back_is_cancelled_at_once_and_tidies_up(is_begun: bool) -> None:
    way, told = PriorityGate(), list[str]()

    async def tidy() -> None:
        try:
            await steps(told)
        finally:
            told.append("tidied")

    work = asyncio.ensure_future(way.behind(tidy()))
    while is_begun and not told:
        await asyncio.sleep(0)
    with way.first():
        await turns()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
    assert told[-1:] == (["tidied"] if is_begun else [])


# ------------------------------------------------------------------ in the gateway
@contextmanager
def held(opened: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[asyncio.Event, asyncio.Event]]:
    """Searches of the store begin, and go on only when they are told to."""
    store, begun, go_on = opened.engine.kernel.store, asyncio.Event(), asyncio.Event()
    search = store.search

    async def slow(*given: Any, **more: Any) -> Any:
        begun.set()
        await go_on.wait()
        return await search(*given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(store, "search", slow)
        yield begun, go_on


@pytest.mark.covers("V63")
@pytest.mark.usefixtures("patient")
@awaited
async def test_turns_are_kept_and_read_after_the_recall_that_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = GatewaySettings()
    async with world(tmp_path) as opened:
        await opened.say(talk(), ["I have a cat called Miso."])
        await opened.settle()
        recalling = MemoryReader(opened.engine, settings.model_copy(update={"recall_seconds": LONG}))
        remembering = MemoryWriter(opened.engine, settings, way=recalling.way)
        tasks = BackgroundTasks(recalling.way)
        await remembering.start()
        ledger = opened.engine.kernel.ledger
        assert ledger is not None
        before = await said(ledger)
        with held(opened, monkeypatch) as (begun, go_on):
            recall = asyncio.create_task(recalling(RecallRequest(conversation=talk(), query="what is my cat called?")))
            await begun.wait()
            turn = PendingTurn(conversation=talk(), user=user("I live in Porto."))
            kept = tasks.spawn(remembering.turns.keep_answer(turn, "I see."), "line")
            await turns()
            assert await said(ledger) == before and not kept.done()
            go_on.set()
            found = await recall
        assert [item.memory for item in found.hits] == ["User has a cat called Miso"]
        await kept
        assert await said(ledger) == before + 2
        await opened.settle()
        assert any("Porto" in fact for fact in await opened.facts())
        await remembering.close()
        await recalling.close()


async def said(ledger: Ledger) -> int:
    return len((await ledger.list_episodes(talk().scope)).episodes)


# ------------------------------------------------------------------ beside
@awaited
async def test_what_goes_on_beside_a_search_ends_with_it() -> None:
    told: list[str] = []

    async def walk() -> str:
        try:
            await asyncio.sleep(LONG)
        finally:
            told.append("ended")
        return "never"

    with pytest.raises(VectorStoreError):
        async with background(walk()):
            await asyncio.sleep(0)
            raise VectorStoreError("down")
    assert told == ["ended"]
    async with background(steps(told)) as walking:
        assert await walking == "done"
