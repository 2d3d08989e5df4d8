"""A caller that gives up: at every point at which a call waits, cancelling it leaves everything whole."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import pytest

from perdure import AsyncMemory, ClosedError, MemoryItem
from perdure.engine.aio.calls import RunOnce
from perdure.engine.maintenance.doctor import examine

ANA = {"user_id": "ana"}
CONFIG: dict[str, Any] = {"embedder": {"provider": "hashed"}}


class CancelledAt:
    """Awaits a coroutine and cancels the task that it runs in while it waits for the nth time."""

    def __init__(self, work: Coroutine[Any, Any, Any], at: int) -> None:
        self.work = work
        self.at = at
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        task = asyncio.current_task()
        assert task is not None
        steps = self.work.__await__()
        sent: Any = None
        raised: BaseException | None = None
        while True:
            try:
                waiting = steps.send(sent) if raised is None else steps.throw(raised)
            except StopIteration as end:
                return end.value
            self.waits += 1
            if self.waits == self.at:
                asyncio.get_running_loop().call_soon(task.cancel)
            sent = raised = None
            try:
                sent = yield waiting
            except BaseException as error:
                raised = error


async def cancelled_at(work: Coroutine[Any, Any, Any], at: int) -> bool:
    """Whether the work was cancelled at its nth wait; it was not if it has fewer."""
    driven = CancelledAt(work, at)

    async def drive() -> None:
        await driven

    try:
        await asyncio.create_task(drive())
    except asyncio.CancelledError:
        return True
    assert driven.waits < at, "the cancellation was swallowed"
    return False


async def state(memory: AsyncMemory) -> list[tuple[str, str]]:
    """Every memory's text, in order, with the last text of its history."""
    items = (await memory.get_all(limit=1000, **ANA)).results
    return [(item.memory, (await memory.history(item.id))[-1].new_value or "") for item in items]


async def assert_whole(memory: AsyncMemory) -> None:
    """Nothing is held, nothing is left half done, and the next call works."""
    kernel = memory._engine.kernel
    assert kernel.ledger is not None
    async with asyncio.timeout(10):  # a lock that is being given back is given back in a thread
        while (stats := await kernel.ledger.stats())["locks"]:
            await asyncio.sleep(0.001)
    assert stats["written"] == 0
    assert [finding.sentence for finding in (await examine(memory._engine)).findings] == []
    async with asyncio.timeout(20):
        probe = (await memory.add("probe", infer=False, **ANA)).results[0].id
        await memory.forget(id=probe)


async def filled(folder: Path, **config: Any) -> tuple[AsyncMemory, list[MemoryItem]]:
    memory = AsyncMemory({**CONFIG, "path": str(folder), **config})
    await memory.add("I live in Oslo", timestamp="2026-01-01", **ANA)
    await memory.add("note one", infer=False, **ANA)
    return memory, (await memory.get_all(**ANA)).results


Call = Callable[[AsyncMemory, list[MemoryItem]], Coroutine[Any, Any, Any]]


async def undo_update(memory: AsyncMemory, items: list[MemoryItem]) -> None:
    await memory.undo((await memory.history(items[0].id))[-1].id)


CALLS: dict[str, Call] = {
    "add as said": lambda memory, items: memory.add(
        [{"role": "user", "content": f"message {number}"} for number in range(3)], infer=False, **ANA
    ),
    "add with a key": lambda memory, items: memory.add("said", infer=False, idempotency_key="k", **ANA),
    "add": lambda memory, items: memory.add("I moved to Bergen. I have a dog called Rex.", **ANA),
    "add_facts": lambda memory, items: memory.add_facts(["User likes tea", "User likes jazz"], **ANA),
    "update": lambda memory, items: memory.update(items[1].id, "note changed"),
    "delete": lambda memory, items: memory.delete(items[1].id),
    "delete_all": lambda memory, items: memory.delete_all(**ANA),
    "forget an id": lambda memory, items: memory.forget(id=items[1].id),
    "forget a query": lambda memory, items: memory.forget(query="note one", **ANA),
    "forget a scope": lambda memory, items: memory.forget(**ANA),
    "undo": undo_update,
    "rollback": lambda memory, items: memory.rollback(to="2020-01-01", **ANA),
    "reset": lambda memory, items: memory.reset(),
    "search": lambda memory, items: memory.search("where does she live?", **ANA),
    "context": lambda memory, items: memory.context("where does she live?", **ANA),
}


@pytest.mark.parametrize("name", CALLS)
def test_cancelled_wherever_it_waits(tmp_path: Path, name: str) -> None:
    """It has happened whole, or not at all."""

    async def main() -> None:
        before, after = set(), set()
        at = 0
        while True:
            at += 1
            memory, items = await filled(tmp_path / str(at))
            before.add(str(await state(memory)))
            was_cancelled = await cancelled_at(CALLS[name](memory, items), at)
            now = str(await state(memory))
            await assert_whole(memory)
            await memory.close()
            if not was_cancelled:
                after.add(now)
                break
            after.add(now)
        assert len(before) == 1 and len(after - before) <= 1, "a third state is a half-done one"
        assert at > 1

    asyncio.run(main())


