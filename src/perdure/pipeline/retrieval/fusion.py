"""Fuse the search arms over every unit of a scope: each divided by its best, weighted and added.

A memory scores as its best unit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from perdure.domain.text.terms import stem as stem_of
from perdure.pipeline.lexicon import words
from perdure.pipeline.retrieval.features import (
    ASKS,
    DIRECTIVE,
    LONG,
    NAMED,
    NOTE,
    PREFERENCE,
    TURN,
    USER,
    Vector,
)
from perdure.pipeline.retrieval.question import AMONG, Question, renewed_first
from perdure.pipeline.retrieval.scope_index import Floats, Rows, ScopeIndex
from perdure.pipeline.retrieval.time_window import closeness
from perdure.pipeline.retrieval.weights import AMONG_TURNS, ANSWERED, FADING, SHARES, Lexical, Ranking, Weights

# Adaptive threshold: cut where the scores of one query fall off, instead of at one value for all.

MIN_GAP: Final = 0.05  # the least fall between neighbours in the ranking that counts as an edge
_ROUNDING: Final = 1e-9
"""What floating point may add to a gap: .50 - .45 is an edge, and of equal gaps the first one counts."""


def adaptive_threshold(scores: Sequence[float], floor: float) -> float:
    """Return the middle of the largest gap between sorted scores, at least `floor`; gaps count from `MIN_GAP` on."""
    ranked = sorted(scores, reverse=True)
    gaps = [higher - lower for higher, lower in pairwise(ranked)]
    greatest = max(gaps, default=0.0)
    if greatest < MIN_GAP - _ROUNDING:
        return floor
    edge = next(place for place, gap in enumerate(gaps) if gap >= greatest - _ROUNDING)
    return max(floor, ranked[edge] - gaps[edge] / 2)


# Coverage: how much of what a question asks about the memories hold, so that an agent can say that it does not know.
#
# Scores cannot tell it: what cannot be answered is asked in the words of what was said (field study: AUROC .3 to .5).
# The facet that is held least can: every topic word of the question is one, names and dates among them.

EVIDENCE = 10  # best memories that count as evidence
STRICTNESS = 2.0
"""Power of the mean likeness in the whole scope, for each factor of ten in its size: a large scope has a word like
nearly every other, so that .95 says much there. AUROC on BEAM's dev half (some 500 units a chat) with a power of 0, 2,
4, 6, 8: .71, .74, .76, .76, .77."""

BY_ANOTHER, STRICTNESS_OF_SPEAKERS = 0.7, 4.0
"""What others say of a person counts for so much of what the person says; and the power of that share.

"What did Ann buy?" is asked in the words of a purchase, which may be Bo's. AUROC on LoCoMo's adversarial questions, 237
of 587 of five conversations, with a power of 0, 1, 2, 4: .63, .68, .71, .75, and much the same in the first two alone;
.74 with what others say at .7, so that a person of whom only others speak is not taken for unknown.
"""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a question is covered, in [0, 1], and how much of each word."""

    value: float = 0.0
    facets: dict[str, Any] = field(default_factory=dict)
    """`words`: each topic word with its best likeness in the evidence; `names`: whether each speaker who is asked about
    speaks there; `time`: how near the evidence comes to the time that is asked about."""


def cover(
    question: Question,
    likeness: NDArray[np.float32],
    best: Sequence[int],
    days: NDArray[np.float64],
    speakers: Sequence[str | None],
) -> Coverage:
    """Return how well memories, best first, cover a question.

    `likeness` is that of each word of the question to each unit of the scope, shape (words, units); `best` are the
    units of the best memories; `days` and `speakers` are when and by whom (folded) each was said. The result is the
    mean likeness in the scope to a power that grows with it, times the mean of the least likeness in the best memory
    and in the best ten; less where a person is asked about, and others spoke of it more (`_said_by`).
    """
    asking = words("recall_asking_words.txt")
    asked_for = (*question.words, *question.pairs)
    kept = [place for place, word in enumerate(asked_for) if word not in asking] or range(len(asked_for))
    evidence = list(best[:EVIDENCE])
    if not evidence:
        return Coverage(0.0, {"words": dict.fromkeys((asked_for[place] for place in kept), 0.0)})
    facets: dict[str, Any] = {}
    value = 0.0  # a question without a word, such as an emoji, is held by nothing
    if len(kept):
        asked = likeness[list(kept)]
        held = asked[:, evidence].max(axis=1)
        known = float(asked.max(axis=1).mean())
        value = (
            known ** (STRICTNESS * math.log10(1 + likeness.shape[1]))
            * (float(asked[:, evidence[0]].min()) + float(held.min()))
            / 2
        ) * _said_by(question, asked[:, evidence].mean(axis=0), speakers)
        shares = zip(kept, held, strict=True)
        facets["words"] = {asked_for[place]: round(float(share), 3) for place, share in shares}
    if question.named:
        facets["names"] = {name: name in speakers[:EVIDENCE] for name in sorted(question.named)}
    if question.window is not None:
        facets["time"] = round(float(closeness(question.window, days[:EVIDENCE]).max(initial=0.0)), 3)
        value = value if len(kept) else facets["time"]
    return Coverage(min(1.0, max(0.0, value)), facets)


