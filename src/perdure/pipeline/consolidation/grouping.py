"""Which memories belong together: of one family, and alike in their words or telling of one slot (B12)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from perdure.domain.pattern import Pattern
from perdure.pipeline.consolidation.line import Line, Step, line_of, step_of

ALIKE: Final = 0.60
"""Word Jaccard from which two texts are of one group (B12)."""

_WORD = Pattern(r"\w+")

_Read = tuple[Line | None, Step | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A memory that may be merged with others of its family, and never with any of another."""

    id: str
    text: str
    family: Hashable
    """All that the members of one group must have in common: walls, type, trust."""
    told_at: str = ""
    """ISO 8601; orders the members of a group."""


def groups(members: Sequence[Member]) -> tuple[tuple[str, ...], ...]:
    """The members' ids in groups, each id in exactly one, alone where nothing is like it.

    Two are linked where they are of one family, and their words' Jaccard is `ALIKE` at least, or both fill the same
    single-valued slot, or one tells by how much the other's amount changed; a group is whatever links connect (single
    linkage), so that the order given plays no part. Oldest first in a group, and groups by their oldest. Time grows
    with the square of the number: meant for 100 (B12).
    """
    ordered = sorted(members, key=lambda member: (member.told_at, member.id))
    words = [frozenset(_WORD.findall(member.text.casefold())) for member in ordered]
    read = [(line_of(member.text), step_of(member.text)) for member in ordered]
    parent = list(range(len(ordered)))

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = place = parent[parent[place]]
        return place

    for right, member in enumerate(ordered):
        for left in range(right):
            if ordered[left].family != member.family:
                continue
            if _same_matter(read[left], read[right]) or _jaccard(words[left], words[right]) >= ALIKE:
                parent[max(root(left), root(right))] = min(root(left), root(right))
    found: dict[int, list[str]] = {}
    for place, member in enumerate(ordered):
        found.setdefault(root(place), []).append(member.id)
    return tuple(tuple(ids) for ids in found.values())


def _same_matter(one: _Read, other: _Read) -> bool:
    """Whether both fill one slot, or one tells of a step between two values of the other's."""
    (line, step), (another, other_step) = one, other
    if line is not None and another is not None:
        return line.key == another.key
    return (step is not None and another is not None and step.is_of(another)) or (
        other_step is not None and line is not None and other_step.is_of(line)
    )


def _jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    either = left | right
    return len(left & right) / len(either) if either else 0.0
