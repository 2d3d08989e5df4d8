"""The graph: entities that memories name, and relations between them that hold for a time.

A graph is a projection of memories. Each memory states mentions and relations; what it states is kept under its id,
with when it was told and when it was taken back. How long a relation holds is read off all that was stated
(`rules.relations.validity`) and never written, so that what arrives late finds its place, and what is undone leaves no
trace.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from perdure.domain.memory import Answer
from perdure.domain.scope import Scope

ENTITY_TYPES = ("person", "organization", "concept", "location", "event", "technology", "product")
"""Types of 000 §4.5; a caller's own (004's `project`) are taken as they are."""
DEFAULT_TYPE = "concept"
"""Of an entity that nobody gave a type."""


@lru_cache(maxsize=20_000)  # a search compares the names of hundreds of edges
def entity_key(name: str) -> str:
    """By what two names are one entity: NFKC, case folded, whitespace run together."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A memory names an entity."""

    name: str
    type: str = DEFAULT_TYPE
    description: str = ""

    @property
    def key(self) -> str:
        """Which entity it is."""
        return entity_key(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A memory states that one entity stands to another in a relation, for a time."""

    source: str
    """The entity's name."""
    relation: str
    """In snake case: works_at, leads, mother_of."""
    target: str
    valid_from: str | None = None
    """From when it holds, as stated, ISO 8601 UTC; None is unknown: from when it was told at the latest."""
    valid_to: str | None = None
    """Until when (exclusive), as stated; None is not stated."""
    polarity: bool = True
    """False where the memory says that it no longer holds: "Alice is no longer the lead"."""
    slot: str | None = None
    """What there is one of at a time: of two relations of one slot the later ends the earlier. `source leads *` and
    `* leads target` are written "out:leads:alice" and "in:leads:fundraising"; None where many may hold at once."""
    rule: str = ""
    """Which rule or model read it."""
    confidence: float = 1.0

    @property
    def source_key(self) -> str:
        """Which entity it starts from."""
        return entity_key(self.source)

    @property
    def target_key(self) -> str:
        """Which entity it leads to."""
        return entity_key(self.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What one memory states, as read by one reader, whole: it replaces what the same reader had it state before."""

    memory_id: str
    by: str
    """Who read it: `entities` (the caller's own list) or `temporal` (rules or a model)."""
    scope: Scope
    told_at: str
    """When the memory was told; ISO 8601 UTC, as `as_of` goes by."""
    mentions: tuple[Mention, ...] = ()
    relations: tuple[Relation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedRelation:
    """A relation as the graph holds it: with the memory that states it, and its own times."""

    relation: Relation
    memory_id: str
    scope: Scope
    told_at: str
    untold_at: str | None = None
    """When it was taken back: the memory was changed or deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity(Answer):
    """An entity as a scope knows it, over all memories that name it."""

    name: str
    """As most memories write it."""
    type: str
    description: str = ""
    memory_ids: tuple[str, ...] = ()
    """Memories that name it, those told last first."""
    updated_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge(Answer):
    """A relation with the time for which it holds, read off all that was stated."""

    HIDDEN = ("told_at",)

    source: str
    relation: str
    target: str
    valid_from: str | None
    valid_until: str | None
    """None is still."""
    memory_ids: tuple[str, ...] = ()
    """Memories that state it."""
    closed_by: str | None = None
    """The memory whose statement ended it, where it was not its own."""
    told_at: str = ""


MENTIONED_WITH = "mentioned_with"
"""How a neighbour is related that only stands in the same memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbor(Answer):
    """An entity that another one leads to, and over which edge it was reached."""

    name: str
    type: str
    relationship: str
    """The edge's relation, or `mentioned_with` where one memory names both without relating them."""
    direction: Literal["out", "in", "both"]
    """Whether the edge leads to this entity or away from it; `both` where it leads nowhere."""
    depth: int
    """Edges from the entity that was asked for, from 1."""
    valid_from: str | None = None
    valid_until: str | None = None
    memory_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """What lies around some entities: the entities reached, and all stated relations among those."""

    entities: tuple[Entity, ...] = ()
    relations: tuple[StatedRelation, ...] = field(default_factory=tuple)
