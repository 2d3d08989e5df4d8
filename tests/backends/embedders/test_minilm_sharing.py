"""minilm under load: what waits shares a run, and every vector is as if it had been read alone."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.backends.embedders.minilm import Encoder, MiniLMEmbedder, find_model

CLOSE = {"fp32": 1e-6, "int8": 2e-3}
"""What a vector's numbers may differ by in company. In int8 the last bit of a float may decide which whole number a
state is rounded to."""

WORDS = ["bees", "on", "the", "roof", "of", "a", "town", "hall", "3½", "她每天", "naïve", "what?", "limp"]


@pytest.fixture(scope="module", params=["fp32", "int8"])
def embedder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniLMEmbedder]:
    built = MiniLMEmbedder(
        MiniLMEmbedder.Settings(precision=request.param, cache_dir=tmp_path_factory.mktemp("minilm"))
    )
    if reason := built.unavailable():
        pytest.skip(reason)
    asyncio.run(built.embed("loaded"))
    yield built
    asyncio.run(built.close())


def watch(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of texts of each run to come."""
    sizes: list[int] = []
    run = encoder.run

    def noted(tokens: Any) -> np.ndarray:
        sizes.append(len(tokens))
        return run(tokens)

    monkeypatch.setattr(encoder, "run", noted, raising=True)
    return sizes


def texts_of(count: int, longest: int, seed: int = 7) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(1, longest))) for _ in range(count)]


@pytest.mark.parametrize("longest", [3, 12, 60])
def test_vectors_are_those_of_the_texts_alone(
    embedder: MiniLMEmbedder, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = texts_of(48, longest)
    encoder = embedder._load()
    alone = np.stack([encoder.encode([text])[0] for text in texts])
    sizes = watch(encoder, monkeypatch)

    async def at_once() -> np.ndarray:
        return np.stack(await asyncio.gather(*(embedder.embed(text) for text in texts)))

    shared = asyncio.run(at_once())
    monkeypatch.undo()
    assert max(sizes) > 1, "nothing was shared"
    assert np.abs(shared - alone).max() <= CLOSE[embedder._settings.precision]
    assert (shared * alone).sum(axis=1).min() > 0.99999
    assert np.abs(asyncio.run(embedder.embed_batch(texts)) - alone).max() <= CLOSE[embedder._settings.precision]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(max_size=80), min_size=2, max_size=8))
def test_any_text_has_its_own_vector_in_any_run(embedder: MiniLMEmbedder, texts: list[str]) -> None:
    """All in one run, however much padding that takes."""
    encoder = embedder._load()
    tokens = [encoder._tokenize(text) for text in texts]
    alone = np.concatenate([encoder.run([ids]) for ids in tokens])
    assert np.abs(encoder.run(tokens) - alone).max() <= CLOSE[embedder._settings.precision]


def test_closing_answers_those_who_wait(embedder: MiniLMEmbedder) -> None:
    texts = texts_of(30, 20)
    expected = asyncio.run(embedder.embed_batch(texts))

    async def close_meanwhile() -> list[np.ndarray]:
        asked = [asyncio.create_task(embedder.embed(text)) for text in texts]
        listed = asyncio.create_task(embedder.embed_batch(texts))
        await asyncio.sleep(0.005)
        await embedder.close()
        return [np.stack(await asyncio.gather(*asked)), await listed]

    for found in asyncio.run(close_meanwhile()):
        assert np.abs(found - expected).max() <= CLOSE[embedder._settings.precision]


def in_child(embedder: MiniLMEmbedder, queue: Any) -> None:
    queue.put(asyncio.run(embedder.embed("User likes tea")).tolist())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_that_forks_while_the_model_runs_has_two_that_work(embedder: MiniLMEmbedder) -> None:
    expected = asyncio.run(embedder.embed("User likes tea"))
    thread = threading.Thread(target=lambda: asyncio.run(embedder.embed_batch(texts_of(150, 60))))
    thread.start()
    fork = multiprocessing.get_context("fork")
    queue = fork.SimpleQueue()
    child = fork.Process(target=in_child, args=(embedder, queue))
    child.start()
    child.join(60)
    thread.join()
    assert child.exitcode == 0
    assert np.allclose(queue.get(), expected, atol=CLOSE[embedder._settings.precision])


def test_a_graph_of_ones_own_reads_every_request_by_itself(tmp_path: Path) -> None:
    """It may be quantized so that its vectors depend on the texts in a run."""
    from perdure.backends.embedders.minilm import build_graph, read_weights

    files = find_model(None, None)
    if files is None or files.is_graph:
        pytest.skip("the weights package is not installed")
    (tmp_path / "model.onnx").write_bytes(build_graph(read_weights(files.weights)))
    (tmp_path / "tokenizer.json").symlink_to(files.tokenizer)
    own = MiniLMEmbedder(MiniLMEmbedder.Settings(path=tmp_path, cache_dir=tmp_path / "cache"))
    assert own._load().batcher._most_jobs == 1
