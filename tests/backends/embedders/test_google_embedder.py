"""Google's embedding models: what the provider sends, what it refuses, and how it fails."""

from __future__ import annotations

import asyncio
import gc
import re
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from typing import Any, TypeVar

import numpy as np
import pytest

from perdure.backends.embedders.base import Embedder
from perdure.backends.extras import extra_line
from perdure.backends.registry import build
from perdure.backends.shared.metering import metered
from perdure.domain.errors import ConfigError, DependencyError, EmbeddingError
from tests.backends.wire.google import KEY, GoogleWire, failure, retry_info
from tests.backends.wire.server import Reply

T = TypeVar("T")
Start = Callable[..., tuple[Embedder, GoogleWire]]

PATH = "/v1beta/models/gemini-embedding-001:batchEmbedContents"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a server and an embedder that asks it; the answers come before those that are made from the texts."""
    with ExitStack() as stack:

        def start_one(*answers: Any, most_bytes: int = 10_000_000, **settings: Any) -> tuple[Embedder, GoogleWire]:
            wire = stack.enter_context(GoogleWire(*answers, most_bytes=most_bytes))
            config = {"api_key": KEY, "base_url": wire.address, "retries": 2, "retry_delay": 0, **settings}
            return build("embedders", "google", config), wire

        yield start_one


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def fails(work: Coroutine[Any, Any, Any]) -> EmbeddingError:
    with pytest.raises(EmbeddingError) as caught:
        run(work)
    assert KEY not in str(caught.value)
    return caught.value


def test_a_request_is_exactly_this(start: Start) -> None:
    embedder, wire = start(dimensions=768)
    vectors = run(embedder.embed_batch(["tea", "Grüße 🚴"]))
    assert vectors.shape == (2, 768)
    [heard] = wire.heard
    assert (heard.method, heard.path, heard.query) == ("POST", PATH, {})
    assert heard.headers["x-goog-api-key"] == KEY
    texts = [request["content"]["parts"] for request in heard.json["requests"]]
    assert texts == [[{"text": "tea"}], [{"text": "Grüße 🚴"}]]
    for request in heard.json["requests"]:
        assert request["model"] == "models/gemini-embedding-001"
        assert request["outputDimensionality"] == 768
        assert set(request) == {"model", "content", "outputDimensionality"}


@pytest.mark.parametrize("model", ["gemini-embedding-001", "gemini-embedding-2"])
def test_a_model_gives_its_own_dimension_unasked(start: Start, model: str) -> None:
    embedder, wire = start(model=model)
    assert embedder.dimension == 3072
    assert run(embedder.embed_batch(["a", "b"])).shape == (2, 3072)
    assert all("outputDimensionality" not in request for request in wire.heard[0].json["requests"])


@pytest.mark.parametrize("dimensions", [768, 1536, 3072])
def test_vectors_are_of_length_one_also_where_the_services_are_not(start: Start, dimensions: int) -> None:
    embedder, _ = start(dimensions=dimensions)
    assert np.allclose(np.linalg.norm(run(embedder.embed_batch(["a", "b"])), axis=1), 1, atol=1e-6)


def test_long_lists_are_split_at_the_services_limit(start: Start) -> None:
    embedder, wire = start(dimensions=16)
    vectors = run(embedder.embed_batch([f"text {number}" for number in range(250)]))
    assert [len(heard.json["requests"]) for heard in wire.heard] == [100, 100, 50]
    assert vectors.shape == (250, 16)
    assert np.allclose(vectors[249], run(embedder.embed("text 249")), atol=1e-6)


def test_large_texts_share_no_request(start: Start) -> None:
    embedder, wire = start(dimensions=16)
    run(embedder.embed_batch(["x" * 600_000, "y" * 600_000, "z"]))
    assert [len(heard.json["requests"]) for heard in wire.heard] == [1, 2]


def test_what_the_service_finds_too_much_goes_in_halves_and_a_long_text_by_its_beginning(start: Start) -> None:
    embedder, wire = start(dimensions=16, most_bytes=1000)
    vectors = run(embedder.embed_batch(["a" * 600, "b" * 600, "c" * 1600]))
    texts = [[r["content"]["parts"][0]["text"] for r in heard.json["requests"]] for heard in wire.heard]
    assert [[len(text) for text in batch] for batch in texts[:6]] == [
        [600, 600, 1600], [600], [600, 1600], [600], [1600], [800],
    ]  # fmt: skip
    for row, text in zip(vectors, ["a" * 600, "b" * 600, "c" * 800], strict=True):
        assert np.allclose(row, run(embedder.embed(text)), atol=1e-6)


def test_the_batch_size_can_be_smaller_and_no_larger(start: Start) -> None:
    embedder, wire = start(dimensions=16, batch_size=2)
    run(embedder.embed_batch(["a", "b", "c"]))
    assert [len(heard.json["requests"]) for heard in wire.heard] == [2, 1]
    with pytest.raises(ConfigError, match=r"embedder\.config\.batch_size"):
        build("embedders", "google", {"api_key": KEY, "batch_size": 101})


def test_strange_texts_are_made_sendable(start: Start) -> None:
    embedder, wire = start(dimensions=16)
    run(embedder.embed_batch(["", "\ud800 x"]))
    texts = [request["content"]["parts"][0]["text"] for request in wire.heard[0].json["requests"]]
    assert texts == [" ", "\ufffd x"]


def test_an_unknown_model_needs_its_dimension_and_gets_it_asked_for(start: Start) -> None:
    with pytest.raises(ConfigError, match=r"dimensions is required: 'embedder-of-16' is no known model") as caught:
        build("embedders", "google", {"api_key": KEY, "model": "embedder-of-16"})
    assert caught.value.field == "embedder.config.dimensions"
    embedder, wire = start(model="embedder-of-16", dimensions=16)
    assert run(embedder.embed("a")).shape == (16,)
    assert wire.heard[0].json["requests"][0]["outputDimensionality"] == 16


def test_more_dimensions_than_the_model_has_are_refused_at_construction() -> None:
    with pytest.raises(ConfigError, match="at most 3072, not 4096") as caught:
        build("embedders", "google", {"api_key": KEY, "dimensions": 4096})
    assert (caught.value.field, caught.value.value) == ("embedder.config.dimensions", 4096)


def test_an_answer_of_another_dimension_is_an_error(start: Start) -> None:
    embedder, _ = start(Reply.of({"embeddings": [{"values": [1.0, 0.0]}]}), dimensions=16)
    assert "gives vectors of 2 dimensions, not 16" in str(fails(embedder.embed("a")))


def test_labels_tell_models_and_dimensions_apart() -> None:
    configs: list[dict[str, Any]] = [{}, {"dimensions": 768}, {"model": "gemini-embedding-2"}]
    labels = [build("embedders", "google", {"api_key": KEY, **config}).label for config in configs]
    assert labels == ["google-gemini-embedding-001-3072", "google-gemini-embedding-001-768",
                      "google-gemini-embedding-2-3072"]  # fmt: skip


def test_tokens_are_counted_by_the_service_or_else_estimated(start: Start) -> None:
    estimated, _ = start(dimensions=16)
    counted, wire = start(model="gemini-embedding-2", dimensions=16)
    with metered() as meter:
        run(estimated.embed_batch(["x" * 400, "y" * 400]))
    assert meter.usage.embedding_tokens == 200
    assert meter.usage.cost == pytest.approx(200 * 0.15 / 1e6)
    with metered() as meter:
        run(counted.embed_batch(["x" * 400]))
    assert meter.usage.embedding_tokens == 101
    assert meter.usage.calls == 0
    assert len(wire.heard) == 1


TRANSIENT = {"rate_limit": "rate_limit", "server": "server", "internal": "server", "gateway": "server",
             "connection": "connection"}  # fmt: skip
FINAL = {"quota": "quota", "authentication": "authentication", "permission": "authentication",
         "not_found": "embedding_error"}  # fmt: skip


@pytest.mark.parametrize("name", TRANSIENT)
def test_what_passes_by_itself_is_asked_again_and_by_one_layer_alone(start: Start, name: str) -> None:
    embedder, wire = start(*[{"error": name}] * 5)
    assert fails(embedder.embed("a")).code == TRANSIENT[name]
    assert len(wire.heard) == 3


@pytest.mark.parametrize("name", FINAL)
def test_what_does_not_pass_is_told_at_once(start: Start, name: str) -> None:
    embedder, wire = start({"error": name})
    assert fails(embedder.embed("a")).code == FINAL[name]
    assert len(wire.heard) == 1


def test_after_a_failure_that_passed_the_vectors_come(start: Start) -> None:
    now = failure("rate_limit", retry_info("0s"))
    embedder, wire = start({"error": "server"}, now, dimensions=16, retry_delay=0)
    assert run(embedder.embed("a")).shape == (16,)
    assert len(wire.heard) == 3


def test_a_slow_answer_is_a_timeout_and_is_not_asked_again(start: Start) -> None:
    embedder, wire = start({"error": "timeout"}, dimensions=16, timeout=1)
    assert fails(embedder.embed("a")).code == "timeout"
    assert len(wire.heard) == 1


@pytest.mark.parametrize(
    "reply",
    [
        Reply(body=b"<html>busy</html>"),
        Reply(body=b'{"embeddings": [{"values": [1'),
        Reply(),
        Reply.of([]),
        Reply.of({}),
        Reply.of({"embeddings": "words"}),
        Reply.of({"embeddings": []}),
        Reply.of({"embeddings": [{}]}),
        Reply.of({"embeddings": [{"values": ["x"] * 16}]}),
        Reply.of({"embeddings": [{"values": [0.0] * 16}]}),
        Reply.of({"embeddings": [{"values": [float("nan")] * 16}]}),
        Reply.of({"embeddings": [{"values": [1.0] * 16}, {"values": [1.0] * 16}]}),
        Reply.of({"embeddings": [{"values": [[1.0] * 16]}]}),
    ],
)
def test_a_broken_answer_is_an_error_and_is_not_asked_again(start: Start, reply: Reply) -> None:
    embedder, wire = start(reply, dimensions=16)
    assert fails(embedder.embed("a")).code == "embedding_error"
    assert len(wire.heard) == 1


def test_a_cancelled_call_asks_nothing_more(start: Start) -> None:
    embedder, wire = start({"error": "timeout"}, dimensions=16)

    async def cancel_when_asked() -> None:
        task = asyncio.ensure_future(embedder.embed_batch([str(number) for number in range(150)]))
        while not wire.heard:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancel_when_asked())
    assert len(wire.heard) == 1


def test_a_missing_key_is_told_at_construction() -> None:
    with pytest.raises(ConfigError, match=r"embedder\.config\.api_key is missing.*GOOGLE_API_KEY"):
        build("embedders", "google", {})


def test_a_service_of_ones_own_needs_no_key(start: Start) -> None:
    _, wire = start()
    embedder = build("embedders", "google", {"base_url": wire.address})
    assert fails(embedder.embed("a")).code == "authentication"


def test_without_the_client_the_pip_line_is_told(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder, _ = start(dimensions=16)
    assert embedder.unavailable() is None
    monkeypatch.setitem(sys.modules, "google.genai", None)
    assert extra_line("google") in (embedder.unavailable() or "")
    with pytest.raises(DependencyError, match=re.escape(extra_line("google"))):
        run(embedder.embed("a"))


def test_the_meter_and_close_leave_nothing_open(start: Start) -> None:
    embedder, _ = start(dimensions=16)

    async def embed_and_close() -> None:
        await asyncio.gather(*(embedder.embed(f"text {number}") for number in range(8)))
        await embedder.close()

    run(embed_and_close())
    run(embed_and_close())
    gc.collect()  # an open socket would be a ResourceWarning, which is an error here
