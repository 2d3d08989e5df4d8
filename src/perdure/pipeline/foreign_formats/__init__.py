"""Other tools' exports, read: each format is one module, which turns an item of a file into what perdure can take."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.pipeline.foreign_formats.chatgpt import ChatGPTReader
from perdure.pipeline.foreign_formats.claude import ClaudeReader
from perdure.pipeline.foreign_formats.found import Reader
from perdure.pipeline.foreign_formats.langgraph import LangGraphReader, NamespacePattern
from perdure.pipeline.foreign_formats.mem0 import Mem0Reader


def reader_of(format: str, patterns: Sequence[NamespacePattern] = ()) -> Reader:
    """The reader of a format other than perdure's own."""
    if format == "mem0":
        return Mem0Reader()
    if format == "chatgpt":
        return ChatGPTReader()
    if format == "claude":
        return ClaudeReader()
    return LangGraphReader(patterns)
