"""Min-max scaling: scores of any unit as relevance in [0, 1] within one batch of candidates (002 §3, K29)."""

from __future__ import annotations

from collections.abc import Sequence


def min_max(scores: Sequence[float]) -> list[float]:
    """The scores as (score - worst) / (best - worst), in their order: the best is 1, the worst 0.

    Any finite unit goes in, a cross-encoder's logits too. Where all are equal, and so for a lone one, each is 1: it is
    the best that there is, and 0 would drop under any threshold the only memory found.
    """
    if not scores:
        return []
    worst, best = min(scores), max(scores)
    if best == worst:
        return [1.0] * len(scores)
    return [(score - worst) / (best - worst) for score in scores]
