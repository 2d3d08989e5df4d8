"""Rescore the candidates of one query: words and letters, recency, diversity, and repeats left out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from perdure.domain.errors import InvalidInputError
from perdure.domain.memory import MemoryItem, Slots
from perdure.domain.text.terms import split_words
from perdure.pipeline.retrieval.weights import RECENCY_WEIGHT, TRADE

# --- Words and letters beside meaning

# Min-max scaling: scores of any unit as relevance in [0, 1] within one batch of candidates.


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
"""Weights of cosine, BM25 and 3-gram likeness in mode `weighted`."""
RRF_K: Final = 60
"""Added to a rank before it is inverted (Cormack, Clarke and Buettcher 2009)."""
K1, B = 1.2, 0.75
"""BM25's saturation of a repeated word, and its share of the text's length."""
GRAM: Final = 3
"""Letters in a gram."""


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
    return split_words(text.lower())


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


# --- Recency

# What age does to a score, in the two formulas of the specs: both say 30 days and mean different things.
#
# 001's is a half-life that multiplies the score, 002's an e-fold whose value is blended with it.
# After 30 days 001 leaves .5 of a score, while 002's recency is .368 and moves the score by its weight alone.

E_FOLD_DAYS: Final = 30.0
"""Days in which recency falls to 1/e."""
HALF_LIFE_DAYS: Final = 30.0
"""Days in which a score falls to its half."""


def recency(age_days: float, e_fold: float = E_FOLD_DAYS) -> float:
    """exp(-age / e_fold) in [0, 1]: 1 for what is new, .3679 after one e-fold.

    A negative age, which clocks that disagree make, counts as 0. An e-fold that is not above 0 is InvalidInputError.
    """
    _check_days(e_fold, "e_fold")
    return math.exp(-max(age_days, 0.0) / e_fold)


def blend(relevance: float, recency_score: float, weight: float = RECENCY_WEIGHT) -> float:
    """(1 - weight) * relevance + weight * recency: 0 is pure relevance, 1 pure recency.

    A weight outside [0, 1] is InvalidInputError.
    """
    if not 0 <= weight <= 1:
        raise InvalidInputError(f"recency weight must be in [0, 1], not {weight!r}", field="weight", value=weight)
    return (1 - weight) * relevance + weight * recency_score


def half_life_decay(score: float, age_days: float, half_life: float = HALF_LIFE_DAYS) -> float:
    """score * exp(-ln 2 * age / half_life): the half of it after one half-life.

    A negative age counts as 0. A half-life that is not above 0 is InvalidInputError.
    """
    _check_days(half_life, "half_life")
    return score * math.exp(-math.log(2) * max(age_days, 0.0) / half_life)


def _check_days(days: float, field: str) -> None:
    if not days > 0:  # so written, it refuses NaN too
        raise InvalidInputError(f"{field} must be above 0 days, not {days!r}", field=field, value=days)


ABOUT_EQUAL = 0.75
"""Share of another's score from which a memory answers a question about as well; what scores less answers another."""

SameMatter = Callable[[MemoryItem, MemoryItem], bool]
"""Whether a newer memory and an older one speak of one attribute of one subject."""


def newer_first(items: Sequence[MemoryItem], same_matter: SameMatter) -> list[MemoryItem]:
    """The same items, best first, a newer one before the one that it may have replaced where both answer as well.

    An item moves up, past such as score about as much as it does, and in front of nothing that replaced it. Every item
    keeps its own score, so that the scores of such a pair may rise. A link holds only between two of one matter of
    which the newer was not told first; links that run in a circle tell nothing.
    """
    older = _links(items, same_matter)
    if not older:
        return list(items)
    ordered: list[MemoryItem] = []
    for item in items:
        ordered.insert(_place(item, ordered, older), item)
    return ordered


def _links(items: Sequence[MemoryItem], same_matter: SameMatter) -> dict[str, frozenset[str]]:
    """The ids that each item stands before, itself linked or by way of others, without circles."""
    here = {item.id: item for item in items}
    direct: dict[str, set[str]] = {}
    for item in items:
        for id in item.older:
            other = here.get(id)
            if other is None or other is item or item.told_at < other.told_at or not same_matter(item, other):
                continue
            direct.setdefault(item.id, set()).add(id)
    reached = {id: _reached(id, direct) for id in direct}
    return {
        id: frozenset(each for each in ids if id not in reached.get(each, ())) - {id} for id, ids in reached.items()
    }


