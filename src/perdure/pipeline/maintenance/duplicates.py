"""Duplicates: pairs of texts that say the same, by their letters or by their vectors."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SAME_MEANING = 0.97
"""Cosine from which two texts are taken to say the same. With `minilm`, facts that differ in a number ("weighs 70 kg",
"weighs 71 kg") reach 0.958, and rewordings of one fact 0.835 to 0.975: a pair that is told hardly ever is none."""
AT_A_TIME = 1_024
"""Rows that are held against all others in one go: 40 MB for 10,000 texts."""


def folded(text: str) -> str:
    """The text without what does not change its meaning: case, width, white space, and the marks at its end."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(" .!")


def duplicate_pairs(
    texts: Sequence[str], vectors: Sequence[NDArray[np.float32] | None], shown: int
) -> tuple[int, list[tuple[int, int]]]:
    """How many pairs of the texts say the same, and the places of the first `shown` of them, the lower one first.

    They are equal once `folded`, or their vectors have a cosine of at least `SAME_MEANING`; a vector may be None. Takes
    time that grows with the square of the number of texts: 10,000 of them three seconds on two cores.
    """
    units = _units(vectors)
    numbers: dict[str, int] = {}
    says = np.array([numbers.setdefault(folded(text), len(numbers)) for text in texts], dtype=np.int64)
    places = np.arange(len(texts))
    count, pairs = 0, list[tuple[int, int]]()
    for start in range(0, len(texts), AT_A_TIME):
        rows = slice(start, start + AT_A_TIME)
        same = (units[rows] @ units.T >= SAME_MEANING) | (says[rows, None] == says[None, :])
        same &= places[rows, None] < places[None, :]
        count += int(np.count_nonzero(same))
        if len(pairs) < shown:
            pairs += [(start + int(row), int(column)) for row, column in np.argwhere(same)[: shown - len(pairs)]]
    return count, pairs


def _units(vectors: Sequence[NDArray[np.float32] | None]) -> NDArray[np.float32]:
    """The vectors at length 1, of shape (texts, dimension); zeros for those that there are not."""
    dimension = next((len(vector) for vector in vectors if vector is not None), 0)
    units = np.zeros((len(vectors), dimension), dtype=np.float32)
    for row, vector in enumerate(vectors):
        length = 0.0 if vector is None else float(np.linalg.norm(vector))
        if vector is not None and length > 0:
            units[row] = vector / length
    return units
