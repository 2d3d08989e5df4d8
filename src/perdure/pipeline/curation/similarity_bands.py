"""Similarity bands of 001 §4: what a new memory does to the nearest one of its user and type."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perdure.domain.fact import Decision, Fact, Neighbour
from perdure.pipeline.curation.rules.slots import read_slots

DUPLICATE = 0.9  # raw cosine above which the nearest memory is updated, if it speaks of the same subject and attribute
GRAY = 0.7  # raw cosine from which a near memory is kept beside the new one and named in the rule


Agreement = Callable[[Fact, Neighbour], bool]
"""Whether a fact and a memory speak of one attribute of one subject (`curation.rules.reconciliation.same_matter`)."""


def decide_by_bands(fact: Fact, neighbours: Sequence[Neighbour], agree: Agreement) -> Decision:
    """UPDATE of the nearest memory above `DUPLICATE` that speaks of the same matter, else ADD.

    `neighbours` are memories of the same user and type: that filter is the caller's. Near-equal sentences can state
    different facts ("visited Rome in 2021", "in 2023"), so nearness alone never overwrites. A cosine of exactly
    `DUPLICATE` makes a new memory; a neighbour without a cosine counts as far away.
    """
    ranked = sorted(neighbours, key=lambda memory: -_cosine(memory))
    slots = read_slots(fact.text)
    for memory in ranked:
        if _cosine(memory) <= DUPLICATE:
            break
        if agree(fact, memory):
            return Decision(
                event="UPDATE",
                text=fact.text,
                target=memory.item.id,
                rule="bands.duplicate",
                confidence=min(1.0, _cosine(memory)),
                slots=slots,
            )
    best = _cosine(ranked[0]) if ranked else -1.0
    rule = "bands.near-equal" if best > DUPLICATE else "bands.gray" if best >= GRAY else "bands.new"
    return Decision(event="ADD", text=fact.text, rule=rule, slots=slots)


def _cosine(memory: Neighbour) -> float:
    return -1.0 if memory.similarity is None else memory.similarity
