"""Exact cosine similarity over rows of float32 vectors.

A fast float32 product orders the rows; those near the cut are scored again in float64, one row at a time, so that equal
vectors get equal scores wherever they stand, and ties can be broken by id.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perdure.backends.vector_stores.base import Vector

Matrix = NDArray[np.float32]
Scores = NDArray[np.float64]

MARGIN = 4e-6
"""More than a float32 product of unit vectors of 4,096 numbers is ever off (about sqrt(4096) half-ulps of 6e-8)."""

_SAFE = (1e-15, 1e15)
"""Lengths whose squares float32 can hold without loss; beyond them float64 measures."""


def unit_rows(rows: Matrix) -> Matrix:
    """The rows scaled to length 1, as a new array of shape (n, dimension); zero vectors stay zero."""
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
    """The vector scaled to length 1; the zero vector stays zero."""
    row: Vector = unit_rows(vector[None, :])[0]
    return row


def exact_scores(units: Matrix, query: Vector) -> Scores:
    """The cosine in [-1, 1] of each unit row with the unit query, shape (n,), the same for equal rows."""
    products: Scores = (units.astype(np.float64) * query.astype(np.float64)).sum(axis=1)
    return np.clip(products, -1.0, 1.0)
