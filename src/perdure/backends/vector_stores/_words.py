"""Words of a text as keyword search sees them, and how much sharing some is worth.

The same words as SQLite's FTS5 with `porter unicode61 remove_diacritics 2`: lower case, no accents, runs of letters and
digits, Porter's stems. Chinese, Japanese, Korean, Thai and the like are not spaced: there every character is a word,
and of a query every two neighbours together are one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from perdure.backends.vector_stores._stem import stem

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"  # kana, Han, Hangul
)
_UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED}]")
_RUN = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")

_ACCENT = re.compile("[\u0300-\u036f]")

K1 = 1.2
B = 0.75
"""BM25's usual constants (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009)."""


def index_text(text: str) -> str:
    """The words of the text, with spaces between those that need them, as the full-text index gets them.

    An index that keeps no texts must be told the same again to forget one: whoever changes what this gives must have
    every index made anew.
    """
    if text.isascii():
        return text  # SQLite finds the same words in it
    return " ".join(" ".join(run) if _UNSPACED_CHARACTER.match(run) else run for run in _runs(text))


def _runs(text: str) -> Iterator[str]:
    if not text.isascii():
        text = unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFD", text)))
    for found in _RUN.finditer(text.lower()):
        run = found[0]
        if _UNSPACED_CHARACTER.match(run):
            run = "".join(character for character in run if character.isalnum())  # vowel signs are no words
        if run:
            yield run


def words(text: str) -> list[str]:
    """The stems of a stored text, in order; of unspaced scripts its characters and each two neighbours."""
    found: list[str] = []
    for run in _runs(text):
        if _UNSPACED_CHARACTER.match(run):
            found.extend(run)
            found.extend(_pairs(run))
        else:
            found.append(stem(run))
    return found


def query_words(text: str) -> dict[str, str]:
    """The distinct words asked for: stem to the word as it was written (two characters of unspaced script)."""
    asked: dict[str, str] = {}
    for run in _runs(text):
        if _UNSPACED_CHARACTER.match(run):
            for pair in _pairs(run) if len(run) > 1 else [run]:
                asked.setdefault(pair, pair)
        else:
            asked.setdefault(stem(run), run)
    return asked


def _pairs(run: str) -> list[str]:
    return [run[place : place + 2] for place in range(len(run) - 1)]


def rarity(total: int, found: int) -> float:
    """BM25's inverse document frequency of a word that `found` of `total` rows have; above 0 always."""
    return float(np.log1p((max(total, found) - found + 0.5) / (found + 0.5)))


def word_scores(weights: NDArray[np.float64], lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """BM25 of rows that share words: `weights` sums the rarities of those, `lengths` counts the words of each row.

    A memory is one statement, so a word counts once however often it stands there (term frequency 1); lengths are
    measured against the mean of the rows given. Shapes (n,), results above 0.
    """
    mean = lengths.mean() if len(lengths) else 1.0
    scores: NDArray[np.float64] = weights * (K1 + 1) / (1 + K1 * (1 - B + B * lengths / max(mean, 1.0)))
    return scores


def sum_rarities(postings: Sequence[NDArray[np.int64]], total: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The rows that have some word, ascending, and the sum of the rarities of those they have; one posting a word."""
    found = [posting for posting in postings if len(posting)]
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.float64)
    rows, places = np.unique(np.concatenate(found), return_inverse=True)
    rarities = np.concatenate([np.full(len(posting), rarity(total, len(posting))) for posting in found])
    weights: NDArray[np.float64] = np.bincount(places.ravel(), rarities, len(rows)).astype(np.float64)
    return rows, weights
