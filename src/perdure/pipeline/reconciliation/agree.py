"""Agreement: whether a fact and a memory speak of one attribute of one subject, so that the fact may replace it."""

from __future__ import annotations

from perdure.domain.fact import Fact, Neighbour
from perdure.pipeline.reconciliation.judge import judge_all
from perdure.pipeline.reconciliation.pairing import folded


def same_matter(fact: Fact, memory: Neighbour) -> bool:
    """Whether the fact repeats, refines, replaces or ends what the memory says, by a rule sure enough to retire it."""
    if folded(fact.text) == folded(memory.item.memory):
        return True
    return any(finding.firm for finding in judge_all(fact, [memory]))


def says_nothing_new(fact: Fact, memory: Neighbour) -> bool:
    """Whether the memory holds all that the fact says, in the same or other words; in doubt it does not."""
    verdicts = [finding.verdict for finding in judge_all(fact, [memory])]
    return any(verdict is not None and verdict.relation == "same" for verdict in verdicts)
