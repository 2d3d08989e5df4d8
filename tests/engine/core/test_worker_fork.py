"""A fork waits for the work of other threads alone: work of the loop that forks could never end meanwhile."""

from __future__ import annotations

import asyncio
import threading

import pytest

from perdure.domain.errors import ClosedError
from perdure.engine.aio import worker
from perdure.engine.aio.worker import Worker


def test_work_that_forks_itself_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As uvloop does it, which runs what is registered for forks before it starts a git."""
    waits: list[float] = []
    monkeypatch.setattr(worker.time, "sleep", waits.append)

    async def run() -> None:
        done = asyncio.Event()

        async def work() -> float:
            here.pause()
            here.resume()
            done.set()
            return 3600.0

        here = Worker(work)
        here.wake()
        await done.wait()
        await here.stop()

    asyncio.run(run())
    assert waits == []


def test_work_of_another_thread_is_waited_for() -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    async def work() -> float:
        begun.set()
        await asyncio.to_thread(may_end.wait)
        ended.set()
        return 3600.0

    there = Worker(work)

    async def serve() -> None:
        there.wake()
        while not ended.is_set():
            await asyncio.sleep(0.001)
        await there.stop()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert begun.wait(20)
    threading.Timer(0.05, may_end.set).start()
    there.pause()
    assert ended.is_set()
    there.resume()
    thread.join()


@pytest.mark.parametrize("told", [True, False], ids=["by run_blocking", "by the executor"])
def test_work_ends_quietly_with_the_program(caplog: pytest.LogCaptureFixture, told: bool) -> None:
    """While the interpreter exits no thread starts: every later round would fail the same way."""
    rounds: list[int] = []

    async def work() -> float:
        rounds.append(1)
        ending = RuntimeError("cannot schedule new futures after interpreter shutdown")
        if told:
            raise ClosedError("the program is ending") from ending
        raise ending

    async def run() -> None:
        here = Worker(work)
        here.wake()
        await asyncio.sleep(0.05)
        await here.stop()

    asyncio.run(run())
    assert (rounds, caplog.records) == ([1], [])
    assert not worker.is_ending(ClosedError("the memory was closed"))
