"""Hybrid score of 001: words and letters beside meaning, over the candidates of one query only (checklist B9)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

from perdure.domain.errors import InvalidInputError
from perdure.domain.text.pattern import Pattern

# Min-max scaling: scores of any unit as relevance in [0, 1] within one batch of candidates (002 §3, K29).


def min_max(scores: Sequence[float]) -> list[float]:
    """The scores as (score - worst) / (best - worst), in their order: the best is 1, the worst 0.

    Any finite unit goes in, a cross-encoder's logits too. Where all are equal, and so for a lone one, each is 1: it is
    the best that there is, and 0 would drop under any threshold the only memory found.
    """
    if not scores:
        return []
    worst, best = min(scores), max(scores)
    if best == worst:
        return [1.0] * len(scores)
    return [(score - worst) / (best - worst) for score in scores]


MEANING, WORDS, LETTERS = 0.7, 0.2, 0.1
"""Weights of cosine, BM25 and 3-gram likeness in mode `weighted` (B9)."""
RRF_K: Final = 60
"""Added to a rank before it is inverted (Cormack, Clarke and Buettcher 2009; B9)."""
K1, B = 1.2, 0.75
"""BM25's saturation of a repeated word, and its share of the text's length (B9)."""
GRAM: Final = 3
"""Letters in a gram (B9)."""

_TOKEN = Pattern(r"[^\W_]+")


def hybrid(query: str, texts: Sequence[str], cosines: Sequence[float], mode: str = "weighted") -> list[float]:
    """A score in [0, 1] for each candidate, in their order; `cosines` are counted within [0, 1].

    `weighted`: .7 cosine + .2 BM25 + .1 3-gram Jaccard, BM25 by min-max over those that hold a word of the query.
    `rrf`: the sum of 1 / (60 + rank) over the three rankings, equals sharing a rank and a score of 0 having none,
    divided by the best possible sum, 3/61. The reference leaves it undivided, so that it never exceeds .05 and every
    threshold that is meant for a cosine drops everything; here the two can be compared.
    Any other mode is `weighted`. Not as many cosines as texts is InvalidInputError.
    """
    if len(cosines) != len(texts):
        raise InvalidInputError(
            f"hybrid needs a cosine for each of {len(texts)} texts, not {len(cosines)}",
            field="cosines",
            value=len(cosines),
        )
    meaning = [min(1.0, max(0.0, cosine)) for cosine in cosines]
    words = bm25(query, texts)
    letters = [gram_likeness(query, text) for text in texts]
    if mode == "rrf":
        best = 3 / (RRF_K + 1)
        shares = (_reciprocal_ranks(arm) for arm in (meaning, words, letters))
        return [min(1.0, sum(each) / best) for each in zip(*shares, strict=True)]
    scaled = _scaled_hits(words)
    return [
        MEANING * cosine + WORDS * word + LETTERS * letter
        for cosine, word, letter in zip(meaning, scaled, letters, strict=True)
    ]


def bm25(query: str, texts: Sequence[str]) -> list[float]:
    """BM25 of each text for the words of the query, each counted once; 0 without a common word.

    Tokens are lower-case letters and digits. Document frequency and mean length are those of `texts` alone;
    idf = ln((N - n + .5) / (n + .5) + 1), which is never negative.
    """
    asked = dict.fromkeys(_tokens(query))
    counts = [Counter(_tokens(text)) for text in texts]
    lengths = [count.total() for count in counts]
    mean = sum(lengths) / len(lengths) if lengths else 0.0
    holders = {token: sum(token in count for count in counts) for token in asked}
    idf = {token: math.log((len(texts) - held + 0.5) / (held + 0.5) + 1) for token, held in holders.items()}
    scores = []
    for count, length in zip(counts, lengths, strict=True):
        weight = K1 * (1 - B + B * length / mean) if mean else K1
        scores.append(sum(idf[token] * count[token] * (K1 + 1) / (count[token] + weight) for token in asked))
    return scores


def gram_likeness(query: str, text: str) -> float:
    """Jaccard of the two texts' sets of three letters in a row, in [0, 1]: finds misspelt and inflected words."""
    asked, held = _grams(query), _grams(text)
    return len(asked & held) / len(asked | held) if asked and held else 0.0


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text.lower())


def _grams(text: str) -> set[str]:
    """Each run of three characters; a shorter text is a gram by itself."""
    lowered = text.lower().strip()
    return {lowered[start : start + GRAM] for start in range(max(1, len(lowered) - GRAM + 1))} - {""}


def _scaled_hits(scores: Sequence[float]) -> list[float]:
    """Min-max over what is above 0; the rest stays 0."""
    scaled = iter(min_max([score for score in scores if score > 0]))
    return [next(scaled) if score > 0 else 0.0 for score in scores]


def _reciprocal_ranks(scores: Sequence[float]) -> list[float]:
    """1 / (60 + rank) with the best at rank 1; 0 for a score of 0, which the arm did not find."""
    first: dict[float, int] = {}
    for rank, score in enumerate(sorted(scores, reverse=True), start=1):
        first.setdefault(score, rank)
    return [1 / (RRF_K + first[score]) if score > 0 else 0.0 for score in scores]
