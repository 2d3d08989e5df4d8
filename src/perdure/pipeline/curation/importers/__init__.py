"""Other tools' exports, read: each format is one module, which turns an item of a file into what perdure can take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from perdure.pipeline.curation.importers.chatgpt import ChatGPTReader, is_chatgpt
from perdure.pipeline.curation.importers.claude import ClaudeReader, is_claude
from perdure.pipeline.curation.importers.json_pieces import unwrapped
from perdure.pipeline.curation.importers.langgraph import LangGraphReader, NamespacePattern, is_langgraph
from perdure.pipeline.curation.importers.mem0 import Mem0Reader, is_mem0
from perdure.pipeline.curation.importers.records import Reader
from perdure.pipeline.curation.importers.server_memory import ServerMemoryReader, is_server_memory

FORMATS: Final = ("perdure", "mem0", "chatgpt", "claude", "langgraph", "server-memory")  # what `import` reads
LOOKED_FOR: Final = (
    "lines of perdure, messages or facts; memories of mem0 (`memory` with `id` or `hash`); conversations of ChatGPT "
    "(`mapping`) or Claude (`chat_messages`); items of a LangGraph store (`namespace`, `key`, `value`); "
    "entities and relations of MCP's server-memory (`type`, `entityType` or `relationType`)"
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
    if is_server_memory(value):
        return "server-memory"
    is_ours = {"role", "content"} <= value.keys() or bool({"perdure", "record", "messages", "memory"} & value.keys())
    return "perdure" if is_ours else None


def reader_of(format: str, patterns: Sequence[NamespacePattern] = ()) -> Reader:
    """The reader of a format other than perdure's own."""
    if format == "mem0":
        return Mem0Reader()
    if format == "chatgpt":
        return ChatGPTReader()
    if format == "claude":
        return ClaudeReader()
    if format == "server-memory":
        return ServerMemoryReader()
    return LangGraphReader(patterns)
