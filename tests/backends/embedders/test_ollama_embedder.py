"""Ollama's embedding provider, through the vendor's client, at a server that speaks its wire."""

from __future__ import annotations

import asyncio
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perdure import Memory
from perdure.backends.embedders.ollama import MODELS, OllamaEmbedder
from perdure.backends.extras import extra_line
from perdure.backends.registry import build
from perdure.backends.shared.metering import metered
from perdure.domain.errors import ConfigError, DependencyError, EmbeddingError
from tests.backends.embedders.embedder_calls import replies
from tests.backends.embedders.ollama_vectors import at, embed, expected, fails, make
from tests.backends.wire.ollama import KEY, NO_PATH, OllamaWire
from tests.backends.wire.server import Reply


# ------------------------------------------------------------------ what is sent and read
def test_a_list_is_one_request() -> None:
    with OllamaWire() as wire, metered() as meter:
        assert np.allclose(embed(wire, "User likes tea", "tea"), expected("User likes tea", "tea"), atol=1e-6)
    request = wire.heard[0]
    assert (request.method, request.path) == ("POST", "/api/embed")
    assert "authorization" not in request.headers
    assert request.json == {"model": "all-minilm", "input": ["User likes tea", "tea"], "truncate": True}
    assert len(wire.heard) == 1
    usage = meter.usage
    assert (usage.calls, usage.embedding_tokens) == (0, len("User likes tea") + len("tea"))


def test_long_lists_are_split_and_come_back_in_order() -> None:
    texts = [f"text number {number}" for number in range(150)]
    with OllamaWire() as wire:
        assert np.allclose(embed(wire, *texts), expected(*texts), atol=1e-6)
        embed(wire, *texts[:5], batch_size=2)
    assert [len(body["input"]) for body in wire.bodies()] == [64, 64, 22, 2, 2, 1]


def test_an_empty_text_is_read_as_a_space_and_no_text_asks_nothing() -> None:
    with OllamaWire() as wire:
        assert np.allclose(embed(wire, ""), expected(" "), atol=1e-6)
        assert embed(wire).shape == (0, 384)
    assert wire.bodies() == [{"model": "all-minilm", "input": [" "], "truncate": True}]


@pytest.mark.parametrize("text", ["Grüße, 世界 🚴", "a\x00b", "before \ud800 after", "\udcff"])
def test_any_text_can_be_sent(text: str) -> None:
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    with OllamaWire() as wire:
        assert np.allclose(embed(wire, text), expected(whole), atol=1e-6)


# ------------------------------------------------------------------ how long the vectors are
def test_the_page_about_the_provider_has_the_same_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "providers" / "ollama.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", page, re.MULTILINE)
    assert {name: int(length) for length, names in rows for name in re.findall("`(.+?)`", names)} == MODELS


@pytest.mark.parametrize(
    ("model", "dimension"),
    [
        *((model, dimension) for model, dimension in MODELS.items()),
        ("nomic-embed-text:latest", 768),
        ("nomic-embed-text:v1.5", 768),
        ("nomic-embed-text:137m-v1.5-fp16", 768),
        ("all-minilm:33m", 384),
        ("snowflake-arctic-embed:latest", 1024),
        ("snowflake-arctic-embed:22m-xs-fp16", 384),
        ("snowflake-arctic-embed:335m-l-fp16", 1024),
        ("qwen3-embedding:0.6b-q8_0", 1024),
    ],
)
def test_known_models_have_a_dimension(model: str, dimension: int) -> None:
    embedder = build("embedders", "ollama", {"model": model})
    assert embedder.dimension == dimension


@pytest.mark.parametrize("model", ["own-model", "qwen3-embedding", "granite-embedding:latest", "someone/bge-m3"])
def test_an_unknown_dimension_is_an_error_at_construction(model: str) -> None:
    with pytest.raises(ConfigError, match=r"embedder\.config\.dimensions is required") as caught:
        build("embedders", "ollama", {"model": model})
    assert caught.value.field == "embedder.config.dimensions"
    assert build("embedders", "ollama", {"model": model, "dimensions": 16}).dimension == 16


