"""Spec 001's own story and example request, word for word, over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.dialects import RESPONSES, Speaker
from tests.frontends.gateway.scripts import Reply, response
from tests.frontends.gateway.upstream import Upstream, upstream

pytestmark = pytest.mark.covers("V1", "V58", "V90")

BUDGET = "My budget for the Hawaii trip is $10,000"
EXAMPLE = json.loads("""
{
"model": "qwen3",
"input": "What's my budget for the trip?",
"previous_response_id": "resp_abc123",
"memory_config": {
"enabled": true,
"auto_store": true
},
"memory_context": {
"user_id": "user_456"
}
}
""")
"""001 §9, as it stands there."""


@pytest.fixture(scope="module")
def model() -> Iterator[Upstream]:
    with upstream() as found:
        yield found


@pytest.mark.covers("V1")
@pytest.mark.parametrize("dialect", ["responses", "chat"])
def test_what_was_said_in_march_is_known_five_days_later(tmp_path: Path, model: Upstream, dialect: str) -> None:
    with gateway_to(tmp_path / "memory", model.url, embedder={"provider": "minilm"}) as gateway:
        user = Speaker(gateway, model, dialect)
        user.told(BUDGET)
        user.new_session()
        told = user.asked("What's my budget for the trip?")
    assert "10,000" in told, "with 001's own threshold"


@pytest.mark.covers("V58", "V90")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_example_request_goes_up_with_its_chain_and_memories_on_top(
    tmp_path: Path, model: Upstream, stream: bool
) -> None:
    model.clear()
    settings = {"default_similarity_threshold": 0.0, "upstream": {"responses": "native"}}
    with gateway_to(tmp_path / "memory", model.url, gateway=settings) as gateway:
        model.play(RESPONSES, Reply.of_json(response("I see.", response_id="resp_abc123")))
        context = {"memory_context": {"user_id": "user_456"}}
        first = gateway.client.post(RESPONSES, json={"model": "qwen3", "input": f"{BUDGET}.", **context})
        assert first.json()["id"] == "resp_abc123"
        stored = gateway.client.post("/v1/memory", json={"content": f"User said: {BUDGET}", "user_id": "user_456"})
        assert stored.status_code == 200
        asked: dict[str, Any] = {**EXAMPLE, "stream": True} if stream else EXAMPLE
        found = gateway.client.post(RESPONSES, json=asked)
        assert (found.status_code, found.headers["x-memory-status"]) == (200, "used")
    sent = model.last.json
    assert (sent["model"], sent["previous_response_id"]) == ("qwen3", "resp_abc123")
    assert sent["input"] == "What's my budget for the trip?" and BUDGET in sent["instructions"]
    assert not {"memory_config", "memory_context"} & set(sent)
