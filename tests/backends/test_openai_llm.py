"""The `openai` language model by its vendor's client, over HTTP, at a server that speaks OpenAI's wire."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from itertools import chain
from typing import Any

import pytest

from perdure.backends.llms.base import LLM, ToolAnswer, ToolCall
from perdure.backends.llms.openai import OpenAILLM
from perdure.backends.metering import metered
from perdure.backends.retrying import with_retry
from perdure.domain.errors import ConfigError, LLMError
from perdure.domain.message import Message
from perdure.domain.usage import Usage
from tests.backends.wire.held import build, let_go  # noqa: F401
from tests.backends.wire.openai import KEY, OpenAIWire, Refusal, Says, failure, streamed
from tests.backends.wire.server import Heard, Reply

TOOLS = [
    {
        "name": "remember",
        "description": "Keep a fact.",
        "parameters": {"type": "object", "properties": {"fact": {"type": "string"}}, "required": ["fact"]},
    }
]
TALK = [Message("user", "hello")]


def llm_at(wire: OpenAIWire, **settings: Any) -> LLM:
    config = {"base_url": wire.base_url, "api_key": KEY, "retry_delay": 0.0, **settings}
    llm: LLM = build("llms", "openai", config)
    return llm


@asynccontextmanager
async def opened(wire: OpenAIWire, **settings: Any) -> AsyncIterator[LLM]:
    llm = llm_at(wire, **settings)
    try:
        yield llm
    finally:
        await llm.close()


async def ask(wire: OpenAIWire, **settings: Any) -> str:
    async with opened(wire, **settings) as llm:
        return await llm.generate("Be brief.", "hello")


async def pieces(llm: LLM, messages: Sequence[Message] = TALK, **options: Any) -> list[str]:
    async with aclosing(llm.stream("Be brief.", messages, **options)) as stream:
        return [piece async for piece in stream]


def failing(wire: OpenAIWire, **settings: Any) -> LLMError:
    """The error of one call."""
    with pytest.raises(LLMError) as caught:
        asyncio.run(ask(wire, **settings))
    return caught.value


# ------------------------------------------------------------------ what is asked


def test_a_plain_request_on_the_wire() -> None:
    with OpenAIWire("fine") as wire:
        assert asyncio.run(ask(wire)) == "fine"
    (request,) = wire.heard
    assert (request.method, request.path, request.query) == ("POST", "/v1/chat/completions", {})
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json == {
        "model": "gpt-4o-mini",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}],
        "temperature": 0.0,
        "max_tokens": 2000,
    }


def test_settings_and_options_reach_the_wire() -> None:
    async def work(wire: OpenAIWire) -> None:
        async with opened(wire, model="gpt-4o", temperature=0.7, max_tokens=50) as llm:
            await llm.generate("", "configured")
            await llm.generate("s", "given", temperature=0.0, max_tokens=9)

    with OpenAIWire("one", "two") as wire:
        asyncio.run(work(wire))
    configured, given = wire.bodies()
    assert (configured["model"], configured["temperature"], configured["max_tokens"]) == ("gpt-4o", 0.7, 50)
    assert configured["messages"] == [{"role": "user", "content": "configured"}], "no empty system message"
    assert (given["temperature"], given["max_tokens"]) == (0.0, 9)


@pytest.mark.parametrize("address", [None, "https://api.openai.com/v1", "https://eu.api.openai.com/v1"])
def test_openai_itself_is_told_the_length_by_its_newer_name(
    address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sent to the vendor's own address is read at the client's door, since nothing leaves this machine."""
    import openai

    sent: list[tuple[str, Any]] = []

    async def keep(self: openai.AsyncOpenAI, cast_to: Any, options: Any, **rest: Any) -> Any:
        sent.append((str(self.base_url), options.json_data))
        raise openai.APIConnectionError(request=self._build_request(options))

    monkeypatch.setattr(openai.AsyncOpenAI, "request", keep)
    llm = build("llms", "openai", {"api_key": KEY, "base_url": address, "retries": 0})
    with pytest.raises(LLMError) as caught:
        asyncio.run(llm.generate("s", "m"))
    assert caught.value.code == "connection"
    ((base_url, body),) = sent
    assert base_url.rstrip("/") == (address or "https://api.openai.com/v1")
    assert body["max_completion_tokens"] == 2000 and "max_tokens" not in body


