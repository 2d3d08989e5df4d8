"""Vectors for the wire servers: the same text has the same one, and texts that share words are near."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


def vector_of(text: str, dimension: int) -> NDArray[np.float32]:
    """A vector of length 1: the sum of its words' directions, and a little of the whole text's own."""
    total = 0.3 * _direction(f"text {text}", dimension)
    for word, count in Counter(re.findall(r"\w+", text.lower())).items():
        total = total + count * _direction(f"word {word}", dimension)
    return np.asarray(total / np.linalg.norm(total), dtype=np.float32)


@lru_cache(maxsize=4096)
def _direction(name: str, dimension: int) -> NDArray[np.float64]:
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    return np.random.default_rng(seed).standard_normal(dimension) / dimension**0.5
