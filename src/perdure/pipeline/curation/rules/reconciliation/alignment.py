"""Alignment: how two statements run side by side, word by word: alike at the start, alike but for one stretch."""

from __future__ import annotations

import itertools
import re
from collections.abc import Set
from dataclasses import dataclass
from functools import cache

from perdure.domain.text.pattern import Pattern
from perdure.pipeline.curation.rules.memo import per_text
from perdure.pipeline.curation.rules.slots.scan import fold
from perdure.pipeline.lexicon import words

ALIKE_WORDS = 5  # words in common at the start from which more say nothing more

_WORD = Pattern(r"[\w'&@.:/-]*\w")
_WEAK = frozenset({"a", "an", "the", "user", "user's", "their", "they", "now", "is", "are", "has", "have", "was"})

Found = dict[str, float]


def alignment(new: str, old: str) -> Found:
    """How far two texts run in the same words (each 0 to 1), and what kind of stretch differs between them."""
    one, two = _stretch(new), _stretch(old)
    mine, theirs = one.words, two.words
    start = _common(mine, theirs)
    left, right = mine[start:], theirs[start:]
    end = _common(left[::-1], right[::-1])
    inner, outer = left[: len(left) - end], right[: len(right) - end]
    shortest = max(1, min(len(mine), len(theirs)))
    told = [word for word in mine[:start] if word not in _WEAK]
    return {
        "prefix": min(1.0, start / ALIKE_WORDS),
        "prefix_share": start / shortest,
        "prefix_telling": min(2.0, len(told)) / 2,
        "suffix_share": end / shortest,
        "swapped_short": float(start + end >= 2 and 0 < len(inner) <= 3 and 0 < len(outer) <= 3),
        "swapped_numbers": float(not one.counted.isdisjoint(inner) and not two.counted.isdisjoint(outer)),
        "swapped_times": float(not one.timed.isdisjoint(inner) and not two.timed.isdisjoint(outer)),
        "only_added": float(not outer and bool(inner)),
        "only_dropped": float(not inner and bool(outer)),
        "pairs_shared": _shared(one.pairs, two.pairs),
        "words_shared": _shared(one.telling, two.telling),
        "names_both": float(not one.names.isdisjoint(inner) and not two.names.isdisjoint(outer)),
    }


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A text as its words, for laying it beside others."""

    words: tuple[str, ...]
    pairs: frozenset[tuple[str, str]]
    telling: frozenset[str]
    names: frozenset[str]  # its words with a capital, but for the first
    counted: frozenset[str]  # its words with a digit
    timed: frozenset[str]  # its words for times


@per_text(4096)
def _stretch(text: str) -> _Stretch:
    words = tuple(fold(word) for word in _WORD.findall(text))
    names = frozenset(fold(name) for name in re.findall(r"(?<!^)\b[A-Z][\w'&-]*", text))
    return _Stretch(
        words,
        frozenset(itertools.pairwise(words)),
        frozenset(words) - _WEAK,
        names,
        counted=frozenset(word for word in words if any(character.isdigit() for character in word)),
        timed=frozenset(word for word in words if word.rstrip("s") in _times()),
    )


def _common(one: tuple[str, ...], two: tuple[str, ...]) -> int:
    count = 0
    for a, b in zip(one, two, strict=False):
        if a != b:
            break
        count += 1
    return count


def _shared(one: Set[object], two: Set[object]) -> float:
    return 2 * len(one & two) / max(1, len(one) + len(two))


@cache
def _times() -> frozenset[str]:
    return frozenset(fold(word).rstrip("s") for word in words("time_words.txt"))
