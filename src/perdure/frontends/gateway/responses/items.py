"""Items of the Responses API: what goes in and comes out of a model, as JSON objects."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from perdure.domain.errors import InvalidInputError
from perdure.domain.message import Message
from perdure.engine.chat.conversation_step import words

Item = dict[str, Any]
"""One item; its `type` says what it is, and a message may leave it out."""

ROLES = ("user", "assistant", "system", "developer")
"""Who speaks in a message item."""
OUTPUTS = ("function_call_output", "custom_tool_call_output")
"""What a tool gave back."""
CALLS = ("function_call", "custom_tool_call")
"""What asks for a tool of the client's."""


def new_response_id() -> str:
    """An id for a response that is made here."""
    return f"resp_{uuid.uuid4().hex}"


def item_id(response_id: str, kind: str, number: int) -> str:
    """The id of the item of a response: its prefix says what it is, and the rest which response it belongs to."""
    return f"{kind}_{response_id.removeprefix('resp_')}{number:04x}"


def response_of(item: str) -> str | None:
    """The response that an item made here belongs to; None for an id that `item_id` did not make."""
    digits = item.rpartition("_")[2]
    whole = len(digits) == _HEX + _NUMBER and all(letter in "0123456789abcdef" for letter in digits)
    return f"resp_{digits[:_HEX]}" if whole else None


def kind_of(item: Mapping[str, Any]) -> str:
    """The type of an item: that of one without `type` is told by what it has."""
    given = item.get("type")
    if isinstance(given, str):
        return given
    return "item_reference" if "role" not in item and "id" in item else "message"


def asks_for_tools(output: Iterable[Mapping[str, Any]]) -> bool:
    """Whether an answer waits for what tools of the client's say."""
    return any(kind_of(item) in CALLS for item in output)


def read_input(value: object) -> list[Item]:
    """The items of a request's `input`: text is one message of the user; InvalidInputError names what is neither."""
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": value}]}]
    if value is None:
        raise InvalidInputError("Missing required parameter: 'input'.", field="input", value=value)
    if not isinstance(value, list):
        raise InvalidInputError("input must be text or a list of items", field="input", value=value)
    for number, item in enumerate(value):
        if not isinstance(item, dict):
            raise InvalidInputError(f"input[{number}] must be an object", field=f"input[{number}]", value=item)
    return value


def with_ids(items: Sequence[Item], response_id: str) -> list[Item]:
    """The input items of a response, each with an id and a type; those that have one keep it."""
    found = []
    for number, item in enumerate(items):
        kind = kind_of(item)
        given = item.get("id")
        own = given if isinstance(given, str) and given else item_id(response_id, _PREFIX.get(kind, "in"), number)
        found.append({**item, "id": own, "type": kind})
    return found


def resolved(items: Sequence[Item], known: Iterable[Item]) -> list[Item]:
    """The items with each reference replaced by the known item of that id; InvalidInputError names an unknown one."""
    by_id = {str(item["id"]): item for item in known if "id" in item}
    found = []
    for item in items:
        if kind_of(item) == "item_reference":
            wanted = str(item.get("id"))
            if wanted not in by_id:
                raise InvalidInputError(f"Item with id '{wanted}' not found.", field="input", value=wanted)
            found.append(by_id[wanted])
        else:
            found.append(item)
            if isinstance(item.get("id"), str):
                by_id[item["id"]] = item
    return found


def references(items: Iterable[Item]) -> list[str]:
    """The ids that items refer to."""
    return [str(item.get("id")) for item in items if kind_of(item) == "item_reference"]


def listed(item: Item) -> Item:
    """An input item as it is told of later: text as the part that it is short for."""
    if kind_of(item) != "message" or not isinstance(item.get("content"), str):
        return item
    is_output = item.get("role") == "assistant"
    part = {"type": "output_text" if is_output else "input_text", "text": item["content"]}
    content = [{**part, "annotations": []} if is_output else part]
    return {**item, "status": "completed", "content": content}


def messages_of(items: Iterable[Item]) -> list[Message]:
    """What was said in items, oldest first: texts of users and models, and what tools gave back."""
    found = []
    for item in items:
        kind = kind_of(item)
        if kind == "message" and item.get("role") in ("user", "assistant"):
            role, text = str(item["role"]), words(item.get("content"))
        elif kind in OUTPUTS:
            role, text = "tool", words(item.get("output"))
        else:
            continue
        if text.strip():
            found.append(Message(role, text))
    return found


def holds_history(items: Iterable[Item]) -> bool:
    """Whether items tell of an earlier answer: who sends them holds what was said, and goes on from no response."""
    return any(kind_of(item) != "message" or item.get("role") == "assistant" for item in items)


def ends_with_tool(items: Sequence[Item]) -> bool:
    """Whether the result of a tool stands last, which a model is to go on from."""
    return bool(items) and kind_of(items[-1]) in OUTPUTS


def last_words(spoken: Sequence[Message]) -> tuple[Message | None, list[Message], list[Message]]:
    """The user's last message, None where there is none; what was said before it; what tools said at the very end."""
    at = next((at for at in reversed(range(len(spoken))) if spoken[at].role == "user"), None)
    tools: list[Message] = []
    for message in reversed(spoken):
        if message.role != "tool":
            break
        tools.insert(0, message)
    return (None, [], tools) if at is None else (spoken[at], list(spoken[:at]), tools)


_HEX = 32
_NUMBER = 4
_PREFIX: Mapping[str, str] = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "reasoning": "rs",
}
