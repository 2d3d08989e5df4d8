"""Texts that wait at the same time share runs; each caller gets its own vectors, or its own error."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.backends import blocking
from perdure.backends.shared import micro_batches
from perdure.backends.shared.micro_batches import MOST_JOBS, QUERY_TURNS, RUN_TOKENS, MicroBatcher, Tokens, fitting
from perdure.backends.shared.onnx import RUN_COST, batches, packs, rows_of
from perdure.domain.errors import EmbeddingError

BAD = 13
"""A token that the model breaks on."""


class Model:
    """A model whose vectors are known: the number of tokens and their sum. It notes its runs and can be held up."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.runs: list[Tokens] = []
        self.may_run = threading.Event()
        self.may_run.set()
        self.begun = threading.Event()
        self.seconds = seconds
        self.at_once = self.most_at_once = 0
        self._lock = threading.Lock()

    def run(self, tokens: Tokens) -> np.ndarray:
        with self._lock:
            self.runs.append(tokens)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        self.begun.set()
        assert self.may_run.wait(20)
        time.sleep(self.seconds)
        with self._lock:
            self.at_once -= 1
        if any(BAD in ids for ids in tokens):
            raise EmbeddingError("a bad token")
        return np.array([[len(ids), sum(ids)] for ids in tokens], dtype=np.float32)


def tokenize(text: str) -> list[int]:
    if text == "untokenizable":
        raise ValueError(text)
    return [int(word) for word in text.split()]


def make(runners: int = 1, **more: Any) -> MicroBatcher:
    return MicroBatcher(
        tokenize,
        lambda lengths: list(batches(lengths, RUN_TOKENS)),
        dimension=2,
        run_cost=RUN_COST,
        runners=runners,
        **more,
    )


def expected(text: str) -> list[float]:
    ids = tokenize(text)
    return [len(ids), sum(ids)]


def hold(model: Model) -> None:
    model.may_run.clear()
    model.begun.clear()


