"""Fusion: arms divided by their best and added with their weights, over every unit of a scope; the best unit of a
memory speaks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perdure.pipeline.recall import arms
from perdure.pipeline.recall.coverage import EVIDENCE, Coverage, cover
from perdure.pipeline.recall.question import Question
from perdure.pipeline.recall.renewals import AMONG, renewed_first
from perdure.pipeline.recall.scope_index import LONG, NAMED, TURN, USER, Floats, Rows, ScopeIndex, Vector
from perdure.pipeline.recall.signals import signals
from perdure.pipeline.recall.weights import AMONG_TURNS, Ranking


@dataclass(frozen=True, slots=True)
class Evidence:
    """What coverage asks of the ranked memories."""

    likeness: NDArray[np.float32]
    """Of `arms.word_likeness`."""
    days: NDArray[np.float64]
    """When each ranked memory was told."""
    speaker: Rows
    """The number of who told it."""
    names: Mapping[int, str]

    def covered(self, question: Question, units: Rows, places: Sequence[int]) -> Coverage:
        """How much of the question the memories at these places hold, best first."""
        top = list(places[:EVIDENCE])
        told_by = [self.names.get(int(self.speaker[place])) for place in top]
        return cover(question, self.likeness, [int(units[place]) for place in top], self.days[top], told_by)


@dataclass(frozen=True, slots=True)
class Ranked:
    """Memories of a scope by their fused score, best first, with what each arm and signal gave to it."""

    ids: list[str]
    units: Rows
    """The unit that speaks for each."""
    fused: Floats
    """Best first; where `renewals` moved a memory, the score of its new place."""
    similarity: Floats
    """Cosine of the question to the memory itself: its best passage, where it is long."""
    shares: Mapping[str, Floats]
    """Weighted shares of all units, by the name of the weight."""
    evidence: Evidence


def rank(
    index: ScopeIndex,
    question: Question,
    query: Vector | None,
    asked: Mapping[str, Vector],
    ranking: Ranking,
) -> Ranked:
    """Every memory of the index, ranked; without a vector of the question only those that share a word with it.

    Ties by what was told last.
    """
    neighbours = index.neighbours()
    talk = index.cues & (NAMED | LONG) == NAMED
    turns = talk & index.alive & (index.cues & TURN > 0)
    units = len(index.alive)
    own = np.zeros(units, np.float32)
    shares: dict[str, Floats] = {}
    lexical = arms.lexical(index, question, neighbours, ranking.lexical)
    shares["lexical"] = _weighed("lexical", talk, ranking) * _by_best(lexical, turns)
    if query is not None:
        own, meant = arms.dense(index, query, neighbours)
        own[~index.alive] = 0
        meant[~index.alive] = 0
        shares["dense"] = _weighed("dense", talk, ranking) * _by_best(
            _with_wholes(index, query, own, meant, ranking), turns
        )
    like = arms.word_likeness(index, question, asked)
    liked = arms.likeness(index, question, like, neighbours)
    shares["likeness"] = _weighed("likeness", talk, ranking) * _by_best(liked, turns)
    found = index.alive if query is not None else index.alive & (liked > 0)
    for name, values in signals(index, question, own).items():
        shares[name] = _weighed(name, talk, ranking) * values
    fused = sum(shares.values(), np.zeros(units, np.float32))
    fused[~found] = -np.inf
    best, similarity = _best_units(index, fused, own)
    scores = fused[best]
    if question.of_now:
        best[:AMONG] = best[_renewed(index, best[:AMONG], scores)]
    owners = index.owner[best]
    evidence = Evidence(
        like, index.days[best], index.speaker[best], {number: name for name, number in index.speakers.items()}
    )
    return Ranked([index.ids[owner] for owner in owners], best, scores, similarity[owners], shares, evidence)


def _renewed(index: ScopeIndex, best: Rows, scores: Floats) -> list[int]:
    moments = [(float(index.days[unit]), int(unit)) for unit in best]
    told = [bool(index.cues[unit] & USER) for unit in best]
    return renewed_first(index.vectors[best], moments, [float(score) for score in scores[: len(best)]], told)


def _weighed(name: str, talk: NDArray[np.bool_], ranking: Ranking) -> Floats:
    """The weight of an arm or signal for each unit: one for turns of a talk, another for what stands alone."""
    return np.asarray(np.where(talk, getattr(ranking.talk, name), getattr(ranking.alone, name)), np.float32)


def _with_wholes(index: ScopeIndex, query: Vector, own: Floats, meant: Floats, ranking: Ranking) -> Floats:
    """The window's cosine for short memories; for long ones a mean of their passage's and their whole text's."""
    whole, firsts = arms.whole(index, query)
    if not len(firsts):
        return meant
    by_owner = np.zeros(len(index.ids), np.float32)
    by_owner[index.owner[firsts]] = whole
    share = ranking.long_whole / (ranking.long_whole + ranking.long_passage)
    is_long = index.cues & LONG > 0
    return np.where(is_long, share * by_owner[index.owner] + (1 - share) * own, meant).astype(np.float32)


def _by_best(scores: Floats, turns: NDArray[np.bool_]) -> Floats:
    """An arm over its best. Turns of a talk go by the best of their own, so that a fact told beside them, which says
    again and in fewer words what one of them said, does not make less of them all (`weights.AMONG_TURNS`)."""
    best = float(scores.max(initial=0.0))
    if best <= 0:
        return np.zeros_like(scores)
    of_turns = max(float(scores.max(initial=0.0, where=turns)), AMONG_TURNS * best)
    return np.asarray(np.maximum(scores, 0) / np.where(turns, of_turns, best), np.float32)


def _best_units(index: ScopeIndex, fused: Floats, own: Floats) -> tuple[Rows, Floats]:
    """The unit that speaks for each memory, best first, and the cosine of every memory, by its place in `ids`."""
    units = np.flatnonzero(np.isfinite(fused))
    order = units[np.lexsort((-index.days[units], -fused[units]))]
    _, firsts = np.unique(index.owner[order], return_index=True)
    similarity = np.full(len(index.ids), -1.0, np.float32)
    np.maximum.at(similarity, index.owner, own)
    return order[np.sort(firsts)], similarity
