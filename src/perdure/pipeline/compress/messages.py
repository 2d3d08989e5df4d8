"""Messages of a request without those that the state tells of: OpenAI's chat messages, or items of its Responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.pipeline.compress.state import rendered

_INSTRUCTING = ("system", "developer")


def turns_of(messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """Where turns begin: at what a user says after something else than a user's words or instructions."""
    begins: list[int] = []
    talking = False
    for place, message in enumerate(messages):
        role = message.get("role")
        if role == "user" and not talking:
            begins.append(place)
        if role not in _INSTRUCTING:
            talking = role == "user"
    return begins


def turn_count(messages: Sequence[Mapping[str, Any]]) -> int:
    """How many turns there are."""
    return len(turns_of(messages))


def compressed(messages: list[dict[str, Any]], state: Mapping[str, Any], keep_turns: int) -> list[dict[str, Any]]:
    """The last `keep_turns` turns as they are, and what is older as the state, in a message after the instructions.

    Messages of system and developer stay. A tool's answer stays with its call, by keeping more turns where need be. The
    very same list where the state says nothing or nothing is older.
    """
    begins = turns_of(messages)
    block = rendered(state)
    if not block or len(begins) <= keep_turns:
        return messages
    cut = _whole(messages, begins, len(begins) - keep_turns)
    older = [message for message in messages[:cut] if message.get("role") not in _INSTRUCTING]
    if not older:
        return messages
    kept = [message for message in messages[:cut] if message.get("role") in _INSTRUCTING]
    return [*kept, {"role": "system", "content": block}, *messages[cut:]]


def _whole(messages: Sequence[Mapping[str, Any]], begins: Sequence[int], turn: int) -> int:
    """Where to cut, at this turn or an earlier one, so that no answer of a tool loses its call."""
    while turn > 0:
        cut = begins[turn]
        called = {id for message in messages[:cut] for id in _calls(message)}
        if not any(_answers(message) in called for message in messages[cut:]):
            return cut
        turn -= 1
    return 0


def _calls(message: Mapping[str, Any]) -> list[str]:
    """The ids of the calls that a message makes."""
    calls = message.get("tool_calls")
    ids = [call.get("id") for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []
    if str(message.get("type", "")).endswith("_call"):
        ids += [message.get("call_id"), message.get("id")]
    return [id for id in ids if isinstance(id, str)]


def _answers(message: Mapping[str, Any]) -> str | None:
    """The id of the call that a message answers."""
    id = message.get("tool_call_id")
    if str(message.get("type", "")).endswith("_output"):
        id = message.get("call_id")
    return id if isinstance(id, str) else None
