"""What recall is measured by: pure functions of a ranking and the turns that hold the answer, and tables of them.

A ranking is a list of results, best first, and a result is the set of ids of the turns that it stands for: one for a
turn, those that a fact came from for a fact, none for a result of unknown origin. A result counts once, whatever it
stands for. Three figures go by the name of recall, and all are given: *any* (is there a right turn among the first k),
*fraction* (how many of the right turns are) and *all* (are they all there).
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

from recall_data import Conversation, Question  # beside this file

Ranking = Sequence[Collection[str]]

CUTS = (5, 10, 20, 50)
"""Results that are looked at, as the data sets' own evaluations and the field's tables do."""
BUDGETS = (1000, 2000, 4000, 8000)
"""Tokens that may be put into a prompt: the only measure that is fair across turns, facts and long messages."""
TOKENS_PER_WORD = 1.3
CHARACTERS_PER_TOKEN = 4
"""The two usual estimates of a text's tokens, for English prose; what is shown says which was taken."""
PROMPT_TOKENS = 2000
"""What the answering model is given to read; the budget by which the field compares (words x 1.3)."""
COLUMNS = ("r@5", "r@10", "r@20", "r@50", "any@10", "all@10", "nDCG@10", "MRR", "r@1k", "r@2k", "r@4k", "r@8k")
RESAMPLES = 2000
LEVEL = 0.95


def tokens_by_words(text: str) -> int:
    """Tokens of a text, estimated from its words."""
    return math.ceil(TOKENS_PER_WORD * len(text.split()))


def tokens_by_characters(text: str) -> int:
    """Tokens of a text, estimated from its characters."""
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


# ---------------------------------------------------------------------- right turns among the results
def reached(ranking: Ranking, k: int) -> set[str]:
    """The turns that the first k results stand for."""
    return {id for result in ranking[:k] for id in result}


def fraction_at(ranking: Ranking, gold: Collection[str], k: int) -> float:
    """The share of the right turns that is among the first k results."""
    return len(set(gold) & reached(ranking, k)) / len(set(gold))


def any_at(ranking: Ranking, gold: Collection[str], k: int) -> float:
    """1 where some right turn is among the first k results, else 0."""
    return float(not reached(ranking, k).isdisjoint(gold))


def all_at(ranking: Ranking, gold: Collection[str], k: int) -> float:
    """1 where every right turn is among the first k results, else 0."""
    return float(reached(ranking, k).issuperset(gold))


def ndcg_at(ranking: Ranking, gold: Collection[str], k: int) -> float:
    """Discounted gain of the first k results over the best possible; a result gains if it brings a right turn anew.

    Gain 1, discount log2(rank + 1) (Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, 2002).
    """
    missing = set(gold)
    gain = 0.0
    for rank, result in enumerate(ranking[:k], 1):
        if not missing.isdisjoint(result):
            gain += 1 / math.log2(rank + 1)
            missing.difference_update(result)
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(set(gold))) + 1))


def best_rank(ranking: Ranking, ids: Collection[str]) -> float:
    """The rank, from 1, of the first result that stands for one of the turns; infinite where none does."""
    return next((rank for rank, result in enumerate(ranking, 1) if not set(ids).isdisjoint(result)), math.inf)


def reciprocal_rank(ranking: Ranking, gold: Collection[str]) -> float:
    """1 over the rank of the first right result, 0 where there is none."""
    return 1 / best_rank(ranking, gold)


def fill(costs: Sequence[int], budget: int) -> list[int]:
    """Which results fit into a budget of tokens, taken in order; one that does not fit is skipped, a later one may.

    So a larger budget may hold less of the evidence: a long result that fits now can take the room of several.
    """
    taken = []
    for place, cost in enumerate(costs):
        if cost <= budget:
            taken.append(place)
            budget -= cost
    return taken


def fraction_within(ranking: Ranking, costs: Sequence[int], gold: Collection[str], budget: int) -> float:
    """The share of the right turns that is put into a prompt which has room for so many tokens."""
    put = [ranking[place] for place in fill(costs, budget)]
    return fraction_at(put, gold, len(put))


def session_ranking(ranking: Ranking, session_of: Mapping[str, str]) -> list[set[str]]:
    """The sessions of a ranking's turns, each at its first result."""
    found = dict.fromkeys(session_of[id] for result in ranking for id in sorted(result))
    return [{session} for session in found]