async def until(condition: Callable[[], object]) -> None:
    for _ in range(4_000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("waited for too long")


async def behind(batcher: MicroBatcher, model: Model) -> asyncio.Task[Any]:
    """A query that occupies the only runner until the model may run."""
    hold(model)
    first = asyncio.create_task(batcher.embed("1", model.run))
    await until(model.begun.is_set)
    return first


# ----------------------------------------------------------------------------------- what is shared
def test_what_waits_during_a_run_is_the_next_run() -> None:
    async def scenario() -> None:
        batcher, model = make(), Model()
        first = await behind(batcher, model)
        others = [asyncio.create_task(batcher.embed(f"2 {number} 4", model.run)) for number in range(20, 40)]
        await asyncio.sleep(0)
        model.may_run.set()
        found = await asyncio.gather(first, *others)
        assert [len(run) for run in model.runs] == [1, MOST_JOBS, 4]
        assert np.array(found[1:]).tolist() == [[3, 26 + number] for number in range(20)]

    asyncio.run(scenario())


def test_a_lone_caller_waits_for_nobody() -> None:
    async def scenario() -> None:
        batcher, model = make(), Model()
        for number in range(20, 25):
            assert (await batcher.embed(str(number), model.run)).tolist() == [1, number]
        assert [len(run) for run in model.runs] == [1] * 5
        await until(lambda: batcher._active == 0)

    asyncio.run(scenario())


def test_there_are_as_many_runs_at_once_as_runners() -> None:
    async def scenario() -> None:
        batcher, model = make(runners=3), Model(seconds=0.01)
        await asyncio.gather(*(batcher.embed(" ".join(["1"] * 60), model.run) for _ in range(30)))
        assert model.most_at_once == 3

    asyncio.run(scenario())


def test_texts_of_different_length_are_not_padded_for_company() -> None:
    async def scenario() -> None:
        batcher, model = make(), Model()
        first = await behind(batcher, model)
        texts = ["1 2", " ".join(["1"] * 40), "3 4", " ".join(["2"] * 41)]
        others = [asyncio.create_task(batcher.embed(text, model.run)) for text in texts]
        await asyncio.sleep(0)
        model.may_run.set()
        found = await asyncio.gather(first, *others)
        assert np.array(found[1:]).tolist() == [expected(text) for text in texts]
        assert [sorted(map(len, run)) for run in model.runs] == [[1], [2, 2], [40, 41]]

    asyncio.run(scenario())


def test_small_lists_of_several_callers_share_runs_too() -> None:
    async def scenario() -> None:
        batcher, model = make(), Model()
        first = await behind(batcher, model)
        lists = [[f"{number} 1", f"{number} 2"] for number in range(20, 28)]
        others = [asyncio.create_task(batcher.embed_batch(texts, model.run)) for texts in lists]
        await asyncio.sleep(0)
        model.may_run.set()
        found = (await asyncio.gather(first, *others))[1:]
        assert [vectors.tolist() for vectors in found] == [[expected(text) for text in texts] for texts in lists]
        assert [len(run) for run in model.runs] == [1, 16]

    asyncio.run(scenario())


def test_without_merging_every_request_has_its_own_runs() -> None:
    async def scenario() -> None:
        batcher, model = make(merges=False), Model()
        first = await behind(batcher, model)
        others = [asyncio.create_task(batcher.embed(str(number), model.run)) for number in range(20, 30)]
        await asyncio.sleep(0)
        model.may_run.set()
        await asyncio.gather(first, *others)
        assert [len(run) for run in model.runs] == [1] * 11

    asyncio.run(scenario())


# ------------------------------------------------------------------------------ queries before lists
def test_a_query_does_not_wait_for_lists() -> None:
    async def scenario() -> None:
        batcher, model, other = make(runners=2), Model(), Model()
        hold(model)
        texts = [" ".join(["1"] * 30)] * 40
        lists = [asyncio.create_task(batcher.embed_batch(texts, model.run)) for _ in range(4)]
        await until(lambda: len(model.runs) == 2)
        for number in range(20, 24):
            assert (await batcher.embed(str(number), other.run)).tolist() == [1, number]
        assert len(model.runs) == 2, "both runners were at lists"
        model.may_run.set()
        assert [vectors.tolist() for vectors in await asyncio.gather(*lists)] == [[[30, 30]] * 40] * 4
        assert all(sum(map(len, run)) <= RUN_TOKENS for run in model.runs)
        await until(lambda: batcher._active == 0)
        assert (batcher._on_lists, batcher._has_extra) == (0, False)

    asyncio.run(scenario())


def test_queries_beside_lists_share_runs_and_one_more_runner() -> None:
    async def scenario() -> None:
        batcher, model = make(), Model()
        hold(model)
        bulk = asyncio.create_task(batcher.embed_batch([" ".join(["1"] * 60)] * 3, model.run))
        await until(model.begun.is_set)
        queries = [asyncio.create_task(batcher.embed("2", model.run)) for _ in range(9)]
        await until(lambda: len(model.runs) == 2)
        model.may_run.set()
        await asyncio.gather(bulk, *queries)
        assert model.most_at_once == 2
        assert sorted(len(run) for run in model.runs if run[0] == [2]) in ([1, 8], [9])

    asyncio.run(scenario())


def test_queries_go_before_lists() -> None:
    async def scenario() -> None:
        batcher, model = make(), Model()
        first = await behind(batcher, model)
        bulk = asyncio.create_task(batcher.embed_batch(["3", "3"], model.run))
        await asyncio.sleep(0)
        query = asyncio.create_task(batcher.embed("2", model.run))
        await asyncio.sleep(0)
        model.may_run.set()
        await asyncio.gather(first, bulk, query)
        assert model.runs == [[[1]], [[2]], [[3], [3]]]

    asyncio.run(scenario())


def test_a_list_is_not_left_out_however_many_queries_come() -> None:
    async def scenario() -> None:
        batcher, model = make(merges=False), Model()
        first = await behind(batcher, model)
        queries = [asyncio.create_task(batcher.embed("1", model.run)) for _ in range(4 * QUERY_TURNS)]
        bulk = asyncio.create_task(batcher.embed_batch(["2", "2"], model.run))
        await asyncio.sleep(0)
        model.may_run.set()
        await asyncio.gather(first, bulk, *queries)
        assert model.runs.index([[2], [2]]) <= QUERY_TURNS + 1

    asyncio.run(scenario())


def test_one_list_takes_one_runner_and_lists_take_turns() -> None:
    async def scenario() -> None:
        batcher, model = make(runners=2), Model(seconds=0.001)
        texts = [" ".join(["1"] * 30)] * 60
        await batcher.embed_batch(texts, model.run)
        assert model.most_at_once == 1
        single, model = make(), Model(seconds=0.001)
        long = asyncio.create_task(single.embed_batch(texts, model.run))
        await until(lambda: len(model.runs) > 2)
        await single.embed_batch([" ".join(["2"] * 90)] * 2, model.run)
        assert not long.done(), "the short list did not wait for the end of the long one"
        await long

    asyncio.run(scenario())


# ------------------------------------------------------------------------------- errors, cancellation
def test_an_error_reaches_the_caller_of_the_text_and_no_other() -> None:
    async def scenario() -> None:
        batcher, model = make(), Model()
        first = await behind(batcher, model)
        texts = ["20", str(BAD), "21", "untokenizable", "22"]
        others = [asyncio.create_task(batcher.embed(text, model.run)) for text in texts]
        await asyncio.sleep(0)
        model.may_run.set()
        found = await asyncio.gather(first, *others, return_exceptions=True)
        assert [type(each) for each in found[1:]] == [
            np.ndarray,
            EmbeddingError,
            np.ndarray,
            ValueError,
            np.ndarray,
        ]
        assert (await batcher.embed("23", model.run)).tolist() == [1, 23]

    asyncio.run(scenario())


def test_an_error_of_all_reaches_each_caller_as_an_error_of_its_own() -> None:
    class PanicError(BaseException):
        pass

    def broken(tokens: Tokens) -> np.ndarray:
        raise PanicError

    async def scenario() -> None:
        batcher = make()
        lists = (batcher.embed_batch(["1", "2"], broken) for _ in range(5))
        found = await asyncio.gather(*(batcher.embed("1", broken) for _ in range(5)), *lists, return_exceptions=True)
        assert all(isinstance(each, EmbeddingError) for each in found)
        assert len({id(each) for each in found}) == 10
        await until(lambda: batcher._active == 0)

    asyncio.run(scenario())


def test_a_cancelled_caller_takes_nobody_along_and_its_text_is_not_run() -> None:
    async def scenario() -> None:
        batcher, model = make(), Model()
        first = await behind(batcher, model)
        waiting = [asyncio.create_task(batcher.embed(str(number), model.run)) for number in range(20, 26)]
        await asyncio.sleep(0)
        for task in (first, waiting[1], waiting[4]):
            task.cancel()
        await asyncio.sleep(0)
        model.may_run.set()
        found = await asyncio.gather(first, *waiting, return_exceptions=True)
        assert [isinstance(each, asyncio.CancelledError) for each in found] == [
            True,
            False,
            True,
            False,
            False,
            True,
            False,
        ]
        assert model.runs[1:] == [[[20], [22], [23], [25]]]

    asyncio.run(scenario())


def test_a_cancelled_list_stops_after_its_run() -> None:
    async def scenario() -> None:
        batcher, model = make(), Model(seconds=0.001)
        bulk = asyncio.create_task(batcher.embed_batch([" ".join(["1"] * 60)] * 500, model.run))
        await until(lambda: len(model.runs) > 3)
        bulk.cancel()
        with pytest.raises(asyncio.CancelledError):
            await bulk
        await until(lambda: batcher._active == 0)
        assert len(model.runs) < 400

    asyncio.run(scenario())


def test_a_loop_that_is_gone_is_not_waited_for() -> None:
    batcher, model = make(), Model()
    hold(model)
    loop = asyncio.new_event_loop()
    task = loop.create_task(batcher.embed("1", model.run))
    late = loop.create_task(batcher.embed("2", model.run))
    loop.run_until_complete(until(model.begun.is_set))
    task._log_destroy_pending = late._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()
    model.may_run.set()
    assert asyncio.run(batcher.embed("3", model.run)).tolist() == [1, 3]
    assert [[2]] not in model.runs


def test_a_pool_that_takes_no_more_work_is_an_error_and_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = blocking._new_pool()
    pool.shutdown()
    batcher, model = make(), Model()
    with monkeypatch.context() as patched:
        patched.setattr(blocking, "_pool", pool)
        with pytest.raises(RuntimeError, match="shutdown"):
            asyncio.run(batcher.embed("1", model.run))
    assert batcher._active == 0
    assert asyncio.run(batcher.embed("2", model.run)).tolist() == [1, 2]


def test_a_model_goes_with_its_last_user() -> None:
    batcher, model = make(), Model()
    asyncio.run(batcher.embed("1", model.run))
    gone = weakref.ref(model)
    gc.disable()
    try:
        del model
        deadline = time.monotonic() + 5
        while gone() is not None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert gone() is None
    finally:
        gc.enable()


# ------------------------------------------------------------------------------ threads, forks, any mix
def test_loops_of_many_threads_share_the_model() -> None:
    batcher, model = make(runners=2), Model(seconds=0.0005)

    async def many(base: int) -> list[list[float]]:
        found = await asyncio.gather(*(batcher.embed(f"{base} {number}", model.run) for number in range(20, 60)))
        return [vector.tolist() for vector in found]

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda base: asyncio.run(many(base)), range(100, 108)))
    assert results == [[[2, base + number] for number in range(20, 60)] for base in range(100, 108)]
    assert len(model.runs) < 8 * 40
    asyncio.run(until(lambda: batcher._active == 0))


