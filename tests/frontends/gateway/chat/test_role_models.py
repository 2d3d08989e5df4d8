"""Models of 001's roles are asked as their settings say, and where these say nothing as the spec does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.engine.chat import extraction
from tests.frontends.gateway.conftest import gateway_to, knowing
from tests.frontends.gateway.dialects import Speaker
from tests.frontends.gateway.scripts import Reply, completion
from tests.frontends.gateway.upstream import Upstream, upstream

pytestmark = pytest.mark.covers("V24", "V61")

CHAT = "/v1/chat/completions"
HISTORY = [{"role": "user", "content": "Planning a trip to Hawaii"}, {"role": "assistant", "content": "Lovely."}]


@pytest.fixture(scope="module")
def role() -> Iterator[Upstream]:
    """The server of the roles' models."""
    with upstream() as found:
        yield found


def named(role: Upstream, settings: dict[str, Any]) -> dict[str, Any]:
    config = {"model": "qwen3", "base_url": role.url, "api_key": "dummy", **settings}
    return {"provider": "openai", "config": config}


def options(role: Upstream) -> tuple[Any, Any]:
    return role.last.json["max_tokens"], role.last.json["temperature"]


@pytest.mark.covers("V24", "V59", "V61")
@pytest.mark.parametrize(
    ("settings", "reads", "puts"),
    [({}, (500, 0.1), (100, 0.1)), ({"max_tokens": 64, "temperature": 0.7}, (64, 0.7), (64, 0.7))],
    ids=["the spec's", "the file's"],
)
def test_what_a_roles_settings_say_is_what_its_model_is_asked_with(
    tmp_path: Path, model: Upstream, role: Upstream, settings: dict[str, Any], reads: Any, puts: Any
) -> None:
    role.clear()
    roles = {"extraction_llm": named(role, settings), "rewrite_llm": named(role, settings), "rewrite": "llm"}
    with gateway_to(tmp_path / "memory", model.url, gateway=knowing(model), **roles) as gateway:
        ana = Speaker(gateway, model, "chat")
        role.always(CHAT, Reply.of_json(completion('{"facts": []}')))
        ana.told("I like green tea more than any other.")
        assert options(role) == reads
        role.always(CHAT, Reply.of_json(completion("What does the trip to Hawaii cost?")))
        body = {
            "messages": [*HISTORY, {"role": "user", "content": "How much?"}],
            "memory_config": {"auto_store": False},
        }
        gateway.client.post(CHAT, json=body, headers=ana.headers).raise_for_status()
        assert options(role) == puts


@pytest.mark.covers("V61")
def test_a_slow_model_has_the_time_that_its_settings_give_it(
    tmp_path: Path, model: Upstream, role: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    role.clear()
    monkeypatch.setattr(extraction, "PATIENCE", 0.05)
    said = completion('{"facts": [{"text": "User likes green tea", "type": "semantic"}]}')
    reply = Reply.of_json(said)
    assert reply.body is not None
    role.always(CHAT, Reply(200, reply.headers, steps=[0.5, reply.body]))
    reader = named(role, {"timeout": 50.0})
    with gateway_to(tmp_path / "memory", model.url, gateway=knowing(model), extraction_llm=reader) as gateway:
        ana = Speaker(gateway, model, "chat")
        ana.told("I like green tea more than any other.")
        assert ana.memories == ["User likes green tea"]
