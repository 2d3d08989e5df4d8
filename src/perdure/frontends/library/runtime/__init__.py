"""The agent runtime: memories, tables, cache and tasks of agents, over one engine."""

from perdure.domain.stored_memory import MemoryType
from perdure.frontends.library.runtime.shapes import (
    ModelType,
    RuntimeMemory,
    is_document_memory,
    is_fragment_memory,
    is_metadata_of,
    memory_text,
    message_memory,
)
from perdure.pipeline.retrieval.fragment import split_into_chunks

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
