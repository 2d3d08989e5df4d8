"""Signals: what speaks for a unit beside its likeness to the question; each is 0 where its cue is absent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perdure.pipeline.recall.question import Question
from perdure.pipeline.recall.scope_index import ASKS, DIRECTIVE, LONG, NAMED, PREFERENCE, TURN, USER, Floats, ScopeIndex
from perdure.pipeline.recall.time_window import closeness

TEMPORAL_FULL = 2
"""Words of time that count in full."""
PROPER_FULL = 3
"""Proper nouns that count in full."""


def signals(index: ScopeIndex, question: Question, similarity: Floats) -> dict[str, Floats]:
    """Each signal of each unit, by the name of its weight; shapes (units,), values in [0, 1].

    `similarity`: the cosine of the question to each unit, by which standing instructions that are of another matter
    fall behind: the square of its share of the best one's (BEAM: .656 for .643 where all count alike).
    """
    cues = index.cues
    talk = (cues & (NAMED | LONG) == NAMED).astype(np.float32)
    found = {
        "question": talk * (cues & ASKS > 0),
        "temporal": talk * np.minimum(index.temporal, TEMPORAL_FULL) / TEMPORAL_FULL,
        "proper": talk * np.minimum(index.proper, PROPER_FULL) / PROPER_FULL,
        "user": (cues & USER > 0).astype(np.float32),
    }
    turns = cues & TURN > 0
    if (turns & index.alive).any():
        found["retold"] = ~turns
    if len(question.named) == 1:
        (name,) = question.named
        found["speaker"] = (index.speaker == index.speakers.get(name, -1)).astype(np.float32)
    if question.window is not None:
        found["date"] = closeness(question.window, index.days)
    if question.wants_doing:
        found["directive"] = _near(cues & DIRECTIVE > 0, similarity)
        found["preference"] = _near(cues & PREFERENCE > 0, similarity)
    return {name: np.asarray(values, np.float32) for name, values in found.items()}


def _near(marked: NDArray[np.bool_], similarity: Floats) -> Floats:
    likely = np.where(marked, np.maximum(similarity, 0), 0)
    best = float(likely.max(initial=0.0))
    return ((likely / best) ** 2 if best > 0 else marked).astype(np.float32)
