"""Newer before older, where a memory is known to have possibly replaced another (soft link, DESIGN §4)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from perdure.domain.memory import MemoryItem


def newer_first(items: Sequence[MemoryItem]) -> list[MemoryItem]:
    """The same items, best first, each standing before those that it may have replaced.

    Items that are linked, if only by way of others, share out their places and the scores of these anew; nothing else
    moves, and nothing is hidden. Where links run in a circle, the better item counts as the newer one.
    """
    ordered = list(items)
    place = {item.id: position for position, item in enumerate(items)}
    older = [[place[id] for id in item.older if id in place and id != item.id] for item in items]
    if not any(older):
        return ordered
    for group in _linked(older):
        for position, newest in zip(sorted(group), _newest_first(group, older), strict=True):
            ordered[position] = items[newest].with_(score=items[position].score)
    return ordered


def _linked(older: Sequence[Sequence[int]]) -> Iterator[set[int]]:
    """The groups of positions that links hold together, of two or more."""
    beside: list[list[int]] = [list(each) for each in older]
    for newer, each in enumerate(older):
        for position in each:
            beside[position].append(newer)
    seen: set[int] = set()
    for start in range(len(older)):
        if start in seen or not beside[start]:
            continue
        group, waiting = {start}, [start]
        while waiting:
            for position in beside[waiting.pop()]:
                if position not in group:
                    group.add(position)
                    waiting.append(position)
        seen |= group
        yield group


def _newest_first(group: set[int], older: Sequence[Sequence[int]]) -> list[int]:
    """The positions of a group, each before its older ones, else the best first (Kahn's algorithm)."""
    newer = dict.fromkeys(group, 0)
    for position in group:
        for other in older[position]:
            newer[other] += 1
    free = [position for position in group if not newer[position]]
    heapq.heapify(free)
    order: list[int] = []
    left = set(group)
    while left:
        position = heapq.heappop(free) if free else min(left)  # min: links run in a circle
        if position not in left:
            continue
        left.remove(position)
        order.append(position)
        for other in older[position]:
            newer[other] -= 1
            if not newer[other]:
                heapq.heappush(free, other)
    return order