def _said_by(question: Question, held: NDArray[np.float32], speakers: Sequence[str | None]) -> float:
    """Return how much of a question those hold whom it asks about, as a share of what anybody holds of it.

    `held` is the mean likeness of each piece of evidence. What nobody is known to have said counts for everybody.
    """
    best = float(held.max())
    if not question.named or best <= 0:
        return 1.0
    own = [share for share, name in zip(held, speakers, strict=False) if name is None or name in question.named]
    share = float(max(own, default=0.0)) / best
    return math.pow(max(share, BY_ANOTHER), STRICTNESS_OF_SPEAKERS)


# Signals: what speaks for a unit beside its likeness to the question; each is 0 where its cue is absent.

TEMPORAL_FULL = 2  # words of time that count in full
PROPER_FULL = 3  # proper nouns that count in full
SPAN = 30.0  # days from the first told to the last that count in full
SLIGHT = 4.0  # stems from which a unit is not slight


def still_signals(index: ScopeIndex) -> dict[str, Floats]:
    """Return the signals that no question changes, by the name of their weight; shapes (units,), in [0, 1]."""
    cues = index.cues
    talk = (cues & (NAMED | LONG) == NAMED).astype(np.float32)
    found = {
        "question": talk * (cues & ASKS > 0),
        "temporal": talk * np.minimum(index.temporal, TEMPORAL_FULL) / TEMPORAL_FULL,
        "proper": talk * np.minimum(index.proper, PROPER_FULL) / PROPER_FULL,
        "noted": (cues & NOTE > 0).astype(np.float32),
    }
    turns = cues & TURN > 0
    if (turns & index.alive).any():
        found["retold"] = ~turns
    return {name: np.asarray(values, np.float32) for name, values in found.items()}


def signals(index: ScopeIndex, question: Question, similarity: Floats) -> dict[str, Floats]:
    """Return the signals for the question, by the name of their weight; shapes (units,), values in [0, 1].

    `similarity` is the cosine to each unit as a squared share of the best one's, by which instructions about other
    matters rank lower (BEAM: .656 for .643 without the square).
    """
    cues = index.cues
    found: dict[str, Floats | NDArray[Any]] = {}
    if len(question.named) == 1:
        (name,) = question.named
        found["speaker"] = index.speaker == index.speakers.get(name, -1)
    if question.window is not None:
        found["date"] = closeness(question.window, index.days)
    if question.wants_doing:
        found["directive"] = _near(cues & DIRECTIVE > 0, similarity)
        found["preference"] = _near(cues & PREFERENCE > 0, similarity)
    return {name: np.asarray(values, np.float32) for name, values in found.items()}


def proportions(index: ScopeIndex, question: Question) -> dict[str, Floats]:
    """Return the signals that raise or lower what the arms give, by the name of their weight; shapes (units,).

    They say nothing of how well a unit answers, so what does not answer stays faint.
    """
    found: dict[str, Floats] = index.prepared("proportions", lambda: _proportions(index))
    return found if question.of_now else {name: values for name, values in found.items() if name != "aged"}


def _proportions(index: ScopeIndex) -> dict[str, Floats]:
    cues = index.cues
    return {
        "user": (cues & (USER | NOTE) > 0).astype(np.float32),
        "slight": np.where(cues & TURN > 0, np.clip(1 - index.lengths / SLIGHT, 0, 1), 0).astype(np.float32),
        "aged": _aged(index),
    }


def _aged(index: ScopeIndex) -> Floats:
    """Return how long ago each unit was told, as a share of the time from the first to the last; shape (units,).

    What was told in a few days is hardly newer or older: the time counts as `SPAN` days at least.
    """
    days = index.days[index.alive]
    if not len(days):
        return np.zeros(len(index.days), np.float32)
    span = max(float(days.max() - days.min()), SPAN)
    return np.asarray(np.clip((days.max() - index.days) / span, 0, 1), np.float32)


