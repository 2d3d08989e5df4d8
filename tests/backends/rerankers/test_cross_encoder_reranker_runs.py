"""In which runs the cross-encoder reads its pairs: lengths together, little padding, stopped where given up."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.backends.registry import build
from perdure.backends.rerankers import cross_encoder
from perdure.backends.rerankers.cross_encoder import (
    CHARACTERS_PER_TOKEN,
    RUN_COST,
    RUN_TOKENS,
    CrossEncoder,
    CrossEncoderReranker,
    Pair,
    _tokenize_with,
)
from perdure.backends.shared.onnx import batches
from perdure.domain.errors import RerankerError
from tests.backends.rerankers.rerank_folders import SPECIAL, WORDS, by_hand, tiny_folder

pytestmark = pytest.mark.covers("A15")

TEXTS = ["user likes tea", "a dog in berlin", "", "user works at the bakery", "tea and coffee and tea"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("tiny"))


def make(folder: Path, **config: Any) -> CrossEncoderReranker:
    built: CrossEncoderReranker = build("rerankers", "cross_encoder", {"path": folder, **config})
    return built


@given(st.lists(st.integers(2, 512), max_size=200), st.integers(1, 40))
def test_every_pair_is_read_once_beside_those_of_its_length(lengths: list[int], most: int) -> None:
    found = [[lengths[position] for position in bucket] for bucket in batches(lengths, RUN_TOKENS, RUN_COST, most)]
    assert [length for bucket in found for length in bucket] == sorted(lengths)
    positions = [position for bucket in batches(lengths, RUN_TOKENS, RUN_COST, most) for position in bucket]
    assert sorted(positions) == list(range(len(lengths)))
    for bucket in found:
        assert len(bucket) <= most
        assert len(bucket) == 1 or len(bucket) * bucket[-1] <= RUN_TOKENS
        assert all(count * (after - before) <= RUN_COST for count, (before, after) in enumerate(pairwise(bucket), 1))


def test_equal_lengths_fill_their_runs() -> None:
    assert [len(bucket) for bucket in batches([16] * 70, RUN_TOKENS, RUN_COST, 32)] == [32, 32, 6]
    assert [len(bucket) for bucket in batches([64] * 20, RUN_TOKENS, RUN_COST, 32)] == [8, 8, 4]
    assert [len(bucket) for bucket in batches([600, 600], RUN_TOKENS, RUN_COST, 32)] == [1, 1]


class Watched:
    """A session that notes the shape of what it is given."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.shapes: list[tuple[int, ...]] = []
        self.padding: set[int] = set()
        self.before: Any = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def run(self, outputs: list[str], feed: dict[str, Any]) -> Any:
        self.before()
        ids, mask = feed["input_ids"], feed["attention_mask"]
        self.shapes.append(ids.shape)
        self.padding |= {int(number) for number in ids[mask == 0]}
        return self._session.run(outputs, feed)


def watched(folder: Path, **config: Any) -> tuple[CrossEncoderReranker, Watched]:
    reranker = make(folder, **config)
    model = reranker._load()
    session = Watched(model._session)
    model._session = session
    return reranker, session


def mixed(count: int) -> list[str]:
    """Texts of 2 to 60 words, in no order."""
    sizes = np.random.default_rng(5).integers(2, 60, count)
    return [" ".join(np.random.default_rng(int(size)).choice(WORDS[SPECIAL:], size)) for size in sizes]


def test_1000_texts_are_read_with_others_of_their_length_and_come_back_in_order(folder: Path) -> None:
    reranker, session = watched(folder)
    texts = mixed(1_000)
    assert asyncio.run(reranker.rerank("user likes tea", texts)) == [by_hand("user likes tea", text) for text in texts]
    lengths = [len(text.split()) + 6 for text in texts]
    read = sum(rows * width for rows, width in session.shapes)
    assert sum(rows for rows, _ in session.shapes) == 1_000
    assert read < 1.05 * sum(lengths), "padding costs as much as text"
    unsorted = sum(32 * max(lengths[start : start + 32]) for start in range(0, 1_000, 32))
    assert unsorted > 1.5 * sum(lengths), "which it would, in the order of the texts"
    assert [width for _, width in session.shapes] == sorted(width for _, width in session.shapes)


@pytest.mark.covers("A15")
@pytest.mark.parametrize("batch_size", [1, 7, 32, 1024])
def test_a_run_holds_32_pairs_or_as_many_as_configured(folder: Path, batch_size: int) -> None:
    reranker, session = watched(folder, batch_size=batch_size)
    texts = ["user likes tea"] * 70
    assert asyncio.run(reranker.rerank("tea", texts)) == [by_hand("tea", texts[0])] * 70
    assert max(rows for rows, _ in session.shapes) == min(batch_size, 70)
    assert CrossEncoderReranker.Settings().batch_size == 32


