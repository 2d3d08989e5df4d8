"""Anthropic's provider: what it sends, and what it makes of what comes back."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, aclosing
from typing import Any, TypeVar

import pytest

from perdure.backends.extras import extra_line
from perdure.backends.llms.base import LLM, ToolAnswer, ToolCall
from perdure.backends.registry import build
from perdure.backends.shared.metering import metered
from perdure.domain.errors import ConfigError, DependencyError, LLMError
from perdure.domain.message import Message
from tests.backends.wire.anthropic import KEY, AnthropicWire, error, events

T = TypeVar("T")
Start = Callable[..., tuple[LLM, AnthropicWire]]

CACHED = {"type": "ephemeral"}
TOOL = {
    "name": "remember",
    "description": "Keep a fact.",
    "parameters": {"type": "object", "properties": {"fact": {"type": "string"}}, "required": ["fact"]},
}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a server that gives the answers, and a provider that asks it; keywords are settings."""
    with ExitStack() as stack:

        def start_one(*answers: Any, **settings: Any) -> tuple[LLM, AnthropicWire]:
            wire = stack.enter_context(AnthropicWire(*answers))
            config = {"api_key": KEY, "base_url": wire.address, "retries": 0, **settings}
            return build("llms", "anthropic", config), wire

        yield start_one


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


async def collected(pieces: AsyncIterator[str]) -> list[str]:
    return [piece async for piece in pieces]


def test_a_plain_request_is_exactly_this(start: Start) -> None:
    llm, wire = start("Hello!")
    assert run(llm.generate("Be brief.", "hi")) == "Hello!"
    [heard] = wire.heard
    assert (heard.method, heard.path, heard.query) == ("POST", "/v1/messages", {})
    assert heard.headers["authorization"] == f"Bearer {KEY}"
    assert heard.headers["anthropic-version"] == "2026-10-21"
    assert heard.json == {
        "model": "claude-haiku-5-5",
        "max_tokens": 2000,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": CACHED}],
        "messages": [{"role": "user", "content": "hi"}],
        "thinking": {"type": "disabled"},
    }


def test_a_call_can_ask_for_another_length_and_needs_no_system_prompt(start: Start) -> None:
    llm, wire = start("Hello!")
    run(llm.generate("", "hi", max_tokens=7))
    assert wire.heard[0].json["max_tokens"] == 7
    assert "system" not in wire.heard[0].json


@pytest.mark.parametrize("given, sent", [({}, 0.5), ({"temperature": 0.0}, 0.0), ({"temperature": 1.0}, 1.0)])
def test_a_model_that_takes_a_temperature_gets_one(start: Start, given: dict[str, float], sent: float) -> None:
    llm, wire = start("ok", model="claude-haiku-4-5", temperature=0.5)
    run(llm.generate("s", "m", **given))
    assert wire.heard[0].headers["anthropic-version"] == "2023-06-01"
    assert wire.heard[0].json["temperature"] == sent
    assert "thinking" not in wire.heard[0].json


def test_another_makers_model_gets_a_temperature_until_it_refuses_one(start: Start) -> None:
    refusal = error(400, "invalid_request_error", "temperature: Extra inputs are not permitted")
    llm, wire = start(refusal, "one", "two", model="llama")
    assert [run(llm.generate("s", "m", temperature=0)) for _ in range(2)] == ["one", "two"]
    assert ["temperature" in heard.json for heard in wire.heard] == [True, False, False]
    assert "thinking" not in wire.heard[2].json
    assert wire.heard[2].headers["anthropic-version"] == "2026-10-21"


def test_json_comes_through_a_tool_that_is_forced(start: Start) -> None:
    llm, wire = start('{"facts": ["User likes té"]}')
    answer = run(llm.generate("Answer in JSON.", "I like té", response_format="json"))
    assert answer == '{"facts": ["User likes té"]}'
    body = wire.heard[0].json
    assert body["tool_choice"] == {"type": "tool", "name": "answer"}
    assert [tool["name"] for tool in body["tools"]] == ["answer"]
    assert body["tools"][0]["input_schema"] == {"type": "object", "properties": {}, "additionalProperties": True}
    assert body["system"][0]["text"].startswith("Answer in JSON.\n")


