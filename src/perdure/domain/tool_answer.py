"""What a model gets for a call of a tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The text that answers a call, and whether it tells of an error."""

    text: str
    is_error: bool = False

    def as_result(self, tool_use_id: str) -> dict[str, Any]:
        """The answer as a `tool_result` block of a message of Anthropic's interface."""
        block = {"type": "tool_result", "tool_use_id": tool_use_id, "content": self.text}
        return {**block, "is_error": True} if self.is_error else block
