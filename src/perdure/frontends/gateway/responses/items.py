"""Items of the Responses API: inputs and outputs of a model, as JSON objects."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from perdure.domain.errors import InvalidInputError
from perdure.domain.message import Message
from perdure.engine.chat.conversation_step import words

Item = dict[str, Any]  # one item; `type` is its kind, which a message may leave out
ROLES = ("user", "assistant", "system", "developer")  # the roles of a message item
OUTPUTS = ("function_call_output", "custom_tool_call_output")  # results of tools
CALLS = ("function_call", "custom_tool_call")  # calls of the client's tools


def new_response_id() -> str:
    """Return a new id for a response made here."""
    return f"resp_{uuid.uuid4().hex}"


def item_id(response_id: str, kind: str, number: int) -> str:
    """Return the id of a response's item: its prefix says the kind, the rest names the response."""
    return f"{kind}_{response_id.removeprefix('resp_')}{number:04x}"


def response_of(item: str) -> str | None:
    """Return the response of an item made here; None for an id that `item_id` did not make."""
    digits = item.rpartition("_")[2]
    whole = len(digits) == _HEX + _NUMBER and all(letter in "0123456789abcdef" for letter in digits)
    return f"resp_{digits[:_HEX]}" if whole else None


def kind_of(item: Mapping[str, Any]) -> str:
    """Return the type of an item; without `type` it follows from the item's fields."""
    given = item.get("type")
    if isinstance(given, str):
        return given
    return "item_reference" if "role" not in item and "id" in item else "message"


def asks_for_tools(output: Iterable[Mapping[str, Any]]) -> bool:
    """Whether an answer waits for results of the client's tools."""
    return any(kind_of(item) in CALLS for item in output)


def read_input(value: object) -> list[Item]:
    """Return the items of a request's `input`: text is one user message; InvalidInputError for anything else."""
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
    """Return the input items of a response, each with an id and a type; existing ids stay."""
    found = []
    for number, item in enumerate(items):
        kind = kind_of(item)
        given = item.get("id")
        own = given if isinstance(given, str) and given else item_id(response_id, _PREFIX.get(kind, "in"), number)
        found.append({**item, "id": own, "type": kind})
    return found


def resolved(items: Sequence[Item], known: Iterable[Item]) -> list[Item]:
    """Replace each reference by the known item of that id; InvalidInputError names an unknown one."""
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
    """Return the ids that items refer to."""
    return [str(item.get("id")) for item in items if kind_of(item) == "item_reference"]


def listed(item: Item) -> Item:
    """Return an input item in its full form: text as a part."""
    if kind_of(item) != "message" or not isinstance(item.get("content"), str):
        return item
    is_output = item.get("role") == "assistant"
    part = {"type": "output_text" if is_output else "input_text", "text": item["content"]}
    content = [{**part, "annotations": []} if is_output else part]
    return {**item, "status": "completed", "content": content}


def messages_of(items: Iterable[Item]) -> list[Message]:
    """Return the messages in items, oldest first: texts of users and models, and results of tools."""
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
    """Whether items contain an earlier answer: then the client holds the history itself."""
    return any(kind_of(item) != "message" or item.get("role") == "assistant" for item in items)


def ends_with_tool(items: Sequence[Item]) -> bool:
    """Whether a tool's result comes last, which a model is to continue from."""
    return bool(items) and kind_of(items[-1]) in OUTPUTS


def last_words(spoken: Sequence[Message]) -> tuple[Message | None, list[Message], list[Message]]:
    """Return the user's last message or None, the messages before it, and tools' results at the very end."""
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
