"""Refusals: answers that begin by saying that they cannot be given."""

from __future__ import annotations

import re
from functools import cache

from perdure.pipeline.lexicon import lines


def is_refusal(answer: str) -> bool:
    """Whether an answer begins by saying that it cannot be given."""
    return _refusals().match(answer.strip().replace("’", "'").lower()) is not None


@cache
def _refusals() -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{entry})" for entry in lines("refusals.txt")))
