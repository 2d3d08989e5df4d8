"""The `openai` language model by its vendor's client, over HTTP, at a server that speaks OpenAI's wire."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from itertools import chain
from typing import Any

import pytest

from perdure.backends.llms.base import LLM, ToolAnswer, ToolCall
from perdure.backends.shared.metering import metered
from perdure.domain.errors import LLMError
from perdure.domain.event import Usage
from perdure.domain.message import Message
from tests.backends.llms.openai_calls import TALK, TOOLS, ask, failing, llm_at, opened, pieces
from tests.backends.wire.held import build, let_go  # noqa: F401
from tests.backends.wire.openai import KEY, OpenAIWire, Refusal, Says
from tests.backends.wire.server import Heard, Reply

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
        assert not len(llm._service._clients)

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


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}


def schemas(wire: OpenAIWire, times: int) -> list[str]:
    async def work() -> list[str]:
        async with opened(wire) as llm:
            return [await llm.generate("s", "m", response_format="json", schema=SCHEMA) for _ in range(times)]

    return asyncio.run(work())


def test_a_schema_is_sent_as_a_strict_one() -> None:
    with OpenAIWire('{"a": 1}') as wire:
        assert schemas(wire, 1) == ['{"a": 1}']
    form = {"name": "answer", "strict": True, "schema": SCHEMA}
    assert wire.bodies()[0]["response_format"] == {"type": "json_schema", "json_schema": form}


@pytest.mark.parametrize(
    "said",
    [
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
        "This response_format type is unavailable now",
        "Invalid schema for response_format 'answer'",
    ],
)
def test_a_refused_schema_is_json_mode_from_then_on(said: str) -> None:
    def intercept(request: Heard) -> Reply | None:
        is_schema = request.json.get("response_format", {}).get("type") == "json_schema"
        return Reply.of({"error": {"message": said}}, 400) if is_schema else None

    with OpenAIWire("{}", "{}", intercept=intercept) as wire:
        assert schemas(wire, 2) == ["{}", "{}"]
    assert [heard.json["response_format"]["type"] for heard in wire.heard] == [
        "json_schema",
        "json_object",
        "json_object",
    ]


def test_where_json_mode_is_refused_too_neither_is_sent() -> None:
    with OpenAIWire("{}", unknown={"response_format"}) as wire:
        assert schemas(wire, 1) == ["{}"]
    assert len(wire.heard) == 3 and "response_format" not in wire.heard[2].json