def in_child(batcher: MicroBatcher, model: Model, queue: Any) -> None:
    queue.put((batcher.stale, asyncio.run(batcher.embed("7 7", Model().run)).tolist()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("is_busy", [False, True])
def test_a_forked_child_begins_anew_and_knows_a_model_that_was_running(is_busy: bool) -> None:
    batcher, model = make(), Model()
    asyncio.run(batcher.embed("1", model.run))
    if is_busy:
        hold(model)
    thread = threading.Thread(
        target=lambda: asyncio.run(asyncio.wait_for(batcher.embed("2", model.run), 30)), daemon=True
    )
    thread.start()
    if is_busy:
        assert model.begun.wait(20)
    else:
        thread.join()
        while batcher._active:  # the runner answers before it ends
            time.sleep(0.001)
    fork = multiprocessing.get_context("fork")
    queue = fork.SimpleQueue()
    child = fork.Process(target=in_child, args=(batcher, model, queue))
    child.start()
    child.join(20)
    model.may_run.set()
    thread.join()
    assert child.exitcode == 0
    assert queue.get() == (is_busy, [2, 14])
    assert not batcher.stale
    assert asyncio.run(batcher.embed("3", model.run)).tolist() == [1, 3]


texts = st.lists(st.integers(0, 30).filter(lambda token: token != BAD), min_size=1, max_size=40).map(
    lambda ids: " ".join(map(str, ids))
)
requests = st.tuples(st.lists(texts, max_size=50), st.sampled_from(["wait", "wait", "wait", "cancel", "fail"]))


@settings(max_examples=60, deadline=None)
@given(st.lists(requests, max_size=20), st.integers(1, 3), st.booleans())
def test_whatever_comes_everybody_gets_their_own(
    wanted: list[tuple[list[str], str]], runners: int, merges: bool
) -> None:
    async def scenario() -> None:
        batcher, model = make(runners, merges=merges), Model()
        tasks = []
        for number, (own, fate) in enumerate(wanted):
            sent = [*own, str(BAD)] if fate == "fail" else own
            tasks.append(asyncio.create_task(batcher.embed_batch(sent, model.run)))
            if number % 3 == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        for task, (_, fate) in zip(tasks, wanted, strict=True):
            if fate == "cancel":
                task.cancel()
        found = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
        for vectors, (own, fate) in zip(found, wanted, strict=True):
            if fate == "fail":
                assert isinstance(vectors, EmbeddingError)
            elif isinstance(vectors, asyncio.CancelledError):
                assert fate == "cancel"
            else:
                assert vectors.shape == (len(own), 2)
                assert vectors.tolist() == [expected(text) for text in own]
        await until(lambda: batcher._active == 0 and not batcher._has_extra)
        assert not batcher._queries
        assert not batcher._lists
        assert batcher._on_lists == 0
        assert model.most_at_once <= runners + 1

    asyncio.run(scenario())


@given(st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=4), max_size=20))
def test_a_shared_run_has_the_oldest_and_stays_within_its_bounds(widths: list[list[int]]) -> None:
    parts: Sequence[Tokens] = [[[0] * width for width in part] for part in widths]
    chosen = fitting(parts, RUN_COST)
    assert chosen[:1] == ([0] if parts else [])
    assert len(set(chosen)) == len(chosen)
    if len(chosen) > 1:
        together = [ids for place in chosen for ids in parts[place]]
        assert len(together) * max(map(len, together)) <= RUN_TOKENS