# ---------------------------------------------------------------------- old and new, pairs, order
def fresher(ranking: Ranking, old: Collection[str], new: Collection[str]) -> float:
    """1 where the updated value stands before the original one, or without it, else 0."""
    return float(best_rank(ranking, new) < best_rank(ranking, old))


def current_only(ranking: Ranking, old: Collection[str], new: Collection[str], k: int) -> float:
    """1 where the updated value is among the first k results and the original one is not, else 0."""
    return float(best_rank(ranking, new) <= k < best_rank(ranking, old))


def covers_both(ranking: Ranking, pair: tuple[Collection[str], Collection[str]], k: int) -> float:
    """1 where the first k results hold a turn of each side, else 0."""
    return float(all(best_rank(ranking, side) <= k for side in pair))


def group_coverage(ranking: Ranking, groups: Sequence[Collection[str]], k: int) -> float:
    """The share of the events of which some turn is among the first k results."""
    return sum(best_rank(ranking, group) <= k for group in groups) / len(groups)


def kendall_tau(ranking: Ranking, groups: Sequence[Collection[str]], k: int) -> float:
    """How far the first k results name the events in their order: 1 in order, -1 in reverse, 0 for no relation.

    Over all pairs of events (Kendall, A new measure of rank correlation, 1938); a pair of which one is not found, or of
    which both are found in the same result, counts for neither side, so that what is missing brings the figure to 0.
    """
    ranks = [best_rank(ranking[:k], group) for group in groups]
    pairs = list(combinations(ranks, 2))
    signs = (0 if math.inf in pair else (pair[0] < pair[1]) - (pair[0] > pair[1]) for pair in pairs)
    return sum(signs) / len(pairs) if pairs else 0.0


# ---------------------------------------------------------------------- over many questions
def auroc(higher: Sequence[float], lower: Sequence[float]) -> float:
    """How often a value of the first kind is above one of the second, equal ones counting half; 0.5 is chance."""
    if not higher or not lower:
        return math.nan
    wins = sum((one > other) + (one == other) / 2 for one in higher for other in lower)
    return wins / (len(higher) * len(lower))


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which such a share of the values lies (nearest rank); not a number where there are none."""
    if not values:
        return math.nan
    return sorted(values)[min(len(values) - 1, max(0, math.ceil(share * len(values)) - 1))]


def mean(values: Sequence[float]) -> float:
    """The mean; not a number where there are none."""
    return statistics.fmean(values) if values else math.nan


def interval(
    measure: Callable[..., float], *samples: Sequence[Any], resamples: int = RESAMPLES, seed: int = 7
) -> tuple[float, float]:
    """The 95 % interval of a figure by percentile bootstrap over its questions (Efron and Tibshirani, 1993).

    Each sample is drawn anew by itself: the mean has one, AUROC two.
    """
    if not all(samples):
        return math.nan, math.nan
    chance = random.Random(seed)
    found = [measure(*(chance.choices(each, k=len(each)) for each in samples)) for _ in range(resamples)]
    return percentile(found, (1 - LEVEL) / 2), percentile(found, (1 + LEVEL) / 2)


def figures(ranking: Ranking, gold: Collection[str]) -> dict[str, float]:
    """The figures of one question that has an answer; `r@k` is the fraction."""
    counted = {"r": fraction_at, "any": any_at, "all": all_at}
    found = {f"{name}@{k}": measure(ranking, gold, k) for name, measure in counted.items() for k in CUTS}
    return {**found, "nDCG@10": ndcg_at(ranking, gold, 10), "MRR": reciprocal_rank(ranking, gold)}


# ---------------------------------------------------------------------- one question
@dataclass(frozen=True, slots=True)
class Result:
    """One thing found, and the turns that it stands for."""

    text: str
    turns: frozenset[str]
    line: str = ""
    """How a prompt would show it: with its day and speaker."""
    foreign: bool = False
    """Of another conversation than the one that was asked."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one search gave; `seconds` without the embedding."""

    results: list[Result]
    coverage: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Scored:
    """A question, what was found at the limit, and what came of it where budgets of tokens had to be filled."""

    conversation: Conversation
    question: Question
    answer: Answer
    prompt: list[str]
    """The lines of what was found that fit into what an answering model is given."""
    foreign: int
    """Results of another conversation than the one that was asked."""
    figures: dict[str, float]
    """Empty where there is no evidence to find. `r@2k` is the fraction within 2,000 tokens by words, `r@2kc` by
    characters."""
    session_figures: dict[str, float]
    """The same of the sessions in which the turns were said."""

    @property
    def ranking(self) -> Ranking:
        """The turns of each result, best first."""
        return [result.turns for result in self.answer.results]

    def as_sessions(self) -> Scored:
        """The question scored by sessions, for a table."""
        return replace(self, figures=self.session_figures)


