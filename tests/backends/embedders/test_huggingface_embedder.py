"""Hugging Face's embedder over HTTP: text-embeddings-inference, a plain endpoint, and the router, at a local server."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perdure import Memory
from perdure.backends.embedders import huggingface
from perdure.backends.embedders.huggingface import DEFAULT, MODELS, HuggingFaceEmbedder
from perdure.backends.extras import extra_line
from perdure.backends.http import service
from perdure.backends.registry import build
from perdure.backends.shared.metering import metered
from perdure.domain.errors import ConfigError, DependencyError
from tests.backends.embedders.embedder_calls import always, replies
from tests.backends.embedders.huggingface_vectors import VARIABLES, at, embed, expected, fails, make
from tests.backends.wire.huggingface import DIMENSION, KEY, MODEL, HuggingFaceWire, tei_error
from tests.backends.wire.server import Reply


# ------------------------------------------------------------------ text-embeddings-inference
def test_a_list_is_one_request() -> None:
    with HuggingFaceWire() as wire, metered() as meter:
        assert np.allclose(embed(wire, "User likes tea", "tea"), expected("User likes tea", "tea"), atol=1e-6)
    request = wire.heard[0]
    assert (request.method, request.path) == ("POST", "/embed")
    assert "authorization" not in request.headers
    assert request.headers["content-type"] == "application/json"
    assert request.json == {"inputs": ["User likes tea", "tea"], "normalize": True, "truncate": True}
    assert len(wire.heard) == 1
    assert (meter.usage.calls, meter.usage.embedding_tokens) == (0, 7)


def test_long_lists_are_split_and_come_back_in_order() -> None:
    texts = [f"text number {number}" for number in range(75)]
    with HuggingFaceWire() as wire:
        assert np.allclose(embed(wire, *texts), expected(*texts), atol=1e-6)
        embed(wire, *texts[:5], batch_size=2)
    assert wire.sizes() == [32, 32, 11, 2, 2, 1]


def test_a_server_that_takes_fewer_texts_is_asked_in_halves_and_remembered() -> None:
    texts = [f"text number {number}" for number in range(20)]

    async def twice(embedder: HuggingFaceEmbedder) -> list[np.ndarray]:
        return [await embedder.embed_batch(texts), await embedder.embed_batch(texts)]

    with HuggingFaceWire(most_texts=5) as wire:
        for vectors in at(wire, twice):
            assert np.allclose(vectors, expected(*texts), atol=1e-6)
    assert wire.sizes() == [20, 10, 5, 5, 10, 5, 5, 5, 5, 5, 5]


def test_a_body_that_is_too_large_is_asked_in_halves() -> None:
    texts = [f"{number} " + "tea " * 300 for number in range(8)]
    with HuggingFaceWire(payload=4_000) as wire:
        assert np.allclose(embed(wire, *texts), expected(*texts), atol=1e-6)
    assert wire.sizes()[:2] == [8, 4]
    assert wire.sizes().count(2) == 4


def test_a_long_text_is_cut_by_the_server() -> None:
    text = "tea " * 5000
    with HuggingFaceWire() as wire:
        assert np.allclose(embed(wire, text), expected(text[:2048]), atol=1e-6)
    assert len(wire.heard) == 1


@pytest.mark.parametrize("settings", [{"cuts": False}, {"payload": 2_100}])
def test_where_the_server_refuses_a_long_text_a_beginning_is_read(settings: dict[str, Any]) -> None:
    text = "".join(f"word{number} " for number in range(800))
    with HuggingFaceWire(**settings) as wire:
        assert np.allclose(embed(wire, "short", text)[1], expected(text[: len(text) // 4])[0], atol=1e-6)


def test_a_refusal_of_a_short_text_is_not_answered_by_cutting_for_ever() -> None:
    with HuggingFaceWire(intercept=always(tei_error("Validation", "no"))) as wire:
        assert "status 413: no" in str(fails(wire, "x" * 64))
    assert [len(request.json["inputs"][0]) for request in wire.heard] == [64, 32, 16]


def test_an_empty_text_is_read_as_a_space_and_no_text_asks_nothing() -> None:
    with HuggingFaceWire() as wire:
        assert np.allclose(embed(wire, ""), expected(" "), atol=1e-6)
        assert embed(wire).shape == (0, DIMENSION)
    assert len(wire.heard) == 1


@pytest.mark.parametrize("text", ["Grüße, 世界 🚴", "a\x00b", "before \ud800 after", "\udcff"])
def test_any_text_can_be_sent(text: str) -> None:
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    with HuggingFaceWire() as wire:
        assert np.allclose(embed(wire, text), expected(whole), atol=1e-6)


# ------------------------------------------------------------------ other addresses
def test_an_endpoint_that_is_no_tei_answers_at_its_own_address() -> None:
    async def twice(embedder: HuggingFaceEmbedder) -> list[np.ndarray]:
        return [await embedder.embed_batch(["a"]), await embedder.embed_batch(["b"])]

    with HuggingFaceWire("endpoint") as wire:
        first, second = at(wire, twice)
    assert np.allclose([first[0], second[0]], expected("a", "b"), atol=1e-6)
    assert [request.path for request in wire.heard] == ["/embed", "/", "/"]


@pytest.mark.parametrize("path", ["/embed", "/embed/", "/invocations"])
def test_a_whole_address_is_used_as_it_is(path: str) -> None:
    with HuggingFaceWire() as wire:
        embed(wire, "a", base_url=wire.address + path)
    assert [request.path for request in wire.heard] == [path.rstrip("/")]


def test_an_address_where_nothing_is() -> None:
    with HuggingFaceWire() as wire:
        assert "nothing at /v1 (status 404)" in str(fails(wire, base_url=f"{wire.address}/v1"))
    assert [request.path for request in wire.heard] == ["/v1/embed", "/v1"]


def test_the_router_is_asked_for_the_model_with_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", KEY)
    with HuggingFaceWire("router", key=KEY) as wire:
        monkeypatch.setattr(huggingface, "ROUTER", wire.address)
        assert np.allclose(embed(wire, "tea", base_url=None), expected("tea"), atol=1e-6)
        embed(wire, "tea", base_url=None, model=None)
        error = fails(wire, base_url=None, model="someone/no model?", dimensions=3)
    assert wire.heard[0].path == wire.heard[1].path == f"/hf-inference/models/{DEFAULT}/pipeline/feature-extraction"
    assert wire.heard[0].headers["authorization"] == f"Bearer {KEY}"
    assert wire.heard[0].json == {"inputs": ["tea"], "normalize": True, "truncate": True}
    assert wire.heard[2].path == "/hf-inference/models/someone/no%20model%3F/pipeline/feature-extraction"
    assert "status 404" in str(error)
    assert len(wire.heard) == 3


def test_the_routers_words_for_a_model_that_loads_and_for_an_empty_purse(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(service, "with_retry", partial(service.with_retry, sleep=sleep))
    monkeypatch.setenv("HF_TOKEN", KEY)
    loading = Reply.of({"error": "Model is currently loading", "estimated_time": 12.5}, 503)
    purse = Reply.of({"error": "You have exceeded your monthly included credits for Inference Providers."}, 402)
    with HuggingFaceWire("router", key=KEY, intercept=replies(loading, None, purse)) as wire:
        monkeypatch.setattr(huggingface, "ROUTER", wire.address)
        embed(wire, "tea", base_url=None)
        error = fails(wire, base_url=None)
    assert waits == [12.5]
    assert error.code == "quota"
    assert "monthly included credits" in str(error)
    assert len(wire.heard) == 3


# ------------------------------------------------------------------ how long the vectors are
def test_the_page_about_the_provider_has_the_same_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "providers" / "huggingface.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", page, re.MULTILINE)
    assert {name: int(length) for length, names in rows for name in re.findall("`(.+?)`", names)} == MODELS


@pytest.mark.parametrize("model", sorted(MODELS))
def test_known_models_have_a_dimension(model: str) -> None:
    embedder = make("http://localhost:1", model=model)
    assert embedder.dimension == MODELS[model]
    assert embedder.label == f"huggingface-{model}-{MODELS[model]}"


@pytest.mark.parametrize("config", [{"model": "someone/own-model"}, {"model": None}])
def test_an_unknown_dimension_is_an_error_at_construction(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"embedder\.config\.dimensions is required") as caught:
        make("http://box:8080", **config)
    assert caught.value.field == "embedder.config.dimensions"
    assert make("http://box:8080", **config, dimensions=16).dimension == 16


def test_a_server_without_a_name_for_its_model_is_named_by_its_address() -> None:
    embedder = make("http://user:secret@box:8080", model=None, dimensions=16)
    assert embedder.label == "huggingface-box:8080-16"


def test_more_numbers_than_the_model_has_are_an_error_at_construction() -> None:
    with pytest.raises(ConfigError, match="gives at most 384, not 385"):
        make("http://box:8080", dimensions=385)


def test_shorter_vectors_are_asked_for() -> None:
    with HuggingFaceWire() as wire:
        short = embed(wire, "tea", dimensions=64)
        unnamed = embed(wire, "tea", model=None, dimensions=64)
    assert short.shape == (1, 64)
    assert np.allclose(np.linalg.norm(short, axis=1), 1, atol=1e-6)
    assert np.array_equal(short, unnamed)
    assert [request.json.get("dimensions") for request in wire.heard] == [64, None, 64]


def test_vectors_of_another_length_are_an_error() -> None:
    with HuggingFaceWire(dimension=16) as wire:
        assert "16 dimensions, not 384" in str(fails(wire))


def test_a_dimension_that_is_not_the_stores_is_an_error(tmp_path: Any) -> None:
    with HuggingFaceWire() as wire:

        def config(**embedder: Any) -> dict[str, Any]:
            at_wire = {"base_url": wire.address, **embedder}
            return {"path": str(tmp_path / "memory"), "embedder": {"provider": "huggingface", "config": at_wire}}

        with Memory(config(model=MODEL)) as memory:
            memory.add("User likes tea", user_id="ann", infer=False)
            assert memory.search("User likes tea", user_id="ann").results[0].memory == "User likes tea"
        with pytest.raises(ConfigError, match=r"384|64"), Memory(config(model=MODEL, dimensions=64)) as other:
            other.search("tea", user_id="ann")


def test_a_vector_for_each_token_is_refused_with_a_way_out() -> None:
    with HuggingFaceWire("endpoint", tokens=True) as wire:
        error = fails(wire)
    assert "a vector for each token" in str(error)
    assert "text-embeddings-inference" in str(error)


# ------------------------------------------------------------------ keys
@pytest.mark.parametrize("variable", VARIABLES)
def test_the_router_needs_a_key(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"embedder\.config\.api_key.*HF_TOKEN") as caught:
        build("embedders", "huggingface", {})
    assert caught.value.field == "embedder.config.api_key"
    monkeypatch.setenv(variable, KEY)
    assert build("embedders", "huggingface", {}).dimension == 384


def test_a_key_of_the_environment_goes_to_hugging_face_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", KEY)
    with HuggingFaceWire() as wire:
        embed(wire, "tea")
        embed(wire, "tea", api_key="my-own-servers-key")
        monkeypatch.setattr("perdure.backends.embedders.huggingface.is_hosted", lambda base_url: True)
        embed(wire, "tea")
    sent = [request.headers.get("authorization") for request in wire.heard]
    assert sent == [None, "Bearer my-own-servers-key", f"Bearer {KEY}"]


@pytest.mark.parametrize(
    ("address", "hosted"),
    [
        (None, True),
        ("https://router.huggingface.co/x", True),
        ("https://abc.us-east-1.aws.endpoints.huggingface.cloud", True),
        ("https://huggingface.co.evil.example", False),
        ("https://nothuggingface.co", False),
        ("http://localhost:8080", False),
    ],
)
def test_which_addresses_are_hugging_faces(address: str | None, hosted: bool) -> None:
    assert huggingface.is_hosted(address) is hosted


def test_a_key_is_never_told() -> None:
    told = Reply.of({"error": f"bad key {KEY} in Bearer {KEY}"}, 500)
    with HuggingFaceWire(intercept=always(told)) as wire:
        assert KEY not in str(fails(wire, api_key=KEY, retries=0))
    assert KEY not in repr(HuggingFaceEmbedder.Settings(api_key=KEY))
    with HuggingFaceWire(key=KEY) as wire:
        error = fails(wire, api_key="hf_another")
    assert error.code == "authentication"
    assert "hf_another" not in str(error)


# ------------------------------------------------------------------ drivers, loops, threads
def test_construction_imports_no_client() -> None:
    probe = (
        "import sys; from perdure.backends.registry import build\n"
        "build('embedders', 'huggingface', {'base_url': 'http://box', 'dimensions': 3})\n"
        "print(sorted({'httpx2', 'huggingface_hub', 'onnxruntime', 'tokenizers'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_missing_client_is_told_with_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = make("http://localhost:1")
    assert embedder.unavailable() is None
    monkeypatch.setattr("perdure.backends.embedders.huggingface.find_spec", lambda name: None)
    assert extra_line("huggingface") in str(embedder.unavailable())
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(DependencyError, match=re.escape(extra_line("huggingface"))):
        asyncio.run(embedder.embed("tea"))


def test_one_provider_in_many_loops_and_threads_at_once() -> None:
    with HuggingFaceWire() as wire:
        embedder = make(wire.address)
        assert [asyncio.run(embedder.embed("tea")).shape for _ in range(2)] == [(DIMENSION,)] * 2
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


def test_the_body_is_plain_json() -> None:
    """No number that JSON does not have, and text as it is."""
    with HuggingFaceWire() as wire:
        embed(wire, "é", "\u2028")
    assert json.loads(wire.heard[0].body)["inputs"] == ["é", "\u2028"]