def test_json_mode_on_the_wire() -> None:
    async def work(wire: OpenAIWire) -> None:
        async with opened(wire) as llm:
            await llm.generate("Answer in JSON.", "hello", response_format="json")
            await llm.generate("Be brief.", "hello", response_format="json")
            await llm.generate("", "hello", response_format="json")

    with OpenAIWire("{}", "{}", "{}") as wire:
        asyncio.run(work(wire))
    assert [body["response_format"] for body in wire.bodies()] == [{"type": "json_object"}] * 3
    assert [body["messages"][0]["content"] for body in wire.bodies()] == [
        "Answer in JSON.",
        "Be brief.\nAnswer in JSON.",
        "Answer in JSON.",
    ]


def test_tools_on_the_wire() -> None:
    async def work(wire: OpenAIWire) -> list[ToolAnswer]:
        async with opened(wire) as llm:
            return [await llm.generate_with_tool_calls("s", "m", tools, temperature=0.2) for tools in (TOOLS, [])]

    said = Says("thinking", ({"name": "remember", "arguments": {"fact": "User likes tea"}},))
    with OpenAIWire(said, "no tools here") as wire:
        answers = asyncio.run(work(wire))
    assert answers[0] == ToolAnswer("thinking", [ToolCall("remember", {"fact": "User likes tea"})])
    assert answers[1] == ToolAnswer("no tools here", [])
    with_tools, without = wire.bodies()
    assert with_tools["tools"] == [{"type": "function", "function": TOOLS[0]}]
    assert with_tools["temperature"] == 0.2
    assert "tools" not in without, "the service refuses an empty list"


def test_a_stream_on_the_wire() -> None:
    talk = [
        Message("developer", "be kind"),
        Message("user", "hello"),
        Message("assistant", "hi"),
        Message("tool", "42"),
    ]

    async def work(wire: OpenAIWire) -> list[str]:
        async with opened(wire) as llm:
            return await pieces(llm, talk, temperature=0.5, max_tokens=30)

    with OpenAIWire("one two three") as wire:
        assert asyncio.run(work(wire)) == ["one ", "two ", "three"]
    (body,) = wire.bodies()
    assert body == {
        "model": "gpt-4o-mini",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "hi"},
            {"role": "user", "content": "42"},
        ],
        "temperature": 0.5,
        "max_tokens": 30,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_any_text_goes_there_and_back() -> None:
    async def work(wire: OpenAIWire) -> list[Any]:
        async with opened(wire) as llm:
            return [
                await llm.generate("sys \ud800", "lone \udfff and \ud83d\ude00 and \x00 שלום"),
                await pieces(llm, TALK),
                (await llm.generate_with_tool_calls("s", "m \udc80", TOOLS)).tool_calls,
            ]

    said = Says(calls=({"name": "remember", "arguments": {"fact": "🚴 é \x00"}},))
    with OpenAIWire("é\x00🚴", "日本 🚴", said) as wire:
        text, stream, calls = asyncio.run(work(wire))
    assert text == "é\x00🚴" and "".join(stream) == "日本 🚴"
    assert calls == [ToolCall("remember", {"fact": "🚴 é \x00"})]
    first = wire.bodies()[0]["messages"]
    assert first[0]["content"] == "sys \ufffd"
    assert first[1]["content"] == "lone \ufffd and 😀 and \x00 שלום"


# ------------------------------------------------------------------ models that refuse a parameter


def test_a_reasoning_model_is_asked_again_without_what_it_refuses_and_remembered() -> None:
    async def work(wire: OpenAIWire) -> list[str]:
        async with opened(wire, model="gpt-5-mini") as llm:
            return [await llm.generate("s", "m") for _ in range(2)]

    with OpenAIWire("one", "two") as wire:
        assert asyncio.run(work(wire)) == ["one", "two"]
    bodies = wire.bodies()
    assert len(bodies) == 4, "temperature and max_tokens are refused once each, and then left out"
    for body in bodies[2:]:
        assert body["max_completion_tokens"] == 2000
        assert "temperature" not in body and "max_tokens" not in body


