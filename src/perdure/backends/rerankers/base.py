"""The port of rerankers: a query and texts in, a score for each text out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar


class Reranker(ABC):
    """Scores texts by how well they answer a query, reading both together.

    Construction is cheap; the first call loads the model. Failures are RerankerError, or DependencyError for missing
    weights or drivers, which `unavailable` reports in advance.
    """

    name: ClassVar[str]
    """The provider's name."""

    @abstractmethod
    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one finite raw score for each text, in order; higher is better.

        Scores only order the texts of one call, and cannot be compared between queries or models; the read path scales
        them. InvalidInputError for a query or texts that are not text.
        """

    def unavailable(self) -> str | None:
        """Return why this reranker cannot work (what to install), or None, without loading a model."""
        return None

    async def close(self) -> None:
        """Release all resources."""
