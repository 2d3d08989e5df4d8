"""Undecided: what the rules left for a person to judge, in the whole store; only reads, a page at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from perdure.domain.memory import MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.kernel import Kernel
from perdure.engine.visibility import visible

PAGE = 500
"""Rows read at a time."""


@dataclass(slots=True)
class Undecided:
    """Ids of memories, oldest first."""

    quarantined: list[str] = field(default_factory=list)
    """Memories that are kept out of prompts."""
    pairs: list[tuple[str, str]] = field(default_factory=list)
    """A memory, and one that it may have replaced: both stand, and both are valid."""


async def undecided(kernel: Kernel) -> Undecided:
    """Memories in quarantine, and contradictions that were linked and not settled (V73)."""
    found = Undecided()
    linked: dict[str, tuple[str, ...]] = {}
    async for item in _standing(kernel):
        if item.quarantined is not None:
            found.quarantined.append(item.id)
        if item.older:
            linked[item.id] = item.older
    named = sorted({id for older in linked.values() for id in older})
    valid: set[str] = set()
    for start in range(0, len(named), PAGE):
        some = await kernel.store.get_many(kernel.collection, named[start : start + PAGE])
        valid.update(point.id for point in some if point.payload.get("valid_to") is None)
    found.pairs = [(id, each) for id, older in linked.items() for each in older if each in valid]
    return found


async def _standing(kernel: Kernel) -> AsyncIterator[MemoryItem]:
    """Every memory that is valid now, oldest first."""
    within = visible(Scope(), now=kernel.ticker.now())
    cursor: str | None = None
    while True:
        page = await kernel.store.list(kernel.collection, within, PAGE, cursor)
        for point in page.points:
            yield MemoryItem.from_payload(point.payload)
        cursor = page.next_cursor
        if cursor is None:
            return
