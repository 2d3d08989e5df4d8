"""Coverage: how much of what a question asks about the memories hold, so that an agent can say that it does not know.

Scores cannot tell it: what cannot be answered is asked in the words of what was said (field study: AUROC .3 to .5). The
facet that is held least can: every topic word of the question is one, names and dates among them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perdure.pipeline.lexicon import words
from perdure.pipeline.recall.question import Question
from perdure.pipeline.recall.time_window import closeness

EVIDENCE = 10
"""Best memories that count as evidence."""
STRICTNESS = 2.0
"""Power of the mean likeness in the whole scope, for each factor of ten in its size: a large scope has a word like
nearly every other, so that .95 says much there. AUROC on BEAM's dev half (some 500 units a chat) with a power of 0, 2,
4, 6, 8: .71, .74, .76, .76, .77."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a question is held, in [0, 1], and which part of it by how much."""

    value: float = 0.0
    facets: dict[str, Any] = field(default_factory=dict)
    """`words`: each topic word with its best likeness in the evidence; `names`: whether each speaker who is asked about
    speaks there; `time`: how near the evidence comes to the time that is asked about."""


def cover(
    question: Question,
    likeness: NDArray[np.float32],
    best: Sequence[int],
    days: NDArray[np.float64],
    speakers: Sequence[str | None],
) -> Coverage:
    """The coverage of a question by memories, best first.

    `likeness`: of each word of the question to each unit of the scope, shape (words, units); `best`: the units that
    speak for the best memories; `days` and `speakers`: when each of these was told, and by whom (folded).
    The mean likeness in the scope to a power that grows with it, times the mean of the least likeness in the best
    memory and in the best ten.
    """
    asking = words("recall_asking_words.txt")
    asked_for = (*question.words, *question.pairs)
    kept = [place for place, word in enumerate(asked_for) if word not in asking] or range(len(asked_for))
    evidence = list(best[:EVIDENCE])
    if not evidence:
        return Coverage(0.0, {"words": dict.fromkeys((asked_for[place] for place in kept), 0.0)})
    facets: dict[str, Any] = {}
    value = 1.0
    if len(kept):
        asked = likeness[list(kept)]
        held = asked[:, evidence].max(axis=1)
        known = float(asked.max(axis=1).mean())
        value = (
            known ** (STRICTNESS * math.log10(1 + likeness.shape[1]))
            * (float(asked[:, evidence[0]].min()) + float(held.min()))
            / 2
        )
        shares = zip(kept, held, strict=True)
        facets["words"] = {asked_for[place]: round(float(share), 3) for place, share in shares}
    if question.named:
        facets["names"] = {name: name in speakers[:EVIDENCE] for name in sorted(question.named)}
    if question.window is not None:
        facets["time"] = round(float(closeness(question.window, days[:EVIDENCE]).max(initial=0.0)), 3)
    return Coverage(min(1.0, max(0.0, value)), facets)
