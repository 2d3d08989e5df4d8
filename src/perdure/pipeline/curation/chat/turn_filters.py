"""Entropy: whether a turn says anything that would be worth finding again (checklist B4)."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
from numpy.typing import NDArray

from perdure.domain.text.pattern import Pattern
from perdure.pipeline.curation.chat.refusal import is_refusal
from perdure.pipeline.lexicon import lines, words

# Drift: whether two turns are about different things (001 §6, V66).

LEAST_WORDS = 3
"""Words that carry a topic which a message must have: "and in May?" goes on with what was talked about."""


def has_drifted(before: NDArray[np.float32], now: NDArray[np.float32], threshold: float) -> bool:
    """Whether the cosine of two turns' vectors is below the threshold; vectors of zeros tell nothing."""
    norm = float(np.linalg.norm(before) * np.linalg.norm(now))
    return norm > 0 and float(before @ now) / norm < threshold


def tells_a_topic(text: str) -> bool:
    """Whether a message has words enough of its own to be compared by."""
    stop = words("recall_stopwords.txt")
    return sum(1 for word in text.casefold().split() if word.strip(".,;:!?") not in stop) >= LEAST_WORDS


LEAST_LENGTH = 30
"""Characters below which a question and its answer, taken together, say too little."""
CHATTER_LENGTH = 120
"""Characters up to which a message may be chatter and nothing else; what is longer is looked at by whoever reads it."""

_END = Pattern(r"[\s.!?,;:…)(~'\"👍🙏🙂😀🎉❤️]+\Z")
_SPACE = Pattern(r"\s+")
_MARKS = Pattern(r"[!,.?]+")


def is_empty_turn(user: str, answer: str) -> bool:
    """Whether a turn is not worth being found: too short, chatter on the user's side, or a refusal on the other."""
    if len(user.strip()) + len(answer.strip()) < LEAST_LENGTH:
        return True
    return is_chatter(user) or is_refusal(answer)


def is_chatter(text: str) -> bool:
    """Whether a message is a greeting, thanks, goodbye or a bare yes, no or fine, and nothing else; an empty one is."""
    plain = _END.sub("", _SPACE.sub(" ", text.replace("’", "'")).strip().lower())
    if len(plain) > CHATTER_LENGTH:
        return False
    pieces = (piece.strip() for piece in _MARKS.split(plain))
    return all(_is_social(piece) for piece in pieces if piece)


def _is_social(piece: str) -> bool:
    return any(pattern.fullmatch(piece) for pattern in _social())


@cache
def _social() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(entry) for entry in lines("social.txt"))
