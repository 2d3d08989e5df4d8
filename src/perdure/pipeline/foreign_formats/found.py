"""What a reader finds in another tool's export: facts, conversations, what it leaves out, and what is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ForeignFact:
    """A memory of another tool; `line` says it as a line of perdure's own archive would."""

    where: str
    line: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ForeignTalk:
    """A conversation: its messages in order, each with role, content, id, and a timestamp where one is known.

    `id` is the tool's own; a message's `id` is the same in every export, so that a second import knows the message.
    """

    where: str
    source: str
    id: str
    title: str | None
    messages: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something sound that is no memory, and why; `where` is for people and says no more than names and numbers."""

    reason: str
    where: str


@dataclass(frozen=True, slots=True)
class Damaged:
    """Something that should be a memory or a conversation and cannot be read."""

    reason: str
    where: str


Found = ForeignFact | ForeignTalk | LeftOut | Damaged
"""What a reader finds."""


class Reader(Protocol):
    """Reads the items of one format, one after the other."""

    def read(self, value: Any, where: str) -> Iterator[Found]:
        """What an item holds; `where` is its place in the file."""
        ...

    def finish(self) -> Iterator[Found]:
        """What can be told only after the last item."""
        ...


def branch_to(leaf: str | None, parents: dict[str, str | None]) -> list[str]:
    """The nodes from the root to a leaf; a circle ends where it closes."""
    taken: dict[str, None] = {}
    node = leaf
    while node is not None and node in parents and node not in taken:
        taken[node] = None
        node = parents[node]
    return list(taken)[::-1]


def newest_leaf(parents: dict[str, str | None], times: dict[str, str]) -> str | None:
    """The leaf with the latest time, the later in the file among equals; None where there is no leaf."""
    inner = set(parents.values())
    best: str | None = None
    for node in parents:
        if node not in inner and (best is None or times.get(node, "") >= times.get(best, "")):
            best = node
    return best
