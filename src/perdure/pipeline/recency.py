"""Newer before older, where a memory is known to have possibly replaced another (soft link, DESIGN §4)."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.domain.memory import MemoryItem


def newer_first(items: Sequence[MemoryItem]) -> list[MemoryItem]:
    """The same items, best first, each standing before those that it may have replaced.

    A newer item that was found below an older one trades places and scores with it; nothing is hidden. A step over at
    most len(items) links, each looked at once from the best item down.
    """
    ordered = list(items)
    for _ in range(len(ordered)):
        place = {item.id: position for position, item in enumerate(ordered)}
        swap = next(
            (
                (place[older], position)
                for position, item in enumerate(ordered)
                for older in item.older
                if place.get(older, position) < position and item.id not in ordered[place[older]].older
            ),
            None,
        )
        if swap is None:
            break
        above, below = swap
        older, newer = ordered[above], ordered[below]
        ordered[above] = newer.with_(score=older.score)
        ordered[below] = older.with_(score=newer.score)
    return ordered
