"""Presets: which steps a search takes, as frozen values; a front end names the one of its spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from perdure.pipeline.retrieval.reflection import Reflection
from perdure.pipeline.retrieval.weights import RECENCY_WEIGHT, TRADE


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """The steps of a search; what is None or false is left out."""

    name: str
    ranking: Literal["similarity", "fused"]
    """Cosine alone, as the store gives it; or words, meaning and cues over every memory of the scope."""
    limit: int
    """Memories that its front end asks for where it is told nothing."""
    threshold: float | None = None
    """The least score, where the call names none."""
    candidates: int = 1
    """How many times the limit is fetched, for the steps that follow to choose from."""
    gate: bool = False
    """Whether a greeting is answered with nothing, without a search."""
    hybrid: Literal["weighted", "rrf"] | None = None
    """Words and letters beside meaning, over the candidates."""
    rerank: bool = False
    """Whether a reranker, where one is configured, scores the candidates without being asked to."""
    relative: bool = False
    """Whether scores are spread from 0 to 1 over the candidates."""
    adaptive: bool = False
    """Whether the threshold is raised to where the scores fall off."""
    recency_weight: float = 0.0
    """Share of recency in the score."""
    diversity: float | None = None
    """MMR's lambda."""
    reflection: Reflection | None = None
    """The filter before injection."""
    procedures_first: bool = False
    """Whether a question of how something is done looks at procedures first."""
    timely: bool = False
    """Whether a question of a time gone by ("last week") looks at what was told then."""


PLAIN = Preset(name="plain", ranking="similarity", limit=100)
"""000, 003 and 004: exact cosine, threshold, validity, limit."""
ROUTER = Preset(
    name="router",
    ranking="similarity",
    limit=5,
    threshold=0.6,
    gate=True,
    candidates=2,
    reflection=Reflection(),
    procedures_first=True,
    timely=True,
)
"""The preset of spec 001; hybrid and adaptive are off by default there too."""
PROXY = Preset(
    name="proxy",
    ranking="similarity",
    limit=5,
    candidates=3,
    rerank=True,
    relative=True,
    recency_weight=RECENCY_WEIGHT,
    diversity=TRADE,
    timely=True,
)
"""The preset of spec 002 §3."""
BEST = Preset(name="best", ranking="fused", limit=100)
"""What perdure would do: see `weights`."""

PRESETS: Mapping[str, Preset] = {preset.name: preset for preset in (PLAIN, ROUTER, PROXY, BEST)}
"""All of them, by name."""
