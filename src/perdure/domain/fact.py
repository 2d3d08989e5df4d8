"""A fact that a curator extracted from a conversation, before it is reconciled with known memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, Protocol

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
    language: str = ""
    """Of a request to forget whose matter is in the user's own words (es, pt, it, fr or de); empty for English."""
    hedged: bool = False
    """Stated as uncertain ("might move"): never retires anything."""
    ahead: bool = False
    """Told for a later time than that of its message ("is moving to York in January"): it ends nothing that holds."""
    corrects: bool = False
    """It expressly takes back what was said before it ("no wait", "I mean")."""
    rule: str = ""
    """The name of the rule that extracted it."""
    confidence: float = 1.0
    origin: str | None = None
    """Whose words it comes from if they are not the user's own (as `MemoryItem.origin`)."""
    quarantined: str | None = None
    """Why it is kept out of prompts; such a fact neither updates nor retires trusted memories."""
    passage: str = ""
    """The sentence of its message that it is from, with its neighbours, as typed; empty if it says no more."""

    def moved(self, places: int) -> Fact:
        """Return the fact with its sources shifted by so many positions."""
        return replace(self, sources=tuple(position + places for position in self.sources))


@dataclass(frozen=True, slots=True)
class Relation:
    """How a newer statement stands to an older one: probabilities, which sum to 1."""

    replaces: float
    """The older one no longer holds."""
    same: float
    """The older one says all that the newer one does."""
    refines: float
    """The newer one says the same more exactly."""
    beside: float
    """Both hold, of one topic."""
    unrelated: float


class PairJudge(Protocol):
    """Judges two texts that are read together; synchronous, and any number of threads may ask at once."""

    def relations(self, pairs: Sequence[tuple[str, str]]) -> list[Relation]:
        """Return how each newer statement stands to the older one beside it."""

    def worth(self, model: str, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return how likely each is worth keeping: a `sentence` after a message, or a `fact` of a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A memory similar to a fact, which the curator compares with it."""

    item: MemoryItem
    similarity: float | None
    """Raw cosine between fact and memory, in [-1, 1]; None without an embedder."""
    beside: bool = False
    """Whether an earlier sentence of the fact's own message gave the memory its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The decision about one fact.

    UPDATE and DELETE name a `target`; NONE may name the memory that already contains the fact. `links` names memories
    that the new one may have replaced: weaker evidence, which hides nothing (soft link).
    """

    event: Literal["ADD", "UPDATE", "DELETE", "NONE"]
    text: str = ""
    """The text to store (ADD, UPDATE), for UPDATE the merged one; for DELETE what stays of it, "" if nothing does."""
    target: str | None = None
    rule: str = ""
    confidence: float = 1.0
    slots: Slots | None = None
    links: tuple[str, ...] = ()
