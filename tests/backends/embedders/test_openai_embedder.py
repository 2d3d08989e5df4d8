"""The `openai` embedder by its vendor's client, over HTTP, at a server that speaks OpenAI's wire."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from perdure.backends.embedders._hosted import batches, unit_vectors
from perdure.backends.embedders.base import Embedder
from perdure.backends.shared.metering import metered
from perdure.domain.errors import ConfigError, EmbeddingError
from perdure.domain.event import Usage
from tests.backends.wire.held import build, let_go  # noqa: F401
from tests.backends.wire.openai import KEY, LONGEST_INPUT, OpenAIWire, failure
from tests.backends.wire.server import Heard, Reply
from tests.backends.wire.vectors import vector_of


def embedder_at(wire: OpenAIWire, **settings: Any) -> Embedder:
    config = {"base_url": wire.base_url, "api_key": KEY, "retry_delay": 0.0, **settings}
    embedder: Embedder = build("embedders", "openai", config)
    return embedder


def embed(wire: OpenAIWire, texts: Sequence[str], **settings: Any) -> np.ndarray:
    return asyncio.run(embedder_at(wire, **settings).embed_batch(texts))


def failing(wire: OpenAIWire, **settings: Any) -> EmbeddingError:
    with pytest.raises(EmbeddingError) as caught:
        embed(wire, ["a text", "another"], **settings)
    return caught.value


def answering(vectors: Any, **more: Any) -> OpenAIWire:
    """A service that gives these vectors, whatever it is asked for."""
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    return OpenAIWire(intercept=lambda request: Reply.of({"data": data, **more}))


# ------------------------------------------------------------------ what is asked


def test_a_request_on_the_wire() -> None:
    with OpenAIWire() as wire:
        vectors = embed(wire, ["User likes tea", ""])
    (request,) = wire.heard
    assert (request.method, request.path, request.query) == ("POST", "/v1/embeddings", {})
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json == {
        "model": "text-embedding-3-small",
        "input": ["User likes tea", " "],
        "encoding_format": "base64",
    }
    assert np.allclose(vectors[0], vector_of("User likes tea", 1536), atol=1e-7)


def test_nothing_is_asked_for_no_texts() -> None:
    with OpenAIWire() as wire:
        assert embed(wire, []).shape == (0, 1536)
    assert wire.heard == []


@pytest.mark.parametrize(
    ("model", "dimensions", "sent", "dimension"),
    [
        ("text-embedding-3-small", None, None, 1536),
        ("text-embedding-3-small", 1536, None, 1536),
        ("text-embedding-3-small", 256, 256, 256),
        ("text-embedding-3-large", None, None, 3072),
        ("text-embedding-ada-002", None, None, 1536),
        ("text-embedding-ada-002", 1536, None, 1536),
    ],
)
def test_the_length_is_asked_for_where_it_is_not_the_models_own(
    model: str, dimensions: int | None, sent: int | None, dimension: int
) -> None:
    with OpenAIWire() as wire:
        embedder = embedder_at(wire, model=model, dimensions=dimensions)
        vectors = asyncio.run(embedder.embed_batch(["User likes tea"]))
    assert wire.bodies()[0].get("dimensions") == sent
    assert vectors.shape == (1, dimension) and embedder.dimension == dimension
    assert embedder.label == f"openai-{model}-{dimension}"
    assert np.allclose(vectors[0], vector_of("User likes tea", dimension), atol=1e-7)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model": "my-model"}, "is required"),
        ({"model": "text-embedding-3-small", "dimensions": 1537}, "at most 1536"),
        ({"model": "text-embedding-ada-002", "dimensions": 512}, "exactly 1536"),
    ],
)
def test_an_unknown_or_impossible_length_is_an_error_at_construction(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        build("embedders", "openai", {"api_key": KEY, **config})
    assert caught.value.field == "embedder.config.dimensions"


def test_a_missing_key_names_field_and_variable() -> None:
    with pytest.raises(ConfigError) as caught:
        build("embedders", "openai", {})
    assert caught.value.field == "embedder.config.api_key"
    assert "OPENAI_API_KEY" in str(caught.value)


# ------------------------------------------------------------------ services of one's own


def test_a_service_that_gives_numbers_instead_of_base64() -> None:
    with OpenAIWire(models={"bge-small": 384}, floats_only=True) as wire:
        vectors = embed(wire, ["User likes tea"], model="bge-small", dimensions=384)
    assert "dimensions" not in wire.bodies()[0], "a service of one's own may not know the parameter"
    assert np.allclose(vectors[0], vector_of("User likes tea", 384), atol=1e-6)


def test_a_model_of_longer_vectors_is_asked_for_shorter_ones_from_then_on() -> None:
    async def work(wire: OpenAIWire) -> np.ndarray:
        embedder = embedder_at(wire, model="nomic", dimensions=64)
        return np.stack([await embedder.embed("a"), await embedder.embed("b")])

    with OpenAIWire(models={"nomic": 768}) as wire:
        vectors = asyncio.run(work(wire))
    assert [body.get("dimensions") for body in wire.bodies()] == [None, 64, 64]
    assert np.allclose(vectors, [vector_of("a", 64), vector_of("b", 64)], atol=1e-7)


def test_vectors_of_another_length_than_configured_are_an_error() -> None:
    with OpenAIWire(models={"small": 32}) as wire:
        error = failing(wire, model="small", dimensions=64)
    assert "gives vectors of 32 dimensions, not 64 as configured" in str(error)


# ------------------------------------------------------------------ batches


def test_long_lists_are_split_at_the_services_bounds() -> None:
    texts = [f"text {number}" for number in range(2049)]
    with OpenAIWire() as wire:
        vectors = embed(wire, texts, dimensions=8)
    assert [len(body["input"]) for body in wire.bodies()] == [2048, 1]
    assert np.allclose(vectors, [vector_of(text, 8) for text in texts], atol=1e-6)


def test_a_smaller_batch_size_is_kept() -> None:
    with OpenAIWire() as wire:
        embed(wire, list("abcde"), batch_size=2)
    assert [body["input"] for body in wire.bodies()] == [["a", "b"], ["c", "d"], ["e"]]


def test_many_long_texts_stay_below_the_services_tokens() -> None:
    texts = [f"{number} " + "x" * 8000 for number in range(80)]  # the server counts a token for each byte
    with OpenAIWire() as wire:
        vectors = embed(wire, texts, dimensions=8)
    assert [len(body["input"]) for body in wire.bodies()] == [37, 37, 6]
    assert len(vectors) == 80


def test_a_text_that_is_too_long_is_cut_and_its_company_is_not() -> None:
    long, short = "é" * 30_000, "User likes tea"
    with OpenAIWire() as wire:
        together = embed(wire, [short, long, "User has a dog"], dimensions=8)
        alone = embed(wire, [long], dimensions=8)
    assert np.array_equal(together[1], alone[0]), "whatever it is read with, a text has one vector"
    assert np.allclose(together[0], vector_of(short, 8), atol=1e-7)
    assert np.allclose(together[2], vector_of("User has a dog", 8), atol=1e-7)
    read = max((text for body in wire.bodies() for text in body["input"] if text in long), key=len, default="")
    assert read == long
    assert np.allclose(alone[0], vector_of("é" * 3750, 8), atol=1e-7)
    assert LONGEST_INPUT / 2 < len(("é" * 3750).encode()) <= LONGEST_INPUT


def test_a_service_that_takes_nothing_is_not_asked_for_ever() -> None:
    error = {"message": "maximum context length is 0 tokens", "type": "x", "param": None, "code": None}
    with OpenAIWire(intercept=lambda request: Reply.of({"error": error}, 400)) as wire:
        assert "maximum context length" in str(failing(wire))
    assert len(wire.heard) < 10


@pytest.mark.parametrize(
    ("texts", "most_texts", "most_bytes", "expected"),
    [
        ([], 2, 9, []),
        (["a"], 1, 1, [["a"]]),
        (["a", "b", "c"], 2, 9, [["a", "b"], ["c"]]),
        (["aa", "bb", "c"], 9, 4, [["aa", "bb"], ["c"]]),
        (["aaaaaa", "b"], 9, 4, [["aaaaaa"], ["b"]]),
        (["b", "aaaaaa", "c"], 9, 4, [["b"], ["aaaaaa"], ["c"]]),
        (["éé", "é"], 9, 4, [["éé"], ["é"]]),
    ],
)
def test_batches(texts: list[str], most_texts: int, most_bytes: int, expected: list[list[str]]) -> None:
    assert list(batches(texts, most_texts, most_bytes)) == expected


# ------------------------------------------------------------------ failures


@pytest.mark.parametrize(
    ("name", "code", "requests"),
    [
        ("rate_limit", "rate_limit", 3),
        ("server", "server", 3),
        ("connection", "connection", 3),
        ("quota", "quota", 1),
        ("authentication", "authentication", 1),
        ("too_long", None, 2),  # asked again with half of the texts; one of two characters is not cut any further
    ],
)
def test_every_failure_has_its_code_and_its_number_of_requests(name: str, code: str | None, requests: int) -> None:
    with OpenAIWire(intercept=lambda request: failure(name)) as wire, pytest.raises(EmbeddingError) as caught:
        embed(wire, ["ab", "c"], retries=2)
    assert caught.value.code == (code or EmbeddingError("x").code)
    assert len(wire.heard) == requests
    assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_a_slow_answer_times_out() -> None:
    with OpenAIWire(intercept=lambda request: failure("timeout")) as wire:
        assert failing(wire, timeout=0.2).code == "timeout"
    assert len(wire.heard) == 1


def test_a_failure_of_a_later_batch_fails_the_call() -> None:
    def intercept(request: Heard) -> Reply | None:
        return failure("server") if "c" in request.json["input"] else None

    with OpenAIWire(intercept=intercept) as wire, pytest.raises(EmbeddingError):
        embed(wire, ["a", "b", "c"], batch_size=2, retries=0)
    assert len(wire.heard) == 2


def test_cancelling_closes_the_connection() -> None:
    async def work(wire: OpenAIWire) -> None:
        task = asyncio.create_task(embedder_at(wire).embed_batch(["a"]))
        while not wire.heard:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not wire.left:
            await asyncio.sleep(0.01)

    with OpenAIWire(intercept=lambda request: Reply(wait=60.0)) as wire:
        asyncio.run(asyncio.wait_for(work(wire), 30))
    assert len(wire.heard) == 1


def packed(*numbers: float) -> str:
    return base64.b64encode(np.array(numbers, "<f4").tobytes()).decode()


GOOD = [0.6] + [0.0] * 1534 + [0.8]


@pytest.mark.parametrize(
    "vectors",
    [
        [],
        [GOOD],
        [GOOD, GOOD, GOOD],
        [GOOD, GOOD[:-1]],
        [GOOD[:-1], GOOD[:-1]],
        [GOOD, []],
        [GOOD, None],
        [GOOD, "no base64!"],
        [GOOD, "AAA="],
        [GOOD, packed(*[float("nan")] * 1536)],
        [GOOD, packed(*[float("inf")] * 1536)],
        [GOOD, [0.0] * 1536],
        [GOOD, ["x"] * 1536],
        [GOOD, [GOOD]],
    ],
)
def test_an_answer_that_is_not_one_vector_for_each_text_is_an_error(vectors: list[Any]) -> None:
    with answering(vectors) as wire:
        assert str(failing(wire)).startswith("openai: ")
    assert len(wire.heard) == 1


@pytest.mark.parametrize("body", [b"", b"no json", b"[]", b"{}", b'{"data": null}', b'{"data": [{"index": 0}]}'])
def test_a_broken_answer_is_an_error(body: bytes) -> None:
    reply = Reply(200, body, {"content-type": "application/json"})
    with OpenAIWire(intercept=lambda request: reply) as wire:
        assert "the answer is not one vector for each text" in str(failing(wire))


def test_vectors_come_back_in_the_order_of_the_texts_and_of_length_one() -> None:
    ones, twos = [3.0] + [0.0] * 1535, [0.0, 5.0] + [0.0] * 1534
    data = [{"index": 1, "embedding": twos}, {"index": 0, "embedding": packed(*ones)}]
    with OpenAIWire(intercept=lambda request: Reply.of({"data": data})) as wire:
        vectors = embed(wire, ["a", "b"])
    assert vectors[0][0] == 1.0 and vectors[1][1] == 1.0
    assert vectors.dtype == np.float32


def test_two_vectors_for_one_text_are_an_error() -> None:
    data = [{"index": 0, "embedding": GOOD}, {"index": 0, "embedding": GOOD}]
    with OpenAIWire(intercept=lambda request: Reply.of({"data": data})) as wire:
        failing(wire)


def test_unit_vectors_refuses_what_is_no_list_of_rows() -> None:
    def broken(what: str) -> EmbeddingError:
        return EmbeddingError(what)

    for rows in ([[1.0], [1.0, 2.0]], "text", [1.0, 2.0], None, [["a"], ["b"]]):
        with pytest.raises(EmbeddingError):
            unit_vectors(rows, 2, 1, "m", broken)
    assert unit_vectors([[3.0, 4.0]], 1, 2, "m", broken).tolist() == [pytest.approx([0.6, 0.8])]


# ------------------------------------------------------------------ counting, environment


def test_use_is_counted_and_priced() -> None:
    async def work(wire: OpenAIWire) -> Usage:
        embedder = embedder_at(wire, batch_size=1)
        with metered() as meter:
            await embedder.embed_batch(["a" * 40, "b" * 60])
        await embedder.embed("not counted")
        return meter.usage

    with OpenAIWire() as wire:
        usage = asyncio.run(work(wire))
    assert (usage.calls, usage.embedding_tokens, usage.input_tokens) == (0, 100, 0)
    assert usage.cost == pytest.approx(100 * 0.02 / 1e6)


def test_a_service_that_does_not_count_costs_an_unknown_amount() -> None:
    async def work(wire: OpenAIWire) -> Usage:
        with metered() as meter:
            await embedder_at(wire).embed("a")
        return meter.usage

    with answering([GOOD]) as wire:
        assert asyncio.run(work(wire)) == Usage(cost=None)


def test_settings_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIWire(key="sk-from-environment") as wire:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-from-environment")
        monkeypatch.setenv("OPENAI_BASE_URL", wire.base_url)
        assert asyncio.run(build("embedders", "openai", {}).embed("User likes tea")).shape == (1536,)


def test_lone_surrogates_are_replaced_before_they_are_sent() -> None:
    with OpenAIWire() as wire:
        embed(wire, ["a \ud800 b", "\ud83d\ude00"])
    assert json.loads(wire.heard[0].body)["input"] == ["a \ufffd b", "😀"]
