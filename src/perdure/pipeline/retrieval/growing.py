"""Arrays that grow at their end at a cost that does not depend on how long they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_DOUBLED = 4_096
"""Rows up to which room is doubled; of more a quarter is added, as what is not used is held all the same."""


class Growing:
    """A NumPy array of known row shape that rows are added to; `view` is what it holds."""

    __slots__ = ("_array", "_size")

    def __init__(self, dtype: DTypeLike, *shape: int) -> None:
        self._array: NDArray[Any] = np.zeros((1, *shape), dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def append(self, value: Any) -> None:
        """Add one row."""
        if self._size == len(self._array):
            self._make_room(self._size + 1)
        self._array[self._size] = value
        self._size += 1

    def extend(self, values: NDArray[Any]) -> None:
        """Add rows."""
        end = self._size + len(values)
        if end > len(self._array):
            self._make_room(end)
        self._array[self._size : end] = values
        self._size = end

    def _make_room(self, needed: int) -> None:
        room = len(self._array)
        room = max(needed, 2 * room if room < _DOUBLED else room + room // 4)
        grown = np.zeros((room, *self._array.shape[1:]), self._array.dtype)
        grown[: self._size] = self._array[: self._size]
        self._array = grown

    @property
    def room(self) -> int:
        """Bytes that it takes, with those that are not used yet."""
        return self._array.nbytes

    @property
    def view(self) -> NDArray[Any]:
        """The rows that were added, to be read and changed in place."""
        return self._array[: self._size]
