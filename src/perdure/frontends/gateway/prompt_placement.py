"""Placing: where in a chat what is remembered stands; no message but one is touched, and the same gives the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from perdure.domain.message import ROLES, Message
from perdure.engine.chat.memory_reader import Recalled
from perdure.engine.chat.settings import Injection
from perdure.pipeline.prompting.context_block import ahead, system_block, user_and_team_block

INSTRUCTING = ("system", "developer")
TOOLS = ("tool", "function")

Messages = Sequence[Mapping[str, Any]]


def place(messages: Messages, recalled: Recalled, injection: Injection, max_tokens: int) -> list[Mapping[str, Any]]:
    """The messages with what is remembered in them: before the words of the user's last message, or apart.

    What a team holds for CANONICAL stands in a system message always.
    """
    found = list(messages)
    told: dict[str, Any] = {
        "directives": recalled.directives,
        "canonical": recalled.canonical,
        "summary": recalled.summary,
        "max_tokens": max_tokens,
    }
    if injection == "system":
        return _apart(found, "system", system_block(recalled.hits, **told))
    block, team = user_and_team_block(recalled.hits, **told)
    if injection == "user_message":
        found = _apart(found, "user", block)
    elif block and (at := last_of_user(found)) is not None:
        found[at] = _before_words(found[at], block)
    return _apart(found, "system", team)


def last_of_user(messages: Messages) -> int | None:
    """Where the user's last message stands."""
    return next((at for at in reversed(range(len(messages))) if messages[at].get("role") == "user"), None)


def words(content: object) -> str:
    """The text of a message's content, of parts the text of those that have one; "" for what has no text."""
    if isinstance(content, str):
        return _readable(content)
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") if isinstance(part, dict) else part for part in content]
    return _readable("\n".join(text for text in texts if isinstance(text, str) and text))


def said(message: Mapping[str, Any]) -> Message | None:
    """A message as memory reads it; None for one without text, or of a role that nobody knows."""
    role, text = message.get("role"), words(message.get("content"))
    if role not in ROLES or not text.strip():
        return None
    name = message.get("name")
    return Message(role, text, name=_readable(name) if isinstance(name, str) and name else None)


def turn_of(messages: Messages) -> tuple[Message, list[Message]] | None:
    """What is to be kept of a request: what the user said last, or the results of tools where these stand last.

    What the user said before them was kept when the model asked for the tools. None for what has no words.
    """
    results = list(takewhile(lambda each: each.get("role") in TOOLS, reversed(messages)))
    if results:
        tools = [result for each in reversed(results) if (result := said(each))]
        return (Message("user", ""), tools) if tools else None
    at = last_of_user(messages)
    user = None if at is None else said(messages[at])
    return None if user is None else (user, [])


def _apart(messages: list[Mapping[str, Any]], role: str, block: str) -> list[Mapping[str, Any]]:
    """The messages with one of its own after those that instruct at the beginning."""
    if not block:
        return messages
    at = next((at for at, each in enumerate(messages) if each.get("role") not in INSTRUCTING), len(messages))
    return [*messages[:at], {"role": role, "content": block}, *messages[at:]]


def _before_words(message: Mapping[str, Any], block: str) -> Mapping[str, Any]:
    """The message with a block before its words; as it is where its content is of no known shape."""
    content = message.get("content")
    if isinstance(content, list):
        return {**message, "content": [{"type": "text", "text": ahead(block)}, *content]}
    return {**message, "content": ahead(block) + content} if isinstance(content, str) else message


def _readable(text: str) -> str:
    """A text whose characters can all be written: JSON may hold halves of some."""
    return text.encode("utf-8", "replace").decode("utf-8")