def test_a_stream_learns_too_and_both_share_what_was_learnt() -> None:
    async def work(wire: OpenAIWire) -> list[str]:
        async with opened(wire, model="o4-mini") as llm:
            return [*(await pieces(llm)), await llm.generate("s", "m")]

    with OpenAIWire("one", "two") as wire:
        assert asyncio.run(work(wire)) == ["one", "two"]
    assert len(wire.heard) == 4


def test_calls_at_once_learn_together() -> None:
    async def work(wire: OpenAIWire) -> list[str]:
        async with opened(wire, model="gpt-5-mini") as llm:
            return sorted(await asyncio.gather(*(llm.generate("s", "m") for _ in range(5))))

    with OpenAIWire(*"abcde") as wire:
        assert asyncio.run(work(wire)) == list("abcde")


def test_an_older_service_without_options_of_a_stream_or_json_mode() -> None:
    async def work(wire: OpenAIWire) -> list[str]:
        async with opened(wire) as llm:
            return [*(await pieces(llm)), await llm.generate("s", "m", response_format="json")]

    with OpenAIWire("one", '{"a": 1}', unknown={"stream_options", "response_format"}) as wire:
        assert asyncio.run(work(wire)) == ["one", '{"a": 1}']
    assert "stream_options" not in wire.bodies()[1] and wire.bodies()[1]["stream"]
    assert "response_format" not in wire.bodies()[3]


def test_lm_studio_refuses_json_mode_in_its_own_words() -> None:
    def intercept(request: Heard) -> Reply | None:
        if "response_format" in request.json:
            return Reply.of({"error": "'response_format.type' must be 'json_schema' or 'text'"}, 400)
        return None

    async def work(wire: OpenAIWire) -> str:
        async with opened(wire) as llm:
            return await llm.generate("s", "m", response_format="json")

    with OpenAIWire("{}", intercept=intercept) as wire:
        assert asyncio.run(work(wire)) == "{}"
    assert len(wire.heard) == 2


def test_a_parameter_that_is_merely_wrong_is_not_left_out() -> None:
    error = {"message": "Invalid 'temperature': not today.", "type": "x", "param": "temperature", "code": None}
    with OpenAIWire(intercept=lambda request: Reply.of({"error": error}, 400)) as wire:
        error_raised = failing(wire)
    assert len(wire.heard) == 1
    assert error_raised.code == LLMError("x").code
    assert "Invalid 'temperature': not today." in str(error_raised)


# ------------------------------------------------------------------ failures


@pytest.mark.parametrize(
    ("name", "code", "requests"),
    [
        ("rate_limit", "rate_limit", 3),
        ("server", "server", 3),
        ("overloaded", "server", 3),
        ("connection", "connection", 3),
        ("quota", "quota", 1),
        ("authentication", "authentication", 1),
        ("forbidden", "authentication", 1),
        ("filter", "refused", 1),
        ("too_long", None, 1),
    ],
)
def test_every_failure_has_its_code_and_its_number_of_requests(name: str, code: str | None, requests: int) -> None:
    with OpenAIWire(intercept=lambda request: failure(name)) as wire:
        plain = failing(wire, retries=2)
        assert len(wire.heard) == requests, "one layer of retries"
        wire.heard.clear()
        with pytest.raises(LLMError) as streaming:
            asyncio.run(pieces(llm_at(wire, retries=2)))
    assert len(wire.heard) == requests
    for error in (plain, streaming.value):
        assert error.code == (code or LLMError("x").code)
        assert error.__cause__ is None and error.__context__ is None, "no vendor's exception is chained"


@pytest.mark.parametrize(
    ("status", "code", "requests"),
    [
        (400, None, 1), (402, "quota", 1), (403, "authentication", 1), (404, None, 1), (408, "timeout", 1),
        (409, "server", 2), (413, None, 1), (422, None, 1), (429, "rate_limit", 2), (500, "server", 2),
        (502, "server", 2), (504, "server", 2), (529, "server", 2),
    ],
)  # fmt: skip
@pytest.mark.parametrize("body", [b"", b"<html>Bad Gateway</html>", b'{"error": "plain"}', b'{"detail": [1]}', b"[]"])
def test_every_status_with_any_body(status: int, code: str | None, requests: int, body: bytes) -> None:
    reply = Reply(status, body, {"content-type": "application/json"})
    with OpenAIWire(intercept=lambda request: reply) as wire:
        error = failing(wire, retries=1)
    assert error.code == (code or LLMError("x").code)
    assert len(wire.heard) == requests
    assert str(status) in str(error) or status == 408
    assert "html" not in str(error)
    assert ("plain" in str(error)) == (b"plain" in body)