@pytest.mark.parametrize("store", ["sqlite", "memory"])
def test_cancelled_while_it_opens(tmp_path: Path, store: str) -> None:
    """The first call opens everything: whoever comes next finds it open, or opens it."""

    async def main() -> None:
        for at in range(1, 40):
            config = {**CONFIG, "path": str(tmp_path / str(at)), "vector_store": {"provider": store}}
            memory = AsyncMemory(config)
            was_cancelled = await cancelled_at(memory.add("first", infer=False, **ANA), at)
            await memory.add("second", infer=False, **ANA)
            texts = [item.memory for item in (await memory.get_all(**ANA)).results]
            assert texts in (["second"], ["first", "second"])
            await memory.close()
            if not was_cancelled:
                return
        raise AssertionError("it never ended")

    asyncio.run(main())


@pytest.mark.parametrize("at", range(1, 12))
def test_a_cancelled_close_can_be_repeated(tmp_path: Path, at: int) -> None:
    async def main() -> None:
        memory, _ = await filled(tmp_path)
        await cancelled_at(memory.close(), at)
        await memory.close()
        with pytest.raises(ClosedError):
            await memory.get_all(**ANA)
        again = AsyncMemory({**CONFIG, "path": str(tmp_path)})
        assert len((await again.get_all(**ANA)).results) == 2
        await again.close()

    asyncio.run(main())


def test_timeouts_under_load(tmp_path: Path) -> None:
    """Many callers with little patience on one scope: who was told yes is there, and the rest works on."""

    async def main() -> None:
        memory = AsyncMemory({**CONFIG, "path": str(tmp_path)})
        done: list[str] = []

        async def add(number: int) -> None:
            text = f"note {number}"
            try:
                async with asyncio.timeout(0.002 * (number % 11)):
                    await memory.add(text, infer=False, **ANA)
                done.append(text)
            except TimeoutError:
                pass

        for start in range(0, 120, 30):
            await asyncio.gather(*(add(start + number) for number in range(30)))
        stored = [item.memory for item in (await memory.get_all(limit=1000, **ANA)).results]
        assert set(done) <= set(stored) and len(stored) == len(set(stored))
        await assert_whole(memory)
        await memory.close()

    asyncio.run(main())


def test_a_loop_that_ends_leaves_nothing_half_done(tmp_path: Path) -> None:
    """asyncio.run cancels what is still running when its main task ends."""
    memory = AsyncMemory({**CONFIG, "path": str(tmp_path)})

    async def leave(steps: int) -> None:
        tasks = [asyncio.create_task(memory.add(f"note {steps} {n}", infer=False, **ANA)) for n in range(4)]
        for _ in range(steps):
            await asyncio.sleep(0.001)
        assert tasks

    async def look() -> None:
        await assert_whole(memory)
        await memory.close()

    for steps in range(12):
        asyncio.run(leave(steps))
    asyncio.run(look())


# ------------------------------------------------------------------ opening once


def test_a_waiter_that_is_cancelled_concerns_nobody() -> None:
    async def main() -> list[Any]:
        gate = asyncio.Event()
        once = RunOnce(gate.wait)  # type: ignore[arg-type]
        tasks = [asyncio.create_task(call()) for call in [once] * 3]
        await asyncio.sleep(0.01)
        tasks[1].cancel()
        await asyncio.sleep(0.01)
        gate.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, second, third = asyncio.run(main())
    assert (first, third) == (None, None) and isinstance(second, asyncio.CancelledError)


def test_where_the_first_is_cancelled_another_begins_anew() -> None:
    begun = 0

    async def main() -> list[Any]:
        gate = asyncio.Event()

        async def action() -> None:
            nonlocal begun
            begun += 1
            await gate.wait()

        once = RunOnce(action)
        tasks = [asyncio.create_task(call()) for call in [once] * 3]
        await asyncio.sleep(0.01)
        tasks[0].cancel()
        await asyncio.sleep(0.01)
        gate.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, second, third = asyncio.run(main())
    assert isinstance(first, asyncio.CancelledError) and (second, third) == (None, None)
    assert begun == 2


def test_a_failure_is_told_to_all_and_the_next_tries_again() -> None:
    outcomes: list[Exception | None] = [OSError("no"), None]

    async def main() -> list[Any]:
        async def action() -> None:
            await asyncio.sleep(0.01)
            outcome = outcomes.pop(0)
            if outcome is not None:
                raise outcome

        once = RunOnce(action)
        waiting: list[Awaitable[None]] = [once() for _ in range(3)]
        failed = await asyncio.gather(*waiting, return_exceptions=True)
        await once()
        return failed

    assert [type(each) for each in asyncio.run(main())] == [OSError] * 3
    assert outcomes == []
