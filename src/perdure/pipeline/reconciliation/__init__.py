"""Reconciliation by rules: what a new fact does to the memories near it, without a model.

The modules of that work are imported by the first fact: a program that only searches never loads them.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.domain.fact import Decision, Fact, Neighbour

__all__ = ["decide", "same_matter", "says_nothing_new"]


def decide(fact: Fact, neighbours: Sequence[Neighbour]) -> list[Decision]:
    """What is to be done with a fact, given the memories near it in its scope; see `deciding.decide`."""
    from perdure.pipeline.reconciliation import deciding

    return deciding.decide(fact, neighbours)


def same_matter(fact: Fact, memory: Neighbour) -> bool:
    """Whether the fact repeats, refines, replaces or ends what the memory says; see `agree.same_matter`."""
    from perdure.pipeline.reconciliation import agree

    return agree.same_matter(fact, memory)


def says_nothing_new(fact: Fact, memory: Neighbour) -> bool:
    """Whether the memory holds all that the fact says; see `agree.says_nothing_new`."""
    from perdure.pipeline.reconciliation import agree

    return agree.says_nothing_new(fact, memory)
