"""OpenAI's language models where something fails: the service, an answer, a stream."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from perdure.backends.http.service import with_retry
from perdure.backends.llms.base import ToolAnswer, ToolCall
from perdure.domain.errors import LLMError
from tests.backends.llms.openai_calls import TALK, TOOLS, ask, failing, llm_at, opened, pieces
from tests.backends.wire.held import build, let_go  # noqa: F401
from tests.backends.wire.openai import OpenAIWire, Says, failure, streamed
from tests.backends.wire.server import Reply

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
