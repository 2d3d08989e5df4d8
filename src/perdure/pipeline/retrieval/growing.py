"""Arrays that grow at their end at a cost independent of their length."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_DOUBLED = 4_096
"""Up to so many rows the capacity is doubled; beyond that it grows by a quarter, because unused rows take memory."""


class Growing:
    """A NumPy array of a fixed row shape to which rows are added; `view` is its content."""

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
        """Bytes of its capacity."""
        return self._array.nbytes

    @property
    def view(self) -> NDArray[Any]:
        """The added rows, which may be changed in place."""
        return self._array[: self._size]
