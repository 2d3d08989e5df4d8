"""Answers of chat, told as the Responses API tells them: every event as the official client's types want it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from perdure.frontends.gateway.responses.from_chat import ResponseWriter
from tests.frontends.gateway.scripts import completion, delta, tool_call

ID = "resp_" + "5" * 32
EVENTS: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
BODY = {"model": "asked-for", "instructions": "Be brief.", "metadata": {"a": "b"}, "tools": [], "temperature": 0.5}


def clock() -> float:
    return 1_760_000_000.5


def written(
    chunks: Sequence[dict[str, Any]], *, broken: str | None = None
) -> tuple[list[dict[str, Any]], ResponseWriter]:
    """All events of a stream, checked by the official client's types, and the writer."""
    writer = ResponseWriter(ID, BODY, clock)
    events = [*writer.start()]
    for chunk in chunks:
        events.extend(writer.feed(chunk))
    events.extend(writer.finish(broken=broken))
    for event in events:
        EVENTS.validate_python(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events, writer


def accumulated(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the official client makes of the events."""
    state: ResponseStreamState[Any] = ResponseStreamState(input_tools=[], text_format=omit)
    for event in events:
        state.handle_event(EVENTS.validate_python(event))
    done = state._completed_response
    assert done is not None
    found = done.to_dict(exclude_unset=True, mode="json")
    for item in found["output"]:  # type: ignore[attr-defined]
        item.pop("parsed_arguments", None)
        for part in item.get("content", []):
            part.pop("parsed", None)
    return found


def cut(text: str, cuts: Sequence[int]) -> Iterator[str]:
    places = sorted({0, len(text), *(each % (len(text) + 1) for each in cuts)})
    for begin, end in itertools.pairwise(places):
        yield text[begin:end]


def call_piece(index: int, arguments: str, **first: Any) -> dict[str, Any]:
    head = {"id": first["id"], "type": "function"} if first else {}
    named = {"name": first["name"]} if first else {}
    return delta(tool_calls=[{"index": index, **head, "function": {**named, "arguments": arguments}}])


def test_item1_a_text_gives_the_whole_sequence_of_events() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    events, writer = written(
        [
            delta("", role="assistant"),
            delta("Hel"),
            delta("lo"),
            delta(finish="stop"),
            {**delta(), "choices": [], "usage": usage},
        ]
    )
    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert events[0]["response"]["status"] == "in_progress"
    assert events[0]["response"]["output"] == []
    assert writer.text == "Hello"
    assert writer.is_complete
    response = Response.model_validate(writer.response)
    assert response.output_text == "Hello"
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (3, 2, 5)
    assert (response.instructions, response.metadata, response.temperature) == ("Be brief.", {"a": "b"}, 0.5)
    assert (response.id, response.model, response.status) == (ID, "scripted", "completed")


def test_item1_calls_of_functions_are_items_of_their_own() -> None:
    events, writer = written(
        [
            delta("Let me see."),
            call_piece(0, "", id="c1", name="look"),
            call_piece(0, '{"a"'),
            call_piece(1, "{}", id="c2", name="hear"),
            call_piece(0, ": 1}"),
            delta(finish="tool_calls"),
        ]
    )
    names = [event["type"].removeprefix("response.") for event in events]
    assert names.count("function_call_arguments.delta") == 3
    assert names.count("function_call_arguments.done") == 2
    done = [event for event in events if event["type"] == "response.function_call_arguments.done"]
    assert [event["arguments"] for event in done] == ['{"a": 1}', "{}"]
    output = Response.model_validate(writer.response).output
    assert [item.type for item in output] == ["message", "function_call", "function_call"]
    assert [(item["call_id"], item["name"]) for item in writer.response["output"][1:]] == [
        ("c1", "look"),
        ("c2", "hear"),
    ]
    assert len({item["id"] for item in writer.response["output"]}) == 3


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param(
            [
                delta(tool_calls=[{"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}}]),
                delta(tool_calls=[{"index": 0, "id": "c2", "function": {"name": "g", "arguments": "{}"}}]),
            ],
            id="every-call-counted-as-the-first",
        ),
        pytest.param(
            [
                delta(tool_calls=[{"id": "c1", "function": {"name": "f", "arguments": "{"}}]),
                delta(tool_calls=[{"function": {"arguments": "}"}}]),
                delta(tool_calls=[{"id": "c2", "function": {"name": "g", "arguments": "{}"}}]),
            ],
            id="calls-not-counted",
        ),
    ],
)
def test_item1_servers_that_count_calls_badly_lose_none(chunks: list[dict[str, Any]]) -> None:
    _, writer = written([*chunks, delta(finish="tool_calls")])
    assert [(item["call_id"], item["name"], item["arguments"]) for item in writer.response["output"]] == [
        ("c1", "f", "{}"),
        ("c2", "g", "{}"),
    ]


def test_item1_custom_tools_refusals_and_thoughts_have_events_too() -> None:
    custom = {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "run", "input": "ls"}}
    events, writer = written(
        [
            delta(reasoning_content="Hm, "),
            delta(reasoning_content="no."),
            delta(refusal="I will "),
            delta(refusal="not."),
            delta(tool_calls=[custom]),
            delta(tool_calls=[{"index": 0, "custom": {"input": " -l"}, "type": "custom"}]),
            delta(finish="tool_calls"),
        ]
    )
    kinds = {event["type"] for event in events}
    assert {"response.reasoning_text.delta", "response.refusal.done", "response.custom_tool_call_input.done"} <= kinds
    reasoning, refused, called = writer.response["output"]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "Hm, no."}]
    assert refused["content"] == [{"type": "refusal", "refusal": "I will not."}]
    assert (called["type"], called["input"], called["name"]) == ("custom_tool_call", "ls -l", "run")
    assert writer.text == ""
    assert accumulated(events)["output"] == writer.response["output"]


@pytest.mark.parametrize(("reason", "told"), [("length", "max_output_tokens"), ("content_filter", "content_filter")])
def test_item1_an_answer_cut_short_is_incomplete(reason: str, told: str) -> None:
    events, writer = written([delta("Half a sen"), delta(finish=reason)])
    assert events[-1]["type"] == "response.incomplete"
    assert writer.response["status"] == "incomplete"
    assert writer.response["incomplete_details"] == {"reason": told}
    assert writer.response["output"][0]["status"] == "incomplete"
    assert not writer.is_complete


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"message": "too many", "type": "rate_limit_error"}, "rate_limit_exceeded"),
        ({"message": "too many", "code": 429}, "rate_limit_exceeded"),
        ("exploded", "server_error"),
    ],
)
def test_item1_an_error_in_the_middle_fails_the_response(error: object, code: str) -> None:
    events, writer = written([delta("Half"), {"error": error}])
    assert events[-1]["type"] == "response.failed"
    assert writer.response["error"]["code"] == code
    assert writer.response["output"][0]["content"][0]["text"] == "Half"


def test_item1_a_stream_that_breaks_off_fails_the_response() -> None:
    events, writer = written([delta("Half")], broken="The model's server broke off.")
    assert events[-1]["type"] == "response.failed"
    assert writer.response["error"] == {"code": "server_error", "message": "The model's server broke off."}
    assert list(writer.finish()) == []


def test_item1_log_probabilities_come_with_their_text() -> None:
    token = {
        "token": "Hi",
        "logprob": -0.5,
        "bytes": None,
        "top_logprobs": [{"token": "Yo", "logprob": -1.0, "bytes": None}],
    }
    chunk = delta("Hi")
    chunk["choices"][0]["logprobs"] = {"content": [token]}
    events, writer = written([chunk, delta(finish="stop")])
    part = Response.model_validate(writer.response).to_dict()["output"][0]["content"][0]  # type: ignore[index]
    assert part["logprobs"][0]["top_logprobs"][0] == {"token": "Yo", "bytes": [89, 111], "logprob": -1.0}
    assert next(event for event in events if event["type"].endswith("text.delta"))["logprobs"][0]["token"] == "Hi"


@given(
    text=st.text(max_size=50),
    calls=st.lists(st.text(max_size=30), max_size=3),
    cuts=st.lists(st.integers(min_value=0, max_value=100), max_size=8),
    reason=st.sampled_from(["stop", "length", "content_filter"]),
)
def test_item1_however_an_answer_is_cut_the_response_is_the_same(
    text: str, calls: list[str], cuts: list[int], reason: str
) -> None:
    made = [
        {**tool_call("f", {}, f"c{at}"), "function": {"name": "f", "arguments": each}} for at, each in enumerate(calls)
    ]
    answer = completion(text or None, tool_calls=made)
    answer["choices"][0]["finish_reason"] = reason
    whole = ResponseWriter(ID, BODY, clock).whole(json.loads(json.dumps(answer)))
    chunks = [delta("", role="assistant"), *(delta(piece) for piece in cut(text, cuts))]
    for at, each in enumerate(calls):
        chunks.append(call_piece(at, "", id=f"c{at}", name="f"))
        chunks.extend(call_piece(at, piece) for piece in cut(each, cuts))
    chunks += [delta(finish=reason), {**delta(), "choices": [], "usage": answer["usage"]}]
    events, writer = written(chunks)
    assert writer.response == whole
    assert events[-1]["response"] == whole
    Response.model_validate(whole)
    if reason == "stop":
        assert accumulated(events)["output"] == whole["output"]
