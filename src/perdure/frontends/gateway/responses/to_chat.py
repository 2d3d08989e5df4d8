"""A request of the Responses API as one of chat, for model servers that have nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.domain.errors import InvalidInputError
from perdure.domain.text import shown
from perdure.frontends.gateway.responses.items import Item
from perdure.frontends.gateway.responses.to_chat_messages import chat_messages

_OWN = frozenset(
    {
        "input",
        "instructions",
        "previous_response_id",
        "tools",
        "tool_choice",
        "text",
        "reasoning",
        "max_output_tokens",
        "max_tool_calls",
        "truncation",
        "include",
        "top_logprobs",
        "stream_options",
        "background",
        "conversation",
        "prompt",
    }
)
"""Fields that chat has not, or has under another name; every other one is passed on as it is."""

_IMPOSSIBLE: Mapping[str, str] = {
    "background": "answers are not made in the background here",
    "conversation": "it keeps no conversations: use previous_response_id",
    "prompt": "it keeps no prompts",
}
"""What cannot be had of a server that has only chat, and why."""


def chat_request(body: Mapping[str, Any], items: Sequence[Item], *, first: int = 0) -> dict[str, Any]:
    """The body to post to /v1/chat/completions; `items` is the whole input, of which `first` are of earlier responses.

    InvalidInputError names a field that chat cannot say: hosted tools, files of the server's, background work.
    """
    for name, why in _IMPOSSIBLE.items():
        if body.get(name):
            raise _impossible(name, why, body[name])
    instructions = body.get("instructions")
    if instructions is not None and not isinstance(instructions, str):
        raise InvalidInputError("instructions must be text", field="instructions", value=instructions)
    chat = {name: value for name, value in body.items() if name not in _OWN}
    chat["messages"] = chat_messages(items, instructions, first=first)
    if body.get("tools"):
        chat["tools"] = _tools(body["tools"])
        if body.get("tool_choice") is not None:
            chat["tool_choice"] = _tool_choice(body["tool_choice"])
    else:
        # Without tools there is nothing to choose between, and servers refuse the field.
        chat.pop("parallel_tool_calls", None)
    chat |= _text(body.get("text"))
    effort = _object(body.get("reasoning"), "reasoning").get("effort")
    if effort is not None:
        chat["reasoning_effort"] = effort
    if body.get("max_output_tokens") is not None:
        # The older name, which servers that have only chat know; OpenAI's own has the Responses API.
        chat["max_tokens"] = body["max_output_tokens"]
    if body.get("top_logprobs") is not None:
        chat |= {"logprobs": True, "top_logprobs": body["top_logprobs"]}
    elif isinstance(body.get("include"), list) and "message.output_text.logprobs" in body["include"]:
        chat["logprobs"] = True
    if body.get("stream"):
        chat["stream_options"] = {**_object(body.get("stream_options"), "stream_options"), "include_usage": True}
    return chat


def _tools(tools: object) -> list[dict[str, Any]]:
    if not isinstance(tools, list):
        raise InvalidInputError("tools must be a list", field="tools", value=tools)
    return [_tool(tool, f"tools[{number}]") for number, tool in enumerate(tools)]


def _tool(tool: object, place: str) -> dict[str, Any]:
    if not isinstance(tool, dict):
        raise InvalidInputError(f"{place} must be an object", field=place, value=tool)
    kind = tool.get("type")
    if kind not in ("function", "custom"):
        why = "it has no tools of its own, only functions of the caller's"
        raise _impossible(f"{place}.type", why, kind, f"the tool {shown(kind)}")
    if not isinstance(tool.get("name"), str):
        raise InvalidInputError(f"Missing required parameter: '{place}.name'.", field=f"{place}.name", value=None)
    inside = {name: value for name, value in tool.items() if name != "type" and value is not None}
    if kind == "custom" and isinstance(inside.get("format"), dict) and inside["format"].get("type") == "grammar":
        grammar = {name: value for name, value in inside["format"].items() if name != "type"}
        inside["format"] = {"type": "grammar", "grammar": grammar}
    return {"type": kind, kind: inside}


def _tool_choice(choice: object) -> object:
    if isinstance(choice, str):
        return choice
    if isinstance(choice, dict):
        kind = choice.get("type")
        if kind in ("function", "custom"):
            return _named(choice)
        if kind == "allowed_tools" and isinstance(choice.get("tools"), list):
            tools = [_named(tool) if isinstance(tool, dict) else tool for tool in choice["tools"]]
            return {"type": kind, "allowed_tools": {"mode": choice.get("mode", "auto"), "tools": tools}}
        why = "it has no tools of its own, only functions of the caller's"
        raise _impossible("tool_choice.type", why, kind, f"the tool {shown(kind)}")
    raise InvalidInputError("tool_choice must be text or an object", field="tool_choice", value=choice)


def _named(tool: dict[str, Any]) -> dict[str, Any]:
    kind = str(tool.get("type"))
    return {"type": kind, kind: {name: value for name, value in tool.items() if name != "type"}}


def _text(text: object) -> dict[str, Any]:
    """`response_format` and `verbosity` of the `text` field."""
    given = _object(text, "text")
    found: dict[str, Any] = {}
    if given.get("verbosity") is not None:
        found["verbosity"] = given["verbosity"]
    wanted = _object(given.get("format"), "text.format")
    kind = wanted.get("type", "text")
    if kind == "json_schema":
        schema = {name: value for name, value in wanted.items() if name != "type" and value is not None}
        found["response_format"] = {"type": kind, "json_schema": schema}
    elif kind != "text":
        found["response_format"] = wanted
    return found


def _object(value: object, place: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInputError(f"{place} must be an object, not {type(value).__name__}", field=place, value=value)
    return value


def _impossible(field: str, why: str, value: object, what: str | None = None) -> InvalidInputError:
    told = f"{field}: {what or shown(value)} cannot be had of this model's server, which has only chat: {why}"
    return InvalidInputError(told, field=field, value=value)
