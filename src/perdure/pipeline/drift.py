"""Drift: whether two turns are about different things (001 §6, V66)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perdure.pipeline.lexicon import words

LEAST_WORDS = 3
"""Words that carry a topic which a message must have: "and in May?" goes on with what was talked about."""


def has_drifted(before: NDArray[np.float32], now: NDArray[np.float32], threshold: float) -> bool:
    """Whether the cosine of two turns' vectors is below the threshold; vectors of zeros tell nothing."""
    norm = float(np.linalg.norm(before) * np.linalg.norm(now))
    return norm > 0 and float(before @ now) / norm < threshold


def tells_a_topic(text: str) -> bool:
    """Whether a message has words enough of its own to be compared by."""
    stop = words("recall_stopwords.txt")
    return sum(1 for word in text.casefold().split() if word.strip(".,;:!?") not in stop) >= LEAST_WORDS
