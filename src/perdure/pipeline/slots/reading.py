"""The reading of one statement: who it is about, what it says of them, and how."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from perdure.pipeline.slots.values import Value

USER = "@user"
"""The concept of the user as a participant in a predicate ("Bente has a key to User's house")."""


@dataclass(frozen=True, slots=True)
class Party:
    """Someone or something that statements are about.

    `relation` is what they are to `of` ("sister" of the user), `name` the stems of what they are called; the user has
    neither. A thing that belongs to nobody has kind "thing" and no name: its words are the statement's topic.
    """

    kind: Literal["user", "relative", "named", "thing"]
    relation: str = ""
    name: str = ""
    of: str = USER


@dataclass(frozen=True, slots=True)
class Chunk:
    """One phrase of a predicate: the word that leads it ("" for an object), its concepts in order, its values."""

    lead: str
    concepts: tuple[str, ...]
    names: frozenset[str] = frozenset()
    values: tuple[Value, ...] = ()
    start: int = 0
    end: int = 0
    aside: bool = False
    """Stands in a subordinate clause: a reason, a circumstance, a result."""

    @property
    def head(self) -> str:
        """The concept that the phrase is about: its last one."""
        return self.concepts[-1] if self.concepts else ""


@dataclass(frozen=True, slots=True)
class Slot:
    """One attribute that a statement fills: the concepts and typed values of its value."""

    attribute: str
    concepts: tuple[str, ...]
    values: tuple[Value, ...] = ()
    text: str = ""
    single: bool = True
    names: frozenset[str] = frozenset()
    start: int = 0
    end: int = 0
    """Where the value stands in the rewritten text."""


@dataclass(frozen=True, slots=True)
class Mood:
    """How a statement is made.

    negated: said not to be so; ended: no longer so; hedged: uncertain or conditional; planned: intended, not done;
    past: told in the past tense; denied: an earlier statement was untrue.
    """

    negated: bool = False
    ended: bool = False
    hedged: bool = False
    planned: bool = False
    past: bool = False
    denied: bool = False
    started: bool = False
    changed: bool = False
    """Says that something changed: now, moved to, instead, again."""
    temporary: bool = False
    corrected: bool = False
    """Says that an earlier telling was wrong."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A statement taken apart."""

    text: str
    party: Party
    topic: tuple[str, ...]
    """Concepts of the thing that the sentence is about, the head last ("architect meeting")."""
    topic_values: tuple[Value, ...]
    topic_names: frozenset[str]
    verb: str
    chunks: tuple[Chunk, ...]
    mood: Mood
    slots: tuple[Slot, ...] = ()
    replaced: tuple[tuple[str, ...], ...] = ()
    """What the statement names as given up: the concepts of A in "from A to B", "B instead of A", "not A"."""
    replaced_values: tuple[Value, ...] = ()
    concepts: frozenset[str] = field(default_factory=frozenset)
    names: frozenset[str] = field(default_factory=frozenset)
    values: tuple[Value, ...] = ()

    turned: Reading | None = None
    """The same said from the other side ("Marek sold User the tent": User bought it from Marek)."""

    @property
    def main(self) -> tuple[Chunk, ...]:
        """The phrases of the main clause."""
        return tuple(chunk for chunk in self.chunks if not chunk.aside)
