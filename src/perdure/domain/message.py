"""Messages: what was said, by whom and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from perdure.domain.clock import parse_moment
from perdure.domain.errors import InvalidInputError
from perdure.domain.text.readable import check_unicode, invalid, kind_of

# The result of a tool call.


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The text that answers a tool call, and whether it reports an error."""

    text: str
    is_error: bool = False

    def as_result(self, tool_use_id: str) -> dict[str, Any]:
        """Return the answer as a `tool_result` block of a message of Anthropic's interface."""
        block = {"type": "tool_result", "tool_use_id": tool_use_id, "content": self.text}
        return {**block, "is_error": True} if self.is_error else block


ROLES = ("system", "developer", "user", "assistant", "tool", "function")
"""The roles of a message: mem0's and those of OpenAI's chat format."""
_IN_PLACE_OF_CONTENT = ("tool_calls", "function_call", "refusal", "audio")
"""Parts of a message in OpenAI's chat format that may come without a text."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message: plain text `content`, speaker `name`, and `timestamp` (as `parse_moment` reads it)."""

    role: str
    content: str
    name: str | None = None
    timestamp: datetime | None = None
    id: str | None = None

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise invalid("role", f"one of {', '.join(ROLES)}", self.role)
        if not isinstance(self.content, str):
            raise InvalidInputError(
                f"content must be text, not {kind_of(self.content)}", field="content", value=self.content
            )
        check_unicode(self.content, "content")
        for field in ("name", "id"):
            value = getattr(self, field)
            if value is not None and not isinstance(value, str):
                raise invalid(field, "text", value)
            check_unicode(value or "", field)
        if self.timestamp is not None:
            object.__setattr__(self, "timestamp", parse_moment(self.timestamp))

    @property
    def speaker(self) -> str:
        """The speaker's name, else the role."""
        return self.name or self.role


def text_of(content: object) -> str:
    """Return the text of OpenAI message content: text as it is, a list's text parts joined by newlines, None as ""."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        parts = [_part_text(part) for part in content]
        return "\n".join(part for part in parts if part)
    raise InvalidInputError(
        f"content must be text or a list of parts, not {kind_of(content)}", field="content", value=content
    )


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping):
        text = part.get("text")
        if text is None or isinstance(text, str):
            return text or ""
        raise invalid("content", "text", text, "the text of a content part")
    raise invalid("content", "an object", part, "a content part")


def read_message(value: Message | Mapping[str, Any], position: int = 0) -> Message:
    """Build a message from a caller's object; unknown keys (tool calls, refusals) are ignored as in OpenAI's format."""
    if isinstance(value, Message):
        return value
    if not isinstance(value, Mapping):
        raise invalid(f"messages[{position}]", "an object with role and content", value, f"messages[{position}]")
    if "role" not in value:
        raise InvalidInputError(f"messages[{position}] has no role", field=f"messages[{position}].role", value=None)
    if "content" not in value and not any(value.get(name) for name in _IN_PLACE_OF_CONTENT):
        raise InvalidInputError(
            f"messages[{position}] has no content", field=f"messages[{position}].content", value=None
        )
    try:
        return Message(
            role=value["role"],
            content=text_of(value.get("content")),
            name=value.get("name"),
            timestamp=value.get("timestamp"),
            id=value.get("id"),
        )
    except InvalidInputError as error:
        raise InvalidInputError(
            f"messages[{position}]: {error.message}", field=error.field, value=error.value
        ) from None


def read_messages(value: str | Message | Mapping[str, Any] | Sequence[Message | Mapping[str, Any]]) -> list[Message]:
    """Build the messages of a caller's argument: a text is one user message."""
    if isinstance(value, str):
        return [Message("user", value)]
    if isinstance(value, (Message, Mapping)):
        return [read_message(value)]
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes, bytearray)):
        raise InvalidInputError(
            f"messages must be text, a message or a list of messages, not {kind_of(value)}",
            field="messages",
            value=value,
        )
    return [read_message(item, position) for position, item in enumerate(value)]


def transcript(messages: Sequence[Message]) -> str:
    """Return the conversation as one text, a line a message: `role: content`."""
    return "\n".join(f"{message.role}: {message.content}" for message in messages)
