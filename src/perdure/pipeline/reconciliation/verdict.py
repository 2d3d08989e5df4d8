"""A verdict: what one rule makes of a fact beside one memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perdure.pipeline.reconciliation.pairing import Pair

Relation = Literal["same", "refines", "replaces", "ends", "soft"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a new fact stands to a memory, by which rule, and how sure that is (0 to 1)."""

    relation: Relation
    pair: Pair
    rule: str
    confidence: float