def test_a_passing_failure_is_got_over() -> None:
    with OpenAIWire({"error": "rate_limit"}, {"error": "server"}, {"error": "connection"}, "at last") as wire:
        assert asyncio.run(ask(wire)) == "at last"
    assert len(wire.heard) == 4
    assert len({request.body for request in wire.heard}) == 1, "the same request each time"


def test_retry_after_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setitem(with_retry.__kwdefaults__, "sleep", note)
    told = [{"retry-after": "7"}, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, {"retry-after": "soon"}]
    replies = [failure("rate_limit") for _ in told]
    for reply, headers in zip(replies, told, strict=True):
        reply.headers.update(headers)
    with OpenAIWire(*replies, "fine") as wire:
        assert asyncio.run(ask(wire, retry_delay=2.0)) == "fine"
    assert waits == [7.0, 0.0, 8.0], "seconds, a date that has passed, and 2 * 2**2 where nothing can be read"


def test_a_wait_beyond_patience_is_not_begun() -> None:
    reply = failure("rate_limit")
    reply.headers["retry-after"] = "3600"
    with OpenAIWire(intercept=lambda request: reply) as wire:
        assert failing(wire).code == "rate_limit"
    assert len(wire.heard) == 1


def test_a_slow_answer_times_out_once() -> None:
    with OpenAIWire({"error": "timeout"}) as wire:
        error = failing(wire, timeout=0.2)
    assert (error.code, len(wire.heard)) == ("timeout", 1)
    assert "0.2 s" in str(error)


def test_a_body_that_trickles_times_out_too() -> None:
    """Each byte comes in time for the client's own limit, which begins anew with every one of them."""
    slow = Reply(headers={"content-type": "application/json"}, pieces=[b" "] * 1000, pause=0.05)
    with OpenAIWire(slow) as wire:
        assert failing(wire, timeout=0.4).code == "timeout"


def test_nobody_there() -> None:
    with OpenAIWire() as wire:
        address = wire.base_url
    llm = build("llms", "openai", {"base_url": address, "retries": 1, "retry_delay": 0})
    with pytest.raises(LLMError) as caught:
        asyncio.run(llm.generate("s", "m"))
    assert caught.value.code == "connection"
    assert "127.0.0.1" in str(caught.value)


@pytest.mark.parametrize("streaming", [False, True])
def test_cancelling_closes_the_connection_and_retries_nothing(streaming: bool) -> None:
    async def work(wire: OpenAIWire) -> None:
        async with opened(wire) as llm:
            task = asyncio.create_task(pieces(llm) if streaming else llm.generate("s", "m"))
            while not wire.heard:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while not wire.left:
                await asyncio.sleep(0.01)

    answer = Says("a b c d", pause=0.3) if streaming else Reply(wait=60.0)
    with OpenAIWire(answer) as wire:
        asyncio.run(asyncio.wait_for(work(wire), 30))
    assert len(wire.heard) == len(wire.left) == 1


def test_cancelling_while_waiting_for_the_next_attempt() -> None:
    async def work(wire: OpenAIWire) -> None:
        async with opened(wire, retry_delay=60) as llm:
            task = asyncio.create_task(llm.generate("s", "m"))
            while not wire.heard:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    with OpenAIWire({"error": "server"}) as wire:
        asyncio.run(asyncio.wait_for(work(wire), 30))
    assert len(wire.heard) == 1


# ------------------------------------------------------------------ answers that cannot be used

WHOLE = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}


