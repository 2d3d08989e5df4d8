"""Requests of the Responses API, said in the words of chat."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageParam
from pydantic import TypeAdapter

from perdure.domain.errors import InvalidInputError
from perdure.frontends.gateway.responses.from_chat import ResponseWriter
from perdure.frontends.gateway.responses.items import read_input, resolved, with_ids
from perdure.frontends.gateway.responses.translated import chat_messages, chat_request
from tests.frontends.gateway.scripts import completion

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
MESSAGES = TypeAdapter(list[ChatCompletionMessageParam])


def translated(**body: Any) -> dict[str, Any]:
    return chat_request({"model": "m", **body}, read_input(body.get("input", "hi")))


def message(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": list(parts)}


def test_item1_text_and_instructions() -> None:
    assert translated(input="hi", instructions="Be brief.") == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
    }


def test_item1_every_kind_of_item_becomes_a_message_that_chat_knows() -> None:
    items = [
        {"role": "developer", "content": "Speak French."},
        message("user", {"type": "input_text", "text": "What is it?"}, {"type": "input_image", "image_url": "data:x"}),
        message("user", {"type": "input_image", "image_url": "https://a/b.png", "detail": "low"}),
        message("user", {"type": "input_file", "file_data": "data:y", "filename": "y.pdf"}),
        message("assistant", {"type": "output_text", "text": "Let me look.", "annotations": []}),
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": 1}'},
        {"type": "function_call", "call_id": "c2", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "a cat"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "a dog"}]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "I will not say."}]},
    ]
    found = chat_messages(items)
    MESSAGES.validate_python(found)
    assert found == [
        {"role": "system", "content": "Speak French."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is it?"},
                {"type": "image_url", "image_url": {"url": "data:x"}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "low"}}],
        },
        {"role": "user", "content": [{"type": "file", "file": {"file_data": "data:y", "filename": "y.pdf"}}]},
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}},
                {"id": "c2", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a cat"},
        {"role": "tool", "tool_call_id": "c2", "content": "a dog"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "I will not say."}]},
    ]


def test_item1_options_keep_their_meaning_and_unknown_fields_pass() -> None:
    tool = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True, "description": "Tells it."}
    grammar = {"type": "grammar", "syntax": "regex", "definition": "a+"}
    found = translated(
        tools=[tool, {"type": "custom", "name": "run", "format": grammar}],
        tool_choice={"type": "function", "name": "weather"},
        text={
            "format": {"type": "json_schema", "name": "place", "schema": SCHEMA, "strict": True},
            "verbosity": "low",
        },
        reasoning={"effort": "low", "summary": "auto"},
        max_output_tokens=50,
        temperature=0.5,
        top_p=0.9,
        top_logprobs=2,
        parallel_tool_calls=False,
        metadata={"a": "b"},
        user="ana",
        store=False,
        stream=True,
        truncation="auto",
        some_new_field={"x": [1]},
    )
    assert found == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [
            {
                "type": "function",
                "function": {"name": "weather", "parameters": SCHEMA, "strict": True, "description": "Tells it."},
            },
            {
                "type": "custom",
                "custom": {
                    "name": "run",
                    "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}},
                },
            },
        ],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "place", "schema": SCHEMA, "strict": True},
        },
        "verbosity": "low",
        "reasoning_effort": "low",
        "max_tokens": 50,
        "temperature": 0.5,
        "top_p": 0.9,
        "logprobs": True,
        "top_logprobs": 2,
        "parallel_tool_calls": False,
        "metadata": {"a": "b"},
        "user": "ana",
        "store": False,
        "stream": True,
        "stream_options": {"include_usage": True},
        "some_new_field": {"x": [1]},
    }


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("none", "none"),
        ("required", "required"),
        ({"type": "custom", "name": "run"}, {"type": "custom", "custom": {"name": "run"}}),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]},
            },
        ),
    ],
)
def test_item1_tool_choice(given: object, sent: object) -> None:
    tools = [{"type": "function", "name": "f", "parameters": SCHEMA}]
    assert translated(tools=tools, tool_choice=given)["tool_choice"] == sent


@pytest.mark.parametrize("kind", [{"type": "json_object"}, {"type": "text"}])
def test_item1_plain_formats(kind: dict[str, str]) -> None:
    expected = {"response_format": kind} if kind["type"] == "json_object" else {}
    assert translated(text={"format": kind}).items() >= expected.items()
    assert ("response_format" in translated(text={"format": kind})) == bool(expected)


@pytest.mark.parametrize(
    ("body", "field", "word"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools[0].type", "web_search"),
        ({"tools": [{"type": "function", "name": "f"}, {"type": "mcp"}]}, "tools[1].type", "mcp"),
        ({"tools": [{"type": "function"}]}, "tools[0].name", "name"),
        ({"tools": "all"}, "tools", "list"),
        ({"tools": [7]}, "tools[0]", "object"),
        (
            {"tools": [{"type": "function", "name": "f"}], "tool_choice": {"type": "file_search"}},
            "tool_choice.type",
            "file_search",
        ),
        ({"tools": [{"type": "function", "name": "f"}], "tool_choice": 3}, "tool_choice", "text"),
        ({"background": True}, "background", "background"),
        ({"conversation": "conv_1"}, "conversation", "previous_response_id"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt", "prompts"),
        ({"instructions": ["x"]}, "instructions", "text"),
        ({"reasoning": "low"}, "reasoning", "object"),
        ({"text": {"format": "json"}}, "text.format", "object"),
        ({"input": None}, "input", "Missing"),
        ({"input": 7}, "input", "list"),
        ({"input": ["x"]}, "input[0]", "object"),
        ({"input": [{"role": "nobody", "content": "x"}]}, "input[0].role", "nobody"),
        ({"input": [{"role": "user", "content": 7}]}, "input[0].content", "text"),
        ({"input": [{"role": "user", "content": [{"type": "smell"}]}]}, "input[0].content[0].type", "smell"),
        (
            {"input": [message("user", {"type": "input_image", "file_id": "file_1"})]},
            "input[0].content[0].image_url",
            "files",
        ),
        ({"input": [{"type": "web_search_call", "id": "ws_1"}]}, "input[0].type", "web_search_call"),
        ({"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]}, "input[0].call_id", "text"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": 7}]}, "input[0].output", "text"),
    ],
)
def test_item1_what_chat_cannot_say_is_refused_by_name(body: dict[str, Any], field: str, word: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        translated(**body)
    assert caught.value.field == field
    assert field in caught.value.message or "required parameter" in caught.value.message
    assert word in caught.value.message


def test_item1_items_before_are_not_blamed_on_the_input() -> None:
    broken = {"role": "user", "content": [{"type": "smell"}]}
    with pytest.raises(InvalidInputError, match=r"previous_response_id\.content"):
        chat_request({}, [broken, *read_input("hi")], first=1)
    with pytest.raises(InvalidInputError, match=r"input\[0\]\.content"):
        chat_request({}, [*read_input("hi"), broken], first=1)


def test_item1_references_are_resolved_among_known_items() -> None:
    known = with_ids(read_input("first"), "resp_" + "a" * 32)
    found = resolved([{"type": "item_reference", "id": known[0]["id"]}, {"role": "user", "content": "second"}], known)
    assert [each["role"] for each in chat_messages(found)] == ["user", "user"]
    with pytest.raises(InvalidInputError, match="Item with id 'msg_none' not found"):
        resolved([{"id": "msg_none"}], known)


CALLS = st.lists(
    st.tuples(st.text(min_size=1, max_size=8), st.dictionaries(st.text(max_size=5), st.integers(), max_size=3)),
    max_size=4,
)


@given(text=st.text(max_size=60), calls=CALLS)
def test_item1_an_answer_comes_back_to_chat_as_it_was(text: str, calls: list[tuple[str, dict[str, int]]]) -> None:
    """Chat → response → input of the next request → chat: the same words, the same calls."""
    from tests.frontends.gateway.scripts import tool_call

    made = [tool_call(name, arguments, f"call_{at}") for at, (name, arguments) in enumerate(calls)]
    answer = completion(text or None, tool_calls=made)
    output = ResponseWriter("resp_" + "0" * 32, {"model": "m"}, lambda: 1.0).whole(answer)["output"]
    found = chat_messages(output)
    if not text and not made:
        assert found == []
        return
    assert len(found) == 1
    assert found[0]["role"] == "assistant"
    assert found[0].get("content") == (text or None)
    assert found[0].get("tool_calls", []) == made
