"""Reconciliation by rules: what a new fact does to the memories near it, without a model.

The modules of that work are imported by the first fact: a program that only searches never loads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perdure.domain.fact import Decision, Fact, Neighbour, PairJudge

__all__ = ["contradict", "decide", "renewed", "same_matter", "says_nothing_new"]


def decide(
    fact: Fact, neighbours: Sequence[Neighbour], judge: Callable[[], PairJudge | None] | None = None
) -> list[Decision]:
    """What is to be done with a fact, given the memories near it in its scope; see `decisions.decide`."""
    from perdure.pipeline.curation.rules.reconciliation import decisions

    return decisions.decide(fact, neighbours, judge)


def renewed(
    fact: Fact, earlier: Sequence[tuple[int, Neighbour]], judge: PairJudge
) -> tuple[tuple[str, ...], str | None]:
    """The earlier statements that a fact or note most likely replaces, and the one that it surely does; see
    `decisions.renewed`."""
    from perdure.pipeline.curation.rules.reconciliation import decisions

    return decisions.renewed(fact, earlier, judge)


def same_matter(fact: Fact, memory: Neighbour) -> bool:
    """Whether the fact repeats, refines, replaces or ends what the memory says; see `judge.same_matter`."""
    from perdure.pipeline.curation.rules.reconciliation import judge

    return judge.same_matter(fact, memory)


def says_nothing_new(fact: Fact, memory: Neighbour) -> bool:
    """Whether the memory holds all that the fact says; see `judge.says_nothing_new`."""
    from perdure.pipeline.curation.rules.reconciliation import judge

    return judge.says_nothing_new(fact, memory)


def contradict(newer: str, older: str) -> bool:
    """Whether two texts give one attribute of one subject different values; see `structure.texts_contradict`."""
    from perdure.pipeline.curation.rules.reconciliation import structure

    return structure.texts_contradict(newer, older)