def score(conversation: Conversation, question: Question, answer: Answer, deep: Answer) -> Scored:
    """A question with its figures; `deep` is what was found where as much was asked for as a budget may hold."""
    ranking = [result.turns for result in deep.results]
    found: dict[str, float] = {}
    sessions: dict[str, float] = {}
    if question.gold:
        found = figures([result.turns for result in answer.results], question.gold)
        for mark, tokens in (("", tokens_by_words), ("c", tokens_by_characters)):
            costs = [tokens(result.text) for result in deep.results]
            for room in BUDGETS:
                found[f"r@{room // 1000}k{mark}"] = fraction_within(ranking, costs, question.gold, room)
        session_of = {turn.id: turn.session for turn in conversation.turns}
        sessions = figures(session_ranking(ranking, session_of), {session_of[id] for id in question.gold})
    lines = [result.line for result in deep.results]
    prompt = [lines[place] for place in fill([tokens_by_words(line) for line in lines], PROMPT_TOKENS)]
    foreign = sum(result.foreign for result in (*answer.results, *deep.results))
    return Scored(conversation, question, answer, prompt, foreign, found, sessions)


# ---------------------------------------------------------------------- tables
@dataclass(frozen=True, slots=True)
class Target:
    """A figure over questions, with its 95 % interval, and what it is to reach: at least, and to be strong."""

    name: str
    value: float
    interval: tuple[float, float]
    n: int
    floor: float
    strong: float

    @property
    def reached(self) -> str:
        """Which of the two the figure reaches."""
        return "strong" if self.value >= self.strong else "floor" if self.value >= self.floor else "neither"

    def told(self) -> dict[str, Any]:
        """The target as plain values."""
        return {**asdict(self), "reached": self.reached}

    def line(self) -> str:
        """The same for a table."""
        low, high = self.interval
        return (
            f"{self.name:<34}{self.value:7.3f} [{low:.3f}, {high:.3f}]  n {self.n:<5}"
            f"floor {self.floor:.2f}  strong {self.strong:.2f}  reached: {self.reached}"
        )


def mean_target(name: str, values: Sequence[float], floor: float, strong: float) -> Target:
    """A mean of questions against what it is to reach."""
    return Target(name, mean(values), interval(statistics.fmean, values), len(values), floor, strong)


def apart_target(higher: Iterable[Scored], lower: Iterable[Scored], floor: float, strong: float) -> Target:
    """How often `coverage` is higher for a question that can be answered than for one that cannot (AUROC)."""
    samples = [[each.answer.coverage for each in kind] for kind in (higher, lower)]
    return Target(
        "told apart (AUROC)", auroc(*samples), interval(auroc, *samples), sum(map(len, samples)), floor, strong
    )


def means(scored: Iterable[Scored]) -> dict[str, float]:
    """The mean of every figure over the questions that have evidence to be found, and their number."""
    rows = [each.figures for each in scored if each.figures]
    found = {name: mean([row[name] for row in rows]) for name in rows[0]} if rows else {}
    return {"n": len(rows), **found}


def table(groups: Mapping[str, Sequence[Scored]]) -> str:
    """A line of means for each group, over its questions that have evidence to be found."""
    rows = {name: found for name, scored in groups.items() if (found := means(scored))["n"]}
    columns = [column for column in COLUMNS if all(column in row for row in rows.values())]
    lines = [f"{'':<26}{'n':>5}" + "".join(f"{column:>8}" for column in columns)]
    for name, row in rows.items():
        lines.append(f"{name:<26}{row['n']:>5}" + "".join(f"{row[column]:8.3f}" for column in columns))
    return "\n".join(lines)


def values(scored: Iterable[Scored], figure: str) -> list[float]:
    """One figure of each question that has evidence to be found."""
    return [each.figures[figure] for each in scored if each.figures]


def by_category(scored: Iterable[Scored]) -> dict[str, list[Scored]]:
    """The questions of each category, in the order in which the categories come."""
    groups: dict[str, list[Scored]] = {}
    for each in scored:
        groups.setdefault(each.question.category, []).append(each)
    return groups