def _near(marked: NDArray[np.bool_], similarity: Floats) -> Floats:
    likely = np.where(marked, np.maximum(similarity, 0), 0)
    best = float(likely.max(initial=0.0))
    return ((likely / best) ** 2 if best > 0 else marked).astype(np.float32)


# The arms: how well each unit of a scope answers a question, by words, by meaning and by likeness of words.


def lexical_signal(index: ScopeIndex, question: Question, neighbours: Sequence[Rows], how: Lexical) -> Floats:
    """Return BM25F over each unit's window, shape (units,), zero without a word of the question.

    Zaragoza et al., Microsoft Cambridge at TREC-13 (2004): counts are weighted before they saturate. Rarity is of
    single units, as in Lucene: ln(1 + (N - n + .5) / (n + .5)).
    """
    total = np.zeros(len(index.alive), np.float32)
    lent, saturation = index.prepared(("saturation", how), lambda: _saturation(index, neighbours, how))
    for stem in question.stems:
        rows, counts = _living(index, stem)
        if not len(rows):
            continue
        found, frequency = _spread(rows, counts, neighbours, lent)
        total[found] += _rarity(index, len(rows)) * frequency * (how.k1 + 1) / (frequency + saturation[found])
    total[~index.alive] = 0
    return total


def dense(index: ScopeIndex, query: Vector, neighbours: Sequence[Rows]) -> tuple[Floats, Floats]:
    """Return the question's cosine to each unit's vector, and to the mean vector of its window; shapes (units,)."""
    own = in_this_thread(index.vectors, query)
    window = own.copy()
    for rows, share in zip(neighbours, (*SHARES.before, *SHARES.after), strict=False):
        window += np.float32(share) * own[rows]
    return own, window / index.norms


def in_this_thread(vectors: Floats, query: Vector) -> Floats:
    """Return the product of vectors and one vector, shape (n,), without BLAS, which would wake its own threads.

    They spin on the other cores after such a short product: twice the processor time of a search, and under load up to
    four times its wall time (docs/benchmarks.md).
    """
    return np.asarray(np.einsum("ij,j->i", vectors, query), np.float32)


def whole_signal(index: ScopeIndex, query: Vector) -> tuple[Floats, Rows]:
    """Return the question's cosine to the whole text of each long memory, and the first units of these."""
    vectors, rows = index.wholes
    kept = index.alive[rows]
    return in_this_thread(vectors[kept], query), rows[kept]


def word_likeness(index: ScopeIndex, question: Question, asked: Mapping[str, Vector]) -> NDArray[np.float32]:
    """Return the likeness of each word of the question to the most similar word of each unit, in [0, 1].

    Shape (words and pairs, units). Words are encoded alone; the same stem counts 1, and without vectors nothing else
    counts. A pair of characters of an unspaced script is either present or not.
    """
    words = question.words
    best = np.zeros((len(words) + len(question.pairs), len(index.alive)), np.float32)
    occurrences, starts = index.occurrences
    index.words.compare({word: asked[word] for word in words if word in asked})
    for row, word in enumerate(words):
        if word in asked:
            np.maximum.reduceat(index.words.likeness(word, asked[word])[occurrences], starts, out=best[row])
        best[row, index.postings(stem_of(word))[0]] = 1.0
    for row, pair in enumerate(question.pairs, len(words)):
        best[row, index.postings(pair)[0]] = 1.0
    best[:, ~index.alive] = 0
    return best


def likeness_signal(
    index: ScopeIndex, question: Question, own: NDArray[np.float32], neighbours: Sequence[Rows]
) -> Floats:
    """Return the likeness of the question's words to each unit's window, weighted by rarity; shape (units,).

    Late interaction (Khattab and Zaharia, ColBERT, 2020) at the cost of a vocabulary; `own` is from `word_likeness`.
    """
    if not len(own):
        return np.zeros(len(index.alive), np.float32)
    rarities = np.array([_rarity(index, len(_living(index, stem)[0])) for stem in _stems_of(question)], np.float32)
    best = own.copy()
    for beside, share in zip(neighbours, (*FADING.before, *FADING.after), strict=False):
        np.maximum(best, np.float32(share) * own[:, beside], out=best)
    return np.asarray((rarities[:, None] * best).sum(axis=0) / rarities.sum(), np.float32)


def _stems_of(question: Question) -> list[str]:
    return [*map(stem_of, question.words), *question.pairs]


