"""Query: what memory is asked of a request: what was said before its last words, and whether a tool answers it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from perdure.domain.message import Message
from perdure.pipeline.retrieval.rewrite import EARLIER_MESSAGES

HISTORY = 20
"""Messages before the last words that memory is shown."""


def lately(newest_first: Iterable[Message | None]) -> tuple[Message, ...]:
    """What was said last, oldest first: of `HISTORY` messages all, and of the user's three at least.

    An agent's tools may have said more than that since the user last spoke. None is a message without words.
    """
    found: list[Message] = []
    by_user = 0
    for place, message in enumerate(newest_first):
        if place >= HISTORY and by_user >= EARLIER_MESSAGES:
            break
        is_users = message is not None and message.role == "user"
        by_user += is_users
        if message is not None and (is_users or place < HISTORY):
            found.append(message)
    return tuple(reversed(found))


def forces_tool(fields: Mapping[str, Any]) -> bool:
    """Whether a request has the model call a tool, whatever it was asked: not where it may choose to or not."""
    choice = fields.get("tool_choice")
    if isinstance(choice, dict):
        kind = choice.get("type")
        if kind == "allowed_tools":
            inside = choice.get("allowed_tools")  # of chat; Responses has it beside the type
            choice = (inside if isinstance(inside, dict) else choice).get("mode")
        else:
            return kind not in ("auto", "none")
    return choice in ("required", "any") or isinstance(fields.get("function_call"), dict)
