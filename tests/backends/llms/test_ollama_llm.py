"""Ollama's chat provider, through the vendor's client, at a server that speaks its wire."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.backends.extras import extra_line
from perdure.backends.llms.base import ToolAnswer, ToolCall
from perdure.backends.llms.ollama import Answer, OllamaLLM, answer_of
from perdure.backends.registry import build
from perdure.backends.shared.metering import metered
from perdure.backends.shared.ollama_service import address_of
from perdure.domain.errors import ConfigError, DependencyError
from perdure.domain.message import ROLES, Message
from tests.backends.llms.ollama_calls import (
    REMEMBER,
    Work,
    at,
    fails,
    hello,
    make,
    streamed,
)
from tests.backends.wire.ollama import KEY, OllamaWire, Says
from tests.backends.wire.server import Heard, Reply


# ------------------------------------------------------------------ what is sent
def test_a_plain_call_as_it_is_on_the_wire() -> None:
    with OllamaWire("Hi.") as wire:
        assert at(wire, hello) == "Hi."
    request = wire.heard[0]
    assert (request.method, request.path) == ("POST", "/api/chat")
    assert request.headers["content-type"] == "application/json"
    assert "authorization" not in request.headers
    assert request.json == {
        "model": "llama3.1",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}],
        "stream": False,
        "think": False,
        "tools": [],
        "options": {"temperature": 0.0, "num_predict": 2000, "num_ctx": 8192},
    }


def test_settings_and_the_call_decide_in_this_order() -> None:
    async def both(llm: OllamaLLM) -> None:
        await llm.generate("", "one")
        await llm.generate("", "two", temperature=0.0, max_tokens=9)

    with OllamaWire("1", "2") as wire:
        at(wire, both, model="qwen3", temperature=0.7, max_tokens=50, num_ctx=4096, think=True)
    first, second = wire.bodies("/api/chat")
    assert first["options"] == {"temperature": 0.7, "num_predict": 50, "num_ctx": 4096}
    assert second["options"] == {"temperature": 0.0, "num_predict": 9, "num_ctx": 4096}
    assert first["messages"] == [{"role": "user", "content": "one"}]
    assert (first["model"], first["think"]) == ("qwen3", True)


@pytest.mark.parametrize(("system", "sent"), [("Extract.", "Extract.\nAnswer in JSON."), ("Give JSON.", "Give JSON.")])
def test_json_mode_asks_for_it_in_words_too(system: str, sent: str) -> None:
    with OllamaWire('{"facts": []}') as wire:
        answer = at(wire, lambda llm: llm.generate(system, "I like tea", response_format="json"))
    assert answer == '{"facts": []}'
    assert wire.heard[0].json["format"] == "json"
    assert wire.heard[0].json["messages"][0]["content"] == sent


def test_tools_and_their_calls() -> None:
    calls = ({"name": "remember", "arguments": {"fact": "User likes tea", "sure": 0.9, "tags": ["a"]}},)
    with OllamaWire(Says("Noted.", calls)) as wire:
        answer = at(wire, lambda llm: llm.generate_with_tool_calls("s", "I like tea", [REMEMBER]))
    assert answer == ToolAnswer("Noted.", [ToolCall("remember", calls[0]["arguments"])])
    assert wire.heard[0].json["tools"] == [{"type": "function", "function": REMEMBER}]


def test_what_the_client_would_drop_of_a_schema_is_told_in_words() -> None:
    """The client keeps type, description, enum and items of a parameter, and so does an old server."""
    place = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    either = {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "Who said it."}
    many = {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}}
    schema = {
        "type": "object",
        "properties": {"place": place, "who": either, "many": many, "any": True},
        "minProperties": 1,
    }
    with OllamaWire("ok") as wire:
        at(wire, lambda llm: llm.generate_with_tool_calls("", "m", [{"name": "go", "parameters": schema}]))
    function = wire.heard[0].json["tools"][0]["function"]
    sent = function["parameters"]["properties"]
    assert '"properties": {"city": {"type": "string"}}, "required": ["city"]' in sent["place"]["description"]
    assert sent["place"]["type"] == "object"
    assert sent["who"]["description"].startswith("Who said it. (JSON Schema: ")
    assert '"anyOf"' in sent["who"]["description"]
    assert sent["many"] == many
    assert sent["any"] == {}
    assert '"minProperties": 1' in function["description"]


def test_a_stream_as_it_is_on_the_wire() -> None:
    turns = [Message("user", "hello"), Message("assistant", "Hi."), Message("user", "and now?")]

    async def talk(llm: OllamaLLM) -> list[str]:
        return [piece async for piece in llm.stream("Be brief.", turns, temperature=0.3, max_tokens=7)]

    with OllamaWire("one  two\nthree") as wire, metered() as meter:
        assert at(wire, talk) == ["one  ", "two\n", "three"]
    body = wire.heard[0].json
    assert body["stream"] is True
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "and now?"},
    ]
    assert body["options"] == {"temperature": 0.3, "num_predict": 7, "num_ctx": 8192}
    assert (meter.usage.calls, meter.usage.input_tokens, meter.usage.output_tokens) == (1, 20, 7)


def test_every_role_becomes_one_that_templates_know() -> None:
    async def talk(llm: OllamaLLM) -> list[str]:
        return [piece async for piece in llm.stream("", [Message(role, role) for role in ROLES])]

    with OllamaWire("ok") as wire:
        assert at(wire, talk) == ["ok"]
    sent = {message["content"]: message["role"] for message in wire.heard[0].json["messages"]}
    assert sent == {
        "system": "system",
        "developer": "system",
        "user": "user",
        "assistant": "assistant",
        "tool": "user",
        "function": "user",
    }


@pytest.mark.parametrize("text", ["Grüße, 世界 🚴", "a\x00b", "before \ud800 after", "\udcff"])
def test_any_text_can_be_sent(text: str) -> None:
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    with OllamaWire("ok", "ok", "ok") as wire:
        at(wire, lambda llm: llm.generate(text, text))
        at(wire, lambda llm: llm.generate_with_tool_calls(text, text, [REMEMBER]))

        async def talk(llm: OllamaLLM) -> list[str]:
            return [piece async for piece in llm.stream(text, [Message("user", whole)])]

        at(wire, talk)
    for body in wire.bodies():
        assert [message["content"] for message in body["messages"]] == [whole, whole]


# ------------------------------------------------------------------ what is read
def test_thoughts_are_no_part_of_an_answer() -> None:
    said = Says("It is tea.", thinking="The user asks. Tea?")
    tagged = Says("<think>\nThe user asks.\n</think>\n\nIt is tea.")
    with OllamaWire(said, tagged, said, tagged, tagged) as wire:
        assert at(wire, hello) == at(wire, hello) == "It is tea."
        assert "".join(at(wire, streamed)) == "".join(at(wire, streamed)) == "It is tea."
        assert at(wire, lambda llm: llm.generate_with_tool_calls("", "m", [])) == ToolAnswer("It is tea.", [])


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<thi", "nk>", " ", "\n", "tea", "<", "é"]), max_size=12),
    st.data(),
)
def test_thoughts_are_found_however_the_answer_is_cut(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    answer = Answer()
    told = [answer.add(text[start:end]) for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join([*told, answer.end()]) == answer_of(text)
    if not text.lstrip().startswith("<think>"):
        assert answer_of(text) == text
    elif "</think>" in text:
        assert answer_of(text) == text.lstrip().removeprefix("<think>").partition("</think>")[2].lstrip()
    else:
        assert answer_of(text) == ""


def test_what_was_used_is_counted() -> None:
    with OllamaWire(Says("a", tokens=(120, 30)), Says("b", tokens=(None, 4))) as wire, metered() as meter:
        at(wire, hello)
        at(wire, lambda llm: llm.generate_with_tool_calls("s", "m", [REMEMBER]))
    usage = meter.usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (2, 120, 34, 0)


@pytest.mark.parametrize("work", [hello, streamed], ids=["whole", "stream"])
def test_a_prompt_that_did_not_fit_is_told(work: Work[Any]) -> None:
    """The server cuts it without a word; then it has read exactly as many tokens as there is room for."""
    with OllamaWire(Says("fine", tokens=(4096, 3))) as wire, metered() as meter:
        error = fails(wire, work, num_ctx=4096)
    assert error.code == "length"
    assert "num_ctx (4096)" in str(error)
    assert meter.usage.input_tokens == 4096
    with OllamaWire(Says("fine", tokens=(4095, 3))) as wire:
        assert "".join(at(wire, work, num_ctx=4096)) == "fine"


def test_an_answer_that_was_cut_off() -> None:
    cut = Says('{"facts": ["User', done_reason="length")
    as_json = partial(OllamaLLM.generate, system_prompt="JSON", user_message="m", response_format="json")
    with OllamaWire(cut, cut, Says("", done_reason="length"), Says("<think>hm", done_reason="length")) as wire:
        assert fails(wire, as_json).code == "length"
        assert at(wire, hello) == cut.text
        assert fails(wire).code == "length"
        assert fails(wire, streamed).code == "length"
    assert len(wire.heard) == 4


def test_an_answer_without_content_is_an_error() -> None:
    with OllamaWire(Says(""), Says("", thinking="hm"), Says(""), Says("")) as wire:
        for work in (hello, streamed, streamed):
            assert "no text" in str(fails(wire, work))
        assert "neither" in str(fails(wire, lambda llm: llm.generate_with_tool_calls("", "m", [REMEMBER])))


def test_a_tool_that_was_not_offered_is_an_error() -> None:
    with OllamaWire(Says("", ({"name": "delete_all", "arguments": {}},))) as wire:
        error = fails(wire, lambda llm: llm.generate_with_tool_calls("", "m", [REMEMBER]))
    assert "delete_all" in str(error)


# ------------------------------------------------------------------ keys and addresses
@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("localhost", "http://localhost:11434"),
        ("10.0.0.7:9000", "http://10.0.0.7:9000"),
        (":9000", "http://127.0.0.1:9000"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("[::]:8080", "http://[::1]:8080"),
        ("http://box", "http://box"),
        ("https://box.example/ollama/", "https://box.example/ollama"),
        ("box/ollama", "http://box:11434/ollama"),
        ("[fe80::1]", "http://[fe80::1]:11434"),
    ],
)
def test_every_form_of_ollama_host(host: str, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert address_of(host) == address
    monkeypatch.setenv("OLLAMA_HOST", host)
    assert OllamaLLM.Settings().base_url == address


def test_the_server_is_found_by_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert OllamaLLM.Settings().base_url == "http://localhost:11434"
    with OllamaWire("hi") as wire:
        monkeypatch.setenv("OLLAMA_HOST", wire.address.removeprefix("http://"))
        assert at(wire, hello, base_url=None) == "hi"


@pytest.mark.parametrize("host", ["ftp://box", "box:port", "box:99999"])
def test_an_ollama_host_without_a_meaning(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    with pytest.raises(ConfigError, match="OLLAMA_HOST"):
        build("llms", "ollama", {})


def test_a_key_is_sent_and_never_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with OllamaWire("hi", Reply.of({"error": f"bad key {KEY}"}, 500), key=KEY) as wire:
        assert at(wire, hello, api_key=KEY) == "hi"
        assert KEY not in str(fails(wire, api_key=KEY, retries=0))
        error = fails(wire, api_key="another-key")
        assert error.code == "authentication"
        assert "another-key" not in str(error)
    assert wire.heard[0].headers["authorization"] == f"Bearer {KEY}"
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    assert KEY not in repr(OllamaLLM.Settings())


def test_ollamas_own_service_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"llm\.config\.api_key.*OLLAMA_API_KEY") as caught:
        build("llms", "ollama", {"base_url": "https://ollama.com"})
    assert caught.value.field == "llm.config.api_key"
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    build("llms", "ollama", {"base_url": "https://ollama.com"})


def test_num_ctx_must_leave_room_for_the_prompt() -> None:
    with pytest.raises(ConfigError, match="num_ctx"):
        build("llms", "ollama", {"max_tokens": 4096, "num_ctx": 4096})


def test_construction_imports_nothing_of_the_vendors() -> None:
    probe = (
        "import sys; from perdure.backends.registry import build\n"
        "build('llms', 'ollama', {}); build('embedders', 'ollama', {})\n"
        "print(sorted({'ollama', 'httpx'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_missing_client_is_told_with_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ollama", None)
    with pytest.raises(DependencyError, match=re.escape(extra_line("ollama"))):
        asyncio.run(hello(make("http://localhost:1")))


# ------------------------------------------------------------------ loops and threads
def test_one_provider_in_many_loops_and_threads_at_once() -> None:
    with OllamaWire(*["same"] * 26) as wire:
        llm = make(wire.address)
        assert [asyncio.run(hello(llm)) for _ in range(2)] == ["same"] * 2
        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(lambda _: asyncio.run(hello(llm)), range(8))) == {"same"}

        async def at_once() -> list[str]:
            answers = await asyncio.gather(*(hello(llm) for _ in range(16)))
            await llm.close()
            await llm.close()
            return list(answers)

        assert set(asyncio.run(at_once())) == {"same"}
    assert len(wire.heard) == 26


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def test_a_schema_is_the_format() -> None:
    with OllamaWire('{"a": 1}') as wire:
        at(wire, lambda llm: llm.generate("JSON", "m", response_format="json", schema=SCHEMA))
    assert wire.heard[0].json["format"] == SCHEMA


def test_a_server_that_knows_no_schema_is_asked_for_any_json_from_then_on() -> None:
    said = "json: cannot unmarshal object into Go struct field ChatRequest.format of type string"

    def intercept(request: Heard) -> Reply | None:
        return Reply.of({"error": said}, 400) if isinstance(request.json.get("format"), dict) else None

    async def both(llm: OllamaLLM) -> list[str]:
        return [await llm.generate("JSON", "m", response_format="json", schema=SCHEMA) for _ in range(2)]

    with OllamaWire("{}", "{}", intercept=intercept) as wire:
        assert at(wire, both) == ["{}", "{}"]
    assert [heard.json["format"] for heard in wire.heard] == [SCHEMA, "json", "json"]
