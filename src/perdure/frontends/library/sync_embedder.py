"""SyncEmbedder: an embedder for callers without an event loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from perdure.backends.embedders.base import Embedder
from perdure.frontends.library.portal import PORTAL


class SyncEmbedder:
    """The embedder in use, for callers without an event loop."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def dimension(self) -> int:
        """Length of every vector."""
        return self._embedder.dimension

    @property
    def label(self) -> str:
        """Which model's vectors these are."""
        return self._embedder.label

    def get_dimension(self) -> int:
        """The same number, for callers that expect a method."""
        return self._embedder.dimension

    def embed(self, text: str) -> NDArray[np.float32]:
        """The vector of one text, of shape (dimension,)."""
        return PORTAL.call(self._embedder.embed(text))

    def embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of texts, of shape (len(texts), dimension)."""
        return PORTAL.call(self._embedder.embed_batch(texts))

    def score(self, similarity: float) -> float:
        """A cosine as a score in [0, 1]."""
        return self._embedder.score(similarity)
