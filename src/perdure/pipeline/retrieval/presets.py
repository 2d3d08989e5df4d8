"""Presets: the steps of a search, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from perdure.pipeline.retrieval.reflection import Reflection
from perdure.pipeline.retrieval.weights import RECENCY_WEIGHT, TRADE


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """The steps of a search; a step that is None or false is left out."""

    name: str
    ranking: Literal["similarity", "fused"]
    """Cosine alone, from the store; or words, meaning and cues over every memory of the scope."""
    limit: int  # the default number of memories
    threshold: float | None = None  # the least score, if the call gives none
    candidates: int = 1  # multiple of the limit that is fetched for the later steps
    gate: bool = False  # whether a greeting finds nothing, without a search
    hybrid: Literal["weighted", "rrf"] | None = None  # words and letters beside meaning, over the candidates
    rerank: bool = False  # whether a configured reranker scores the candidates without a request for it
    relative: bool = False  # whether scores are spread from 0 to 1 over the candidates
    adaptive: bool = False  # whether the threshold is raised to the largest gap in the scores
    recency_weight: float = 0.0  # share of recency in the score
    diversity: float | None = None  # MMR's lambda
    reflection: Reflection | None = None  # the filter before injection
    procedures_first: bool = False  # whether a question of how to do something searches procedures first
    timely: bool = False  # whether a question about a past period ("last week") also searches that period


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
BEST = Preset(name="best", ranking="fused", limit=100)  # the default; see `weights`
PRESETS: Mapping[str, Preset] = {preset.name: preset for preset in (PLAIN, ROUTER, PROXY, BEST)}  # all presets by name
