"""Passage vectors as text that stands in a row's payload: a byte for each number, which keeps a cosine to .005."""

from __future__ import annotations

import base64
import binascii

import numpy as np
from numpy.typing import NDArray

_STEPS = 127.0


def pack(vectors: NDArray[np.float32]) -> str:
    """Vectors of shape (n, dimension) as base64: of each its direction, as signed bytes."""
    largest = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return base64.b64encode(np.round(vectors / largest * _STEPS).astype(np.int8).tobytes()).decode()


def unpack(text: object, dimension: int) -> NDArray[np.float32]:
    """The vectors that `pack` made text of, each of length 1; of shape (0, dimension) for anything else."""
    try:
        data = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        data = b""
    if not data or len(data) % dimension:
        return np.zeros((0, dimension), np.float32)
    steps = np.frombuffer(data, np.int8).reshape(-1, dimension).astype(np.float32)
    lengths = np.linalg.norm(steps, axis=1, keepdims=True)
    return (steps / np.where(lengths > 0, lengths, 1)).astype(np.float32)