def test_more_numbers_than_the_model_has_are_an_error_at_construction() -> None:
    with pytest.raises(ConfigError, match="all-minilm gives at most 384, not 385"):
        build("embedders", "ollama", {"model": "all-minilm", "dimensions": 385})


def test_shorter_vectors_are_asked_for() -> None:
    with OllamaWire() as wire:
        short = embed(wire, "tea", dimensions=64)
        assert short.shape == (1, 64)
        assert np.allclose(np.linalg.norm(short, axis=1), 1, atol=1e-6)
    assert wire.bodies()[0]["dimensions"] == 64


def test_an_unknown_model_is_asked_for_shorter_vectors_once_its_own_are_too_long() -> None:
    async def twice(embedder: OllamaEmbedder) -> tuple[int, ...]:
        return (await embedder.embed_batch(["a"])).shape + (await embedder.embed_batch(["b"])).shape

    with OllamaWire() as wire:
        assert at(wire, twice, model="own-model", dimensions=8) == (1, 8, 1, 8)
        assert embed(wire, "a", model="own-model", dimensions=16).shape == (1, 16)
    assert [body.get("dimensions") for body in wire.bodies()] == [None, 8, 8, None]


def test_vectors_of_another_length_are_an_error() -> None:
    with OllamaWire(shortens=False) as wire:
        assert "384 dimensions, not 64" in str(fails(wire, dimensions=64))
    with OllamaWire() as wire:
        assert "16 dimensions, not 32" in str(fails(wire, model="own-model", dimensions=32))


def test_a_dimension_that_is_not_the_stores_is_an_error(tmp_path: Any) -> None:
    with OllamaWire() as wire:

        def config(model: str) -> dict[str, Any]:
            at_wire = {"base_url": wire.address, "model": model}
            return {"path": str(tmp_path / "memory"), "embedder": {"provider": "ollama", "config": at_wire}}

        with Memory(config("all-minilm")) as memory:
            memory.add("User likes tea", user_id="ann", infer=False)
            assert memory.search("User likes tea", user_id="ann").results[0].memory == "User likes tea"
        with pytest.raises(ConfigError, match=r"384|768"), Memory(config("nomic-embed-text")) as other:
            other.search("tea", user_id="ann")


def test_one_model_has_one_label() -> None:
    labels = {build("embedders", "ollama", {"model": name}).label for name in ("all-minilm", "all-minilm:latest")}
    assert labels == {"ollama-all-minilm-384"}


# ------------------------------------------------------------------ old servers
def test_an_old_server_is_asked_text_by_text_from_then_on() -> None:
    async def twice(embedder: OllamaEmbedder) -> list[np.ndarray]:
        return [await embedder.embed_batch(["a", "b"]), await embedder.embed_batch(["c"])]

    with OllamaWire(old=True) as wire, metered() as meter:
        first, second = at(wire, twice)
    assert np.allclose(first, expected("a", "b"), atol=1e-6)  # of length 1, although that path's are not
    assert np.allclose(second, expected("c"), atol=1e-6)
    asked = [request.path for request in wire.heard]
    assert asked == ["/api/embed", "/api/embeddings", "/api/embeddings", "/api/embeddings"]
    assert wire.heard[1].json == {"model": "all-minilm", "prompt": "a"}
    assert meter.usage.embedding_tokens == 0


def test_a_model_that_was_not_pulled_is_no_sign_of_an_old_server() -> None:
    with OllamaWire() as wire:
        error = fails(wire, model="own-model-2", dimensions=16)
    assert "`ollama pull own-model-2`" in str(error)
    assert [request.path for request in wire.heard] == ["/api/embed"]