def _living(index: ScopeIndex, stem: str) -> tuple[Rows, Floats]:
    """Return the living units with a stem, and its counts."""
    rows, counts = index.postings(stem)
    kept = index.alive[rows]
    return (rows, counts) if kept.all() else (rows[kept], counts[kept])


def _saturation(
    index: ScopeIndex, neighbours: Sequence[Rows], how: Lexical
) -> tuple[list[Floats | np.float32], Floats]:
    """Return the weight of each neighbour's words, and BM25F's length term of each unit's window."""
    lent: list[Floats | np.float32] = []
    lengths = index.lengths.copy()
    if neighbours:
        # More of a question that this unit follows: its words are what this unit speaks of.
        asked_before = (index.cues[neighbours[0]] & ASKS > 0).astype(np.float32)
        first, *rest = (*SHARES.before, *SHARES.after)
        lent = [np.float32(first) + np.float32(ANSWERED) * asked_before, *map(np.float32, rest)]
        for rows, share in zip(neighbours, lent, strict=True):
            lengths += share * index.lengths[rows]
    living = lengths[index.alive]
    mean = max(float(living.mean()) if len(living) else 1.0, 1.0)
    return lent, (how.k1 * (1 - how.b + how.b * lengths / mean)).astype(np.float32)


def _spread(
    rows: Rows, counts: Floats, neighbours: Sequence[Rows], lent: Sequence[Floats | np.float32]
) -> tuple[Rows, Floats]:
    """Return the units with a stem in their windows, and its weighted counts.

    Neighbours are mutual: if one unit is the first before another, that one is the first after it.
    """
    if not neighbours:
        return rows, counts
    units, weighted = [rows], [counts]
    for place, share in enumerate(lent):
        inverse = neighbours[(place + 3) % 6][rows]
        units.append(inverse)
        weighted.append((share if np.ndim(share) == 0 else share[inverse]) * counts)  # type: ignore[index]
    every = np.concatenate(units)
    found, places = np.unique(every, return_inverse=True)
    frequency = np.bincount(places.reshape(-1), np.concatenate(weighted), len(found)).astype(np.float32)
    start = int(found[0] == 0)  # unit 0 stands for no neighbour
    return found[start:], frequency[start:]


