"""Races: closing under load, forks, one key sent twice, an undo against an erasure, loops that stop."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from perdure import AsyncMemory, ClosedError, ConflictError, Memory, PerdureError, Scope
from perdure.backends.embedders.hashed import HashedEmbedder
from tests.conftest import Open
from tests.engine.core.adversarial_memories import ANA, HASHED, texts

# ------------------------------------------------------------------ closing


@pytest.mark.parametrize("patience", [0.0, 0.01, 0.05, 0.15])
def test_close_under_load(open_memory: Open, patience: float) -> None:
    """Every call ends well or as ClosedError, and what was acknowledged, and nothing else, is there."""
    memory = open_memory(embedder=HASHED)
    said: list[str] = []
    errors: list[BaseException] = []

    def work(name: int) -> None:
        for number in range(500):
            text = f"note {name} {number}"
            try:
                memory.add(text, infer=False, **ANA)
            except BaseException as error:
                errors.append(error)
                return
            said.append(text)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    time.sleep(patience)
    memory.close()
    for thread in threads:
        thread.join()
    assert {type(error) for error in errors} == {ClosedError}
    again = open_memory(embedder=HASHED)
    assert sorted(texts(again)) == sorted(said)


def test_close_waits_for_what_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        memory = AsyncMemory({"path": str(tmp_path), "embedder": HASHED})
        begun = asyncio.Event()
        embed = HashedEmbedder.embed_batch

        async def slow(self: HashedEmbedder, batch: Sequence[str]) -> Any:
            begun.set()
            await asyncio.sleep(0.1)
            return await embed(self, batch)

        monkeypatch.setattr(HashedEmbedder, "embed_batch", slow)
        adding = asyncio.create_task(memory.add("note", infer=False, **ANA))
        await begun.wait()
        closers = [asyncio.create_task(memory.close()) for _ in range(3)]
        await asyncio.sleep(0.01)
        with pytest.raises(ClosedError):
            await memory.get_all(**ANA)
        assert not any(closer.done() for closer in closers), "the second closer waits as the first does"
        assert len((await adding).results) == 1
        await asyncio.gather(*closers)

    asyncio.run(main())


def test_close_does_not_wait_for_a_loop_that_has_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(self: HashedEmbedder, batch: Sequence[str]) -> Any:
        await asyncio.Event().wait()

    memory = AsyncMemory({"path": str(tmp_path), "embedder": HASHED})
    asyncio.run(memory.add("before", infer=False, **ANA))
    monkeypatch.setattr(HashedEmbedder, "embed_batch", never)
    loop = asyncio.new_event_loop()
    task = loop.create_task(memory.add("stuck", infer=False, **ANA))
    loop.run_until_complete(asyncio.sleep(0.05))
    asyncio.run(asyncio.wait_for(memory.close(), 10))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()


def test_an_opening_that_fails_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    folder.write_text("a file where the folder should be")
    memory = Memory({"path": str(folder), "embedder": HASHED})
    for _ in range(2):
        with pytest.raises(PerdureError):
            memory.add("note", infer=False, **ANA)
    folder.unlink()
    memory.add("note", infer=False, **ANA)
    assert texts(memory) == ["note"]
    memory.close()


def test_closing_what_failed_to_open_lets_go_of_all(tmp_path: Path) -> None:
    """The store opens, the collection is refused: no file stays open."""
    folder = tmp_path / "memory"
    memory = Memory({"path": str(folder), "embedder": {"provider": "hashed", "config": {"dimensions": 16}}})
    other = Memory({"path": str(folder), "embedder": {"provider": "hashed", "config": {"dimensions": 8}}})
    memory.add("note", infer=False, **ANA)
    with pytest.raises(PerdureError):
        other.add("note", infer=False, **ANA)
    other.close()
    memory.close()
    held = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]  # noqa: PTH208
    assert [name for name in held if name.startswith(str(folder))] == []


# ------------------------------------------------------------------ forks

FORK = """
import os, sys, warnings
warnings.simplefilter("ignore")  # Python warns of every fork with threads, which is what this is about
from perdure import Memory
memory = Memory({"path": sys.argv[1], "embedder": {"provider": "hashed"}})
memory.add("before", user_id="ana", infer=False)
children = []
for name in ("first", "second"):
    child = os.fork()
    if child == 0:
        assert [item.memory for item in memory.get_all(user_id="ana").results][0] == "before"
        for number in range(5):
            id = memory.add(f"{name} {number}", user_id="ana", infer=False).results[0].id
            memory.update(id, f"{name} {number} changed")
        memory.close()
        os._exit(0)
    children.append(child)
