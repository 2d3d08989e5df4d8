"""Stems: one form for the inflections of a word, so that "moved", "moving" and "moves" compare as equal."""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache

from perdure.pipeline.lexicon import pairs

_VOWELS = frozenset("aeiouy")
_KEEP_DOUBLE = frozenset("lsfz")
_LETTERS = str.maketrans({"ø": "o", "ł": "l", "ß": "ss", "æ": "ae", "đ": "d", "ı": "i"})


@lru_cache(maxsize=8192)
def fold(word: str) -> str:
    """The word in lower case without accents; scripts other than Latin keep their marks."""
    lowered = word.lower().translate(_LETTERS)
    if lowered.isascii():
        return lowered
    parts = unicodedata.normalize("NFKD", lowered)
    plain = "".join(part for part in parts if not (unicodedata.combining(part) and ord(part) < 0x0370))
    return unicodedata.normalize("NFC", plain)


@lru_cache(maxsize=16384)
def stem(word: str) -> str:
    """The stem of a folded English word: irregular forms by table, then -s, -ed, -ing and a final -e.

    It is meant for comparing words, not for reading: "lives" and "living" are both "liv".
    """
    known = _irregular().get(word)
    if known is not None:
        word = known
        return word if word in _fixed() else _bare(word)
    if len(word) <= 3 or not word.isalpha():
        return word
    return _bare(_without_ending(word))


def _without_ending(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith("ied") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zzes", "oes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    if word.endswith("ly") and len(word) > 6:
        return word[:-2]
    for ending in ("ing", "ed"):
        root = word[: -len(ending)]
        if word.endswith(ending) and len(root) >= 2 and _VOWELS & set(root):
            doubled = len(root) > 2 and root[-1] == root[-2] and root[-1] not in _KEEP_DOUBLE
            return root[:-1] if doubled else root
    return word


def _bare(word: str) -> str:
    if len(word) > 3 and word.endswith("e"):
        return word[:-1]
    if len(word) > 3 and word.endswith("y") and word[-2] not in _VOWELS:
        return word[:-1] + "i"
    return word


@cache
def _irregular() -> dict[str, str]:
    return {fold(form): fold(base) for form, base in pairs("reconcile_forms.tsv").items()}


@cache
def _fixed() -> frozenset[str]:
    """Words that the table maps to themselves: they only look inflected ("wedding", "news")."""
    return frozenset(form for form, base in _irregular().items() if form == base)