@pytest.mark.parametrize(
    "body",
    [
        b"", b"no json", b'{"choices": [', b"[]", b"null", b"7", b"{}", b'{"choices": []}', b'{"choices": null}',
        b'{"choices": [{}]}', b'{"choices": [{"message": null}]}', b'{"choices": [{"message": {}}]}',
        b'{"choices": [{"message": {"content": 5}}]}', b'{"choices": [{"message": {"content": null}}]}',
        b'{"choices": [{"message": {"content": ""}}]}',
        b'{"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": "many"}}',
        b'\xff\xfe{"choices"', b"<html>hello</html>",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["application/json", "text/html"])
def test_a_broken_answer_is_an_error(body: bytes, kind: str) -> None:
    with OpenAIWire(Reply(200, body, {"content-type": kind})) as wire:
        error = failing(wire)
    assert len(wire.heard) == 1, "a broken answer is not asked for again"
    assert str(error).startswith("openai: the answer")


def test_an_answer_that_is_cut_short_is_a_connection_that_failed() -> None:
    half = Reply(200, b'{"choices": [', {"content-type": "application/json", "content-length": "5000"})
    torn = Reply(200, headers={"content-type": "application/json"}, pieces=[b'{"choices": ['], reset=True)
    for reply in (half, torn):
        with OpenAIWire(intercept=lambda request, reply=reply: reply) as wire:
            assert failing(wire, retries=1).code == "connection"
        assert len(wire.heard) == 2


@pytest.mark.parametrize("arguments", ["", "{}"])
def test_no_arguments_are_an_empty_object(arguments: str) -> None:
    with OpenAIWire(Says(calls=({"name": "remember", "arguments": arguments},))) as wire:
        answer = asyncio.run(llm_at(wire).generate_with_tool_calls("s", "m", TOOLS))
    assert answer.tool_calls == [ToolCall("remember", {})]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (Says(calls=({"name": "forget", "arguments": {}},)), "'forget', which was not offered"),
        (Says(calls=({"name": "remember", "arguments": '{"fact": '},)), "no JSON object"),
        (Says(calls=({"name": "remember", "arguments": "[1]"},)), "no JSON object"),
        (Says(), "holds no text"),
        (Says(finish="length"), "cut off"),
        (Says("", finish="length"), "cut off"),
    ],
)
def test_a_call_that_cannot_be_made_is_an_error(said: Says, words: str) -> None:
    with OpenAIWire(said) as wire, pytest.raises(LLMError, match=words):
        asyncio.run(llm_at(wire).generate_with_tool_calls("s", "m", TOOLS))


def test_a_model_that_finds_nothing_to_do_may_say_nothing() -> None:
    with OpenAIWire("") as wire:
        assert asyncio.run(llm_at(wire).generate_with_tool_calls("s", "m", TOOLS)) == ToolAnswer("", [])


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (Says(refusal="I cannot help with that."), "refused"),
        (Says("half an ans", finish="content_filter"), "refused"),
        (Says('{"facts": ["a"', finish="length"), "length"),
        (Says("", finish="length"), "length"),
    ],
)
def test_refused_and_cut_off_answers(said: Says, code: str) -> None:
    async def work(wire: OpenAIWire) -> None:
        async with opened(wire) as llm:
            await llm.generate("Answer in JSON.", "m", response_format="json")

    with OpenAIWire(said) as wire, pytest.raises(LLMError) as caught:
        asyncio.run(work(wire))
    assert caught.value.code == code
    assert said.refusal is None or said.refusal in str(caught.value)


def test_text_that_was_cut_off_is_still_text() -> None:
    with OpenAIWire(Says("once upon a", finish="length")) as wire:
        assert asyncio.run(ask(wire)) == "once upon a"


# ------------------------------------------------------------------ streams that break


def heard_before_breaking(wire: OpenAIWire, **settings: Any) -> tuple[list[str], LLMError]:
    """The pieces that came, and how the stream ended."""

    async def work() -> tuple[list[str], LLMError]:
        came: list[str] = []
        async with opened(wire, **settings) as llm:
            try:
                async with aclosing(llm.stream("s", TALK)) as stream:
                    async for piece in stream:
                        came.append(piece)
            except LLMError as error:
                return came, error
        raise AssertionError(f"the stream ended well: {came}")

    return asyncio.run(work())


def events(*datas: str) -> Reply:
    """A stream of these data lines; "word:x" is a chunk with the text x."""

    def event(data: str) -> bytes:
        if data.startswith("word:"):
            data = json.dumps({"choices": [{"index": 0, "delta": {"content": data[5:]}, "finish_reason": None}]})
        return f"data: {data}\n\n".encode()

    return Reply(headers={"content-type": "text/event-stream"}, pieces=[event(data) for data in datas])


