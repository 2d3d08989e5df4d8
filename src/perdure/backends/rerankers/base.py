"""The port of rerankers: a query and texts in, a score for each text out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar


class Reranker(ABC):
    """Scores texts by how well they answer a query, reading both together.

    Construction is cheap: what is heavy is loaded by the first call. Failures are RerankerError; missing weights or
    drivers are DependencyError, and `unavailable` tells them beforehand.
    """

    name: ClassVar[str]
    """The provider's name."""

    @abstractmethod
    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """One finite score for each text, in the order of the texts; higher is better, no texts give no scores.

        The scores are raw: they order the texts of one call and mean nothing beside another query's or another
        model's. The read path scales them. InvalidInputError for a query or texts that are no text.
        """

    def unavailable(self) -> str | None:
        """Why this reranker cannot work here (what to install), or None; must not load a model."""
        return None

    async def close(self) -> None:
        """Let go of every resource."""
