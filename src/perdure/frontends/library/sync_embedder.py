"""The embedder of the synchronous library."""

from __future__ import annotations

from perdure.backends.embedders.base import Embedder
from perdure.frontends.library.portal import Synchronous, blocking


class SyncEmbedder(Synchronous[Embedder]):
    """The embedder in use, for callers without an event loop."""

    def __init__(self, embedder: Embedder) -> None:
        self._asynchronous = embedder

    @property
    def dimension(self) -> int:
        """Length of every vector."""
        return self._asynchronous.dimension

    @property
    def label(self) -> str:
        """The model of the vectors."""
        return self._asynchronous.label

    def get_dimension(self) -> int:
        """The same number, for callers that expect a method."""
        return self._asynchronous.dimension

    embed = blocking(Embedder.embed)
    embed_batch = blocking(Embedder.embed_batch)

    def score(self, similarity: float) -> float:
        """Convert a cosine into a score in [0, 1]."""
        return self._asynchronous.score(similarity)
