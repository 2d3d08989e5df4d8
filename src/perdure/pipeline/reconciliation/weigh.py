"""Weighing: how likely a fact is new, known or a change, by evidence that no single rule decides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from perdure.pipeline.lexicon import pairs as table
from perdure.pipeline.reconciliation.evidence import evidence
from perdure.pipeline.reconciliation.pairing import Pair, WordSimilarity
from perdure.pipeline.reconciliation.verdict import Verdict

TOUCHING = 0.6
"""Cosine from which two words stand for one matter."""
_NEWS = ("roles_swapped", "numbered_apart", "names_clash", "values_differ", "strangers")
"""Evidence beside which likeness does not make a fact known."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """Probabilities that a fact is another matter than a memory, the same, or a change of it; they sum to 1."""

    other: float
    same: float
    change: float
    touching: bool = True
    """Whether the two share what either is about, or words near in meaning."""
    news: bool = False
    """Whether the fact holds something that the memory plainly does not: a name, a value, another doer."""


def weigh(pair: Pair, similar: WordSimilarity, verdict: Verdict | None) -> Weighed:
    """The probabilities for a pair with a cosine, with what the rules found of it.

    Multinomial logistic regression over `evidence`; the weights are in `reconcile_weights.tsv`.
    """
    found = evidence(pair, similar, verdict)
    scores = [0.0, 0.0, 0.0]
    for name, weights in _weights().items():
        value = found.get(name, 0.0)
        if value:
            for outcome, weight in enumerate(weights):
                scores[outcome] += weight * value
    top = max(scores)
    odds = [math.exp(score - top) for score in scores]
    total = sum(odds)
    other, same, change = (odd / total for odd in odds)
    touching = found["covered_core"] > 0 or found["aligned"] >= TOUCHING
    return Weighed(other, same, change, touching, news=any(found[name] > 0 for name in _NEWS))


@cache
def _weights() -> dict[str, tuple[float, ...]]:
    return {
        name: tuple(float(number) for number in numbers.split())
        for name, numbers in table("reconcile_weights.tsv").items()
    }
