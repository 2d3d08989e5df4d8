"""The agent runtime: memories, tables, cache and tasks of agents, over one engine."""

from perdure.frontends.library.runtime.documents import split_into_chunks
from perdure.frontends.library.runtime.messages import (
    is_document_memory,
    is_fragment_memory,
    is_metadata_of,
    memory_text,
    message_memory,
)
from perdure.frontends.library.runtime.shapes import MemoryType, ModelType, RuntimeMemory

__all__ = [
    "MemoryType",
    "ModelType",
    "RuntimeMemory",
    "is_document_memory",
    "is_fragment_memory",
    "is_metadata_of",
    "memory_text",
    "message_memory",
    "split_into_chunks",
]
