"""The answers that a scripted model's server gives: echoes, streams in pieces of any size, tool calls, errors."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

CREATED = 1_760_000_000
MODEL = "scripted"


class Play(Enum):
    """What an answer can do beside sending."""

    HANG = auto()
    """Nothing more comes, until the client leaves."""
    BREAK_OFF = auto()
    """The connection is closed in the middle."""
    BREAK_FRAMING = auto()
    """Something comes that is no chunk, and then nothing more; the connection stays open until the client leaves."""


Step = bytes | float | threading.Event | Play
"""A piece of a body, seconds of silence, an event of the test's that is waited for, or a Play."""


@dataclass(frozen=True)
class Reply:
    """One answer: a body with its length, or `steps`, which are sent one by one as HTTP chunks."""

    status: int = 200
    headers: Sequence[tuple[str, str]] = ()
    body: bytes | None = None
    steps: Sequence[Step] = field(default=())

    @staticmethod
    def of_json(value: Any, *, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> Reply:
        """JSON, indented as some servers do, so that who writes it anew is found out."""
        body = json.dumps(value, indent=1).encode()
        return Reply(status, [("Content-Type", "application/json"), *headers], body)

    @staticmethod
    def error(status: int, message: str = "scripted error", *, retry_after: str | None = None) -> Reply:
        """An error in OpenAI's shape."""
        told = {"error": {"message": message, "type": "scripted", "param": None, "code": None}}
        return Reply.of_json(told, status=status, headers=[("Retry-After", retry_after)] if retry_after else [])

    @staticmethod
    def stream(*steps: Step, headers: Sequence[tuple[str, str]] = ()) -> Reply:
        """A stream of server-sent events, in pieces as given."""
        return Reply(200, [("Content-Type", "text/event-stream; charset=utf-8"), *headers], steps=steps)


def completion(text: str | None, *, tool_calls: Sequence[dict[str, Any]] = (), **more: Any) -> dict[str, Any]:
    """A chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    if tool_calls:
        message["tool_calls"] = list(tool_calls)
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": CREATED,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if tool_calls else "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
        **more,
    }


def tool_call(name: str, arguments: dict[str, Any], call_id: str = "call_1") -> dict[str, Any]:
    """One call of a function."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def event(data: Any, name: str | None = None) -> bytes:
    """One server-sent event, its text not escaped, so that it has characters of several bytes."""
    named = f"event: {name}\n" if name else ""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return f"{named}data: {text}\n\n".encode()


DONE = event("[DONE]")


def delta(content: str | None = None, *, finish: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    """One chunk of a chat completion."""
    part: dict[str, Any] = dict(more)
    if content is not None:
        part["content"] = content
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": MODEL,
        "choices": [{"index": index, "delta": part, "finish_reason": finish}],
    }


def chat_events(words: Sequence[str], *, usage: bool = False) -> bytes:
    """A whole stream that says these words, one event each."""
    chunks = [delta("", role="assistant"), *(delta(word) for word in words), delta(finish="stop")]
    if usage:
        counted = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        chunks.append({**delta(), "choices": [], "usage": counted})
    return b"".join(event(chunk) for chunk in chunks) + DONE


def pieces(data: bytes, size: int) -> list[Step]:
    """Bytes cut every so many, wherever that is: inside of characters and of lines."""
    return [data[at : at + size] for at in range(0, len(data), size)]


def text_of(content: Any) -> str:
    """The text of a message's content: text, or the text parts."""
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def echo_chat(body: dict[str, Any], size: int = 31) -> Reply:
    """What was asked, given back, so that one sees what was injected."""
    said = "echo: " + "\n".join(f"[{each.get('role')}] {text_of(each.get('content'))}" for each in body["messages"])
    if not body.get("stream"):
        return Reply.of_json(completion(said))
    usage = bool((body.get("stream_options") or {}).get("include_usage"))
    words = [f"{word} " for word in said.split(" ")]
    return Reply.stream(*pieces(chat_events(words, usage=usage), size))


def response(text: str, *, response_id: str = "resp_scripted", **more: Any) -> dict[str, Any]:
    """A whole answer of the Responses API."""
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = {"id": "msg_scripted", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
    return {
        "id": response_id,
        "object": "response",
        "created_at": CREATED,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": MODEL,
        "output": [item],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 3,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 2,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 5,
        },
        **more,
    }


def response_events(words: Sequence[str], **more: Any) -> bytes:
    """The stream of one answer of the Responses API."""
    text = "".join(words)
    whole = response(text, **more)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    item = whole["output"][0]
    at = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **at, "part": {**item["content"][0], "text": ""}},
        *({"type": "response.output_text.delta", **at, "delta": word, "logprobs": []} for word in words),
        {"type": "response.output_text.done", **at, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **at, "part": item["content"][0]},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return b"".join(event({**each, "sequence_number": n}, each["type"]) for n, each in enumerate(events))


def echo_response(body: dict[str, Any], size: int = 31) -> Reply:
    """The same over the Responses API: instructions and input, given back."""
    given = body.get("input")
    items = given if isinstance(given, list) else [{"role": "user", "content": given}]
    said = "\n".join(f"[{each.get('role')}] {text_of(each.get('content'))}" for each in items)
    said = f"echo: [instructions] {body.get('instructions') or ''}\n{said}"
    if not body.get("stream"):
        return Reply.of_json(response(said))
    return Reply.stream(*pieces(response_events([f"{word} " for word in said.split(" ")]), size))