@pytest.mark.parametrize(
    "said",
    ['{"facts": ["x"]}', '```json\n{"facts": ["x"]}\n```', 'Here are the facts: {"facts": ["x"]} That is all.'],
)
def test_json_may_come_as_text(start: Start, said: str) -> None:
    llm, _ = start({"text": said}, model="claude-sonnet-5-5")
    assert json.loads(run(llm.generate("s", "m", response_format="json"))) == {"facts": ["x"]}


def test_words_that_hold_no_json_are_left_for_the_caller_to_judge(start: Start) -> None:
    llm, _ = start("no idea { really }")
    assert run(llm.generate("s", "m", response_format="json")) == "no idea { really }"


@pytest.mark.parametrize(
    "model, first, later",
    [
        ("claude-haiku-5-5", 1, {"thinking", "tool_choice"}),
        ("claude-sonnet-5-5", 2, {"thinking"}),
        ("claude-opus-5-5", 3, set()),
        ("claude-haiku-4-5", 1, {"temperature", "tool_choice"}),
    ],
)
def test_what_a_model_refuses_is_left_out_from_then_on(start: Start, model: str, first: int, later: set[str]) -> None:
    llm, wire = start('{"n": 1}', '{"n": 2}', model=model)
    assert run(llm.generate("s", "m", response_format="json")) == '{"n": 1}'
    assert len(wire.heard) == first
    assert run(llm.generate("s", "m", response_format="json")) == '{"n": 2}'
    assert len(wire.heard) == first + 1
    assert set(wire.heard[-1].json) & {"temperature", "thinking", "tool_choice"} == later


def test_thinking_is_no_part_of_an_answer(start: Start) -> None:
    thinking = {"thinking": "Let me see ...", "text": "Four."}
    llm, _ = start(thinking, thinking, {**thinking, "tool_calls": [{"name": "remember", "arguments": {}}]})
    assert run(llm.generate("s", "2+2")) == "Four."
    assert "".join(run(collected(llm.stream("s", [Message("user", "2+2")])))) == "Four."
    assert run(llm.generate_with_tool_calls("s", "2+2", [TOOL])).content == "Four."


def test_tools_go_out_in_the_services_words_and_calls_come_back(start: Start) -> None:
    said = {"text": "Noted.", "tool_calls": [{"name": "remember", "arguments": {"fact": "tea"}}]}
    llm, wire = start(said)
    answer = run(llm.generate_with_tool_calls("s", "I like tea", [TOOL, {"name": "forget"}]))
    assert answer == ToolAnswer("Noted.", [ToolCall("remember", {"fact": "tea"})])
    body = wire.heard[0].json
    assert body["tools"] == [
        {"name": "remember", "description": "Keep a fact.", "input_schema": TOOL["parameters"]},
        {"name": "forget", "input_schema": {"type": "object", "properties": {}}},
    ]
    assert "tool_choice" not in body


def test_no_tools_is_a_request_without_tools(start: Start) -> None:
    llm, wire = start("hello")
    assert run(llm.generate_with_tool_calls("s", "m", [])) == ToolAnswer("hello", [])
    assert "tools" not in wire.heard[0].json


def test_a_tool_that_was_not_offered_is_an_error(start: Start) -> None:
    llm, _ = start({"tool_calls": [{"name": "launch", "arguments": {}}]})
    with pytest.raises(LLMError, match="'launch', which was not offered"):
        run(llm.generate_with_tool_calls("s", "m", [TOOL]))


def test_a_stream_comes_in_pieces(start: Start) -> None:
    llm, wire = start("The quick brown fox")
    turns = [Message("user", "hi"), Message("assistant", "hello"), Message("tool", "42"), Message("user", "go on")]
    pieces = run(collected(llm.stream("Be brief.", turns, max_tokens=99)))
    assert pieces == ["The ", "quic", "k br", "own ", "fox"]
    assert wire.heard[0].json == {
        "model": "claude-haiku-5-5",
        "max_tokens": 99,
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "hello"},
            {"role": "user", "content": "42\n\ngo on"},
        ],
        "stream": True,
        "thinking": {"type": "disabled"},
    }


