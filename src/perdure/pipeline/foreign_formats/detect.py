"""Which tool's export an item comes from, told by what it holds and never by a file's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from perdure.pipeline.foreign_formats.chatgpt import is_chatgpt
from perdure.pipeline.foreign_formats.claude import is_claude
from perdure.pipeline.foreign_formats.json_pieces import unwrapped
from perdure.pipeline.foreign_formats.langgraph import is_langgraph
from perdure.pipeline.foreign_formats.mem0 import is_mem0

FORMATS: Final = ("perdure", "mem0", "chatgpt", "claude", "langgraph")
"""What `import` reads."""
LOOKED_FOR: Final = (
    "lines of perdure, messages or facts; memories of mem0 (`memory` with `id` or `hash`); conversations of ChatGPT "
    "(`mapping`) or Claude (`chat_messages`); items of a LangGraph store (`namespace`, `key`, `value`)"
)
"""The formats by what they are known by, for an error."""


def detect(value: Any) -> str | None:
    """The format of an item, or of the first item in the list that it wraps; None if it is none of them."""
    if isinstance(value, list):
        return next((format for each in value[:5] if (format := detect(each))), None)
    if not isinstance(value, Mapping):
        return None
    wrapped = unwrapped(value)
    if wrapped is not None:
        return detect(wrapped[0])
    if is_chatgpt(value):
        return "chatgpt"
    if is_claude(value):
        return "claude"
    if is_langgraph(value):
        return "langgraph"
    if is_mem0(value):
        return "mem0"
    is_ours = {"role", "content"} <= value.keys() or bool({"perdure", "record", "messages", "memory"} & value.keys())
    return "perdure" if is_ours else None