def _reached(start: str, direct: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(direct[start])
    while waiting:
        id = waiting.pop()
        if id not in found:
            found.add(id)
            waiting += direct.get(id, ())
    return found


def _place(item: MemoryItem, ordered: Sequence[MemoryItem], older: Mapping[str, frozenset[str]]) -> int:
    """Where the item goes in what stands already: at the end, or before the first that it may have replaced."""
    mine = older.get(item.id, frozenset())
    score = item.score or 0.0
    place = len(ordered)
    for position in range(len(ordered) - 1, -1, -1):
        other = ordered[position]
        if score < ABOUT_EQUAL * (other.score or 0.0) or item.id in older.get(other.id, ()):
            break
        if other.id in mine:
            place = position
    return place


# --- Diversity and repeats

# Repeats: of wordings that say the same, only the best is told (five ways to like coffee are one memory).

USER = "user"
"""The subject of what is about the user, as it stands in slots."""


def without_repeats(told: Sequence[tuple[str, Slots | None]]) -> list[int]:
    """The places of the texts that say something which none before them says.

    Two say the same where they are about the user, and attribute and value are the same in canonical form, whatever the
    wording: "User loves coffee" and "User is fond of coffee" do, "User visited Rome in 2021" and "in 2023" do not.
    What is about others is left alone, because a subject's own details are not in its slots ("house number 7").
    With each text come the slots that are known of it; for a None they are read. A text without any repeats nothing.
    """
    said: set[tuple[str, str, bool]] = set()
    kept: list[int] = []
    for place, (text, known) in enumerate(told):
        key = _key(known or _read(text))
        if key is None or key not in said:
            kept.append(place)
        if key is not None:
            said.add(key)
    return kept


def _key(slots: Slots | None) -> tuple[str, str, bool] | None:
    if slots is None or slots.subject != USER or not slots.value.strip():
        return None
    return slots.attribute, " ".join(slots.value.casefold().split()), slots.polarity


@lru_cache(maxsize=4_096)
def _read(text: str) -> Slots | None:
    """The slots of a text that is about the user; without that word it cannot be, and need not be read."""
    if text.isascii() and USER not in text.lower():
        return None
    from perdure.pipeline.curation.rules.slots import read_slots  # its patterns take 50 ms to compile

    return read_slots(text)


_DECIMALS: Final = 9
"""Similarities are rounded to so many: equal vectors must tie, and a matrix product may differ in its last bits."""

Vector = NDArray[np.floating]


def mmr(
    relevance: Sequence[float], vectors: Sequence[Vector | None] | Vector, limit: int, trade: float = TRADE
) -> list[int]:
    """The places of at most `limit` candidates in the order of their selection, the most relevant first.

    Each next one has the greatest trade * relevance - (1 - trade) * (greatest cosine to one selected before), ties by
    place (Carbonell and Goldstein 1998). With a trade of 1 that is the ranking by relevance. `vectors`: a row of any
    length for each candidate, shape (n, d); a None, a row of zeros or one of another width than the first is like
    nothing. O(n * d * limit). A trade outside [0, 1], a negative limit or a row too few is InvalidInputError.
    """
    count = len(relevance)
    if not 0 <= trade <= 1:
        raise InvalidInputError(f"mmr trade must be in [0, 1], not {trade!r}", field="trade", value=trade)
    if limit < 0:
        raise InvalidInputError(f"mmr limit must not be negative: {limit!r}", field="limit", value=limit)
    if len(vectors) != count:
        raise InvalidInputError(
            f"mmr needs a vector or None for each of {count} candidates, not {len(vectors)}",
            field="vectors",
            value=len(vectors),
        )
    if not count or not limit:
        return []
    units = _units(vectors)
    worth = np.asarray(relevance, dtype=np.float64)
    free = np.ones(count, dtype=bool)
    nearest = np.full(count, -1.0)
    selected = [int(np.argmax(worth))]  # not weighed by the trade, or a trade of 0 would begin with any
    while len(selected) < min(limit, count):
        free[selected[-1]] = False
        nearest = np.maximum(nearest, np.round(units @ units[selected[-1]], _DECIMALS))
        selected.append(int(np.argmax(np.where(free, trade * worth - (1 - trade) * nearest, -np.inf))))
    return selected


def _units(vectors: Sequence[Vector | None] | Vector) -> NDArray[np.float64]:
    """The rows at length 1, and zeros for a candidate without a usable vector: shape (n, d)."""
    width = next((len(vector) for vector in vectors if vector is not None), 0)
    rows = np.zeros((len(vectors), width))
    for place, vector in enumerate(vectors):
        if vector is not None and len(vector) == width:
            rows[place] = vector
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    np.divide(rows, lengths, out=rows, where=lengths > 0)
    return rows
