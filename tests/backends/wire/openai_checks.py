"""What OpenAI's chat endpoint refuses in a request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.backends.wire.server import Reply

_MESSAGE_FIELDS = {"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio"}


class Refusal(Exception):
    """The reply to a request that is wrong."""

    def __init__(self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        kind = "invalid_request_error"
        self.reply = Reply.of({"error": {"message": message, "type": kind, "param": param, "code": code}}, status)


def check_messages(messages: Any) -> None:
    """At least one, with known keys, roles, and texts."""
    if not isinstance(messages, list):
        raise Refusal("Missing required parameter: 'messages'.", param="messages", code="missing_required_parameter")
    if not messages:
        raise Refusal("Invalid 'messages': empty array.", param="messages", code="empty_array")
    for position, message in enumerate(messages):
        here = f"messages[{position}]"
        for name in message:
            if name not in _MESSAGE_FIELDS:
                raise Refusal(f"Unknown parameter: '{here}.{name}'.", param=f"{here}.{name}", code="unknown_parameter")
        if message.get("role") not in ("system", "developer", "user", "assistant", "tool"):
            raise Refusal(f"Invalid value: '{message.get('role')}'.", param=f"{here}.role", code="invalid_value")
        if message["role"] == "tool":
            raise Refusal("messages with role 'tool' must be a response to a preceding message with 'tool_calls'.")
        if not isinstance(message.get("content"), str):
            raise Refusal(
                f"Invalid value for 'content': expected a string, got {message.get('content')!r}.", param=here
            )


def check_numbers(body: Mapping[str, Any], *, reasoner: bool) -> None:
    """The temperature and the length of the answer, which reasoning models take otherwise."""
    heat = body.get("temperature")
    if reasoner and heat not in (None, 1):
        text = f"Unsupported value: 'temperature' does not support {heat} with this model. Only the default (1) value"
        raise Refusal(f"{text} is supported.", param="temperature", code="unsupported_value")
    if reasoner and "max_tokens" in body:
        text = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'"
        raise Refusal(f"{text} instead.", param="max_tokens", code="unsupported_parameter")
    if heat is not None and (not isinstance(heat, int | float) or not 0 <= heat <= 2):
        raise Refusal("Invalid 'temperature': decimal above maximum value.", param="temperature")
    if "max_tokens" in body and "max_completion_tokens" in body:
        text = "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
        raise Refusal(text, code="invalid_parameter_combination")
    for name in ("max_tokens", "max_completion_tokens"):
        limit = body.get(name)
        if limit is not None and (not isinstance(limit, int) or not 1 <= limit <= 128_000):
            raise Refusal(f"Invalid '{name}': integer out of range: {limit}.", param=name, code="invalid_value")


def check_format(body: Mapping[str, Any]) -> None:
    """JSON mode needs the word; the options of a stream need a stream."""
    form = body.get("response_format")
    if isinstance(form, dict) and form.get("type") == "json_schema":
        _check_schema(form["json_schema"])
    elif form is not None and form not in ({"type": "text"}, {"type": "json_object"}):
        raise Refusal(f"Invalid value: '{form}'.", param="response_format.type", code="invalid_value")
    words = " ".join(message["content"] for message in body["messages"]).lower()
    if form == {"type": "json_object"} and "json" not in words:
        text = "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
        raise Refusal(text, param="messages")
    if "stream_options" in body and not body.get("stream"):
        text = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        raise Refusal(text, param="stream_options")
    if set(body.get("stream_options") or {}) - {"include_usage", "include_obfuscation"}:
        raise Refusal("Unknown parameter in 'stream_options'.", param="stream_options", code="unknown_parameter")


def _check_schema(form: Mapping[str, Any]) -> None:
    """A name, and in strict mode objects that are closed and require all their keys (structured outputs guide)."""
    if not re.fullmatch(r"[\w-]{1,64}", form["name"]):
        raise Refusal("Invalid 'response_format.json_schema.name'.", param="response_format.json_schema.name")
    open_parts = [form["schema"]]
    while form.get("strict") and open_parts:
        part = open_parts.pop()
        open_parts += part.get("properties", {}).values()
        open_parts += [part["items"]] if "items" in part else []
        closed = part.get("additionalProperties") is False and set(part["required"]) == set(part["properties"])
        if part["type"] == "object" and not closed:
            raise Refusal("Invalid schema for response_format 'answer'.", param="response_format")


def check_tools(body: Mapping[str, Any]) -> None:
    """Functions with good names and schemas, at least one."""
    if "tools" not in body:
        return
    if not isinstance(body["tools"], list) or not body["tools"]:
        raise Refusal("Invalid 'tools': empty array.", param="tools", code="empty_array")
    for position, tool in enumerate(body["tools"]):
        here = f"tools[{position}].function"
        if set(tool) != {"type", "function"} or tool["type"] != "function":
            raise Refusal(f"Missing required parameter: '{here}'.", param=here, code="missing_required_parameter")
        function = tool["function"]
        if set(function) - {"name", "description", "parameters", "strict"}:
            raise Refusal(f"Unknown parameter in '{here}'.", param=here, code="unknown_parameter")
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", str(function.get("name", ""))):
            raise Refusal(f"Invalid '{here}.name': string does not match pattern.", param=f"{here}.name")
        if function.get("parameters", {"type": "object"}).get("type") != "object":
            raise Refusal(f"Invalid schema for function '{function['name']}'.", param=f"{here}.parameters")
