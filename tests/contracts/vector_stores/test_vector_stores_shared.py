"""The contract of vector stores that outlive a process, or that threads, loops and processes share."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from perdure.domain.errors import InvalidInputError, VectorStoreError
from perdure.domain.filter import eq
from tests.contracts.conftest import DIMENSION, PROVIDERS, Shelf, Sync, ids, row, vector

ALICE = eq("user_id", "alice")


@pytest.fixture(params=sorted(PROVIDERS))
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shelf]:
    """A shelf of the test's own."""
    loop = asyncio.new_event_loop()
    yield Shelf(request.param, tmp_path, loop)
    loop.close()


@pytest.fixture
def durable(shelf: Shelf) -> Shelf:
    if not shelf.durable:
        pytest.skip(f"{shelf.provider} keeps nothing")
    return shelf


@pytest.fixture
def shared(shelf: Shelf) -> Shelf:
    if not shelf.entry.shared:
        pytest.skip(f"{shelf.provider} is for one instance at a time")
    return shelf


def worker(shelf: Shelf, task: str, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.contracts.vector_stores.vector_store_worker", shelf.entry.name]
    return subprocess.Popen(
        [*command, json.dumps(shelf.entry.settings(shelf.folder)), task, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )


# ------------------------------------------------------------------ life after the process


def test_rows_outlive_the_store(durable: Shelf) -> None:
    store = durable.open()
    name = store.identity()
    store.create_collection("c", DIMENSION, model="minilm-384")
    store.apply("c", [row("a", [1, 2], metadata={"x": 1}), row("b", [2, 1])])
    store.apply("c", [row("c", [1])], ["b"])
    store.close()
    again = durable.open()
    assert again.identity() == name
    assert again.list_collections() == ["c"]
    assert again.get_collection_info("c").model == "minilm-384"
    assert ids(again.list("c")) == ["a", "c"]
    assert again.get("c", "a").payload == row("a", metadata={"x": 1}).payload
    assert ids(again.search("c", vector(1, 2), 5, ALICE)) == ["a", "c"]
    assert again.check("c") == []
    again.close()


def test_a_store_may_be_opened_again_by_the_same_instance(shelf: Shelf) -> None:
    store = shelf.open()
    store.create_collection("c", DIMENSION)
    store.apply("c", [row("a")])
    store.close()
    with pytest.raises(VectorStoreError):
        store.count("c")
    store.open()
    if shelf.durable:
        assert store.count("c") == 1
    else:
        assert store.list_collections() == []
    store.close()


def test_the_memory_of_one_instance_is_not_anothers(shelf: Shelf) -> None:
    if shelf.durable:
        pytest.skip("rows are where the settings say")
    one, two = shelf.open(), shelf.open()
    one.create_collection("c", DIMENSION)
    assert two.list_collections() == []
    assert one.identity() != two.identity()


def test_stored_dimension_needs_no_open_store(durable: Shelf) -> None:
    store = durable.make()
    assert store.stored_dimension("c") is None
    assert list(durable.folder.iterdir()) == []
    store.open()
    store.create_collection("c", 5)
    assert store.stored_dimension("c") in (5, None)
    store.close()
    before = sorted(durable.folder.rglob("*"))
    if durable.make().stored_dimension("c") is not None:
        assert durable.make().stored_dimension("c") == 5
        assert durable.make().stored_dimension("another") is None
        assert sorted(durable.folder.rglob("*")) == before


# ------------------------------------------------------------------ many at once


def test_two_instances_see_each_others_changes(shared: Shelf) -> None:
    one, two = shared.open(), shared.open()
    assert one.identity() == two.identity()
    one.create_collection("c", DIMENSION)
    one.apply("c", [row(str(n), [np.cos(n), np.sin(n)]) for n in range(50)])
    for store in (one, two):
        assert ids(store.search("c", vector(1), 1, ALICE)) == ["0"]
    one.apply("c", [row("new", [1])], ["0"])
    assert ids(two.search("c", vector(1), 1, ALICE)) == ["new"]
    two.update("c", "new", vector(-1))
    assert "new" not in ids(one.search("c", vector(1), 10, ALICE))
    two.update("c", "1", payload=row("1", user_id="bob").payload)
    assert ids(one.search("c", vector(np.cos(1), np.sin(1)), 1, eq("user_id", "bob"))) == ["1"]
    assert "1" not in ids(one.search("c", vector(np.cos(1), np.sin(1)), 100, ALICE))
    two.delete_collection("c")
    with pytest.raises(VectorStoreError, match="'c'"):
        one.search("c", vector(1), 1, ALICE)
    one.create_collection("c", DIMENSION)
    assert two.search("c", vector(1), 5, ALICE) == []
    one.close()
    two.close()


WRITES_AND_READS: dict[str, Callable[[Sync], object]] = {
    "apply": lambda store: store.apply("c", [row("a")]),
    "search": lambda store: store.search("c", vector(1), 1),
}


@pytest.mark.parametrize("call", WRITES_AND_READS.values(), ids=WRITES_AND_READS)
def test_a_collection_that_others_made_again_for_another_length(shelf: Shelf, call: Callable[[Sync], object]) -> None:
    """The first call may go by what was known, and the engine refuses it; every later one knows better."""
    one = shelf.open()
    two = shelf.open() if shelf.entry.shared else one
    one.create_collection("c", DIMENSION)
    call(one)
    two.delete_collection("c")
    two.create_collection("c", 3)
    two.insert("c", "short", np.ones(3, np.float32), {})
    with pytest.raises((VectorStoreError, InvalidInputError)):
        call(one)
    with pytest.raises(InvalidInputError):
        call(one)
    assert ids(two.list("c")) == ["short"]
    two.delete_collection("c")
    two.create_collection("c", DIMENSION)
    one.apply("c", [row("b")])
    assert ids(two.search("c", vector(1), 5)) == ["b"]
    one.close()
    two.close()


def test_many_threads_with_loops_of_their_own(shelf: Shelf) -> None:
    """Each thread writes its own rows and finds them; nobody ever sees a half-written batch."""
    store = shelf.open()
    store.create_collection("c", DIMENSION)
    failures: list[BaseException] = []

    async def work(name: str) -> None:
        for turn in range(12):
            batch = [row(f"{name}-{turn}-{k}", [k + 1, turn], user_id=name, metadata={"turn": turn}) for k in range(5)]
            await store.store.apply("c", batch)
            hits = await store.store.search("c", vector(1, turn), 99, eq("user_id", name))
            assert len(hits) == 5 * (turn + 1)
            everything = await store.store.list("c")
            seen: dict[str, int] = {}
            for point in everything.points:
                batch_name = point.id.rpartition("-")[0]
                seen[batch_name] = seen.get(batch_name, 0) + 1
            assert set(seen.values()) == {5} or not shelf.entry.atomic

    def run(name: str) -> None:
        try:
            asyncio.run(work(name))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(f"t{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert store.count("c") == 6 * 12 * 5
    assert store.check("c") == []
    store.close()


def test_searches_stay_exact_while_others_write_the_same_scope(shelf: Shelf) -> None:
    """Rows that never change are always found, whatever comes and goes around them."""
    store = shelf.open()
    store.create_collection("c", DIMENSION)
    fixed = [row(f"fixed-{n}", [10, n / 100]) for n in range(20)]
    store.apply("c", fixed)
    stop = threading.Event()
    failures: list[BaseException] = []

    async def write() -> None:
        turn = 0
        while not stop.is_set():
            coming = [row(f"loose-{turn}-{k}", [-1, k]) for k in range(8)]
            await store.store.apply("c", coming, [f"loose-{turn - 3}-{k}" for k in range(8)])
            # Moves its row in the file, which a search of an older moment must not lose.
            await store.store.update("c", f"fixed-{turn % 20}", fixed[turn % 20].vector * (1 + turn % 7))
            turn += 1

    async def read() -> None:
        while not stop.is_set():
            hits = await store.store.search("c", vector(1), 20, ALICE)
            assert sorted(ids(hits)) == sorted(ids(fixed))

    def run(task: object) -> None:
        try:
            asyncio.run(task())  # type: ignore[operator]  # a coroutine function
        except BaseException as error:
            failures.append(error)
            stop.set()

    threads = [threading.Thread(target=run, args=(task,)) for task in (write, read, read, read)]
    for thread in threads:
        thread.start()
    stop.wait(2.0)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert store.check("c") == []
    store.close()


def test_a_cancelled_caller_leaves_a_sound_store(shelf: Shelf) -> None:
    store = shelf.open()
    store.create_collection("c", DIMENSION)

    async def cancelled() -> None:
        for number in range(20):
            batch = [row(f"{number}-{k}", [k, 1]) for k in range(50)]
            task = asyncio.ensure_future(store.store.apply("c", batch))
            await asyncio.sleep(0.001 * (number % 4))
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    shelf.loop.run_until_complete(cancelled())
    counts = dict.fromkeys(range(20), 0)
    deadline = time.monotonic() + 10
    while True:
        before = counts
        counts = dict.fromkeys(range(20), 0)
        for point in store.list("c").points:
            counts[int(point.id.partition("-")[0])] += 1
        if counts == before or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    assert set(counts.values()) <= {0, 50} or not shelf.entry.atomic
    assert store.check("c") == []
    store.close()


def test_processes_share_a_store(shared: Shelf) -> None:
    store = shared.open()
    workers = [worker(shared, "write", name) for name in ("one", "two", "three")]
    for process in workers:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in workers:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    seen = 0
    while any(process.poll() is None for process in workers):
        seen = max(seen, len(store.search("shared", vector(1), 500, ALICE)))
        time.sleep(0.01)  # the processes need the machine too
    for process in workers:
        process.communicate()
        assert process.returncode == 0
    expected = sorted(f"{name}-{number}" for name in ("one", "two", "three") for number in range(1, 40, 2))
    assert sorted(ids(store.list("shared"))) == expected
    assert sorted(ids(store.search("shared", vector(1), 500, ALICE))) == expected
    assert store.check("shared") == []
    assert seen > 0
    store.close()


@pytest.mark.parametrize("delay", [0.0, 0.1])
def test_a_killed_process_loses_nothing_that_was_applied(durable: Shelf, delay: float) -> None:
    process = worker(durable, "write_for_ever", "w")
    assert process.stdin
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("go\n")
    process.stdin.flush()
    told = [int(process.stdout.readline()) for _ in range(5)]
    time.sleep(delay)
    process.kill()
    told += [int(line) for line in process.stdout.read().splitlines()]
    process.wait()
    process.stdin.close()
    process.stdout.close()
    store = durable.open()
    seen = -1
    while durable.entry.server and seen != (now := store.count("shared")):
        seen = now  # the request under way may land after its client is gone
        time.sleep(0.5)
    numbers = sorted(int(id.partition("-")[2]) for id in ids(store.list("shared")))
    last = max(told) + 10
    if durable.entry.atomic:
        assert numbers in (expected_after(last), expected_after(last + 10)), "a batch is missing or a part stands"
    else:  # the batch under way may stand in part: the journal writes it again
        told_of, begun = set(expected_after(last)), set(expected_after(last + 10))
        assert told_of & begun <= set(numbers) <= told_of | begun
    assert store.check("shared") == []
    assert len(store.search("shared", vector(1), 10_000, ALICE)) == len(numbers)
    assert len(store.keyword_search("shared", "wrote", 10_000) or numbers) == len(numbers)
    store.close()


def expected_after(count: int) -> list[int]:
    """The numbers that stand after `count` were written in tens, each ten taking away the one 30 before."""
    return sorted(set(range(count)) - {number - 30 for number in range(30, count, 10)})
