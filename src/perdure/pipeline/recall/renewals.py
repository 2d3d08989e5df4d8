"""Renewals: what the user said later of the same matter comes before what was said first, where a question asks how
things stand now.

Facts are told old from new when they are written; messages that are searched as they were said are not. So this is a
soft link made at the moment of asking: it hides nothing, and moves a newer message before an older one that it is like.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from perdure.pipeline.lexicon import lines

AMONG = 5
"""Best memories that are looked at: further down the order says little, and of ten the wrong ones come up."""
ALIKE = 0.4
"""Least cosine of two stretches of text that speak of one matter."""
WORTH = 0.7
"""Least share of the older one's score that the newer one has: what hardly answers must not move up.

BEAM's dev half through `rules`, 20 pairs: how often the newer comes first, its mean reciprocal rank, and recall@5 of
all questions are .85, .610, .589 as it is here, .75, .622, .589 with a worth of .8, and .80, .621, .573 with that among
ten."""


def asks_how_things_stand(question: str) -> bool:
    """Whether a question asks for a value as it is now: "what is my budget?", not "what was it before May?"."""
    opening, earlier = _phrases()
    return opening.match(question.strip()) is not None and earlier.search(question) is None


def renewed_first(
    vectors: NDArray[np.float32], moments: Sequence[tuple[float, int]], scores: Sequence[float], told: Sequence[bool]
) -> list[int]:
    """The places of the best memories in their new order.

    `vectors`: of the unit that speaks for each, of length 1, shape (n, dimension); `moments`: when each was told, ties
    by what follows; `told`: which are the user's own messages, for which alone this holds. Each newer one is put before
    the first older one that it is like enough, and worth enough beside.
    """
    likeness = vectors @ vectors.T
    order: list[int] = []
    for newer in range(len(scores)):
        place = len(order)
        for position, older in enumerate(order):
            if (
                told[newer]
                and told[older]
                and moments[newer] > moments[older]
                and scores[newer] >= WORTH * scores[older]
                and likeness[newer, older] > ALIKE
            ):
                place = position
                break
        order.insert(place, newer)
    return order


@cache
def _phrases() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What opens a question of a value, and what turns it to an earlier time."""
    entries = lines("recall_now.txt")
    opening = "|".join(re.escape(entry) for entry in entries if not entry.startswith("-"))
    earlier = "|".join(re.escape(entry[1:]) for entry in entries if entry.startswith("-"))
    return re.compile(rf"(?:{opening})(?!\w)", re.IGNORECASE), re.compile(rf"\b(?:{earlier})(?!\w)", re.IGNORECASE)
