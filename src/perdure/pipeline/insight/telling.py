"""How often something was told: by the messages, and not by the memories, of which one may stand for many."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from perdure.domain.derived import Experience
from perdure.domain.pattern import Pattern
from perdure.domain.terms import words
from perdure.pipeline.lexicon import words as entries

_SHARED: Final = 5
"""Letters that two forms of one word share at least."""
_SENTENCE = Pattern(r"[^.!?\n]+[.!?]*")
_DENIED = Pattern(r"\b(?:not|never|no|without)\b|n't\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Telling:
    """One sentence that somebody said: of which message, and its stems."""

    message: str
    stems: frozenset[str]


def read_tellings(messages: Iterable[tuple[str, str]]) -> list[Telling]:
    """The sentences of messages, given by id and text; without questions, and without what is denied."""
    found: list[Telling] = []
    for id, text in messages:
        for sentence in _SENTENCE.findall(text):
            if not sentence.rstrip().endswith("?") and not _DENIED.search(sentence):
                found.append(Telling(id, frozenset(words(sentence))))
    return found


def told(members: Sequence[Experience], stems: frozenset[str], tellings: Sequence[Telling]) -> int:
    """How often it was told: by the messages of these memories, and by every other whose sentence has all the stems.

    A memory of which no message is known counts once.
    """
    known = frozenset[str]().union(*(member.tellings for member in members))
    return len(known | {telling.message for telling in tellings if stems <= telling.stems})


def is_topic(word: str) -> bool:
    """Whether a word says what a text is about."""
    return word.casefold() not in entries("recall_stopwords.txt")


def speaks_of(topic: str, text: str) -> bool:
    """Whether a text has a word of the topic, in whatever form: "deploys" is of "deployment"."""
    asked = [stem for word in topic.split() if is_topic(word) for stem in words(word)] or words(topic)
    return any(_akin(one, other) for one in asked for other in words(text))


def _akin(one: str, other: str) -> bool:
    """Whether two stems are forms of one word: they differ in no more than their last letter or two."""
    shared = next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    return one == other or (
        shared >= _SHARED and shared >= min(len(one), len(other)) - 1 and abs(len(one) - len(other)) < 3
    )
