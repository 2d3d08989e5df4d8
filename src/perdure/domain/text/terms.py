"""Terms: the words of a text as every keyword search sees them.

The same words as SQLite's FTS5 with `porter unicode61 remove_diacritics 2`: lower case, no accents, runs of letters and
digits, Porter's stems. Chinese, Japanese, Korean, Thai and the like have no spaces between words: there every character
is a word, and in a query every two neighbours together are one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import pairwise

from perdure.domain.text.pattern import Pattern

# Porter's stemmer (M. F. Porter, An algorithm for suffix stripping, Program 14(3), 1980), as SQLite's FTS5 has it.

_VOWELS = frozenset("aeiou")
_MAX = 64  # FTS5 leaves longer tokens as they are
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
    """Return the stem of a lower-case word; other scripts, and words of one or two letters, stay as they are."""
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


def uninflected(word: str) -> str:
    """Return a lower-case word without endings of number and tense alone: a stem takes "business" for "busy"."""
    if len(word) <= 2 or len(word) > _MAX or not word.isascii():
        return word
    word = _past(_plural(word))
    return word[:-1] + "i" if word.endswith("y") and _has_vowel(word[:-1]) else word


def _is_consonant(word: str, place: int) -> bool:
    letter = word[place]
    if letter == "y":
        return place == 0 or not _is_consonant(word, place - 1)
    return letter not in _VOWELS


def _measure(word: str) -> int:
    """Return how many times a consonant follows a vowel: Porter's m."""
    kinds = [_is_consonant(word, place) for place in range(len(word))]
    return sum(1 for before, after in pairwise(kinds) if not before and after)


def _has_vowel(word: str) -> bool:
    return any(not _is_consonant(word, place) for place in range(len(word)))


def _is_short(word: str) -> bool:
    """Whether it ends in consonant, vowel, consonant, the last not w, x or y: Porter's *o."""
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


_LIGHT_VOWELS = frozenset("aeiouy")
_KEEP_DOUBLE = frozenset("lsfz")


def light_stem(word: str, irregular: Mapping[str, str]) -> str:
    """Return the stem of a folded English word: an irregular form's base, else without -s, -ed, -ing and a final -e.

    A form that the table maps to itself only looks inflected ("wedding", "news"). Lighter than `stem`: it compares
    words across grammatical forms, so "lives" and "living" are both "liv".
    """
    base = irregular.get(word)
    if base is not None:
        return base if irregular.get(base) == base else _bare(base)
    return word if len(word) <= 3 or not word.isalpha() else _bare(_without_ending(word))


def _without_ending(word: str) -> str:
    if word.endswith(("ies", "ied")) and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zzes", "oes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    if word.endswith("ly") and len(word) > 6:
        return word[:-2]
    for ending in ("ing", "ed"):
        root = word[: -len(ending)]
        if word.endswith(ending) and len(root) >= 2 and _LIGHT_VOWELS & set(root):
            doubled = len(root) > 2 and root[-1] == root[-2] and root[-1] not in _KEEP_DOUBLE
            return root[:-1] if doubled else root
    return word


def _bare(word: str) -> str:
    if len(word) > 3 and word.endswith("e"):
        return word[:-1]
    if len(word) > 3 and word.endswith("y") and word[-2] not in _LIGHT_VOWELS:
        return word[:-1] + "i"
    return word


def without_accents(text: str, *, only_latin: bool = False) -> str:
    """Return the text in compatibility form without combining marks; `only_latin` keeps those of other scripts."""
    if text.isascii():
        return text
    parts = unicodedata.normalize("NFKD", text)
    if not only_latin:
        return "".join(part for part in parts if not unicodedata.combining(part))
    kept = "".join(part for part in parts if not (unicodedata.combining(part) and ord(part) < 0x0370))
    return unicodedata.normalize("NFC", kept)


def split_words(text: str, *, joined_by: str = "", underscore: bool = False) -> list[str]:
    """Return the runs of letters and digits in a text, as they are written.

    Any character of `joined_by` between two runs makes them one word; with `underscore`, `_` counts as a letter.
    """
    return _word_pattern(joined_by, underscore).findall(text)


@cache
def _word_pattern(joined_by: str, underscore: bool) -> re.Pattern[str]:
    run = r"\w+" if underscore else r"[^\W_]+"
    return re.compile(rf"{run}(?:[{re.escape(joined_by)}]{run})*" if joined_by else run)


_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"  # kana, Han, Hangul
)
_UNSPACED_CHARACTER = Pattern(f"[{_UNSPACED}]")
_RUN = Pattern(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_ACCENT = Pattern("[\u0300-\u036f]")


_DRAWN = Pattern(r"(\w)\1{2,}")


def undrawn(word: str) -> frozenset[str]:
    """Return a word with each letter that is drawn out written once, and written twice: "yesss", "woohooo"."""
    return frozenset((_DRAWN.sub(r"\1", word), _DRAWN.sub(r"\1\1", word)))


def index_text(text: str) -> str:
    """Return the words of the text, with spaces between those that need them, as input of the full-text index.

    An index that keeps no texts needs the same input again to delete one: after a change of this function, every index
    must be rebuilt.
    """
    if text.isascii():
        return text  # SQLite finds the same words in it
    return " ".join(" ".join(run) if is_unspaced(run) else run for run in runs(text))


def runs(text: str) -> Iterator[str]:
    """Yield the words of the text, lower case and without accents, in order; a run of unspaced script whole."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFD", text)))
    for found in _RUN.finditer(text.lower()):
        run = found[0]
        if is_unspaced(run):
            run = "".join(character for character in run if character.isalnum())  # vowel signs are no words
        if run:
            yield run


def is_unspaced(run: str) -> bool:
    """Whether a run is of a script without spaces."""
    return _UNSPACED_CHARACTER.match(run) is not None


def stems(run: str) -> list[str]:
    """Return the terms that find a run of a stored text: its stem; for unspaced scripts each character and each two."""
    return [*run, *_pairs(run)] if is_unspaced(run) else [stem(run)]


@lru_cache(maxsize=65_536)
def key_of(word: str) -> int:
    """Return a number for a word or stem where texts are too long: 64 bits of its BLAKE2b hash, signed."""
    return int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little", signed=True)


def words(text: str) -> list[str]:
    """Return the stems of a stored text, in order; for unspaced scripts its characters and each two neighbours."""
    return [each for run in runs(text) for each in stems(run)]


def query_words(text: str) -> dict[str, str]:
    """Return the distinct words of a query: stem to the word as it was written (two characters of unspaced script)."""
    asked: dict[str, str] = {}
    for run in runs(text):
        if is_unspaced(run):
            for pair in _pairs(run) if len(run) > 1 else [run]:
                asked.setdefault(pair, pair)
        else:
            asked.setdefault(stem(run), run)
    return asked


def _pairs(run: str) -> list[str]:
    return [run[place : place + 2] for place in range(len(run) - 1)]
