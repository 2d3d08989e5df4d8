"""Google's language models: what the provider sends, and what it makes of what comes back."""

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
from tests.backends.wire.google import KEY, GoogleWire, error

T = TypeVar("T")
Start = Callable[..., tuple[LLM, GoogleWire]]

MODEL = "gemini-3.5-flash-lite"
TOOL = {
    "name": "remember",
    "description": "Keep a fact.",
    "parameters": {"type": "object", "properties": {"fact": {"type": "string"}}, "required": ["fact"]},
}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a server that gives the answers, and a provider that asks it; keywords are settings."""
    with ExitStack() as stack:

        def start_one(*answers: Any, **settings: Any) -> tuple[LLM, GoogleWire]:
            wire = stack.enter_context(GoogleWire(*answers))
            config = {"api_key": KEY, "base_url": wire.address, "retries": 0, **settings}
            return build("llms", "google", config), wire

        yield start_one


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


async def collected(pieces: AsyncIterator[str]) -> list[str]:
    return [piece async for piece in pieces]


def test_a_plain_request_is_exactly_this(start: Start) -> None:
    llm, wire = start("Hello!")
    assert run(llm.generate("Be brief.", "hi")) == "Hello!"
    [heard] = wire.heard
    assert (heard.method, heard.path) == ("POST", f"/v1beta/models/{MODEL}:generateContent")
    assert heard.query == {}
    assert heard.headers["x-goog-api-key"] == KEY
    assert heard.json == {
        "systemInstruction": {"parts": [{"text": "Be brief."}], "role": "user"},
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "generationConfig": {"maxOutputTokens": 2000, "temperature": 0.0},
    }


def test_a_call_can_ask_otherwise_and_needs_no_system_prompt(start: Start) -> None:
    llm, wire = start("Hello!", model="gemini-3.8-flash", temperature=0.5)
    run(llm.generate("", "hi", max_tokens=7, temperature=1.5))
    assert wire.heard[0].path == "/v1beta/models/gemini-3.8-flash:generateContent"
    assert wire.heard[0].json["generationConfig"] == {"maxOutputTokens": 7, "temperature": 1.5}
    assert "systemInstruction" not in wire.heard[0].json


def test_json_mode_asks_for_the_type(start: Start) -> None:
    llm, wire = start('{"facts": ["User likes té"]}')
    answer = run(llm.generate("Answer in JSON.", "I like té", response_format="json"))
    assert json.loads(answer) == {"facts": ["User likes té"]}
    assert wire.heard[0].json["generationConfig"]["responseMimeType"] == "application/json"


def test_a_temperature_that_the_model_refuses_is_left_out_from_then_on(start: Start) -> None:
    refusal = error(400, "INVALID_ARGUMENT", "Unsupported parameter for this model: temperature")
    llm, wire = start(refusal, "one", "two", "three")
    assert [run(llm.generate("s", "m", temperature=0)) for _ in range(2)] == ["one", "two"]
    assert "".join(run(collected(llm.stream("s", [Message("user", "m")])))) == "three"
    assert ["temperature" in heard.json["generationConfig"] for heard in wire.heard] == [True, False, False, False]


def test_a_stream_too_learns_what_the_model_refuses(start: Start) -> None:
    refusal = error(400, "INVALID_ARGUMENT", "Unsupported parameter for this model: temperature")
    llm, wire = start(refusal, "one")
    assert "".join(run(collected(llm.stream("s", [Message("user", "m")])))) == "one"
    assert len(wire.heard) == 2


def test_thoughts_are_no_part_of_an_answer_and_count_as_output(start: Start) -> None:
    thinking = {"thinking": "Let me see ...", "text": "Four."}
    llm, _ = start({"text": "Four."}, thinking, thinking, thinking)
    with metered() as plain:
        run(llm.generate("s", "2+2"))
    with metered() as thoughtful:
        assert run(llm.generate("s", "2+2")) == "Four."
    assert thoughtful.usage.output_tokens > plain.usage.output_tokens
    assert "".join(run(collected(llm.stream("s", [Message("user", "2+2")])))) == "Four."
    assert run(llm.generate_with_tool_calls("s", "2+2", [TOOL])).content == "Four."


def test_tools_go_out_in_the_services_words_and_calls_come_back(start: Start) -> None:
    calls = [{"name": "remember", "arguments": {"fact": "tea"}}, {"name": "forget", "arguments": {}}]
    llm, wire = start({"text": "Noted.", "tool_calls": calls})
    empty = {"name": "forget", "parameters": {"type": "object", "properties": {}}}
    answer = run(llm.generate_with_tool_calls("s", "I like tea", [TOOL, empty]))
    assert answer == ToolAnswer("Noted.", [ToolCall("remember", {"fact": "tea"}), ToolCall("forget", {})])
    [tool] = wire.heard[0].json["tools"]
    remember, forget = tool["functionDeclarations"]
    assert remember.pop("parameters_json_schema") == TOOL["parameters"]
    assert remember == {"name": "remember", "description": "Keep a fact."}
    assert forget == {"name": "forget"}


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
    said = [Message("user", "hi"), Message("assistant", "hello"), Message("tool", "42"), Message("user", "go on")]
    pieces = run(collected(llm.stream("Be brief.", said, max_tokens=99)))
    assert pieces == ["The ", "quic", "k br", "own ", "fox"]
    [heard] = wire.heard
    assert (heard.path, heard.query) == (f"/v1beta/models/{MODEL}:streamGenerateContent", {"alt": ["sse"]})
    assert heard.headers["x-goog-api-key"] == KEY
    assert heard.json["contents"] == [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"text": "hello"}]},
        {"role": "user", "parts": [{"text": "42\n\ngo on"}]},
    ]
    assert heard.json["generationConfig"] == {"maxOutputTokens": 99, "temperature": 0.0}


def test_system_messages_join_the_system_prompt_and_empty_ones_are_left_out(start: Start) -> None:
    llm, wire = start("ok")
    said = [Message("system", "Rule."), Message("user", "hi"), Message("assistant", " "), Message("user", "there")]
    run(collected(llm.stream("Be brief.", said)))
    assert wire.heard[0].json["systemInstruction"]["parts"] == [{"text": "Be brief.\n\nRule."}]
    assert wire.heard[0].json["contents"] == [{"role": "user", "parts": [{"text": "hi\n\nthere"}]}]


@pytest.mark.parametrize("roles", [["assistant", "user"], ["user", "assistant"], ["assistant"]])
def test_turns_that_the_service_refuses_are_sent_as_a_transcript(start: Start, roles: list[str]) -> None:
    llm, wire = start("ok")
    run(collected(llm.stream("s", [Message(role, f"words of {role}") for role in roles])))
    text = "\n".join(f"{role}: words of {role}" for role in roles)
    assert wire.heard[0].json["contents"] == [{"role": "user", "parts": [{"text": text}]}]


def test_use_is_counted_and_priced(start: Start) -> None:
    llm, _ = start({"text": "four words are here", "cached": 3}, "four words are here")
    with metered() as meter:
        run(llm.generate("s", "m"))
    with metered() as streamed:
        run(collected(llm.stream("s", [Message("user", "m")])))
    usage = meter.usage
    assert (usage.calls, usage.cached_tokens, usage.embedding_tokens) == (1, 3, 0)
    assert usage.input_tokens > 3
    assert usage.output_tokens > 4
    dollars = (usage.input_tokens - 3) * 0.3 + 3 * 0.03 + usage.output_tokens * 2.5
    assert usage.cost == pytest.approx(dollars / 1e6)
    assert streamed.usage.calls == 1
    assert streamed.usage.output_tokens == usage.output_tokens
    assert streamed.usage.cost is not None


def test_a_stream_that_is_left_or_refused_is_counted_too(start: Start) -> None:
    llm, _ = start("The quick brown fox", {"text": "I", "reason": "SAFETY"})

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
    llm, wire = start("ok")
    run(llm.generate("s\ud800", "m\udfff 🚴"))
    assert wire.heard[0].json["systemInstruction"]["parts"] == [{"text": "s\ufffd"}]
    assert wire.heard[0].json["contents"][0]["parts"] == [{"text": "m\ufffd 🚴"}]


@pytest.mark.parametrize("refused", [{"blocked": "PROHIBITED_CONTENT"}, {"text": "I", "reason": "SAFETY"}])
def test_a_refusal_is_an_error_with_its_reason(start: Start, refused: dict[str, str]) -> None:
    llm, _ = start(refused, refused, refused)
    works = (
        llm.generate("s", "m"),
        llm.generate_with_tool_calls("s", "m", [TOOL]),
        collected(llm.stream("s", [Message("user", "m")])),
    )
    for work in works:
        with pytest.raises(LLMError, match="refused to answer: (PROHIBITED_CONTENT|SAFETY)") as caught:
            run(work)
        assert caught.value.code == "refused"


def test_an_answer_cut_off_counts_only_as_text(start: Start) -> None:
    cut = {"reason": "MAX_TOKENS"}
    half = {**cut, "tool_calls": [{"name": "remember", "arguments": {}}]}
    thinking = {**cut, "thinking": "hm"}
    llm, _ = start({**cut, "text": "Once upon"}, {**cut, "text": '{"a": 1}'}, thinking, half, cut, thinking)
    assert run(llm.generate("s", "m")) == "Once upon"
    for work in (
        llm.generate("s", "m", response_format="json"),
        llm.generate("s", "m"),
        llm.generate_with_tool_calls("s", "m", [TOOL]),
        llm.generate_with_tool_calls("s", "m", [TOOL]),
        collected(llm.stream("s", [Message("user", "m")])),
    ):
        with pytest.raises(LLMError, match=r"cut off|MAX_TOKENS") as caught:
            run(work)
        assert caught.value.code == "length"


def test_a_malformed_call_is_told(start: Start) -> None:
    malformed = {"reason": "MALFORMED_FUNCTION_CALL"}
    llm, _ = start(malformed, malformed)
    with pytest.raises(LLMError, match="MALFORMED_FUNCTION_CALL"):
        run(llm.generate_with_tool_calls("s", "m", [TOOL]))
    with pytest.raises(LLMError, match="MALFORMED_FUNCTION_CALL"):
        run(llm.generate("s", "m"))


def test_a_missing_key_is_told_at_construction() -> None:
    with pytest.raises(ConfigError, match=r"llm\.config\.api_key is missing.*GOOGLE_API_KEY") as caught:
        build("llms", "google", {})
    assert caught.value.field == "llm.config.api_key"


@pytest.mark.parametrize("variable", ["GOOGLE_API_KEY", "GEMINI_API_KEY"])
def test_the_environment_is_the_fallback(start: Start, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    _, wire = start("ok")
    monkeypatch.setenv(variable, KEY)
    llm = build("llms", "google", {"api_key": None, "base_url": wire.address})
    assert run(llm.generate("s", "m")) == "ok"


def test_the_clients_own_variables_change_nothing(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v9")
    monkeypatch.setenv("GOOGLE_API_KEY", "another")
    llm, wire = start("ok")
    assert run(llm.generate("s", "m")) == "ok"
    assert wire.heard[0].headers["x-goog-api-key"] == KEY


def test_a_service_of_ones_own_needs_no_key(start: Start) -> None:
    _, wire = start()
    llm = build("llms", "google", {"base_url": wire.address, "retries": 0})
    with pytest.raises(LLMError) as caught:
        run(llm.generate("s", "m"))
    assert caught.value.code == "authentication"
    assert wire.heard[0].headers["x-goog-api-key"] == "no-key"


@pytest.mark.parametrize("wrong", [{"temperature": 2.5}, {"max_tokens": 0}, {"modle": "x"}, {"base_url": "nowhere"}])
def test_settings_that_cannot_be_are_told_at_construction(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"llm.config.{next(iter(wrong))}"):
        build("llms", "google", {"api_key": KEY, **wrong})


def test_construction_does_not_import_the_client() -> None:
    code = (
        "import sys; from perdure.backends.registry import build\n"
        "build('llms', 'google', {'api_key': 'k'}); build('embedders', 'google', {'api_key': 'k'})\n"
        "assert 'google.genai' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_the_client_the_pip_line_is_told(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    llm, _ = start("ok")
    monkeypatch.setitem(sys.modules, "google.genai", None)
    with pytest.raises(DependencyError, match=re.escape(extra_line("google"))):
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


SCHEMA = {"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "required": ["a"]}


def test_a_schema_goes_beside_the_type(start: Start) -> None:
    llm, wire = start('{"a": null}')
    run(llm.generate("s", "m", response_format="json", schema=SCHEMA))
    assert wire.heard[0].json["generationConfig"]["responseJsonSchema"] == SCHEMA


def test_a_schema_that_the_model_refuses_is_left_out_from_then_on(start: Start) -> None:
    refusal = error(400, "INVALID_ARGUMENT", "Unknown name \"responseJsonSchema\" at 'generation_config'")
    llm, wire = start(refusal, "{}", "{}")
    assert [run(llm.generate("s", "m", response_format="json", schema=SCHEMA)) for _ in range(2)] == ["{}", "{}"]
    sent = [heard.json["generationConfig"] for heard in wire.heard]
    assert ["responseJsonSchema" in config for config in sent] == [True, False, False]
    assert all(config["responseMimeType"] == "application/json" for config in sent)