def test_system_messages_join_the_system_prompt_and_empty_ones_are_left_out(start: Start) -> None:
    llm, wire = start("ok")
    turns = [Message("system", "Rule."), Message("user", "hi"), Message("assistant", " "), Message("user", "there")]
    run(collected(llm.stream("Be brief.", turns)))
    assert wire.heard[0].json["system"] == "Be brief.\n\nRule."
    assert wire.heard[0].json["messages"] == [{"role": "user", "content": "hi\n\nthere"}]


@pytest.mark.parametrize("roles", [["assistant", "user"], ["user", "assistant"], ["assistant"]])
def test_turns_that_the_service_refuses_are_sent_as_a_transcript(start: Start, roles: list[str]) -> None:
    llm, wire = start("ok")
    run(collected(llm.stream("s", [Message(role, f"words of {role}") for role in roles])))
    [turn] = wire.heard[0].json["messages"]
    assert turn == {"role": "user", "content": "\n".join(f"{role}: words of {role}" for role in roles)}


def test_a_stream_too_learns_what_the_model_refuses(start: Start) -> None:
    llm, wire = start("one", "two", model="claude-opus-5-5")
    for said in ("one", "two"):
        assert "".join(run(collected(llm.stream("s", [Message("user", "m")])))) == said
    assert ["thinking" in heard.json for heard in wire.heard] == [True, False, False]


def test_the_beginning_of_a_system_prompt_is_cached_and_its_last_paragraph_is_not(start: Start) -> None:
    llm, wire = start("one", "two", "three")
    rules = "A rule that never changes.\n\n" * 100
    with metered() as meter:
        for day in ("Monday", "Tuesday", "Tuesday"):
            run(llm.generate(f"{rules}It is {day}.", "hi"))
    assert [heard.json["system"][1] for heard in wire.heard] == [
        {"type": "text", "text": f"It is {day}."} for day in ("Monday", "Tuesday", "Tuesday")
    ]
    assert all(heard.json["system"][0]["cache_control"] == CACHED for heard in wire.heard)
    beginning = (len("[]" + rules)) // 4 + 1
    assert meter.usage.cached_tokens == 2 * beginning
    assert meter.usage.input_tokens > 3 * beginning


def test_use_is_counted_and_priced(start: Start) -> None:
    llm, _ = start("four words are here", "four words are here")
    with metered() as meter:
        run(llm.generate("s", "m"))
    with metered() as streamed:
        run(collected(llm.stream("s", [Message("user", "m")])))
    usage = meter.usage
    assert (usage.calls, usage.cached_tokens, usage.embedding_tokens) == (1, 0, 0)
    assert usage.input_tokens > 0
    assert usage.output_tokens > 4
    assert usage.cost == pytest.approx((usage.input_tokens * 0.1 + usage.output_tokens * 0.5) / 1e6)
    assert streamed.usage.calls == 1
    assert streamed.usage.output_tokens == usage.output_tokens
    assert streamed.usage.cost is not None


def test_a_model_without_a_known_price_has_no_cost(start: Start) -> None:
    llm, _ = start("ok", model="llama")
    with metered() as meter:
        run(llm.generate("s", "m"))
    assert meter.usage.input_tokens > 0
    assert meter.usage.cost is None


def test_a_stream_that_is_left_or_refused_is_counted_too(start: Start) -> None:
    llm, _ = start("The quick brown fox", {"text": "I", "stop_reason": "refusal"})

    async def leave() -> str:
        async with aclosing(llm.stream("s", [Message("user", "m")])) as pieces:
            return await anext(pieces)

    with metered() as left:
        assert run(leave()) == "The "
    with metered() as refused, pytest.raises(LLMError):
        run(collected(llm.stream("s", [Message("user", "m")])))
    for usage in (left.usage, refused.usage):
        assert usage.calls == 1
        assert usage.input_tokens > 0


def test_lone_surrogates_become_replacement_characters(start: Start) -> None:
    llm, wire = start("ok", "ok")
    run(llm.generate("s\ud800", "m\udfff 🚴"))
    assert wire.heard[0].json["system"][0]["text"] == "s\ufffd"
    assert wire.heard[0].json["messages"][0]["content"] == "m\ufffd 🚴"