@pytest.mark.parametrize(("config", "number"), [({"pad_token_id": 1}, 1), ({}, 0), (None, 0)])
def test_padding_has_the_models_own_number(tmp_path: Path, config: dict[str, Any] | None, number: int) -> None:
    reranker, session = watched(tiny_folder(tmp_path, config=config))
    asyncio.run(reranker.rerank("tea", ["tea", "tea and coffee"]))
    assert session.padding == {number}


def test_no_texts_load_no_model(folder: Path) -> None:
    reranker = make(folder / "nowhere")
    assert asyncio.run(reranker.rerank("tea", [])) == []


def test_a_cancelled_call_stops_after_the_run_that_is_under_way(folder: Path) -> None:
    reranker, session = watched(folder, batch_size=1)
    reached, go_on = threading.Event(), threading.Event()

    def before() -> None:
        reached.set()
        assert go_on.wait(10)

    session.before = before

    async def cancelled() -> None:
        task = asyncio.ensure_future(reranker.rerank("tea", TEXTS * 20))
        await asyncio.to_thread(reached.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    go_on.set()
    while not session.shapes:  # the run that was under way
        time.sleep(0.01)
    time.sleep(0.05)
    assert len(session.shapes) == 1


def test_one_model_serves_many_threads_and_is_loaded_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[Any] = []
    whole = cross_encoder.load_model
    monkeypatch.setattr(cross_encoder, "load_model", lambda *files, **how: loads.append(files) or whole(*files, **how))
    reranker = make(folder)
    assert not loads, "construction is cheap"

    async def at_once() -> list[list[float]]:
        return await asyncio.gather(*(reranker.rerank("tea", TEXTS) for _ in range(8)))

    assert asyncio.run(at_once()) == [[by_hand("tea", text) for text in TEXTS]] * 8
    assert len(loads) == 1
    asyncio.run(reranker.close())
    asyncio.run(reranker.rerank("tea", TEXTS))
    assert len(loads) == 2


@pytest.mark.parametrize("huge", ["query", "text"])
def test_a_huge_text_is_tokenized_by_its_beginning_alone(huge: str) -> None:
    read: list[tuple[int, int]] = []

    class Tokenizer:
        def encode(self, query: str, text: str) -> Any:
            read.append((len(query), len(text)))
            return SimpleNamespace(ids=[1], type_ids=[0])

    given = {"query": "tea", "text": "tea", huge: "tea " * 250_000}
    _tokenize_with(Tokenizer(), 64, 0)(**given)
    assert sorted(read[0]) == [3, 64 * CHARACTERS_PER_TOKEN]


class Fake:
    """A session of this many inputs and outputs, which gives what it is told."""

    def __init__(self, gives: Any, inputs: Sequence[str] = ("input_ids",), shape: Sequence[Any] = ("b", 1)) -> None:
        self._gives, self._inputs, self._shape = gives, inputs, shape

    def get_inputs(self) -> list[Any]:
        return [_node(name, ["b", "s"], "tensor(int64)") for name in self._inputs]

    def get_outputs(self) -> list[Any]:
        return [_node("out", list(self._shape), "tensor(float)")]

    def run(self, outputs: list[str], feed: dict[str, Any]) -> list[Any]:
        assert (outputs, list(feed)) == (["out"], list(self._inputs))
        if isinstance(self._gives, Exception):
            raise self._gives
        return [self._gives]


def _node(name: str, shape: list[Any], kind: str) -> Any:
    return type("Node", (), {"name": name, "shape": shape, "type": kind})()


def encoder(session: Fake) -> CrossEncoder:
    return CrossEncoder(session, lambda query, text: Pair([1], [0]), padding=0, batch_size=8)


@pytest.mark.parametrize(
    ("gives", "match"),
    [
        (np.zeros((2, 5)), r"gives \(2, 5\) for 2 pairs"),
        (np.zeros((1, 1)), r"gives \(1, 1\) for 2 pairs"),
        (np.zeros(2), r"gives \(2,\) for 2 pairs"),
        (RuntimeError("out of memory"), "could not be run: out of memory"),
    ],
)
def test_an_answer_of_another_shape_is_an_error(gives: Any, match: str) -> None:
    with pytest.raises(RerankerError, match=match):
        encoder(Fake(gives, shape=("b", "n"))).score("q", ["a", "b"], lambda: False)


def test_a_graph_that_reads_no_text_is_refused() -> None:
    with pytest.raises(RerankerError, match="asks for no input_ids"):
        encoder(Fake(None, inputs=["attention_mask"]))
