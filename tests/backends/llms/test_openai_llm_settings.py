"""What the tests hold OpenAI's settings and keys to."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from typing import Any

import pytest

from perdure.backends.llms.openai import OpenAILLM
from perdure.domain.errors import ConfigError, LLMError
from tests.backends.llms.openai_calls import llm_at
from tests.backends.wire.held import build, let_go  # noqa: F401
from tests.backends.wire.openai import KEY, OpenAIWire
from tests.backends.wire.server import Heard, Reply

# ------------------------------------------------------------------ settings and keys


def test_a_missing_key_names_field_and_variable() -> None:
    for config in ({}, {"base_url": "https://api.openai.com/v1"}, {"api_key": ""}, {"api_key": None}):
        with pytest.raises(ConfigError) as caught:
            build("llms", "openai", config)
        assert caught.value.field == "llm.config.api_key"
        assert "OPENAI_API_KEY" in str(caught.value)


def test_the_key_and_the_address_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIWire("fine", key="sk-from-environment") as wire:
        monkeypatch.setenv("OPENAI_API_KEY", " sk-from-environment\n")
        monkeypatch.setenv("OPENAI_BASE_URL", wire.base_url)
        assert asyncio.run(build("llms", "openai", {}).generate("s", "m")) == "fine"


def test_a_service_of_ones_own_needs_no_key() -> None:
    with OpenAIWire("fine", key="no-key") as wire:
        assert asyncio.run(build("llms", "openai", {"base_url": wire.base_url}).generate("s", "m")) == "fine"


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"base_url": "localhost:1234"}, "base_url"),
        ({"base_url": "ftp://host/v1"}, "base_url"),
        ({"base_url": "http://"}, "base_url"),
        ({"base_url": "http://[::1/v1"}, "base_url"),
        ({"api_key": "two words"}, "api_key"),
        ({"api_key": "clé"}, "api_key"),
        ({"temperature": 2.5}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"timeout": 0}, "timeout"),
        ({"retries": -1}, "retries"),
        ({"model": ""}, "model"),
        ({"modle": "gpt-4o"}, "modle"),
    ],
)
def test_wrong_settings_are_named(config: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build("llms", "openai", {"api_key": KEY, **config})
    assert caught.value.field == f"llm.config.{field}"
    assert KEY not in str(caught.value) and "clé" not in str(caught.value)


def test_a_wrong_address_in_the_environment_is_an_error_at_construction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "nowhere")
    with pytest.raises(ConfigError, match="base_url"):
        build("llms", "openai", {"api_key": KEY})


def test_the_key_is_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    def echo(request: Heard) -> Reply:
        words = f"you sent {request.headers['authorization']} which is {KEY}"
        status = 403 if "forbidden" in request.body.decode() else 400
        return Reply.of({"error": {"message": words, "param": KEY, "code": KEY}}, status)

    with OpenAIWire(intercept=echo) as wire:
        llm = llm_at(wire)
        assert isinstance(llm, OpenAILLM)
        shown = [repr(llm), repr(vars(llm)), repr(llm._settings), str(llm._settings.model_dump())]
        for text in ("hello", "forbidden"):
            with pytest.raises(LLMError) as caught:
                asyncio.run(llm.generate("s", text))
            shown += [str(caught.value), repr(caught.value), repr(caught.value.__dict__)]
    assert all(KEY not in text for text in shown), shown
    assert KEY not in caplog.text


def test_construction_sends_nothing_and_does_not_import_the_client() -> None:
    probe = (
        "import sys\n"
        "from perdure.backends.registry import build\n"
        "llm = build('llms', 'openai', {'api_key': 'sk-x'})\n"
        "build('embedders', 'openai', {'api_key': 'sk-x'})\n"
        "assert not {'openai', 'httpx2', 'genai_prices'} & set(sys.modules), 'imported'\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", probe], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
