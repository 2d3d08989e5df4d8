"""Azure's OpenAI language model and embedder: another address, another header, deployments; the rest is `openai`'s."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import numpy as np
import pytest

from perdure.backends.shared.metering import metered
from perdure.domain.errors import ConfigError, EmbeddingError, LLMError
from perdure.domain.event import Usage
from perdure.domain.message import Message
from tests.backends.wire.held import build, let_go  # noqa: F401
from tests.backends.wire.openai import KEY, OpenAIWire, Says, failure
from tests.backends.wire.vectors import vector_of

DEPLOYMENTS = {"chat-one": "gpt-4o-mini", "thinker": "o4-mini", "vectors": "text-embedding-3-small", "gpt-4o": "gpt-4o"}


def azure(*answers: Any, **options: Any) -> OpenAIWire:
    return OpenAIWire(*answers, deployments=DEPLOYMENTS, **options)


def build_at(wire: OpenAIWire, family: str, **settings: Any) -> Any:
    return build(family, "azure_openai", {"base_url": wire.address, "api_key": KEY, "retry_delay": 0.0, **settings})


def test_a_chat_on_the_wire() -> None:
    with azure("fine") as wire:
        llm = build_at(wire, "llms", deployment="chat-one")
        assert asyncio.run(llm.generate("Be brief.", "hello")) == "fine"
    (request,) = wire.heard
    assert request.path == "/openai/deployments/chat-one/chat/completions"
    assert request.query == {"api-version": ["2024-10-21"]}
    assert request.headers["api-key"] == KEY
    assert "authorization" not in request.headers
    assert request.json["max_completion_tokens"] == 2000 and "max_tokens" not in request.json


def test_without_a_deployment_the_models_name_is_the_deployments() -> None:
    with azure("fine") as wire:
        llm = build_at(wire, "llms", model="gpt-4o", api_version="2025-01-01-preview")
        assert asyncio.run(llm.generate("s", "m")) == "fine"
    (request,) = wire.heard
    assert request.path == "/openai/deployments/gpt-4o/chat/completions"
    assert request.query == {"api-version": ["2025-01-01-preview"]}


def test_a_stream_that_begins_with_the_filters_findings() -> None:
    async def work(wire: OpenAIWire) -> list[str]:
        llm = build_at(wire, "llms", deployment="chat-one")
        async with aclosing(llm.stream("s", [Message("user", "m")])) as stream:
            return [piece async for piece in stream]

    with azure("one two") as wire:
        assert asyncio.run(work(wire)) == ["one ", "two"]


def test_a_reasoning_model_is_asked_again() -> None:
    with azure("fine") as wire:
        assert asyncio.run(build_at(wire, "llms", deployment="thinker", model="o4-mini").generate("s", "m")) == "fine"
    assert len(wire.heard) == 2


def test_an_older_version_of_the_interface_knows_the_length_by_its_older_name() -> None:
    with azure("fine", unknown={"max_completion_tokens"}) as wire:
        assert asyncio.run(build_at(wire, "llms", deployment="chat-one").generate("s", "m")) == "fine"
    assert wire.bodies()[1]["max_tokens"] == 2000


def test_embeddings_on_the_wire() -> None:
    with azure() as wire:
        embedder = build_at(wire, "embedders", deployment="vectors", dimensions=256)
        vectors = asyncio.run(embedder.embed_batch(["User likes tea"]))
    (request,) = wire.heard
    assert request.path == "/openai/deployments/vectors/embeddings"
    assert request.headers["api-key"] == KEY
    assert request.json["dimensions"] == 256
    assert embedder.label == "azure_openai-text-embedding-3-small-256", "the model's, whatever its deployment is named"
    assert np.allclose(vectors[0], vector_of("User likes tea", 256), atol=1e-7)


def test_embeddings_stay_below_azures_tokens_of_one_request() -> None:
    with azure() as wire:
        embedder = build_at(wire, "embedders", deployment="vectors", dimensions=8)
        asyncio.run(embedder.embed_batch(["x" * 3000] * 5))
    assert [len(body["input"]) for body in wire.bodies()] == [2, 2, 1]


def test_a_deployment_of_an_unknown_model_needs_its_length() -> None:
    settings = {"base_url": "https://mine.openai.azure.com", "api_key": KEY, "model": "cohere-embed"}
    with pytest.raises(ConfigError) as caught:
        build("embedders", "azure_openai", settings)
    assert caught.value.field == "embedder.config.dimensions"
    assert build("embedders", "azure_openai", {**settings, "dimensions": 64}).dimension == 64


def test_use_is_counted_at_azures_prices() -> None:
    async def work(wire: OpenAIWire) -> Usage:
        llm = build_at(wire, "llms", deployment="chat-one", model="gpt-4o-mini")
        embedder = build_at(wire, "embedders", deployment="vectors")
        with metered() as meter:
            await llm.generate("s", "m")
            await embedder.embed("x" * 100)
        return meter.usage

    with azure(Says("fine", tokens=(1000, 100, 400))) as wire:
        usage = asyncio.run(work(wire))
    assert (usage.calls, usage.input_tokens, usage.cached_tokens, usage.embedding_tokens) == (1, 1000, 400, 100)
    assert usage.cost == pytest.approx((600 * 0.15 + 400 * 0.075 + 100 * 0.6 + 100 * 0.02) / 1e6)


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        ({"api_key": "wrong"}, "authentication", "the key was refused"),
        ({"deployment": "nowhere"}, None, "does not exist"),
        ({"api_version": "latest"}, None, "404"),
    ],
)
def test_what_azure_refuses(settings: dict[str, Any], code: str | None, words: str) -> None:
    with azure() as wire:
        for family, failure_class in (("llms", LLMError), ("embedders", EmbeddingError)):
            deployment = "chat-one" if family == "llms" else "vectors"
            backend = build_at(wire, family, **{"deployment": deployment, **settings})
            with pytest.raises(failure_class, match=words) as caught:
                asyncio.run(backend.generate("s", "m") if family == "llms" else backend.embed("x"))
            assert caught.value.code == (code or failure_class("x").code)
    assert len(wire.heard) == 2


def test_one_layer_of_retries() -> None:
    with azure(intercept=lambda request: failure("server")) as wire:
        with pytest.raises(LLMError):
            asyncio.run(build_at(wire, "llms", deployment="chat-one", retries=1).generate("s", "m"))
        assert len(wire.heard) == 2
        with pytest.raises(EmbeddingError):
            asyncio.run(build_at(wire, "embedders", deployment="vectors", retries=1).embed("x"))
    assert len(wire.heard) == 4


def test_the_content_filter_is_a_refusal() -> None:
    with azure(failure("filter")) as wire, pytest.raises(LLMError) as caught:
        asyncio.run(build_at(wire, "llms", deployment="chat-one").generate("s", "m"))
    assert caught.value.code == "refused"


@pytest.mark.parametrize("family", ["llms", "embedders"])
def test_a_missing_address_or_key_names_field_and_variable(family: str) -> None:
    section = family.removesuffix("s")
    for config, field, variable in (
        ({"api_key": KEY}, "base_url", "AZURE_OPENAI_ENDPOINT"),
        ({"base_url": "https://mine.openai.azure.com"}, "api_key", "AZURE_OPENAI_API_KEY"),
        ({"base_url": "https://mine.openai.azure.us/"}, "api_key", "AZURE_OPENAI_API_KEY"),
    ):
        with pytest.raises(ConfigError) as caught:
            build(family, "azure_openai", config)
        assert caught.value.field == f"{section}.config.{field}"
        assert variable in str(caught.value)


def test_settings_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with azure("fine", key="from-environment") as wire:
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", "from-environment")
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", wire.address + "/")
        monkeypatch.setenv("OPENAI_API_VERSION", "2025-03-01-preview")
        # What the vendor's client would prefer to a key of its own accord:
        monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "another-way-in")
        assert asyncio.run(build("llms", "azure_openai", {"deployment": "chat-one"}).generate("s", "m")) == "fine"
    assert wire.heard[0].query == {"api-version": ["2025-03-01-preview"]}
