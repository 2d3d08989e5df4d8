"""The port of embedders: text in, unit vectors out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from perdure.domain.fact import PairJudge

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HINT = ": use embed() for one text"  # the advice to callers that give one text instead of a list


class Embedder(ABC):
    """Turns texts into float32 vectors of one dimension.

    Construction is cheap; the first call loads the model. Errors are EmbeddingError, or DependencyError for missing
    weights or drivers, which `unavailable` reports in advance.
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
        """The id of the model and its settings; vectors of different labels are never compared."""
        return f"{self.name}-{self.dimension}"

    @property
    def english_only(self) -> bool:
        """Whether it reads English alone: to it, all sentences of another language resemble each other."""
        return False

    @abstractmethod
    async def embed_batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return vectors of shape (len(texts), dimension), in order; an empty array for no texts."""

    async def embed(self, text: str) -> NDArray[np.float32]:
        """Return the vector of one text, of shape (dimension,)."""
        import numpy as np

        vectors = await self.embed_batch([text])
        return np.asarray(vectors[0], dtype=np.float32)

    def get_dimension(self) -> int:
        """Return `dimension`, as a method of the public API."""
        return self.dimension

    def unavailable(self) -> str | None:
        """Return why this embedder cannot work (what to install), or None, without loading a model."""
        return None

    def score(self, similarity: float) -> float:
        """Convert a cosine to a score in [0, 1] that means the same for all embedders; else max(0, cosine)."""
        return min(1.0, max(0.0, similarity))

    def judge(self) -> PairJudge | None:
        """Return the judge that shares this embedder's model, or None; loads it, which may take half a second."""
        return None

    async def close(self) -> None:
        """Release all resources."""