def _rarity(index: ScopeIndex, found: int) -> float:
    total = len(index.alive) - 1 - index.dead_units
    return float(np.log1p((max(total, found) - found + 0.5) / (found + 0.5)))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What coverage needs of the ranked memories."""

    likeness: NDArray[np.float32]  # of `arms.word_likeness`
    days: NDArray[np.float64]  # when each ranked memory was told
    speaker: NDArray[np.int32]  # the number of who told it
    names: Mapping[int, str]

    def covered(self, question: Question, units: Rows, places: Sequence[int]) -> Coverage:
        """Return how much of the question the memories at these places cover, best first."""
        top = list(places[:EVIDENCE])
        told_by = [self.names.get(int(self.speaker[place])) for place in top]
        return cover(question, self.likeness, [int(units[place]) for place in top], self.days[top], told_by)


@dataclass(frozen=True, slots=True)
class Ranked:
    """Memories of a scope by their fused score, best first, with the share of each arm and signal."""

    ids: list[str]
    units: Rows  # the unit that speaks for each
    fused: Floats  # best first; where `renewals` moved a memory, the score of its new place
    similarity: Floats  # cosine of the question to the memory itself: its best passage, where it is long
    shares: Mapping[str, Floats]  # weighted shares of all units, by the name of the weight
    evidence: Evidence
    found: int  # how many were found in all; of these at least as many as were wanted are here


def rank(
    index: ScopeIndex,
    question: Question,
    query: Vector | None,
    asked: Mapping[str, Vector],
    ranking: Ranking,
    *,
    most: int | None = None,
) -> Ranked:
    """Return the index's memories by rank; without a question vector only those that share a word with it.

    Ties are broken by time, the latest first. `most` is how many are wanted at least, None for all.
    """
    neighbours = index.neighbours()
    talk, turns, still = index.prepared(("still", ranking), lambda: _still(index, ranking))
    units = len(index.alive)
    own = np.zeros(units, np.float32)
    shares: dict[str, Floats] = {}
    lexical = lexical_signal(index, question, neighbours, ranking.lexical)
    shares["lexical"] = talk["lexical"] * _by_best(lexical, turns)
    if query is not None:
        own, meant = dense(index, query, neighbours)
        own[~index.alive] = 0
        meant[~index.alive] = 0
        shares["dense"] = talk["dense"] * _by_best(_with_wholes(index, query, own, meant, ranking), turns)
    like = word_likeness(index, question, asked)
    liked = likeness_signal(index, question, like, neighbours)
    shares["likeness"] = talk["likeness"] * _by_best(liked, turns)
    arms = sum(shares.values(), np.zeros(units, np.float32))
    for name, values in proportions(index, question).items():
        shares[name] = talk[name] * values * arms
    shares |= still
    for name, values in signals(index, question, own).items():
        shares[name] = talk[name] * values
    fused = sum(shares.values(), np.zeros(units, np.float32))
    fused[~(index.alive if query is not None else index.alive & (liked > 0))] = -np.inf
    best, similarity, found = _best_units(index, fused, own, most)
    scores = fused[best]
    if question.of_now:
        best[:AMONG] = best[_renewed(index, question, best[:AMONG], scores)]
    owners = index.owner[best]
    evidence = Evidence(
        like, index.days[best], index.speaker[best], {number: name for name, number in index.speakers.items()}
    )
    ids = [index.ids[owner] for owner in owners]
    return Ranked(ids, best, scores, similarity[owners], shares, evidence, found)


def _renewed(index: ScopeIndex, question: Question, best: Rows, scores: Floats) -> list[int]:
    moments = [(float(index.days[unit]), int(unit)) for unit in best]
    own = [bool(index.cues[unit] & USER) for unit in best]
    noted = [bool(index.cues[unit] & NOTE) for unit in best]
    owners = index.owner[best]
    marked = np.zeros((len(best), len(question.marks)), np.bool_)
    for column, mark in enumerate(question.marks):
        marked[:, column] = np.isin(owners, index.owner[index.postings(mark)[0]])
    marked |= (index.cues[best] & LONG > 0)[:, None]  # a long text need not repeat the name of which it goes on to tell
    worth = [float(score) for score in scores[: len(best)]]
    return renewed_first(index.vectors[best], moments, worth, own, noted, marked=marked)


def _still(index: ScopeIndex, ranking: Ranking) -> tuple[dict[str, Floats], NDArray[np.bool_], dict[str, Floats]]:
    """Return what depends only on the index: weights (of turns or others), live turns, constant signals."""
    is_talk = index.cues & (NAMED | LONG) == NAMED
    names = [field.name for field in fields(Weights)]
    weights = {
        name: np.where(is_talk, getattr(ranking.talk, name), getattr(ranking.alone, name)).astype(np.float32)
        for name in names
    }
    turns = is_talk & index.alive & (index.cues & TURN > 0)
    return weights, turns, {name: weights[name] * values for name, values in still_signals(index).items()}


def _with_wholes(index: ScopeIndex, query: Vector, own: Floats, meant: Floats, ranking: Ranking) -> Floats:
    """Return the window's cosine for short memories; for long ones a mean of their passage's and their whole text's."""
    whole, firsts = whole_signal(index, query)
    if not len(firsts):
        return meant
    by_owner = np.zeros(len(index.ids), np.float32)
    by_owner[index.owner[firsts]] = whole
    share = ranking.long_whole / (ranking.long_whole + ranking.long_passage)
    is_long = index.cues & LONG > 0
    return np.where(is_long, share * by_owner[index.owner] + (1 - share) * own, meant).astype(np.float32)


def _by_best(scores: Floats, turns: NDArray[np.bool_]) -> Floats:
    """Return an arm divided by its best; turns by the best turn, which no shorter fact may outdo (`AMONG_TURNS`)."""
    best = float(scores.max(initial=0.0))
    if best <= 0:
        return np.zeros_like(scores)
    of_turns = max(float(scores.max(initial=0.0, where=turns)), AMONG_TURNS * best)
    return np.asarray(np.maximum(scores, 0) / np.where(turns, of_turns, best), np.float32)


def _best_units(index: ScopeIndex, fused: Floats, own: Floats, most: int | None) -> tuple[Rows, Floats, int]:
    """Return each memory's best unit by score, all memories' cosines by their place in `ids`, and the number found."""
    units = np.flatnonzero(fused > -np.inf)
    found = len(units)
    one_each = len(index.ids) == len(index.alive)  # a unit of its own for each memory
    if most is not None and one_each and len(units) > 2 * most:
        least = np.partition(fused[units], len(units) - most)[len(units) - most]
        units = units[fused[units] >= least]
    order = units[np.lexsort((-index.days[units], -fused[units]))]
    if one_each:
        return order, own, found
    _, firsts = np.unique(index.owner[order], return_index=True)
    similarity = np.full(len(index.ids), -1.0, np.float32)
    np.maximum.at(similarity, index.owner, own)
    return order[np.sort(firsts)], similarity, len(firsts)
