"""A fact that a curator extracted from a conversation, before it is reconciled with known memories."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from perdure.domain.memory import MemoryItem, Slots


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One readable third-person statement ("User moved to Lisbon")."""

    text: str
    kind: Literal["facts", "notes"] = "facts"
    """A note is a sentence as the user said it: it is found by searches, and neither updates nor retires anything."""
    sources: tuple[int, ...] = ()
    """Positions of its source messages in the list given to the curator."""
    type: Literal["semantic", "procedural", "episodic", "reflective"] = "semantic"
    valid_from: datetime | None = None
    """When it became true, if the text or its message names another time than that of the message."""
    valid_to: datetime | None = None
    """When it stopped being true, if the text says so ("lived in Nairobi until 2010")."""
    forget: bool = False
    """The user asked to forget what `text` describes; the request itself is not stored."""
    hedged: bool = False
    """Stated as uncertain ("might move"): never retires anything."""
    rule: str = ""
    """The name of the rule that extracted it."""
    confidence: float = 1.0
    origin: str | None = None
    """Whose words it comes from if they are not the user's own (as `MemoryItem.origin`)."""
    quarantined: str | None = None
    """Why it is kept out of prompts; such a fact neither updates nor retires trusted memories."""

    def moved(self, places: int) -> Fact:
        """Return the fact with its sources shifted by so many positions."""
        return replace(self, sources=tuple(position + places for position in self.sources))


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A memory similar to a fact, which the curator compares with it."""

    item: MemoryItem
    similarity: float | None
    """Raw cosine between fact and memory, in [-1, 1]; None without an embedder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The decision about one fact.

    UPDATE and DELETE name a `target`; NONE may name the memory that already contains the fact. `links` names memories
    that the new one may have replaced: weaker evidence, which hides nothing (soft link).
    """

    event: Literal["ADD", "UPDATE", "DELETE", "NONE"]
    text: str = ""
    """The text to store (ADD, UPDATE); for UPDATE the merged one."""
    target: str | None = None
    rule: str = ""
    confidence: float = 1.0
    slots: Slots | None = None
    links: tuple[str, ...] = ()
