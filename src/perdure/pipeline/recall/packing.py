"""Passage vectors as text that stands in a row's payload: a byte for each number, which keeps a cosine to .005."""

from __future__ import annotations

import base64
import binascii

import numpy as np
from numpy.typing import NDArray

_STEPS = 127.0


def pack(vectors: NDArray[np.float32]) -> str:
    """Vectors of shape (n, dimension) as base64: for each a float32 scale, then its numbers as signed bytes."""
    scales = np.maximum(np.abs(vectors).max(axis=1), np.finfo(np.float32).tiny).astype("<f4")
    steps = np.round(vectors / scales[:, None] * _STEPS).astype(np.int8)
    return base64.b64encode(b"".join(s.tobytes() + v.tobytes() for s, v in zip(scales, steps, strict=True))).decode()


def unpack(text: object, dimension: int) -> NDArray[np.float32]:
    """The vectors that `pack` made text of, each of length 1; of shape (0, dimension) for anything else."""
    try:
        data = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        data = b""
    size = dimension + 4
    if not data or len(data) % size:
        return np.zeros((0, dimension), np.float32)
    steps = np.frombuffer(data, np.int8).reshape(-1, size)[:, 4:].astype(np.float32)
    lengths = np.linalg.norm(steps, axis=1, keepdims=True)
    return (steps / np.where(lengths > 0, lengths, 1)).astype(np.float32)
