"""Reranking: a model reads question and memory together; where it fails the order stands as it was (U21)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perdure.domain.errors import RerankerError
from perdure.engine.kernel import Kernel
from perdure.engine.soft import given_up
from perdure.pipeline.recall.min_max import min_max


async def relevance(
    kernel: Kernel, query: str, texts: Sequence[str], scores: Sequence[float], warnings: list[str]
) -> list[float]:
    """The reranker's scores from 0 to 1 over the candidates (K28, K29); `scores`, likewise, where it fails."""
    if kernel.reranker is not None and texts:
        with given_up("the memories found are not reranked", warnings):
            found = await kernel.reranker.rerank(query, list(texts))
            if len(found) != len(texts) or not all(map(math.isfinite, found)):
                raise RerankerError(f"{kernel.reranker.name} gave no finite score for each of {len(texts)} memories")
            return min_max(found)
    return min_max(scores)
