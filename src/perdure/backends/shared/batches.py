"""Lists within a service's limits."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def bounded_batches(
    items: Iterable[T], size_of: Callable[[T], int], *, most_size: int, most_items: int = sys.maxsize
) -> Iterator[list[T]]:
    """Split items, in order, into lists within both limits; an item beyond `most_size` is alone."""
    batch: list[T] = []
    total = 0
    for item in items:
        size = size_of(item)
        if batch and (len(batch) >= most_items or total + size > most_size):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size
    if batch:
        yield batch
