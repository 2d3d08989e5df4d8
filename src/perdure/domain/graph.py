"""The graph: entities that memories name, and relations between them that hold for a time.

A graph is a projection of memories. Each memory states mentions and relations; they are stored under its id, with the
times at which they were said and withdrawn. How long a relation holds is computed from all statements
(`rules.relations.validity`) and never stored, so a late statement finds its place, and an undone one leaves no trace.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from perdure.domain.memory import Answer
from perdure.domain.scope import Scope

ENTITY_TYPES = ("person", "organization", "concept", "location", "event", "technology", "product")
"""The built-in types; a caller's own types (such as `project`) are accepted too."""
DEFAULT_TYPE = "concept"  # type of an entity whose type nobody gave


@lru_cache(maxsize=20_000)  # a search compares the names of hundreds of edges
def entity_key(name: str) -> str:
    """Return the key by which two names are the same entity: NFKC, case folded, whitespace collapsed."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A memory names an entity."""

    name: str
    type: str = DEFAULT_TYPE
    description: str = ""

    @property
    def key(self) -> str:
        """The key of the entity."""
        return entity_key(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A memory states that one entity has a relation to another, for a time."""

    source: str
    """The entity's name."""
    relation: str
    """In snake case: works_at, leads, mother_of."""
    target: str
    valid_from: str | None = None
    """Stated start, ISO 8601 UTC; None is unknown: no later than the time at which it was said."""
    valid_to: str | None = None
    """Stated end (exclusive); None if no end is stated."""
    polarity: bool = True
    """False where the memory says that it no longer holds: "Alice is no longer the lead"."""
    slot: str | None = None
    """A key of which only one relation holds at a time: the later of two relations of one slot ends the earlier.
    `source leads *` and `* leads target` are written "out:leads:alice" and "in:leads:fundraising"; None if many may
    hold at once."""
    rule: str = ""
    """The rule or model that extracted it."""
    confidence: float = 1.0

    @property
    def source_key(self) -> str:
        """The key of the source entity."""
        return entity_key(self.source)

    @property
    def target_key(self) -> str:
        """The key of the target entity."""
        return entity_key(self.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Everything that one extractor read in one memory; it replaces the same extractor's earlier statement."""

    memory_id: str
    by: str
    """The extractor: `entities` (the caller's own list) or `temporal` (rules or a model)."""
    scope: Scope
    told_at: str
    """When the memory was said, ISO 8601 UTC; `as_of` uses it."""
    mentions: tuple[Mention, ...] = ()
    relations: tuple[Relation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedRelation:
    """A relation as the graph stores it: with the memory that states it, and the memory's times."""

    relation: Relation
    memory_id: str
    scope: Scope
    told_at: str
    untold_at: str | None = None
    """When it was withdrawn because the memory was changed or deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity(Answer):
    """An entity of a scope, combined from all memories that name it."""

    name: str
    """The spelling that most memories use."""
    type: str
    description: str = ""
    memory_ids: tuple[str, ...] = ()
    """Memories that name it, the latest first."""
    updated_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge(Answer):
    """A relation with the period in which it holds, computed from all statements."""

    HIDDEN = ("told_at",)

    source: str
    relation: str
    target: str
    valid_from: str | None
    valid_until: str | None
    """None if it still holds."""
    memory_ids: tuple[str, ...] = ()
    """Memories that state it."""
    closed_by: str | None = None
    """The memory whose statement ended it, if it was another one."""
    told_at: str = ""


MENTIONED_WITH = "mentioned_with"  # the relationship of a neighbour that is only mentioned in the same memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbor(Answer):
    """A neighbour of an entity, and the edge that leads to it."""

    name: str
    type: str
    relationship: str
    """The edge's relation, or `mentioned_with` where one memory names both without relating them."""
    direction: Literal["out", "in", "both"]
    """Whether the edge leads to this entity or away from it; `both` for `mentioned_with`."""
    depth: int
    """Number of edges from the entity of the query, from 1."""
    valid_from: str | None = None
    valid_until: str | None = None
    memory_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The entities around some entities, and all stated relations among them."""

    entities: tuple[Entity, ...] = ()
    relations: tuple[StatedRelation, ...] = field(default_factory=tuple)
