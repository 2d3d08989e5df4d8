"""BM25 over rows that hold each word once (see `perdure.domain.text.terms`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

K1 = 1.2
B = 0.75
"""BM25's usual constants (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009)."""


def rarity(total: int, found: int) -> float:
    """BM25's inverse document frequency of a word that `found` of `total` rows have; above 0 always."""
    return float(np.log1p((max(total, found) - found + 0.5) / (found + 0.5)))


def word_scores(weights: NDArray[np.float64], lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """BM25 of rows that share words: `weights` sums the rarities of those, `lengths` counts the words of each row.

    A memory is one statement, so a word counts once however often it stands there (term frequency 1); lengths are
    measured against the mean of the rows given. Shapes (n,), results above 0.
    """
    mean = lengths.mean() if len(lengths) else 1.0
    scores: NDArray[np.float64] = weights * (K1 + 1) / (1 + K1 * (1 - B + B * lengths / max(mean, 1.0)))
    return scores


def sum_rarities(postings: Sequence[NDArray[np.int64]], total: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The rows that have some word, ascending, and the sum of the rarities of those they have; one posting a word."""
    found = [posting for posting in postings if len(posting)]
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.float64)
    rows, places = np.unique(np.concatenate(found), return_inverse=True)
    rarities = np.concatenate([np.full(len(posting), rarity(total, len(posting))) for posting in found])
    weights: NDArray[np.float64] = np.bincount(places.ravel(), rarities, len(rows)).astype(np.float64)
    return rows, weights