def test_a_stream_that_breaks_off_keeps_what_came_and_is_not_begun_again() -> None:
    with OpenAIWire(Says("one two three", breaks_off=3)) as wire:
        came, error = heard_before_breaking(wire)
    assert came == ["one ", "two "]
    assert error.code == "connection"
    assert len(wire.heard) == 1


@pytest.mark.parametrize(
    ("reply", "came", "code"),
    [
        (events("word:a", "word:b"), ["a", "b"], "connection"),  # it ends without a finish_reason
        (events("word:a", "[DONE]"), ["a"], "connection"),
        (events(), [], "connection"),
        (events("[DONE]"), [], "connection"),
        (events("word:a", "{no json"), ["a"], None),
        (events("7"), [], None),
        (events("[1, 2]"), [], None),
        (events("null"), [], None),
        (events('"text"'), [], None),
        (events('{"choices": 5}'), [], None),
        (events('{"choices": [7]}'), [], None),
        (events('{"choices": [{"delta": {"content": {"x": 1}}}]}'), [], None),
        (events('{"choices": [{"delta": null, "finish_reason": "stop"}]}', "[DONE]"), [], None),
        (events('{"choices": [{"delta": {}, "finish_reason": "length"}]}', "[DONE]"), [], "length"),
        (events("word:a", '{"choices": [{"delta": {}, "finish_reason": "content_filter"}]}'), ["a"], "refused"),
        (events('{"choices": [{"delta": {"refusal": "no"}}]}'), [], "refused"),
        (events("word:a", '{"error": {"message": "boom", "type": "server_error"}}'), ["a"], "server"),
        (events('{"error": {"message": "empty", "code": "insufficient_quota"}}'), [], "quota"),
        (events('{"error": "bare words"}'), [], "server"),
        (Reply(200, b"{}", {"content-type": "application/json"}), [], "connection"),
        (Reply(200, b"", {"content-type": "text/event-stream"}), [], "connection"),
        (Reply(200, b"data: \xff\xfe\n\n", {"content-type": "text/event-stream"}), [], None),
    ],
)
def test_a_broken_stream_is_an_error(reply: Reply, came: list[str], code: str | None) -> None:
    with OpenAIWire(reply) as wire:
        given, error = heard_before_breaking(wire)
    assert given == came
    assert error.code == (code or LLMError("x").code), error
    assert len(wire.heard) == 1


def test_a_stream_that_falls_silent_times_out() -> None:
    slow = streamed(Says("one two"), "gpt-4o-mini", azure=False, counted=True)
    slow.pause = 0.6
    with OpenAIWire(slow) as wire:
        came, error = heard_before_breaking(wire, timeout=0.3)
    assert came == [] and error.code == "timeout"
    assert len(wire.heard) == 1


def test_a_long_stream_may_take_longer_than_the_limit_of_a_piece() -> None:
    async def work(wire: OpenAIWire) -> list[str]:
        async with opened(wire, timeout=2.0) as llm:
            return await pieces(llm)

    with OpenAIWire(Says("a b c d e f", pause=0.25)) as wire:
        assert len(asyncio.run(work(wire))) == 6


def test_a_failure_before_the_first_piece_is_got_over() -> None:
    async def work(wire: OpenAIWire) -> list[str]:
        async with opened(wire) as llm:
            return await pieces(llm)

    with OpenAIWire({"error": "server"}, {"error": "rate_limit"}, "fine") as wire:
        assert asyncio.run(work(wire)) == ["fine"]


# ------------------------------------------------------------------ counting