def test_a_refusal_is_an_error_with_its_reason(start: Start) -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "It could do harm."}
    refused = {"text": "I", "stop_reason": "refusal", "stop_details": details}
    llm, _ = start(refused, refused, {"stop_reason": "refusal"})
    for work in (llm.generate("s", "m"), collected(llm.stream("s", [Message("user", "m")]))):
        with pytest.raises(LLMError, match="It could do harm") as caught:
            run(work)
        assert caught.value.code == "refused"
    with pytest.raises(LLMError, match="no reason was given"):
        run(llm.generate_with_tool_calls("s", "m", [TOOL]))


def test_an_answer_cut_off_counts_only_as_text(start: Start) -> None:
    cut = {"stop_reason": "max_tokens"}
    half = {**cut, "tool_calls": [{"name": "remember", "arguments": {}}]}
    llm, _ = start({**cut, "text": "Once upon"}, {**cut, "text": '{"a": 1}'}, {**cut, "thinking": "hm"}, half, cut)
    assert run(llm.generate("s", "m")) == "Once upon"
    for work in (
        llm.generate("s", "m", response_format="json"),
        llm.generate("s", "m"),
        llm.generate_with_tool_calls("s", "m", [TOOL]),
        llm.generate_with_tool_calls("s", "m", [TOOL]),
    ):
        with pytest.raises(LLMError, match="cut off") as caught:
            run(work)
        assert caught.value.code == "length"


def test_a_missing_key_is_told_at_construction() -> None:
    with pytest.raises(ConfigError, match=r"llm\.config\.api_key is missing.*ANTHROPIC_API_KEY") as caught:
        build("llms", "anthropic", {})
    assert caught.value.field == "llm.config.api_key"


def test_the_environment_is_the_fallback(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    _, wire = start("ok")
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.address)
    llm = build("llms", "anthropic", {"api_key": None})
    assert run(llm.generate("s", "m")) == "ok"


def test_a_service_of_ones_own_needs_no_key(start: Start) -> None:
    _, wire = start()
    llm = build("llms", "anthropic", {"base_url": wire.address, "retries": 0})
    with pytest.raises(LLMError) as caught:
        run(llm.generate("s", "m"))
    assert caught.value.code == "authentication"
    assert wire.heard[0].headers["authorization"] == "Bearer no-key"


@pytest.mark.parametrize("wrong", [{"temperature": 1.5}, {"max_tokens": 0}, {"modle": "x"}, {"base_url": "nowhere"}])
def test_settings_that_cannot_be_are_told_at_construction(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"llm.config.{next(iter(wrong))}"):
        build("llms", "anthropic", {"api_key": KEY, **wrong})


def test_construction_does_not_import_the_client() -> None:
    code = (
        "import sys; from perdure.backends.registry import build\n"
        "build('llms', 'anthropic', {'api_key': 'k'}); assert 'anthropic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_the_client_the_pip_line_is_told(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    llm, _ = start("ok")
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(DependencyError, match=re.escape(extra_line("anthropic"))):
        run(llm.generate("s", "m"))


def test_loops_one_after_another_and_close_leave_nothing_open(start: Start) -> None:
    llm, wire = start(*["ok"] * 9)

    async def eight_and_close() -> None:
        await asyncio.gather(*(llm.generate("s", "m") for _ in range(8)))
        await llm.close()
        await llm.close()

    assert run(llm.generate("s", "m")) == "ok"
    run(eight_and_close())
    gc.collect()  # an open socket would be a ResourceWarning, which is an error here
    assert len(wire.heard) == 9


def test_an_event_without_text_is_passed_over(start: Start) -> None:
    llm, _ = start(events([("message_stop", {"type": "message_stop"})]))
    with pytest.raises(LLMError, match="holds no text"):
        run(collected(llm.stream("s", [Message("user", "m")])))


def test_a_schema_is_that_of_the_forced_tool(start: Start) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    llm, wire = start('{"a": 1}')
    assert run(llm.generate("s", "m", response_format="json", schema=schema)) == '{"a": 1}'
    assert wire.heard[0].json["tools"][0]["input_schema"] == schema
