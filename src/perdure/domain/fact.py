"""A fact on its way into memory: what a curator read in a conversation, before it is reconciled with what is known."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from perdure.domain.memory import MemoryItem, Slots


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One readable third-person statement ("User moved to Lisbon")."""

    text: str
    sources: tuple[int, ...] = ()
    """Positions, in the list of messages given to the curator, of those that it came from."""
    type: Literal["semantic", "procedural", "episodic", "reflective"] = "semantic"
    valid_from: datetime | None = None
    """When it became true, if the text or its message tells a time other than the telling."""
    valid_to: datetime | None = None
    """When it stopped being true, if that was said ("lived in Nairobi until 2010")."""
    forget: bool = False
    """The user asked to forget what `text` names; nothing is stored of the request itself."""
    hedged: bool = False
    """Said as uncertain ("might move"): never retires anything."""
    rule: str = ""
    """The name of the rule that read it."""
    confidence: float = 1.0
    origin: str | None = None
    """Whose words it is made of where these were not the user's own (as `MemoryItem.origin`)."""
    quarantined: str | None = None
    """Why it is kept out of prompts, and neither updates nor retires what is trusted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A memory that stands near a fact: what a curator decides against."""

    item: MemoryItem
    similarity: float | None
    """Raw cosine between fact and memory, in [-1, 1]; None without an embedder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is to be done with one fact.

    UPDATE and DELETE name a `target`, NONE may name the memory that holds the fact already. `links` names memories
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
