"""Porter's stemmer (M. F. Porter, An algorithm for suffix stripping, Program 14(3), 1980), as SQLite's FTS5 has it."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

_VOWELS = frozenset("aeiou")
_MAX = 64
"""FTS5 leaves longer tokens as they are."""

_STEP_2 = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("logi", "log"),
    ("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"),
    ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"),
    ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble"),
)  # fmt: skip
_STEP_3 = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
_STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """The stem of a lower-case word; other scripts, and words of one or two letters, stay as they are."""
    if len(word) <= 2 or len(word) > _MAX or not word.isascii():
        return word
    word = _plural(word)
    word = _past(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replace(word, _STEP_2)
    word = _replace(word, _STEP_3)
    word = _drop(word)
    return _tidy(word)


def _is_consonant(word: str, place: int) -> bool:
    letter = word[place]
    if letter == "y":
        return place == 0 or not _is_consonant(word, place - 1)
    return letter not in _VOWELS


def _measure(word: str) -> int:
    """How many times a consonant follows a vowel: Porter's m."""
    kinds = [_is_consonant(word, place) for place in range(len(word))]
    return sum(1 for before, after in pairwise(kinds) if not before and after)


def _has_vowel(word: str) -> bool:
    return any(not _is_consonant(word, place) for place in range(len(word)))


def _is_short(word: str) -> bool:
    """Ends in consonant, vowel, consonant, the last not w, x or y: Porter's *o."""
    return (
        len(word) >= 3
        and word[-1] not in "wxy"
        and _is_consonant(word, len(word) - 1)
        and not _is_consonant(word, len(word) - 2)
        and _is_consonant(word, len(word) - 3)
    )


def _ends_double(word: str) -> bool:
    return len(word) >= 2 and word[-1] == word[-2] and _is_consonant(word, len(word) - 1)


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    if word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        if word.endswith(suffix):
            left = word[: -len(suffix)]
            return _mend(left) if _has_vowel(left) else word
    return word


def _mend(left: str) -> str:
    if left.endswith(("at", "bl", "iz")):
        return left + "e"
    if _ends_double(left) and left[-1] not in "lsz":
        return left[:-1]
    return left + "e" if _measure(left) == 1 and _is_short(left) else left


def _replace(word: str, rules: tuple[tuple[str, str], ...]) -> str:
    for suffix, other in rules:
        if word.endswith(suffix):
            left = word[: -len(suffix)]
            return left + other if _measure(left) > 0 else word
    return word


def _drop(word: str) -> str:
    for suffix in _STEP_4:
        if word.endswith(suffix):
            left = word[: -len(suffix)]
            if _measure(left) <= 1 or (suffix == "ion" and not left.endswith(("s", "t"))):
                return word
            return left
    return word


def _tidy(word: str) -> str:
    if word.endswith("e"):
        left = word[:-1]
        measure = _measure(left)
        if measure > 1 or (measure == 1 and not _is_short(left)):
            word = left
    if word.endswith("ll") and _measure(word) > 1:
        word = word[:-1]
    return word
