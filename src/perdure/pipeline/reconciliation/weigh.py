"""Weighing: how likely a fact is new, known or a change, by evidence that no single rule decides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from operator import mul

from perdure.pipeline.lexicon import pairs as table
from perdure.pipeline.reconciliation.evidence import Evidence, evidence
from perdure.pipeline.reconciliation.pairing import Pair
from perdure.pipeline.reconciliation.verdict import Verdict

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


def weigh(pair: Pair, verdict: Verdict | None) -> Weighed:
    """The probabilities for a pair with a cosine, with what the rules found of it.

    A network of one hidden layer (tanh) over `evidence`, then softmax; `benchmarks/reconciliation/fit.py` fits it.
    """
    found = evidence(pair, verdict)
    other, same, change = _network().odds(found)
    touching = found["covered_core"] > 0
    return Weighed(other, same, change, touching, news=any(found[name] > 0 for name in _NEWS))


@dataclass(frozen=True, slots=True)
class _Network:
    into: dict[str, tuple[float, ...]]
    bias: tuple[float, ...]
    out: tuple[tuple[float, ...], ...]

    def odds(self, found: Evidence) -> list[float]:
        sums = list(self.bias)
        for name, value in found.items():
            if value:
                for unit, weight in enumerate(self.into[name]):
                    sums[unit] += weight * value
        hidden = [math.tanh(each) for each in sums]
        scores = [base + sum(map(mul, weights, hidden)) for base, *weights in self.out]
        top = max(scores)
        raised = [math.exp(score - top) for score in scores]
        return [each / sum(raised) for each in raised]


@cache
def _network() -> _Network:
    rows = {name: tuple(float(each) for each in row.split()) for name, row in table("reconcile_weights.tsv").items()}
    out = tuple(rows.pop(f"={outcome}") for outcome in ("other", "same", "change"))
    return _Network(bias=rows.pop("=bias"), out=out, into=rows)
