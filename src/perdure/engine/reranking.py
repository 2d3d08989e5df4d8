"""Reranking: a model reads question and memory together; where it fails the order stands as it was (U21)."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.engine.kernel import Kernel
from perdure.engine.soft import given_up
from perdure.pipeline.recall.min_max import min_max


async def relevance(
    kernel: Kernel, query: str, texts: Sequence[str], scores: Sequence[float], warnings: list[str]
) -> list[float]:
    """The reranker's scores from 0 to 1 over the candidates (K28, K29); `scores`, likewise, where it fails."""
    if kernel.reranker is not None and texts:
        with given_up("the memories found are not reranked", warnings):
            return min_max(await kernel.reranker.rerank(query, list(texts)))
    return min_max(scores)
