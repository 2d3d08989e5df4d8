"""Terms: the words of a text as every search of words sees them.

The same words as SQLite's FTS5 with `porter unicode61 remove_diacritics 2`: lower case, no accents, runs of letters and
digits, Porter's stems. Chinese, Japanese, Korean, Thai and the like are not spaced: there every character is a word,
and of a query every two neighbours together are one.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from perdure.domain.pattern import Pattern
from perdure.domain.stem import stem

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"  # kana, Han, Hangul
)
_UNSPACED_CHARACTER = Pattern(f"[{_UNSPACED}]")
_RUN = Pattern(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")

_ACCENT = Pattern("[\u0300-\u036f]")


def index_text(text: str) -> str:
    """The words of the text, with spaces between those that need them, as the full-text index gets them.

    An index that keeps no texts must be told the same again to forget one: whoever changes what this gives must have
    every index made anew.
    """
    if text.isascii():
        return text  # SQLite finds the same words in it
    return " ".join(" ".join(run) if is_unspaced(run) else run for run in runs(text))


def runs(text: str) -> Iterator[str]:
    """The words of the text as they stand, lower case and without accents, in order; a run of unspaced script whole."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFD", text)))
    for found in _RUN.finditer(text.lower()):
        run = found[0]
        if is_unspaced(run):
            run = "".join(character for character in run if character.isalnum())  # vowel signs are no words
        if run:
            yield run


def is_unspaced(run: str) -> bool:
    """Whether a run is of a script that has no spaces."""
    return _UNSPACED_CHARACTER.match(run) is not None


def stems(run: str) -> list[str]:
    """What a run of a stored text is found by: its stem; of unspaced scripts its characters and each two neighbours."""
    return [*run, *_pairs(run)] if is_unspaced(run) else [stem(run)]


def words(text: str) -> list[str]:
    """The stems of a stored text, in order; of unspaced scripts its characters and each two neighbours."""
    return [each for run in runs(text) for each in stems(run)]


def query_words(text: str) -> dict[str, str]:
    """The distinct words asked for: stem to the word as it was written (two characters of unspaced script)."""
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