def test_an_old_server_says_too_which_model_to_pull() -> None:
    with OllamaWire(old=True) as wire:
        assert "`ollama pull own-model-2`" in str(fails(wire, model="own-model-2", dimensions=16))


def test_an_address_without_either_path_is_no_old_server() -> None:
    async def twice(embedder: OllamaEmbedder) -> np.ndarray:
        with pytest.raises(EmbeddingError, match="base_url"):
            await embedder.embed_batch(["a"])
        return await embedder.embed_batch(["a"])

    with OllamaWire(intercept=replies(NO_PATH, NO_PATH)) as wire:
        at(wire, twice)
    assert [request.path for request in wire.heard] == ["/api/embed", "/api/embeddings", "/api/embed"]


# ------------------------------------------------------------------ long texts
def test_a_long_text_is_cut_by_the_server() -> None:
    text = "tea " * 5000
    with OllamaWire() as wire:
        assert np.allclose(embed(wire, text), expected(text[:1024]), atol=1e-6)
    assert len(wire.heard) == 1


@pytest.mark.parametrize("old", [False, True])
def test_where_the_server_refuses_a_long_text_a_beginning_is_read(old: bool) -> None:
    text = "".join(f"word{number} " for number in range(400))
    with OllamaWire(cuts=False, old=old) as wire:
        vectors = embed(wire, "short", text, "also short")
    beginning = text[: len(text) // 4]
    assert 512 < len(beginning) <= 1024
    assert np.allclose(vectors, expected("short", beginning, "also short"), atol=1e-6)


def test_a_refusal_of_a_short_text_is_not_answered_by_cutting_for_ever() -> None:
    too_long = Reply.of({"error": "input after truncation exceeds maximum context length"}, 400)
    with OllamaWire(intercept=lambda request: too_long) as wire:
        assert fails(wire, "x" * 64).code == "length"
    assert [len(body["input"][0]) for body in wire.bodies()] == [64, 32, 16]


# ------------------------------------------------------------------ keys, clients, loops
def test_a_key_is_sent_and_never_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    told = Reply.of({"error": f"bad key {KEY}"}, 500)
    with OllamaWire(key=KEY, intercept=replies(None, told)) as wire:
        embed(wire, "tea")
        assert KEY not in str(fails(wire, retries=0))
        assert fails(wire, api_key="another-key").code == "authentication"
    assert wire.heard[0].headers["authorization"] == f"Bearer {KEY}"
    with pytest.raises(ConfigError, match=r"embedder\.config\.api_key.*OLLAMA_API_KEY"):
        monkeypatch.delenv("OLLAMA_API_KEY")
        build("embedders", "ollama", {"base_url": "https://ollama.com"})


def test_a_missing_client_is_told_with_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = make("http://localhost:1")
    assert embedder.unavailable() is None
    monkeypatch.setattr("perdure.backends.http.service.find_spec", lambda name: None)
    assert extra_line("ollama") in str(embedder.unavailable())
    monkeypatch.setitem(sys.modules, "ollama", None)
    with pytest.raises(DependencyError, match=re.escape(extra_line("ollama"))):
        asyncio.run(embedder.embed("tea"))


def test_one_provider_in_many_loops_and_threads_at_once() -> None:
    with OllamaWire() as wire:
        embedder = make(wire.address)
        assert [asyncio.run(embedder.embed("tea")).shape for _ in range(2)] == [(384,)] * 2
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda number: asyncio.run(embedder.embed(f"tea {number}")), range(8)))
        assert np.allclose(found, expected(*(f"tea {number}" for number in range(8))), atol=1e-6)

        async def at_once() -> list[np.ndarray]:
            vectors = await asyncio.gather(*(embedder.embed(f"tea {number}") for number in range(16)))
            await embedder.close()
            await embedder.close()
            return vectors

        assert np.allclose(asyncio.run(at_once()), expected(*(f"tea {number}" for number in range(16))), atol=1e-6)
    assert len(wire.heard) == 26
