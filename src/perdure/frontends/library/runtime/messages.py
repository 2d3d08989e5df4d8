"""Helpers for runtime memories: check their type, get their text, and build a message memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.domain.clock import system_clock
from perdure.domain.records import milliseconds
from perdure.domain.stored_memory import MemoryType
from perdure.frontends.library.runtime.shapes import Given, RuntimeMemory, read_content, read_memory


def is_metadata_of(metadata: Mapping[str, Any] | None, kind: MemoryType | str) -> bool:
    """Whether metadata is of a type: `is_metadata_of(memory.metadata, MemoryType.DOCUMENT)`."""
    return metadata is not None and metadata.get("type") == kind


def is_document_memory(memory: Given) -> bool:
    """Whether a memory is a whole document."""
    return is_metadata_of(read_memory(memory).metadata, MemoryType.DOCUMENT)


def is_fragment_memory(memory: Given) -> bool:
    """Whether a memory is a piece of a document."""
    return is_metadata_of(read_memory(memory).metadata, MemoryType.FRAGMENT)


def memory_text(memory: Given, default: str = "") -> str:
    """What a memory says, or the default where it has no text."""
    return read_memory(memory).text or default


def message_memory(
    *,
    entity_id: str,
    room_id: str,
    content: Mapping[str, Any],
    id: str | None = None,
    agent_id: str | None = None,
    embedding: Sequence[float] | None = None,
) -> RuntimeMemory:
    """A message for `create_memory(..., "messages")`, made now; its scope is private where an agent is named."""
    now = milliseconds(system_clock())
    return RuntimeMemory(
        id=id,
        entity_id=entity_id,
        agent_id=agent_id,
        room_id=room_id,
        created_at=now,
        content=read_content(content),
        embedding=None if embedding is None else list(embedding),
        metadata={
            "type": MemoryType.MESSAGE.value,
            "timestamp": now,
            "scope": "shared" if agent_id is None else "private",
        },
    )
