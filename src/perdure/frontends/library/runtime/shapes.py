"""Memories of the agent runtime: read them from callers' objects, shape results, and check their type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from perdure.domain.clock import read_moment, system_clock
from perdure.domain.errors import InvalidInputError
from perdure.domain.memory import check_json, check_metadata
from perdure.domain.runtime import EitherCaseAnswer, milliseconds, read_names, snake
from perdure.domain.stored_memory import MemoryType
from perdure.domain.text.readable import check_unicode, shown
from perdure.engine.agent_runtime.drafts import check_kind, shown_vector
from perdure.engine.agent_runtime.memories import MemoryMatches


class ModelType(StrEnum):
    """The models of `use_model`: only the embedder."""

    TEXT_EMBEDDING = "TEXT_EMBEDDING"


@dataclass(slots=True, kw_only=True)
class RuntimeMemory(EitherCaseAnswer):
    """One memory of the agent runtime; `createdAt` in milliseconds since 1970.

    It can be read by key and by attribute in either case (`memory["entityId"]`, `memory.entity_id`), and `model_dump()`
    returns the camelCase object. `similarity` is the score in [0, 1] of a search.
    """

    id: str | None = None
    entity_id: str | None = None
    agent_id: str | None = None
    created_at: int | None = None
    content: dict[str, Any] = field(default_factory=dict)
    embedding: list[float] | None = None
    room_id: str | None = None
    world_id: str | None = None
    unique: bool | None = None
    similarity: float | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, found: MemoryMatches) -> RuntimeMemory:
        """Build it from a stored memory."""
        item = found.item
        moment = read_moment(item.created_at)
        return cls(
            id=item.id,
            entity_id=item.scope.user_id,
            agent_id=item.scope.agent_id,
            created_at=None if moment is None else milliseconds(moment),
            content={"text": item.memory, **item.content},
            embedding=None if found.vector is None else shown_vector(found.vector),
            room_id=item.scope.run_id,
            world_id=item.scope.world_id,
            unique=item.unique is not False,
            similarity=item.score,
            metadata=dict(item.metadata),
        )

    @property
    def text(self) -> str:
        """Its text."""
        return str(self.content.get("text") or "")

    @classmethod
    def noun(cls) -> str:
        """Its name in a sentence."""
        return "memory"

    def __getitem__(self, key: str) -> Any:
        if key not in self:
            raise KeyError(key)
        return getattr(self, snake(key))


FIELDS = RuntimeMemory.field_names()
Given = RuntimeMemory | Mapping[str, Any]  # a caller's memory: an object with names in either case


def read_memory(given: object) -> RuntimeMemory:
    """Return a copy of a caller's memory; InvalidInputError names an unknown or wrong field."""
    if isinstance(given, RuntimeMemory):
        values = {name: getattr(given, name) for name in FIELDS}
    elif isinstance(given, Mapping):
        values = read_names(given, FIELDS, "a memory")
    else:
        raise InvalidInputError(f"memory must be an object, not {shown(given)}", field="memory", value=given)
    if values.get("unique") is not None and not isinstance(values["unique"], bool):
        raise InvalidInputError(
            f"unique must be true or false, not {shown(values['unique'])}", field="unique", value=values["unique"]
        )
    if isinstance(values.get("embedding"), np.ndarray):
        values["embedding"] = values["embedding"].tolist()
    content, metadata = values.pop("content", None), values.pop("metadata", None)
    return RuntimeMemory(
        **values,
        content={} if content is None else read_content(content),
        metadata={} if metadata is None else read_metadata(metadata),
    )


def read_content(content: object) -> dict[str, Any]:
    """Validate a memory's content: an object of JSON values, whose `text` is text if present."""
    if not isinstance(content, Mapping):
        raise InvalidInputError(f"content must be an object, not {shown(content)}", field="content", value=content)
    read = dict(content)
    check_json("content", read)
    text = read.get("text")
    if text is not None and not isinstance(text, str):
        raise InvalidInputError(f"content.text must be text, not {shown(text)}", field="content.text", value=text)
    check_unicode(text or "", "content.text")
    return read


def read_metadata(metadata: object) -> dict[str, Any]:
    """Validate a memory's metadata, including what its type requires."""
    if isinstance(metadata, Mapping):
        metadata = dict(metadata)
        if isinstance(metadata.get("type"), StrEnum):
            metadata["type"] = metadata["type"].value
    read = check_metadata(metadata)
    check_kind(read)
    return read


def text_of(content: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the text of a content, and its other keys."""
    return str(content.get("text") or ""), {name: value for name, value in content.items() if name != "text"}


def is_metadata_of(metadata: Mapping[str, Any] | None, kind: MemoryType | str) -> bool:
    """Whether metadata is of a type: `is_metadata_of(memory.metadata, MemoryType.DOCUMENT)`."""
    return metadata is not None and metadata.get("type") == kind


def is_document_memory(memory: Given) -> bool:
    """Whether a memory is a whole document."""
    return is_metadata_of(read_memory(memory).metadata, MemoryType.DOCUMENT)


def is_fragment_memory(memory: Given) -> bool:
    """Whether a memory is a fragment of a document."""
    return is_metadata_of(read_memory(memory).metadata, MemoryType.FRAGMENT)


def memory_text(memory: Given, default: str = "") -> str:
    """Return a memory's text, or the default if it has none."""
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
    """Build a message for `create_memory(..., "messages")`; its scope is private if an agent is given."""
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
