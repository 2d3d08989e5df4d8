"""A verdict: what one rule makes of a fact beside one memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perdure.pipeline.reconciliation.pairing import Pair

RETIRE = 0.7
"""Confidence from which a finding changes a memory; a weaker one only links the two."""

Relation = Literal["same", "refines", "replaces", "ends", "soft"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a new fact stands to a memory, by which rule, and how sure that is (0 to 1)."""

    relation: Relation
    pair: Pair
    rule: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Finding:
    """A pair and what the rules made of it, None where they found nothing."""

    pair: Pair
    verdict: Verdict | None

    @property
    def firm(self) -> bool:
        """Whether a rule found something that may change a memory."""
        return self.verdict is not None and self.verdict.relation != "soft" and self.verdict.confidence >= RETIRE
