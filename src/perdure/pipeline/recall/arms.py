"""The arms: how well each unit of a scope answers a question, by words, by meaning and by likeness of words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from perdure.domain.stem import stem as stem_of
from perdure.pipeline.recall.question import Question
from perdure.pipeline.recall.scope_index import ASKS, Floats, Rows, ScopeIndex, Vector
from perdure.pipeline.recall.weights import ANSWERED, FADING, SHARES, Lexical


def lexical(index: ScopeIndex, question: Question, neighbours: Sequence[Rows], how: Lexical) -> Floats:
    """BM25F over each unit's window, shape (units,), zero where no word of the question stands.

    Zaragoza et al., Microsoft Cambridge at TREC-13 (2004): counts are weighted before they saturate. Rarity is of
    single units, as Lucene has it: ln(1 + (N - n + .5) / (n + .5)).
    """
    units = len(index.alive)
    total = np.zeros(units, np.float32)
    lent = _lent_words(index, neighbours)
    lengths = _windowed(index.lengths, neighbours, lent)
    living = lengths[index.alive]
    saturation = how.k1 * (1 - how.b + how.b * lengths / max(float(living.mean()) if len(living) else 1.0, 1.0))
    for stem in question.stems:
        rows, counts = index.postings(stem)
        kept = index.alive[rows]
        if not kept.any():
            continue
        own = np.zeros(units, np.float32)
        own[rows[kept]] = counts[kept]
        frequency = _windowed(own, neighbours, lent)
        total += _rarity(index, int(kept.sum())) * frequency * (how.k1 + 1) / (frequency + saturation)
    total[~index.alive] = 0
    return total


def dense(index: ScopeIndex, query: Vector, neighbours: Sequence[Rows]) -> tuple[Floats, Floats]:
    """Cosine of the question to each unit's own vector, and to the mean vector of its window; shapes (units,)."""
    own = (index.vectors @ query).astype(np.float32)
    window = own.copy()
    for rows, share in zip(neighbours, (*SHARES.before, *SHARES.after), strict=True):
        window += share * own[rows]
    window /= index.norms
    return own, window


def whole(index: ScopeIndex, query: Vector) -> tuple[Floats, Rows]:
    """Cosine of the question to the whole text of each long memory, and the first units of these."""
    vectors, rows = index.wholes
    kept = index.alive[rows]
    return (vectors[kept] @ query).astype(np.float32), rows[kept]


def word_likeness(index: ScopeIndex, question: Question, asked: Mapping[str, Vector]) -> NDArray[np.float32]:
    """How like each word of the question is to the likest word of each unit, in [0, 1].

    Shape (words and pairs, units). Words are encoded alone; one of the same stem counts 1, and where no vectors are to
    be had nothing else counts. A pair of characters of an unspaced script is there or is not.
    """
    units = len(index.alive)
    words = question.words
    best = np.zeros((len(words) + len(question.pairs), units), np.float32)
    if words:
        zero = np.zeros(index.dimension, np.float32)
        vectors = np.stack([asked.get(word, zero) for word in words])
        known = index.word_vectors.view
        table = np.zeros((len(words), len(index.vocabulary) + 1), np.float32)
        np.clip(vectors @ known.T, 0, 1, out=table[:, : len(known)])
        for row, stem in enumerate(map(stem_of, words)):
            table[row, index.words_of_stem(stem)] = 1.0
        occurrences, starts = index.occurrences
        best[: len(words)] = np.maximum.reduceat(table[:, occurrences], starts, axis=1)
    for row, pair in enumerate(question.pairs, len(words)):
        best[row, index.postings(pair)[0]] = 1.0
    best[:, ~index.alive] = 0
    return best


def likeness(index: ScopeIndex, question: Question, own: NDArray[np.float32], neighbours: Sequence[Rows]) -> Floats:
    """How like the words of the question are to the likest words in each unit's window, by rarity; shape (units,).

    Late interaction (Khattab and Zaharia, ColBERT, 2020) at the cost of a vocabulary. `own`: of `word_likeness`.
    """
    if not len(own):
        return np.zeros(len(index.alive), np.float32)
    rarities = np.array([_rarity(index, _found(index, stem)) for stem in _stems_of(question)])
    best = own.copy()
    for beside, share in zip(neighbours, (*FADING.before, *FADING.after), strict=True):
        np.maximum(best, share * own[:, beside], out=best)
    return np.asarray(rarities @ best / rarities.sum(), np.float32)


def _stems_of(question: Question) -> list[str]:
    return [*map(stem_of, question.words), *question.pairs]


def _windowed(own: Floats, neighbours: Sequence[Rows], lent: Sequence[Floats | float]) -> Floats:
    total = own.copy()
    for rows, share in zip(neighbours, lent, strict=True):
        total += share * own[rows]
    return total


def _lent_words(index: ScopeIndex, neighbours: Sequence[Rows]) -> list[Floats | float]:
    """What the words of each neighbour count; more of a question that this unit follows."""
    asked_before = (index.cues[neighbours[0]] & ASKS > 0).astype(np.float32)
    first, *rest = (*SHARES.before, *SHARES.after)
    return [np.float32(first) + np.float32(ANSWERED) * asked_before, *rest]


def _rarity(index: ScopeIndex, found: int) -> float:
    total = len(index.alive) - 1 - index.dead_units
    return float(np.log1p((max(total, found) - found + 0.5) / (found + 0.5)))


def _found(index: ScopeIndex, stem: str) -> int:
    return int(index.alive[index.postings(stem)[0]].sum())
