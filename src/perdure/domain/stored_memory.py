"""Explicit memories: the shape in which `MemoryStore` returns them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, get_args
from uuid import UUID

from perdure.domain.errors import NotFoundError
from perdure.domain.memory import Answer, MemoryItem
from perdure.domain.text.readable import invalid

StoredType = Literal["semantic", "procedural", "episodic", "reflective"]
"""The sort of a memory; a search without a type finds every sort."""
STORED_TYPES: tuple[str, ...] = get_args(StoredType)


class MemoryType(StrEnum):
    """Two sets of types: the first four are those of explicit memories, the rest the agent runtime's metadata types.

    Each interface accepts its own only.
    """

    SEMANTIC = "semantic"
    PROCEDURAL = "procedural"
    EPISODIC = "episodic"
    REFLECTIVE = "reflective"
    DOCUMENT = "document"
    FRAGMENT = "fragment"
    MESSAGE = "message"
    DESCRIPTION = "description"
    CUSTOM = "custom"


def read_type(value: object, field: str = "type") -> str:
    """Return the name of an explicit memory's type; InvalidInputError for an unknown one."""
    if not isinstance(value, str) or value not in STORED_TYPES:
        raise invalid(field, f"one of {', '.join(STORED_TYPES)}", value)
    return MemoryType(value).value


def shown_id(id: str) -> str:
    """Return an id as explicit and team memories show it, `mem_` and the UUID's hexadecimal digits; see `read_id`."""
    return f"mem_{UUID(id).hex}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMemory(Answer):
    """One explicit memory; times are ISO 8601 UTC text, and its embedding is never shown."""

    id: str
    type: str
    content: str
    user_id: str
    project_id: str | None = None
    source: str = ""
    created_at: str
    updated_at: str
    access_count: int = 0
    importance: float = 0.5

    @classmethod
    def of(cls, item: MemoryItem) -> StoredMemory:
        """Build the view of a user's memory; NotFoundError for a memory that belongs to no user."""
        if item.scope.user_id is None:
            raise NotFoundError(f"there is no memory of a user with the id {item.id!r}")
        return cls(
            id=shown_id(item.id),
            type=item.type,
            content=item.memory,
            user_id=item.scope.user_id,
            project_id=item.scope.project_id,
            source=item.source,
            created_at=item.created_at,
            updated_at=item.updated_at,
            access_count=item.access_count,
            importance=item.importance,
        )

    def model_dump(self) -> dict[str, Any]:
        """Return the JSON form: `project_id` and `source` only if they have a value."""
        dump: dict[str, Any] = {"id": self.id, "type": self.type, "content": self.content, "user_id": self.user_id}
        for name in ("project_id", "source"):
            if getattr(self, name):
                dump[name] = getattr(self, name)
        dump.update(created_at=self.created_at, access_count=self.access_count, importance=self.importance)
        return dump


@dataclass(frozen=True, slots=True)
class RetrieveResult(Answer):
    """One memory that matches a query, and its score in [0, 1]."""

    memory: StoredMemory
    score: float


@dataclass(frozen=True, slots=True)
class MemoryListing(Answer):
    """A user's newest memories, and their total number."""

    memories: list[StoredMemory]
    total: int
    limit: int
