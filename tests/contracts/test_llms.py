"""What every language model owes, run over every provider of the family.

A provider brings a fixture `<name>_llm_script`, in a conftest: a function from a list of answers to the
settings under which the provider gives them. An answer is text, {"tool_calls": [{"name", "arguments"}], "text"?} or
{"error": one of FAILURES}; a remote provider's fixture feeds them to a local server that speaks the vendor's wire.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

import pytest

from perdure.backends.llms.base import LLM, ToolAnswer, ToolCall
from perdure.backends.registry import build, load, providers
from perdure.domain.errors import LLMError
from perdure.domain.message import Message

T = TypeVar("T")
Script = Callable[[list[Any]], dict[str, Any]]
Open = Callable[..., LLM]

FAILURES = ["rate_limit", "timeout", "server", "connection", "authentication"]
TOOLS = [
    {
        "name": "remember",
        "description": "Keep a fact.",
        "parameters": {"type": "object", "properties": {"fact": {"type": "string"}}, "required": ["fact"]},
    },
    {"name": "forget", "description": "Drop a fact.", "parameters": {"type": "object", "properties": {}}},
]


@pytest.fixture(params=providers("llms"))
def open_llm(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens the provider so that it gives the answers."""
    try:
        script: Script = request.getfixturevalue(f"{request.param}_llm_script")
    except pytest.FixtureLookupError:
        pytest.fail(f"a fixture {request.param}_llm_script must tell this provider what to answer")
    opened: list[LLM] = []

    def open_one(*answers: Any) -> LLM:
        opened.append(build("llms", request.param, script(list(answers))))
        return opened[-1]

    yield open_one
    for llm in opened:
        run(llm.close())


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def test_the_class_carries_the_files_name(open_llm: Open) -> None:
    llm = open_llm("hello")
    assert load("llms", llm.name) is type(llm)


def test_text_comes_back_as_it_was_said(open_llm: Open) -> None:
    said = 'Grüße, "世界" \\ 🚴\nsecond line'
    assert run(open_llm(said).generate("Be brief.", "hello")) == said


def test_answers_come_in_order(open_llm: Open) -> None:
    async def three_times(llm: LLM) -> list[str]:
        return [await llm.generate("s", f"question {number}") for number in range(3)]

    assert run(three_times(open_llm("one", "two", "three"))) == ["one", "two", "three"]


def test_json_can_be_asked_for(open_llm: Open) -> None:
    answer = run(
        open_llm('{"facts": ["User likes tea"]}').generate(
            "Answer in JSON.", "I like tea", temperature=0.0, max_tokens=100, response_format="json"
        )
    )
    assert json.loads(answer) == {"facts": ["User likes tea"]}


def test_a_tool_is_called_with_its_arguments(open_llm: Open) -> None:
    llm = open_llm({"tool_calls": [{"name": "remember", "arguments": {"fact": "User likes tea"}}]})
    answer = run(llm.generate_with_tool_calls("Use tools.", "I like tea", TOOLS, temperature=0.0))
    assert answer.tool_calls == [ToolCall("remember", {"fact": "User likes tea"})]
    assert not answer.content


def test_a_model_with_tools_may_answer_with_text_alone(open_llm: Open) -> None:
    answer = run(open_llm("no tool needed").generate_with_tool_calls("s", "hello", TOOLS))
    assert answer == ToolAnswer("no tool needed", [])


def test_several_tools_are_called_in_order(open_llm: Open) -> None:
    calls = [{"name": "forget", "arguments": {}}, {"name": "remember", "arguments": {"fact": "x"}}]
    answer = run(open_llm({"tool_calls": calls}).generate_with_tool_calls("s", "m", TOOLS))
    assert [call.name for call in answer.tool_calls] == ["forget", "remember"]


@pytest.mark.parametrize("failure", FAILURES)
def test_every_failure_is_an_llm_error(open_llm: Open, failure: str) -> None:
    with pytest.raises(LLMError):
        run(open_llm({"error": failure}).generate("s", "m"))
    with pytest.raises(LLMError):
        run(open_llm({"error": failure}).generate_with_tool_calls("s", "m", TOOLS))


CONVERSATION = [
    Message("user", "My name is Ana", name="Ana"),
    Message("assistant", "Hello Ana"),
    Message("tool", "the clock says noon"),
    Message("user", "What time is it?"),
]


async def pieces(llm: LLM, messages: Sequence[Message] = CONVERSATION, **options: Any) -> list[str]:
    async with aclosing(llm.stream("Be brief.", messages, **options)) as stream:
        return [piece async for piece in stream]


def test_a_stream_gives_the_whole_answer_in_pieces(open_llm: Open) -> None:
    said = 'Grüße, "Ana" \\ 🚴\nIt is noon.'
    given = run(pieces(open_llm(said), temperature=0.5, max_tokens=100))
    assert "".join(given) == said
    assert len(given) > 1
    assert all(given)


def test_a_stream_can_be_left_and_the_model_asked_again(open_llm: Open) -> None:
    async def leave_and_ask(llm: LLM) -> tuple[str, str]:
        async with aclosing(llm.stream("Be brief.", CONVERSATION)) as stream:
            first = await anext(stream)
        return first, await llm.generate("s", "m")

    first, second = run(leave_and_ask(open_llm("It is noon, and the sun shines.", "two")))
    assert first and "It is noon, and the sun shines.".startswith(first)
    assert second == "two"


@pytest.mark.parametrize("failure", FAILURES)
def test_a_stream_that_fails_is_an_llm_error(open_llm: Open, failure: str) -> None:
    with pytest.raises(LLMError):
        run(pieces(open_llm({"error": failure})))


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_says_what_it_is(open_llm: Open, failure: str) -> None:
    with pytest.raises(LLMError) as caught:
        run(open_llm({"error": failure}).generate("s", "m"))
    assert caught.value.code == failure


def test_calls_at_once_each_get_one_answer(open_llm: Open) -> None:
    answers = [f"answer {number}" for number in range(8)]

    async def all_at_once(llm: LLM) -> list[str]:
        return list(await asyncio.gather(*(llm.generate("s", f"m{number}") for number in range(8))))

    assert sorted(run(all_at_once(open_llm(*answers)))) == answers


def test_one_model_serves_several_event_loops(open_llm: Open) -> None:
    llm = open_llm("one", "two")
    assert [run(llm.generate("s", "m")) for _ in range(2)] == ["one", "two"]


def test_scripted_records_a_stream_too() -> None:
    llm = build("llms", "scripted", {"answers": [{"tool_calls": [{"name": "remember"}]}, "a b"]})
    with pytest.raises(LLMError, match="offered no tools"):
        run(pieces(llm))
    assert run(pieces(llm, temperature=0.5)) == ["a ", "b"]
    assert llm.calls[1].system_prompt == "Be brief."
    assert llm.calls[1].user_message.endswith("tool: the clock says noon\nuser: What time is it?")
    assert llm.calls[1].options == {"temperature": 0.5, "max_tokens": None, "stream": True}
