"""What every embedder owes, run over every provider of the family.

A provider that needs settings (an address, a key) brings a fixture `<name>_embedder_config` of session or module scope
in a conftest; the others are built from {}.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import pytest

from perdure.backends.embedders.base import Embedder
from perdure.backends.registry import build, load, providers
from perdure.domain.errors import ConfigError, InvalidInputError

T = TypeVar("T")

SENTENCES = [
    "User likes Python",
    "User moved to Lisbon in March 2026",
    "User's sister has two dogs",
    "User is allergic to peanuts and never eats out without asking the cook about every single ingredient of a dish",
    "budget",
    "User works at a bakery",
    "The release is cut on Tuesdays",
    "我喜欢在周末骑自行车",
    "User no longer drinks coffee after noon",
]
NASTY = {
    "empty": "",
    "spaces": " \t\n  ",
    "nul": "a\x00b",
    "only nul": "\x00",
    "lone surrogate": "before \ud800 after",
    "surrogates only": "\udcff\udfff",
    "punctuation": "?!… --- ###",
    "emoji": "🚴\u200d♀️🏔️",
    "combining": "e\u0301" * 50,
    "right to left": "\u202eשלום",
    "one long word": "a" * 5_000,
    "special tokens": "[CLS] [SEP] [MASK] [PAD]",
    "controls": "".join(map(chr, range(32))),
    "bom": "\ufeffUser likes tea",
}
CLOSE = 1e-5
"""What float32 may differ by when a text is read in another company."""


@pytest.fixture(scope="module")
def minilm_embedder_config(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {"cache_dir": str(tmp_path_factory.mktemp("minilm"))}


@pytest.fixture(scope="module")
def minilm_int8_embedder_config(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {"cache_dir": str(tmp_path_factory.mktemp("minilm")), "precision": "int8"}


@pytest.fixture(scope="module", params=[*providers("embedders"), "minilm_int8"])
def embedder(request: pytest.FixtureRequest) -> Iterator[Embedder]:
    try:
        config = request.getfixturevalue(f"{request.param}_embedder_config")
    except pytest.FixtureLookupError:
        config = {}
    try:
        built: Embedder = build("embedders", request.param.removesuffix("_int8"), config)
    except ConfigError as error:
        pytest.fail(f"a fixture {request.param}_embedder_config must configure this embedder: {error}")
    reason = built.unavailable()
    if reason:
        pytest.skip(reason)
    yield built
    run(built.close())


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def test_vectors_have_shape_type_and_length_one(embedder: Embedder) -> None:
    vectors = run(embedder.embed_batch(SENTENCES))
    assert vectors.shape == (len(SENTENCES), embedder.dimension)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=CLOSE)


def test_an_empty_list_gives_an_empty_array(embedder: Embedder) -> None:
    vectors = run(embedder.embed_batch([]))
    assert vectors.shape == (0, embedder.dimension)
    assert vectors.dtype == np.float32


def test_one_text_is_a_batch_of_one(embedder: Embedder) -> None:
    vector = run(embedder.embed(SENTENCES[0]))
    assert vector.shape == (embedder.dimension,)
    assert vector.dtype == np.float32
    assert np.allclose(vector, run(embedder.embed_batch(SENTENCES))[0], atol=CLOSE)


def test_the_dimension_has_two_names_and_the_label_is_its_own(embedder: Embedder) -> None:
    assert embedder.get_dimension() == embedder.dimension > 0
    assert embedder.label
    assert embedder.name in providers("embedders")
    assert load("embedders", embedder.name) is type(embedder)


def test_the_same_text_has_the_same_vector(embedder: Embedder) -> None:
    first, second = run(embedder.embed_batch(SENTENCES)), run(embedder.embed_batch(SENTENCES))
    assert np.array_equal(first, second)


def test_different_texts_have_different_vectors(embedder: Embedder) -> None:
    cosines = (vectors := run(embedder.embed_batch(SENTENCES))) @ vectors.T
    assert cosines[~np.eye(len(SENTENCES), dtype=bool)].max() < 0.9


def test_neither_order_nor_company_changes_a_vector(embedder: Embedder) -> None:
    texts = [*SENTENCES, *NASTY.values(), *SENTENCES, "long " * 400]
    alone = np.concatenate([run(embedder.embed_batch([text])) for text in texts])
    order = list(range(len(texts)))
    random.Random(3).shuffle(order)
    shuffled = run(embedder.embed_batch([texts[i] for i in order]))
    assert np.allclose(shuffled, alone[order], atol=CLOSE)


@pytest.mark.parametrize("text", NASTY.values(), ids=NASTY.keys())
def test_no_text_is_too_strange(embedder: Embedder, text: str) -> None:
    vector = run(embedder.embed(text))
    assert np.isfinite(vector).all()
    assert abs(np.linalg.norm(vector) - 1) < CLOSE


def test_a_text_of_a_megabyte_has_a_vector(embedder: Embedder) -> None:
    vector = run(embedder.embed("one more word " * 75_000))
    assert abs(np.linalg.norm(vector) - 1) < CLOSE


@pytest.mark.parametrize("texts", ["one text", b"bytes", ["fine", None], ["fine", 3]])
def test_what_is_no_list_of_texts_is_refused(embedder: Embedder, texts: Any) -> None:
    with pytest.raises(InvalidInputError, match="texts"):
        run(embedder.embed_batch(texts))


def test_tasks_of_one_loop_do_not_disturb_each_other(embedder: Embedder) -> None:
    expected = run(embedder.embed_batch(SENTENCES))

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(embedder.embed(text) for text in SENTENCES * 4))

    assert np.allclose(np.stack(run(all_at_once())), np.tile(expected, (4, 1)), atol=CLOSE)


def test_threads_with_loops_of_their_own_do_not_disturb_each_other(embedder: Embedder) -> None:
    expected = run(embedder.embed_batch(SENTENCES))
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: asyncio.run(embedder.embed_batch(SENTENCES)), range(16)))
    assert all(np.allclose(result, expected, atol=CLOSE) for result in results)


def test_a_score_lies_between_0_and_1_and_keeps_the_order(embedder: Embedder) -> None:
    scores = [embedder.score(float(cosine)) for cosine in np.linspace(-1, 1, 401)]
    assert scores[0] == 0.0
    assert scores[-1] == 1.0
    assert scores == sorted(scores)
    assert embedder.score(1.0000001) == 1.0


def test_closing_twice_is_no_error(embedder: Embedder) -> None:
    run(embedder.close())
    run(embedder.close())


def test_no_two_embedders_share_a_label() -> None:
    labels = {name: build("embedders", name, {}).label for name in ("hashed", "minilm")}
    assert labels["hashed"] != labels["minilm"]
    assert build("embedders", "hashed", {"dimensions": 64}).label != labels["hashed"]
