"""The port of embedders: text in, unit vectors out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

HINT = ": use embed() for one text"
"""The advice to callers that give one text instead of a list."""


class Embedder(ABC):
    """Turns texts into float32 vectors of one dimension.

    Construction is cheap: what is heavy is loaded by the first call. Failures are EmbeddingError; missing weights or
    drivers are DependencyError; `unavailable` gives the reason beforehand.
    """

    name: ClassVar[str]
    """The provider's name."""
    local: bool = False
    """Whether texts are embedded on this machine, where a thousand single words cost nothing but a moment."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Length of every vector, known without loading a model."""

    @property
    def label(self) -> str:
        """Which model's vectors these are: vectors of two labels are never compared."""
        return f"{self.name}-{self.dimension}"

    @abstractmethod
    async def embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of shape (len(texts), dimension), in order; an empty list gives an empty array."""

    async def embed(self, text: str) -> NDArray[np.float32]:
        """The vector of one text, of shape (dimension,)."""
        vectors = await self.embed_batch([text])
        return np.asarray(vectors[0], dtype=np.float32)

    def get_dimension(self) -> int:
        """`dimension`, as a method of the public API."""
        return self.dimension

    def unavailable(self) -> str | None:
        """Why this embedder cannot work here (what to install), or None; must not load a model."""
        return None

    def score(self, similarity: float) -> float:
        """The cosine as a score in [0, 1] that means the same for every embedder: max(0, cosine) if unknown."""
        return min(1.0, max(0.0, similarity))

    async def close(self) -> None:
        """Let go of every resource."""
