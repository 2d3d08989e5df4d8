"""Spec 000 §15 where a provider is at work: T36, T37, T39, T40 and T42, whole memories over every language model."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from pydantic import BaseModel

from perdure import ConfigError, DependencyError, Memory
from perdure.backends.extras import extra_line
from perdure.backends.llms.base import LLM, ToolAnswer
from perdure.backends.registry import providers
from tests.backends.wire.openai import KEY, OpenAIWire, Says, failure
from tests.backends.wire.server import Heard, Reply
from tests.conftest import Open
from tests.contracts.conftest import *  # noqa: F403 - the fixtures by which each provider is told what to answer

pytestmark = pytest.mark.covers("T36", "T37", "T39", "T40", "T42")

ALICE = {"user_id": "alice"}
FACTS = json.dumps({"facts": ["User's name is Bob"]})
Script = Callable[[list[Any]], dict[str, Any]]


@pytest.fixture(params=providers("llms"))
def open_with_llm(request: pytest.FixtureRequest, open_memory: Open) -> Callable[..., Memory]:
    """Opens a memory whose language model, each provider in turn, gives the answers."""
    script: Script = request.getfixturevalue(f"{request.param}_llm_script")

    def open_one(*answers: Any) -> Memory:
        llm = {"provider": request.param, "config": script(list(answers))}
        return open_memory(llm=llm, embedder={"provider": "hashed"})

    return open_one


def texts(memory: Memory, **scope: str) -> list[str]:
    return [item.memory for item in memory.get_all(**scope).results]


@pytest.mark.covers("T36")
@pytest.mark.parametrize("down", ["server", "rate_limit", "timeout", "connection", "authentication"])
def test_a_model_that_is_down_is_no_crash(open_with_llm: Callable[..., Memory], down: str) -> None:
    memory = open_with_llm({"error": down})
    result = memory.add("My name is Bob", user_id="bob")
    assert result.results == []
    assert result.warnings, "emptiness must not look like success"
    assert texts(memory, user_id="bob") == []


@pytest.mark.covers("T36")
def test_and_goes_on_when_it_is_back(open_with_llm: Callable[..., Memory]) -> None:
    memory = open_with_llm(FACTS)
    assert [event.event for event in memory.add("My name is Bob", user_id="bob").results] == ["ADD"]
    assert texts(memory, user_id="bob") == ["User's name is Bob"]
    assert memory.search("name", user_id="bob").results[0].memory == "User's name is Bob"


@pytest.mark.covers("T36")
def test_the_decision_of_a_model_that_is_down_loses_no_fact(open_with_llm: Callable[..., Memory]) -> None:
    second = json.dumps({"facts": ["User's name is Robert"]})
    memory = open_with_llm(FACTS, second, {"error": "server"}, {"error": "server"})
    memory.add("My name is Bob", user_id="bob")
    result = memory.add("My name is Robert", user_id="bob")
    assert "User's name is Robert" in texts(memory, user_id="bob")
    assert result.warnings


@pytest.mark.covers("T40")
def test_every_provider_answers_and_adds_what_it_used(open_with_llm: Callable[..., Memory]) -> None:
    memory = open_with_llm(FACTS)
    result = memory.add("My name is Bob", user_id="bob")
    assert [event.memory for event in result.results] == ["User's name is Bob"]
    if memory.config.llm is not None and memory.config.llm.provider != "scripted":
        assert result.usage.calls == 1
        assert result.usage.input_tokens > 0 and result.usage.output_tokens > 0


# ------------------------------------------------------------------ T37: one of three texts cannot be embedded


@pytest.fixture
def embedding_wire() -> Iterator[OpenAIWire]:
    def intercept(request: Heard) -> Reply | None:
        if request.path.endswith("embeddings") and any("tea" in text for text in request.json["input"]):
            return failure("server")
        return None

    with OpenAIWire(intercept=intercept) as wire:
        yield wire


@pytest.mark.covers("T37")
def test_one_of_three_embeddings_fails_over_http(open_memory: Open, embedding_wire: OpenAIWire) -> None:
    settings = {"base_url": embedding_wire.base_url, "api_key": KEY, "retries": 1, "retry_delay": 0}
    memory = open_memory(embedder={"provider": "openai", "config": settings})
    result = memory.add_facts(["User likes chess", "User likes tea", "User was born in Oslo"], **ALICE)
    assert [event.memory for event in result.results] == ["User likes chess", "User was born in Oslo"]
    assert len(result.warnings) == 1 and "tea" in result.warnings[0] and KEY not in result.warnings[0]
    assert sorted(texts(memory, **ALICE)) == ["User likes chess", "User was born in Oslo"]
    asked = [body["input"] for body in embedding_wire.bodies("embeddings")]
    everything = ["User likes chess", "User likes tea", "User was born in Oslo"]
    assert asked[:2] == [everything] * 2, "the batch, and its one retry"
    assert sorted(asked[2:]) == sorted([["User likes chess"], *[["User likes tea"]] * 2, ["User was born in Oslo"]])


# ------------------------------------------------------------------ T39: a custom prompt


def system_message(request: Heard) -> str:
    messages = request.json["messages"]
    return str(next(message["content"] for message in messages if message["role"] == "system"))


@pytest.mark.covers("T39")
def test_a_custom_prompt_is_the_system_message(open_memory: Open) -> None:
    with OpenAIWire(FACTS, FACTS) as wire:
        config = {"base_url": wire.base_url, "api_key": KEY}
        memory = open_memory(llm={"provider": "openai", "config": config}, embedder={"provider": "hashed"})
        memory.add("My name is Bob", user_id="bob", prompt="Note only allergies, as JSON.")
        memory.add("My name is Bob", user_id="eve")
    custom, built_in = (system_message(request) for request in wire.heard[:2])
    assert "Note only allergies, as JSON." in custom
    assert "allergies, as JSON" not in built_in and custom != built_in
    user = wire.heard[0].json["messages"][-1]
    assert user["role"] == "user" and "My name is Bob" in user["content"]
    assert wire.heard[0].json["temperature"] == 0
    assert wire.heard[0].json["response_format"] == {"type": "json_object"}


# ------------------------------------------------------------------ T40: a provider of one's own


class ParrotLLM(LLM):
    """Says what it was configured to say; lives outside of perdure."""

    name: ClassVar[str] = "parrot"
    heard: ClassVar[list[str]] = []

    class Settings(BaseModel):
        phrase: str

    def __init__(self, settings: Settings) -> None:
        self._phrase = settings.phrase

    async def generate(
        self,
        system_prompt: str,
        user_message: str,
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        response_format: Literal["json", "text"] = "text",
    ) -> str:
        self.heard.append(user_message)
        return self._phrase

    async def generate_with_tool_calls(
        self,
        system_prompt: str,
        user_message: str,
        tools: Sequence[Mapping[str, Any]],
        *,
        temperature: float | None = None,
    ) -> ToolAnswer:
        return ToolAnswer(self._phrase)


@pytest.mark.covers("T40")
def test_a_provider_by_import_path(open_memory: Open) -> None:
    path = f"{__name__}:ParrotLLM"
    memory = open_memory(llm={"provider": path, "config": {"phrase": FACTS}}, embedder={"provider": "hashed"})
    ParrotLLM.heard.clear()
    assert [event.memory for event in memory.add("I am Bob", user_id="bob").results] == ["User's name is Bob"]
    assert len(ParrotLLM.heard) == 1 and "I am Bob" in ParrotLLM.heard[0]


@pytest.mark.covers("T40")
def test_its_settings_are_checked(open_memory: Open) -> None:
    with pytest.raises(ConfigError, match=r"llm\.config\.phrase"):
        open_memory(llm={"provider": f"{__name__}:ParrotLLM", "config": {}})


# ------------------------------------------------------------------ T42: OpenAI's defaults


@pytest.mark.covers("T42")
def test_with_a_key_the_defaults_are_openais(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = Says(FACTS, tokens=(100, 10, 0))
    with OpenAIWire(facts, key="sk-of-the-environment") as wire:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
        monkeypatch.setenv("OPENAI_BASE_URL", wire.base_url)
        with Memory() as memory:
            assert memory.config.vector_store.provider == "memory"
            result = memory.add("My name is Bob", user_id="bob")
            assert [event.memory for event in result.results] == ["User's name is Bob"]
            found = memory.search("What is the user's name?", user_id="bob").results
            assert [item.memory for item in found] == ["User's name is Bob"]
            assert memory.embedder.dimension == 1536
            assert memory.history(result.results[0].id)[0].event == "ADD"
    (chat,) = wire.bodies("completions")
    assert chat["model"] == "gpt-4o-mini"
    assert {body["model"] for body in wire.bodies("embeddings")} == {"text-embedding-3-small"}
    assert (result.usage.calls, result.usage.input_tokens) == (1, 100)
    embedded = len("User's name is Bob") + len("My name is Bob")
    assert result.usage.embedding_tokens == embedded, "the fact's, and those of its message, which is searched too"
    assert result.usage.cost == pytest.approx((100 * 0.15 + 10 * 0.6 + embedded * 0.02) / 1e6)


@pytest.mark.covers("T42")
def test_without_the_vendors_client_construction_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(DependencyError, match=re.escape(extra_line("openai"))):
        Memory()


@pytest.mark.covers("T42")
def test_a_given_config_is_the_embedded_set_whatever_keys_there_are(
    monkeypatch: pytest.MonkeyPatch, open_memory: Open
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    memory = open_memory()
    assert memory.config.llm is None and memory.config.embedder.provider == "minilm"
    assert memory.config.vector_store.provider == "sqlite"


@pytest.mark.covers("T42")
def test_a_named_provider_without_its_key_is_an_error_at_construction(open_memory: Open) -> None:
    for section in ("llm", "embedder"):
        with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
            open_memory(**{section: {"provider": "openai"}})


def test_a_closed_memory_leaves_no_socket(tmp_path: Path) -> None:
    """In a process of its own, where every warning of an unclosed socket is on standard error."""
    probe = f"""
import gc, json
from perdure import Memory
from tests.backends.wire.openai import KEY, OpenAIWire
with OpenAIWire({FACTS!r}) as wire:
    settings = {{"base_url": wire.base_url, "api_key": KEY}}
    one = {{"provider": "openai", "config": settings}}
    memory = Memory({{"path": {str(tmp_path)!r}, "llm": one, "embedder": one}})
    assert memory.add("My name is Bob", user_id="bob").results
    memory.close()
    del memory
    gc.collect()
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", probe], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_a_store_of_another_dimension_is_an_error_at_construction(open_memory: Open) -> None:
    with OpenAIWire() as wire:
        config = {"base_url": wire.base_url, "api_key": KEY, "dimensions": 64}
        memory = open_memory(embedder={"provider": "openai", "config": config})
        memory.add_facts(["User likes tea"], **ALICE)
        memory.close()
        with pytest.raises(ConfigError, match="64 dimensions") as caught:
            open_memory(embedder={"provider": "openai", "config": {**config, "dimensions": 128}})
        assert "128" in str(caught.value)