def test_the_process_knows_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    assert micro_batches.usable_cores() >= 1
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert micro_batches.usable_cores() == (os.cpu_count() or 1)


LENGTHS = st.lists(st.integers(1, 256), min_size=1, max_size=16)


@given(LENGTHS)
def test_without_padding_the_parts_that_fit_are_taken_in_their_order(lengths: list[int]) -> None:
    parts = [[[1] * length] for length in lengths]
    chosen = fitting(parts, None)
    assert chosen[0] == 0 and chosen == sorted(chosen)
    assert chosen == [0] or sum(lengths[place] for place in chosen) <= RUN_TOKENS


@given(LENGTHS)
def test_every_text_is_in_one_run_and_one_row(lengths: list[int]) -> None:
    runs = packs(lengths, RUN_TOKENS)
    assert sorted(place for run in runs for place in run) == list(range(len(lengths)))
    assert all(len(run) == 1 or sum(lengths[place] for place in run) <= RUN_TOKENS for run in runs)
    rows = rows_of(lengths, 32)
    widths = [sum(lengths[place] for place in row) for row in rows]
    assert sorted(place for row in rows for place in row) == list(range(len(lengths)))
    assert max(widths) <= max(32, *lengths)
    assert len(rows) * max(widths) <= len(lengths) * max(lengths), "never more padding than a row for each text"


def test_a_question_and_its_short_words_lie_in_one_row() -> None:
    assert [sorted(row) for row in rows_of([14, 3, 3, 4], 32)] == [[0, 1, 2, 3]]
    assert len(rows_of([12] * 8, 32)) in (4, 8), "without padding"