def test_use_is_counted_and_priced() -> None:
    async def work(wire: OpenAIWire) -> Usage:
        async with opened(wire) as llm:
            with metered() as meter:
                await llm.generate("s", "m")
                await llm.generate_with_tool_calls("s", "m", TOOLS)
                await pieces(llm)
            return meter.usage

    answers = [Says("a", tokens=(1000, 100, 400)), Says("b", tokens=(10, 20, 0)), Says("c d", tokens=(1, 2, 0))]
    with OpenAIWire(*answers) as wire:
        usage = asyncio.run(work(wire))
    assert (usage.calls, usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (3, 1011, 122, 400)
    # gpt-4o-mini: $0.15, cached $0.075, and $0.60 for a million tokens
    assert usage.cost == pytest.approx((611 * 0.15 + 400 * 0.075 + 122 * 0.6) / 1e6)


def test_what_a_service_does_not_count_costs_an_unknown_amount() -> None:
    async def work(wire: OpenAIWire) -> Usage:
        async with opened(wire) as llm:
            with metered() as meter:
                await llm.generate("s", "m")
            return meter.usage

    with OpenAIWire(Says("a", tokens=None)) as wire:
        assert asyncio.run(work(wire)) == Usage(calls=1, cost=None)


def test_a_refused_answer_was_paid_for_and_a_failed_one_was_not() -> None:
    async def work(wire: OpenAIWire) -> Usage:
        async with opened(wire, retries=0) as llm:
            with metered() as meter:
                for _ in range(2):
                    with pytest.raises(LLMError):
                        await llm.generate("s", "m")
            return meter.usage

    with OpenAIWire(Says(refusal="no", tokens=(5, 6, 0)), {"error": "server"}) as wire:
        usage = asyncio.run(work(wire))
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (1, 5, 6)


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


# ------------------------------------------------------------------ loops, threads, closing


def test_calls_at_once_and_threads_share_one_model() -> None:
    async def many(llm: LLM, count: int) -> list[str]:
        return list(await asyncio.gather(*(llm.generate("s", "m") for _ in range(count))))

    async def threads(llm: LLM) -> list[str]:
        found = await asyncio.gather(*(asyncio.to_thread(asyncio.run, many(llm, 5)) for _ in range(4)))
        return [*chain.from_iterable(found), *(await many(llm, 5))]

    answers = [f"answer {number}" for number in range(25)]
    with OpenAIWire(*answers) as wire:
        assert sorted(asyncio.run(threads(llm_at(wire)))) == sorted(answers)


def test_closing_ends_the_connections_of_other_loops_and_leaves_no_socket() -> None:
    """In a fresh process, where every warning of an unclosed socket ends the run."""
    probe = """
import asyncio, gc, threading
from perdure.backends.registry import build
from perdure.domain.message import Message
from tests.backends.wire.openai import KEY, OpenAIWire, Says

async def half_a_stream(llm):
    stream = llm.stream("s", [Message("user", "m")])
    await anext(stream)
    await stream.aclose()

with OpenAIWire(*["fine"] * 3, Says("a b c d"), "fine") as wire:
    llm = build("llms", "openai", {"base_url": wire.base_url, "api_key": KEY})
    asyncio.run(llm.generate("s", "m"))           # this loop is over: its client is closed
    other = asyncio.new_event_loop()
    thread = threading.Thread(target=other.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(llm.generate("s", "m"), other).result()

    async def here():
        await llm.generate("s", "m")
        await half_a_stream(llm)
        await llm.close()                          # closes the other loop's client too
        await llm.close()
        assert not llm._service._kept

    asyncio.run(here())
    other.call_soon_threadsafe(other.stop)
    thread.join()
    other.close()
    asyncio.run(llm.generate("s", "m"))            # closed is not broken: it opens again
del llm
gc.collect()
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", probe], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_the_wire_is_strict() -> None:
    """A server that accepted anything would prove nothing."""
    import openai

    def status_of(**body: Any) -> int:
        with OpenAIWire("x") as wire, openai.OpenAI(base_url=wire.base_url, api_key=KEY, max_retries=0) as client:
            try:
                client.chat.completions.create(
                    **{"model": "gpt-4o", "messages": [{"role": "user", "content": "x"}]} | body
                )  # type: ignore[arg-type]
            except openai.APIStatusError as error:
                return error.status_code
            return 200

    assert status_of() == 200
    assert status_of(model="gpt-99") == 404
    for wrong in (
        {"messages": []},
        {"temperature": 3},
        {"max_tokens": 0},
        {"max_tokens": 5, "max_completion_tokens": 5},
        {"response_format": {"type": "json_object"}},
        {"tools": []},
        {"stream_options": {"include_usage": True}},
        {"extra_body": {"wrong": 1}},
        {"model": "gpt-5-mini", "temperature": 0},
        {"messages": [{"role": "tool", "content": "x"}]},
    ):
        assert status_of(**wrong) == 400, wrong
    assert isinstance(Refusal("x").reply, Reply)
