"""Scores of rows: exact cosine similarity, and BM25 without term frequency (`perdure.domain.text.terms`).

A fast float32 product orders the rows; those near the cut are scored again in float64, row by row, so that equal
vectors get equal scores, and ties are broken by id.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from perdure.backends.vector_stores.base import Vector

Matrix = NDArray[np.float32]
Scores = NDArray[np.float64]
MARGIN = 4e-6
"""More than a float32 product of unit vectors of 4,096 numbers is ever off (about sqrt(4096) half-ulps of 6e-8)."""

_SAFE = (1e-15, 1e15)  # lengths whose squares float32 can hold without loss; beyond them float64 measures


def unit_rows(rows: Matrix) -> Matrix:
    """Return the rows scaled to length 1, as a new array of shape (n, dimension); zero vectors stay zero."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    odd = ~((lengths > _SAFE[0]) & (lengths < _SAFE[1]))
    if not odd.any():
        units: Matrix = rows / lengths[:, None]
        return units
    units = (rows / np.where(odd, 1, lengths)[:, None]).astype(np.float32)
    exact = rows[odd].astype(np.float64)
    exact_lengths = np.sqrt(np.einsum("ij,ij->i", exact, exact))
    exact_lengths[exact_lengths == 0] = 1
    units[odd] = exact / exact_lengths[:, None]
    return units


def unit(vector: Vector) -> Vector:
    """Return the vector scaled to length 1; the zero vector stays zero."""
    row: Vector = unit_rows(vector[None, :])[0]
    return row


def exact_scores(units: Matrix, query: Vector) -> Scores:
    """Return the cosine in [-1, 1] of each unit row with the unit query, shape (n,), equal for equal rows."""
    products: Scores = (units.astype(np.float64) * query.astype(np.float64)).sum(axis=1)
    return np.clip(products, -1.0, 1.0)


K1 = 1.2
B = 0.75  # BM25's usual constants (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009)


def rarity(total: int, found: int) -> float:
    """Return BM25's inverse document frequency of a word in `found` of `total` rows; always above 0."""
    return float(np.log1p((max(total, found) - found + 0.5) / (found + 0.5)))


def word_scores(weights: NDArray[np.float64], lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return BM25 of rows that share words: `weights` are their summed rarities, `lengths` the words of each row.

    A memory is one statement, so a word counts once (term frequency 1); lengths are relative to the mean of the given
    rows. Shapes (n,), results above 0.
    """
    mean = lengths.mean() if len(lengths) else 1.0
    scores: NDArray[np.float64] = weights * (K1 + 1) / (1 + K1 * (1 - B + B * lengths / max(mean, 1.0)))
    return scores


def sum_rarities(postings: Sequence[NDArray[np.int64]], total: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the rows with some word, ascending, and the sum of their words' rarities; one posting for each word."""
    found = [posting for posting in postings if len(posting)]
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.float64)
    rows, places = np.unique(np.concatenate(found), return_inverse=True)
    rarities = np.concatenate([np.full(len(posting), rarity(total, len(posting))) for posting in found])
    weights: NDArray[np.float64] = np.bincount(places.ravel(), rarities, len(rows)).astype(np.float64)
    return rows, weights