for number in range(5):
    memory.add(f"parent {number}", user_id="ana", infer=False)
assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
print(len(memory.get_all(user_id="ana").results))
memory.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_used_after_a_fork(open_memory: Open, tmp_path: Path) -> None:
    """Parent and children go on with the same memory, each over connections of its own."""
    done = subprocess.run(
        [sys.executable, "-c", FORK, str(tmp_path / "memory")], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "16\n", "")
    memory = open_memory(embedder=HASHED)
    assert len(texts(memory)) == 16
    assert all(len(memory.history(item.id)) == 1 + ("changed" in item.memory) for item in memory.get_all(**ANA).results)


# ------------------------------------------------------------------ idempotency


@pytest.mark.parametrize("infer", [True, False])
@pytest.mark.parametrize("store", ["sqlite", "memory"])
def test_a_key_sent_many_times_at_once_adds_once(open_memory: Open, store: str, infer: bool) -> None:
    memory = open_memory(embedder=HASHED, vector_store={"provider": store})
    with ThreadPoolExecutor(8) as pool:
        results = list(
            pool.map(
                lambda number: memory.add(f"I own {number} lamps", infer=infer, idempotency_key="k", **ANA), range(8)
            )
        )
    assert len({str(result.model_dump()) for result in results}) == 1
    assert len(texts(memory)) == 1
    assert memory.get_all(**ANA).results[0].id == results[0].results[0].id


def test_a_key_over_two_engines(open_memory: Open) -> None:
    pair = [open_memory(embedder=HASHED) for _ in range(2)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda each: each.add("note", infer=False, idempotency_key="k", **ANA), pair * 4))
    assert texts(pair[0]) == ["note"]


def test_a_key_belongs_to_its_collection(open_memory: Open) -> None:
    """Two collections share a ledger: the answer of one says nothing of the other."""
    for name in ("one", "two"):
        memory = open_memory(embedder=HASHED, vector_store={"collection_name": name})
        memory.add("note", infer=False, idempotency_key="k", **ANA)
        assert texts(memory) == ["note"]


def test_a_key_with_messages_that_are_not_kept(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED, episodes="off")
    first = memory.add("User likes tea", idempotency_key="k", **ANA)
    assert memory.add("User likes tea", idempotency_key="k", **ANA).model_dump() == first.model_dump()
    nothing = memory.add("hello!", idempotency_key="n", **ANA)
    assert nothing.results == [] and memory.add("User likes jazz", idempotency_key="n", **ANA).results == []
    assert texts(memory) == ["User likes tea"]


def test_what_was_given_up_is_told_again(open_memory: Open) -> None:
    """A retry of a call whose extraction failed must not look like a success."""
    llm = {"provider": "scripted", "config": {"answers": ["no JSON at all", "still none"]}}
    memory = open_memory(embedder=HASHED, llm=llm)
    first = memory.add("I live in Oslo", idempotency_key="k", **ANA)
    assert first.warnings
    assert memory.add("I live in Oslo", idempotency_key="k", **ANA).warnings == first.warnings


# ------------------------------------------------------------------ undo against erasure


def test_an_undo_that_waits_for_an_erasure_brings_nothing_back(tmp_path: Path) -> None:
    async def main() -> None:
        memory = AsyncMemory({"path": str(tmp_path), "embedder": HASHED})
        id = (await memory.add("the secret", infer=False, **ANA)).results[0].id
        await memory.delete(id)
        event = (await memory.history(id))[-1].id
        kernel = memory._engine.kernel
        assert kernel.ledger is not None
        async with kernel.lock(Scope(user_id="ana")):
            undoing = asyncio.create_task(memory.undo(event))
            await asyncio.sleep(0.05)
            await kernel.ledger.erase([id], [])
        with pytest.raises(ConflictError, match="erased"):
            await undoing
        assert await memory.get(id) is None
        await memory.close()

    asyncio.run(main())


# ------------------------------------------------------------------ many loops


