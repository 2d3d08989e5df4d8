"""Anthropic's Messages interface, strictly, as its reference has it.

On platform.claude.com/docs/en: api/messages (requests, answers), api/errors (error bodies), api/versioning (what
2026-10-21 refuses), build-with-claude/streaming (events), build-with-claude/prompt-caching (what is cached and
counted), models/*/migration-guide (what each model refuses).

The words of errors are the service's where they are published; those that refuse a forced tool or a way of thinking
are written after its migration guides.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from tests.backends.wire.server import Heard, Reply, WireServer

KEY = "sk-ant-test-0123456789"
LEAST_CACHED = 512
"""Tokens that a cached beginning must have (of Claude's fifth generation)."""

_VERSIONS = ("2023-06-01", "2026-10-21")
_SAMPLING = ("temperature", "top_p", "top_k")
_FIELDS = {
    "model", "max_tokens", "messages", "cache_control", "container", "diagnostics", "inference_geo", "metadata",
    "output_config", "service_tier", "speed", "stop_sequences", "stream", "system", "thinking", "tool_choice", "tools",
}  # fmt: skip
_TOOL_FIELDS = {"name", "description", "input_schema", "cache_control", "strict", "type"}
_SAMPLED = re.compile(r"^claude-(haiku-4-5|sonnet-4-[56]|opus-4-[56])")
_ALWAYS_THINKING = re.compile(r"opus-5-5|fable-5|mythos-5")
_NEVER_FORCED = re.compile(r"opus-5-5|sonnet-5-5|fable-5-[12]|mythos-5-[12]")
_ERRORS = {
    "rate_limit": (429, "rate_limit_error", "This request would exceed your organization's rate limit."),
    "quota": (402, "billing_error", "Your credit balance is too low to access the Anthropic API."),
    "server": (529, "overloaded_error", "Overloaded"),
    "internal": (500, "api_error", "Internal server error"),
    "gateway": (504, "timeout_error", "The request timed out while processing."),
    "authentication": (401, "authentication_error", "invalid x-api-key"),
    "permission": (403, "permission_error", "Your API key does not have permission to use the specified resource."),
    "not_found": (404, "not_found_error", "model: claude-none"),
    "too_large": (413, "request_too_large", "Request exceeds the maximum allowed number of bytes."),
}


class Refused(Exception):
    """The service refuses the request with this status, type and message."""

    def __init__(self, message: str, status: int = 400, kind: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.reply = error(status, kind, message)


class AnthropicWire(WireServer):
    """Gives its answers in order; a refused request takes none of them.

    An answer is text, a dict (`text`, `tool_calls`, `thinking`, `stop_reason`, `stop_details`, or `error`: a key of
    _ERRORS, "timeout" or "connection") or a Reply. Text that is a JSON object goes through a tool that is forced.
    """

    def __init__(self, *answers: Any, key: str = KEY) -> None:
        super().__init__()
        self._answers = deque(answers)
        self._key = key
        self._guard = threading.Lock()
        self._cached: set[str] = set()
        self._ids = itertools.count(1)

    def respond(self, request: Heard) -> Reply:
        try:
            body = check(request, self._key)
        except Refused as refused:
            return refused.reply
        with self._guard:
            answer = self._answers.popleft() if self._answers else None
            usage = self._usage(body)
            number = next(self._ids)
        if isinstance(answer, Reply):
            return answer
        if isinstance(answer, dict) and "error" in answer:
            return failure(answer["error"])
        message = _message(body, answer if isinstance(answer, dict) else {"text": answer or ""}, usage, number)
        return events(stream(message)) if body.get("stream") else Reply.of(message)

    def _usage(self, body: dict[str, Any]) -> dict[str, int]:
        """The input's tokens: those read from the cache, those put there, and the rest."""
        before = json.dumps(body.get("tools", []))
        marked = ""
        for block in _blocks(body.get("system", [])):
            before += block["text"]
            marked = before if "cache_control" in block else marked
        total = _tokens(before) + _tokens(json.dumps(body["messages"]))
        beginning = _tokens(marked)
        if beginning < LEAST_CACHED:
            return {"input_tokens": total, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        known = marked in self._cached
        self._cached.add(marked)
        return {
            "input_tokens": total - beginning,
            "cache_creation_input_tokens": 0 if known else beginning,
            "cache_read_input_tokens": beginning if known else 0,
        }


def error(status: int, kind: str, message: str, **headers: str) -> Reply:
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_0"}
    return Reply.of(body, status, **headers)


def failure(name: str, **headers: str) -> Reply:
    """The reply for a failure by its name."""
    if name == "timeout":
        return Reply(wait=60)
    if name == "connection":
        return Reply(reset=True)
    return error(*_ERRORS[name], **headers)


def events(pieces: Iterable[tuple[str, Any]], **settings: Any) -> Reply:
    """Server-sent events, each of which is one piece."""
    encoded = (f"event: {name}\ndata: {json.dumps(data)}\n\n".encode() for name, data in pieces)
    return Reply(headers={"content-type": "text/event-stream"}, pieces=encoded, **settings)


def stream(message: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The events of a whole answer."""
    started = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    yield "message_start", {"type": "message_start", "message": started}
    yield "ping", {"type": "ping"}
    for index, block in enumerate(message["content"]):
        kind = "thinking" if block["type"] == "thinking" else "text"
        empty = {**block, kind: ""}
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": empty}
        for start in range(0, len(block[kind]), 4):
            delta = {"type": f"{kind}_delta", kind: block[kind][start : start + 4]}
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    ending = {name: message[name] for name in ("stop_reason", "stop_sequence", "stop_details")}
    usage = {"output_tokens": message["usage"]["output_tokens"]}
    yield "message_delta", {"type": "message_delta", "delta": ending, "usage": usage}
    yield "message_stop", {"type": "message_stop"}


def check(request: Heard, key: str) -> dict[str, Any]:
    """The body of a request that the service would take; Refused for any other."""
    if (request.method, request.path) != ("POST", "/v1/messages"):
        raise Refused("Not found", 404, "not_found_error")
    given = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
    if given != key:
        raise Refused(f"invalid x-api-key: {given}", 401, "authentication_error")
    version = request.headers.get("anthropic-version")
    if version is None:
        raise Refused("anthropic-version: header is required")
    if version not in _VERSIONS:
        raise Refused(f'anthropic-version: "{version}" is not a valid version')
    if request.headers.get("content-type") != "application/json":
        raise Refused("content-type: must be application/json")
    body = json.loads(request.body)
    for name in ("model", "max_tokens", "messages"):
        if name not in body:
            raise Refused(f"{name}: Field required")
    allowed = _FIELDS | (set(_SAMPLING) if version == "2023-06-01" else set())
    for name in body:
        if name not in allowed:
            raise Refused(f"{name}: Extra inputs are not permitted")
    _check_sampling(body)
    _check_messages(body)
    _check_system(body.get("system", []))
    _check_tools(body)
    _check_thinking(body)
    return body


def _check_sampling(body: dict[str, Any]) -> None:
    for name in _SAMPLING:
        if name in body and body["model"].startswith("claude") and not _SAMPLED.match(body["model"]):
            raise Refused(f"`{name}` is deprecated for this model.")
    if not 0 <= body.get("temperature", 1) <= 1:
        raise Refused("temperature: range: 0..1")
    if not isinstance(body["max_tokens"], int) or body["max_tokens"] < 1:
        raise Refused("max_tokens: must be greater than or equal to 1")


def _check_messages(body: dict[str, Any]) -> None:
    messages = body["messages"]
    if not messages:
        raise Refused("messages: at least one message is required")
    for number, message in enumerate(messages):
        if set(message) != {"role", "content"} or message["role"] not in ("user", "assistant"):
            raise Refused(f"messages.{number}: Input tag found using 'role' does not match any of the expected tags")
        if not message["content"]:
            raise Refused(f"messages.{number}: user messages must have non-empty content")
        if not str(message["content"]).strip():
            raise Refused("messages: text content blocks must contain non-whitespace text")
    if messages[0]["role"] != "user":
        raise Refused('messages: first message must use the "user" role')
    if messages[-1]["role"] != "user" and not _SAMPLED.match(body["model"]):
        raise Refused(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )


def _check_system(system: Any) -> None:
    for number, block in enumerate(_blocks(system)):
        if block.get("type") != "text" or set(block) - {"type", "text", "cache_control", "citations"}:
            raise Refused(f"system.{number}: Extra inputs are not permitted")
        if not block["text"].strip():
            raise Refused("system: text content blocks must contain non-whitespace text")
        if block.get("cache_control", {"type": "ephemeral"})["type"] != "ephemeral":
            raise Refused(f"system.{number}.cache_control.type: Input should be 'ephemeral'")


def _check_tools(body: dict[str, Any]) -> None:
    names = []
    for number, tool in enumerate(body.get("tools", [])):
        for name in set(tool) - _TOOL_FIELDS:
            raise Refused(f"tools.{number}.custom.{name}: Extra inputs are not permitted")
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool.get("name", "")):
            raise Refused(f"tools.{number}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if not isinstance(tool.get("input_schema"), dict):
            raise Refused(f"tools.{number}.custom.input_schema: Field required")
        if tool["input_schema"].get("type") != "object":
            raise Refused(f"tools.{number}.custom.input_schema.type: Field required")
        names.append(tool["name"])
    if len(set(names)) != len(names):
        raise Refused("tools: Tool names must be unique.")
    choice = body.get("tool_choice")
    if choice is not None and not names:
        raise Refused("tool_choice: may only be specified while providing tools.")
    if choice is not None and choice["type"] == "tool" and choice["name"] not in names:
        raise Refused(f"Tool '{choice['name']}' not found in provided tools")


def _check_thinking(body: dict[str, Any]) -> None:
    model = body["model"]
    kind = body.get("thinking", {}).get("type")
    forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
    if kind == "enabled":
        raise Refused('"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive".')
    if kind == "between_tools" and "sonnet-5-5" not in model:
        raise Refused('"thinking.type.between_tools" is not supported for this model.')
    if kind == "disabled" and (_ALWAYS_THINKING.search(model) or "sonnet-5-5" in model):
        raise Refused('"thinking.type.disabled" is not supported for this model. Use "thinking.type.adaptive".')
    if forced and _NEVER_FORCED.search(model):
        raise Refused('tool_choice: this model supports only "auto" and "none".')
    if forced and model.startswith("claude") and not _SAMPLED.match(model) and kind != "disabled":
        raise Refused("Thinking may not be enabled when tool_choice forces tool use.")


def _message(body: dict[str, Any], answer: dict[str, Any], usage: dict[str, int], number: int) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if "thinking" in answer:
        content.append({"type": "thinking", "thinking": answer["thinking"], "signature": "c2lnbmVk"})
    calls = list(answer.get("tool_calls", []))
    text = answer.get("text", "")
    choice = body.get("tool_choice", {})
    if choice.get("type") == "tool" and (arguments := _json_object(text)) is not None:
        calls, text = [{"name": choice["name"], "arguments": arguments}], ""
    if text:
        content.append({"type": "text", "text": text})
    for index, call in enumerate(calls):
        id = f"toolu_{number}_{index}"
        content.append({"type": "tool_use", "id": id, "name": call["name"], "input": call["arguments"]})
    said = json.dumps(content)
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": answer.get("stop_reason", "tool_use" if calls else "end_turn"),
        "stop_sequence": None,
        "stop_details": answer.get("stop_details"),
        "usage": {**usage, "output_tokens": _tokens(said), "service_tier": "standard"},
    }


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _blocks(system: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": system}] if isinstance(system, str) else system


def _tokens(text: str) -> int:
    """About as many as the service would count."""
    return len(text) // 4 + 1 if text else 0
