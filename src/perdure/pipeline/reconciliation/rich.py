"""Rich statements: two long ones about one person look alike, and neither says what the other does."""

from __future__ import annotations

from functools import cache

from perdure.domain.terms import words
from perdure.pipeline.lexicon import words as entries

RICH = 6
"""Topic stems from which a statement is rich: "Ana moved to Porto in May" has four, an observation of LoCoMo eight."""
RICHER = 9
"""The same of what the user tells of themselves: people correct themselves at some length."""
SHARED = 0.6
"""Share of the poorer one's topic stems that both must have to speak of one matter. Of 184 observations of a LoCoMo
conversation, told one by one, evidence and rules took 86 for known or changed without this, most of them wrongly."""


def tell_apart(one: str, other: str, *, of_one_name: bool) -> bool:
    """Whether both statements are rich, and share too little for one to be the other, or to take its place.

    `of_one_name`: both tell of the same person by name, which makes whatever they tell look alike.
    """
    first, second = _topic(one), _topic(other)
    least = min(len(first), len(second))
    return least >= (RICH if of_one_name else RICHER) and len(first & second) < SHARED * least


def _topic(text: str) -> frozenset[str]:
    return frozenset(words(text)) - _stop()


@cache
def _stop() -> frozenset[str]:
    return frozenset(stem for entry in entries("recall_stopwords.txt") for stem in words(entry))
