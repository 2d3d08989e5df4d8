"""What every reranker owes, run over every provider of the family.

A provider that needs settings (a folder, an address, a key) brings a fixture `<name>_reranker_config` of session or
module scope; the others are built from {}.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from perdure.backends.registry import build, load, providers
from perdure.backends.rerankers.base import Reranker
from perdure.domain.errors import ConfigError, InvalidInputError
from tests.contracts.wire.rerank import (  # noqa: F401 - fixtures
    cohere_reranker_config,
    cross_encoder_reranker_config,
    jina_reranker_config,
    voyage_reranker_config,
)

pytestmark = pytest.mark.covers("K28", "U21")

T = TypeVar("T")

QUERY = "user likes tea"
TEXTS = ["a dog in berlin", "user likes coffee", "user likes tea", "where does user live", "tea"]
NASTY = {
    "empty": "",
    "spaces": " \t\n  ",
    "nul": "a\x00b",
    "lone surrogate": "tea \ud800 after",
    "surrogates only": "\udcff\udfff",
    "punctuation": "?!… --- ###",
    "emoji": "🚴\u200d♀️🏔️",
    "combining": "e\u0301" * 50,
    "right to left": "\u202eשלום",
    "chinese": "我 喜 欢 茶",
    "one long word": "a" * 5_000,
    "special tokens": "[CLS] [SEP] [MASK] [PAD]",
    "controls": "".join(map(chr, range(32))),
    "bom": "\ufeffUser likes tea",
}
CLOSE = 1e-5
"""What a score may differ by when a text is read in another company."""


@pytest.fixture(scope="module", params=providers("rerankers"))
def reranker(request: pytest.FixtureRequest) -> Iterator[Reranker]:
    try:
        config = request.getfixturevalue(f"{request.param}_reranker_config")
    except pytest.FixtureLookupError:
        config = {}
    try:
        built: Reranker = build("rerankers", request.param, config)
    except ConfigError as error:
        pytest.fail(f"a fixture {request.param}_reranker_config must configure this reranker: {error}")
    reason = built.unavailable()
    if reason:
        pytest.skip(reason)
    yield built
    run(built.close())


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def close(left: list[float], right: list[float]) -> bool:
    return left == pytest.approx(right, abs=CLOSE)


@pytest.mark.covers("K28")
def test_the_text_that_answers_best_scores_highest(reranker: Reranker) -> None:
    scores = run(reranker.rerank(QUERY, TEXTS))
    ranked = sorted(TEXTS, key=lambda text: -scores[TEXTS.index(text)])
    assert ranked[:2] == ["user likes tea", "user likes coffee"]
    assert ranked[-1] == "a dog in berlin"


@pytest.mark.parametrize("count", [0, 1, 2, 100, 1_000])
def test_there_is_one_finite_number_for_each_text(reranker: Reranker, count: int) -> None:
    scores = run(reranker.rerank(QUERY, [TEXTS[number % len(TEXTS)] for number in range(count)]))
    assert len(scores) == count
    assert all(type(score) is float and math.isfinite(score) for score in scores)


def test_the_query_decides(reranker: Reranker) -> None:
    tea, dog = run(reranker.rerank("tea", TEXTS)), run(reranker.rerank("a dog", TEXTS))
    assert max(range(5), key=tea.__getitem__) == TEXTS.index("tea")
    assert max(range(5), key=dog.__getitem__) == TEXTS.index("a dog in berlin")


def test_the_same_call_gives_the_same_scores(reranker: Reranker) -> None:
    assert run(reranker.rerank(QUERY, TEXTS)) == run(reranker.rerank(QUERY, TEXTS))


def test_scores_come_in_the_order_of_the_texts_whatever_it_is(reranker: Reranker) -> None:
    texts = [*TEXTS, *NASTY.values(), "user likes tea " * 100, *TEXTS]
    alone = [run(reranker.rerank(QUERY, [text]))[0] for text in texts]
    order = list(range(len(texts)))
    random.Random(3).shuffle(order)
    shuffled = run(reranker.rerank(QUERY, [texts[position] for position in order]))
    assert close(shuffled, [alone[position] for position in order])


def test_equal_texts_score_alike(reranker: Reranker) -> None:
    scores = run(reranker.rerank(QUERY, ["tea", *TEXTS, "tea", "tea"]))
    assert close([scores[0], scores[5], scores[6]], [scores[7]] * 3)


@pytest.mark.parametrize("text", NASTY.values(), ids=NASTY.keys())
def test_no_text_and_no_query_is_too_strange(reranker: Reranker, text: str) -> None:
    for query, read in ((QUERY, text), (text, "user likes tea"), (text, text)):
        assert all(map(math.isfinite, run(reranker.rerank(query, [read, read]))))


def test_texts_of_a_megabyte_are_scored(reranker: Reranker) -> None:
    scores = run(reranker.rerank(QUERY, ["tea likes " * 100_000, "tea"]))
    assert all(map(math.isfinite, scores))


def test_a_query_of_a_megabyte_is_read_by_its_beginning(reranker: Reranker) -> None:
    scores = run(reranker.rerank("user likes tea " * 70_000, TEXTS))
    assert max(range(5), key=scores.__getitem__) == TEXTS.index("user likes tea")


@pytest.mark.parametrize("texts", ["one text", b"bytes", ["fine", None], ["fine", 3]])
def test_what_is_no_list_of_texts_is_refused(reranker: Reranker, texts: Any) -> None:
    with pytest.raises(InvalidInputError, match="texts"):
        run(reranker.rerank(QUERY, texts))


@pytest.mark.parametrize("query", [None, b"tea", 3, ["tea"]])
def test_a_query_that_is_no_text_is_refused(reranker: Reranker, query: Any) -> None:
    with pytest.raises(InvalidInputError, match="query") as caught:
        run(reranker.rerank(query, TEXTS))
    assert (caught.value.field, caught.value.value) == ("query", query)


def test_the_given_list_is_left_as_it_was(reranker: Reranker) -> None:
    texts = [*TEXTS, "", "\ud800"]
    run(reranker.rerank(QUERY, texts))
    assert texts == [*TEXTS, "", "\ud800"]


def test_tasks_of_one_loop_do_not_disturb_each_other(reranker: Reranker) -> None:
    queries = ["tea", "a dog", "user likes", "where"] * 4

    async def all_at_once() -> list[list[float]]:
        return await asyncio.gather(*(reranker.rerank(query, TEXTS) for query in queries))

    expected = {query: run(reranker.rerank(query, TEXTS)) for query in set(queries)}
    assert all(close(found, expected[query]) for query, found in zip(queries, run(all_at_once()), strict=True))


def test_threads_with_loops_of_their_own_do_not_disturb_each_other(reranker: Reranker) -> None:
    expected = run(reranker.rerank(QUERY, TEXTS))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: asyncio.run(reranker.rerank(QUERY, TEXTS)), range(16)))
    assert all(close(scores, expected) for scores in found)


def test_a_cancelled_call_ends_at_once_and_harms_no_later_one(reranker: Reranker) -> None:
    expected = run(reranker.rerank(QUERY, TEXTS))

    async def cancelled() -> list[float]:
        task = asyncio.ensure_future(reranker.rerank(QUERY, TEXTS * 200))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
        return await reranker.rerank(QUERY, TEXTS)

    assert close(run(cancelled()), expected)


def test_the_name_is_the_files(reranker: Reranker) -> None:
    assert load("rerankers", reranker.name) is type(reranker)


def test_closing_twice_is_no_error_and_a_later_call_opens_again(reranker: Reranker) -> None:
    expected = run(reranker.rerank(QUERY, TEXTS))

    async def closed() -> list[float]:
        await reranker.close()
        await reranker.close()
        return await reranker.rerank(QUERY, TEXTS)

    assert close(run(closed()), expected)
