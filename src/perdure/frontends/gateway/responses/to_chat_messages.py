"""Items of the Responses API as messages of a chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.domain.errors import InvalidInputError
from perdure.domain.text import shown
from perdure.frontends.gateway.responses.items import OUTPUTS, ROLES, Item, kind_of

ChatMessage = dict[str, Any]
"""One message as /v1/chat/completions takes it."""

TEXTS = ("input_text", "output_text", "text", "summary_text")
"""Types of parts that have only a text."""


def chat_messages(items: Sequence[Item], instructions: str | None = None, *, first: int = 0) -> list[ChatMessage]:
    """The messages that say the same; InvalidInputError names the item, counted from `first`, that no chat can say.

    Instructions come first, as a system message. `developer` becomes `system`, which every model's server knows.
    Calls of tools are part of the assistant's message before them; reasoning is left out, for which chat has no place.
    """
    found: list[ChatMessage] = []
    if instructions:
        found.append({"role": "system", "content": instructions})
    for number, item in enumerate(items):
        _Adding(found, f"input[{number - first}]" if number >= first else "previous_response_id").add(item)
    return found


class _Adding:
    """Adds one item to the messages so far."""

    def __init__(self, messages: list[ChatMessage], place: str) -> None:
        self._messages = messages
        self._place = place

    def add(self, item: Item) -> None:
        kind = kind_of(item)
        if kind == "message":
            self._message(item)
        elif kind == "function_call":
            function = {"name": self._text(item, "name"), "arguments": self._text(item, "arguments")}
            self._call(item, {"type": "function", "function": function})
        elif kind == "custom_tool_call":
            custom = {"name": self._text(item, "name"), "input": self._text(item, "input")}
            self._call(item, {"type": "custom", "custom": custom})
        elif kind in OUTPUTS:
            content = self._content(item.get("output"), "output")
            self._messages.append({"role": "tool", "tool_call_id": self._text(item, "call_id"), "content": content})
        elif kind != "reasoning":
            raise self._wrong("type", f"{shown(kind)}: the model's server has only chat, which has no such items", kind)

    def _message(self, item: Item) -> None:
        role = item.get("role")
        if role not in ROLES:
            raise self._wrong("role", f"must be one of {', '.join(ROLES)}, not {shown(role)}", role)
        told = "system" if role == "developer" else str(role)
        message: ChatMessage = {"role": told, "content": self._content(item.get("content"), "content")}
        if isinstance(item.get("name"), str):
            message["name"] = item["name"]
        self._messages.append(message)

    def _call(self, item: Item, call: dict[str, Any]) -> None:
        whole = {"id": self._text(item, "call_id"), **call}
        before = self._messages[-1] if self._messages else None
        if before is None or before["role"] != "assistant":
            before = {"role": "assistant", "content": None}
            self._messages.append(before)
        before.setdefault("tool_calls", []).append(whole)

    def _content(self, content: object, name: str) -> str | list[dict[str, Any]]:
        """Text alone as text, which servers that know no parts take too; else the parts."""
        if isinstance(content, str):
            return content
        if not isinstance(content, list):
            raise self._wrong(name, "must be text or a list of parts", content)
        parts = [self._part(part, f"{name}[{number}]") for number, part in enumerate(content)]
        if not parts:
            return ""
        return str(parts[0]["text"]) if len(parts) == 1 and parts[0]["type"] == "text" else parts

    def _part(self, part: object, name: str) -> dict[str, Any]:
        if not isinstance(part, dict):
            raise self._wrong(name, "must be an object", part)
        kind = part.get("type")
        if kind in TEXTS:
            return {"type": "text", "text": self._text(part, "text", f"{name}.text")}
        if kind == "refusal":
            return {"type": "refusal", "refusal": self._text(part, "refusal", f"{name}.refusal")}
        if kind == "input_image":
            if not isinstance(part.get("image_url"), str):
                raise self._wrong(f"{name}.image_url", "is needed: the model's server keeps no files", kind)
            detail = {"detail": part["detail"]} if isinstance(part.get("detail"), str) else {}
            return {"type": "image_url", "image_url": {"url": part["image_url"], **detail}}
        if kind == "input_file":
            if part.get("file_url") is not None:
                raise self._wrong(f"{name}.file_url", "cannot be said to a server that has only chat", kind)
            told = {key: part[key] for key in ("file_id", "file_data", "filename") if part.get(key) is not None}
            return {"type": "file", "file": told}
        if kind == "input_audio":
            return part
        raise self._wrong(f"{name}.type", f"is not known: {shown(kind)}", kind)

    def _text(self, of: dict[str, Any], key: str, name: str | None = None) -> str:
        value = of.get(key)
        if not isinstance(value, str):
            raise self._wrong(name or key, f"must be text, not {type(value).__name__}", value)
        return value

    def _wrong(self, name: str, problem: str, value: object) -> InvalidInputError:
        field = f"{self._place}.{name}"
        return InvalidInputError(f"{field} {problem}", field=field, value=value)
