"""The memories that a batch has written so far and the store does not have yet: searched as the store searches."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from perdure.backends.vector_stores.base import Vector
from perdure.domain.fact import Neighbour
from perdure.domain.memory import MemoryItem, Slots
from perdure.pipeline.words import tokens

_FIRST_ROWS = 16


class FreshRows:
    """Rows of one batch, written and dropped in any order; each look costs one product of matrix and vector."""

    def __init__(self) -> None:
        self._items: list[MemoryItem | None] = []
        self._words: list[frozenset[str]] = []
        self._units: NDArray[np.float32] | None = None
        self._places: dict[str, int] = {}
        self._slots: dict[tuple[str, str], dict[int, None]] = {}

    def __contains__(self, id: object) -> bool:
        return id in self._places

    def put(self, item: MemoryItem, vector: Vector | None) -> None:
        """Write a row, in the place of one with its id."""
        self.drop(item.id)
        place = self._places[item.id] = len(self._items)
        self._items.append(item)
        self._words.append(frozenset(tokens(item.memory)))
        if vector is not None:
            norm = float(np.linalg.norm(vector))
            self._room(place, len(vector))[place] = vector / norm if norm > 0 else vector
        if item.slots is not None:
            self._slots.setdefault((item.slots.subject, item.slots.attribute), {})[place] = None

    def drop(self, id: str) -> None:
        """Remove a row, if there is one."""
        place = self._places.pop(id, None)
        if place is None:
            return
        item, self._items[place] = self._items[place], None
        if item is not None and item.slots is not None:
            self._slots[item.slots.subject, item.slots.attribute].pop(place)

    def near(
        self, text: str, vector: Vector | None, slots: Slots | None, *, limit: int, same_slot: int
    ) -> list[Neighbour]:
        """The `limit` rows nearest in meaning, in words where there is no vector, and some of the same slot."""
        if not self._places:
            return []
        cosines = self._cosines(vector)
        order = self._by_words(text) if cosines is None else np.argsort(-cosines, kind="stable")
        places = dict.fromkeys(self._living(order, limit))
        if slots is not None:
            places.update(dict.fromkeys(list(self._slots.get((slots.subject, slots.attribute), ()))[-same_slot:]))
        return [self._neighbour(place, cosines) for place in places]

    def _living(self, order: Iterable[int], limit: int) -> list[int]:
        found: list[int] = []
        for place in order:
            if len(found) == limit:
                break
            if self._items[place] is not None:
                found.append(int(place))
        return found

    def _neighbour(self, place: int, cosines: NDArray[np.float32] | None) -> Neighbour:
        item = self._items[place]
        assert item is not None, "dropped rows are nobody's neighbours"
        return Neighbour(item=item, similarity=None if cosines is None else float(np.clip(cosines[place], -1.0, 1.0)))

    def _cosines(self, vector: Vector | None) -> NDArray[np.float32] | None:
        if vector is None or self._units is None:
            return None
        norm = float(np.linalg.norm(vector))
        rows = self._room(len(self._items) - 1, len(vector))[: len(self._items)]
        return np.asarray(rows @ (vector / norm if norm > 0 else vector), dtype=np.float32)

    def _by_words(self, text: str) -> list[int]:
        asked = frozenset(tokens(text))
        shared = [(len(asked & words), place) for place, words in enumerate(self._words)]
        return [place for count, place in sorted(shared, reverse=True) if count]

    def _room(self, place: int, dimension: int) -> NDArray[np.float32]:
        """The matrix of unit vectors with a row for the place: doubled when it is full; a row without a vector is 0."""
        if self._units is None or place >= len(self._units):
            grown = np.zeros((max(_FIRST_ROWS, 2 * (place + 1)), dimension), dtype=np.float32)
            if self._units is not None:
                grown[: len(self._units)] = self._units
            self._units = grown
        return self._units