def test_one_memory_changed_from_many_loops(tmp_path: Path) -> None:
    """Every update is an event, in one order that texts and versions agree with."""
    memory = AsyncMemory({"path": str(tmp_path), "embedder": HASHED})
    id = asyncio.run(memory.add("text", infer=False, **ANA)).results[0].id

    async def change(name: int) -> None:
        for number in range(6):
            await memory.update(id, f"text {name} {number}")

    threads = [threading.Thread(target=lambda name=name: asyncio.run(change(name))) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def look() -> None:
        records = await memory.history(id)
        assert len(records) == 25
        for earlier, later in pairwise(records):
            assert later.old_value == earlier.new_value and later.timestamp > earlier.timestamp
            (seen,) = (await memory.get_all(as_of=later.timestamp, **ANA)).results
            assert seen.memory == later.new_value
        await memory.close()

    asyncio.run(look())


def test_a_curator_at_work_does_not_hold_up_a_loop_that_ended(tmp_path: Path) -> None:
    """Its thread goes on for a while after the call was cancelled and the loop has gone."""
    code = """
import asyncio, sys, threading, time
from perdure import AsyncMemory
from perdure.engine.write.curator import Judgement, RulesCurator

memory = AsyncMemory({"path": sys.argv[1], "embedder": {"provider": "hashed"}})
asking = threading.Event()

class Asks(RulesCurator):
    async def judge(self, facts, neighbours, **_):
        def ask():
            asking.set()
            time.sleep(0.1)  # by now the loop has ended
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        from perdure.backends.blocking import run_blocking
        await run_blocking(ask)
        return Judgement([[] for _ in facts])

memory._engine.kernel.curator = Asks(1000, keeps_words=True, takes_notes=False, judge=lambda: None)
async def main():
    task = asyncio.create_task(memory.add_facts(["User likes tea"], user_id="ana"))
    while not asking.is_set():
        await asyncio.sleep(0.001)
    task.cancel()
asyncio.run(main())
print("ended")
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr


OUTLIVING_FORK = """
import os, sys, warnings
warnings.simplefilter("ignore")
from perdure import Memory
memory = Memory({"path": sys.argv[1], "embedder": {"provider": "hashed"}, "vector_store": {"provider": sys.argv[2]}})
memory.add("before", user_id="ana", infer=False)
is_closed, closes = os.pipe()
is_used, uses = os.pipe()
child = os.fork()
if child == 0:
    memory.add("child, beside its parent", user_id="ana", infer=False)
    os.write(uses, b".")
    os.read(is_closed, 1)
    memory.add("child, after its parent", user_id="ana", infer=False)
    os._exit(0)  # killed: it closes nothing
os.read(is_used, 1)
memory.close()
os.write(closes, b".")
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("provider", ["sqlite", "faiss"])
def test_a_child_that_outlives_its_parent_loses_nothing(open_memory: Open, tmp_path: Path, provider: str) -> None:
    """What SQLite knows of its locks must not be copied: the parent would remove the log that the child writes."""
    done = subprocess.run(
        [sys.executable, "-c", OUTLIVING_FORK, str(tmp_path / "memory"), provider],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
    memory = open_memory(embedder=HASHED, vector_store={"provider": provider})
    assert sorted(texts(memory)) == ["before", "child, after its parent", "child, beside its parent"]


FORK_IN_USE = """
import os, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from perdure.backends.ledgers.sqlite import SqliteDatabase
from perdure.backends.sqlite_file import FORK_GATE
type(FORK_GATE).WAIT_SECONDS = 0.05
ledger, other = (SqliteDatabase(Path(sys.argv[1]) / name, 10.0) for name in ("history.db", "other.db"))
ledger.open()
with ledger.asking() if sys.argv[2] == "in use" else open(os.devnull):
    child = os.fork()
if child == 0:
    try:
        ledger.forsake(); ledger.open()
        print("opened", flush=True)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    other.open()
    with other.asking() as ask:
        print(ask("SELECT 1"), flush=True)
    os._exit(0)
os.waitpid(child, 0)
with ledger.asking() as ask:
    print(ask("SELECT 2"))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("when", ["in use", "between two calls"])
def test_a_fork_in_the_middle_of_a_call_is_refused_in_the_child(tmp_path: Path, when: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK_IN_USE, str(tmp_path), when], capture_output=True, text=True, timeout=60
    )
    first, *others = done.stdout.splitlines()
    assert (done.returncode, done.stderr, others) == (0, "", ["[(1,)]", "[(2,)]"])
    if when == "in use":
        assert "it was in use when this process was forked" in first
        assert "fork between two calls" in first
    else:
        assert first == "opened"
