"""Which of two facts stands that two lines of versions hold about one matter: as if one was told after the other."""

from __future__ import annotations

from perdure.backends.vault.versions.base import Stands
from perdure.domain.fact import Fact, Neighbour
from perdure.domain.memory import MemoryItem
from perdure.pipeline.reconciliation import decide
from perdure.pipeline.slots import read


def settle(ours: MemoryItem, theirs: MemoryItem) -> Stands | None:
    """The later told where the rules would let it replace the earlier one, the earlier where both say the same.

    `both` where they contradict each other and no rule is sure enough; None where both may be true.
    """
    later, earlier = (ours, theirs) if (ours.told_at, ours.id) > (theirs.told_at, theirs.id) else (theirs, ours)
    fact = Fact(text=later.memory, origin=later.origin, quarantined=later.quarantined)
    decisions = decide(fact, [Neighbour(item=earlier, similarity=None)])
    events = {decision.event for decision in decisions if decision.target == earlier.id}
    trusted = later.quarantined is None or earlier.quarantined is not None
    if "NONE" in events:
        return _named(earlier, ours)
    if events & {"UPDATE", "DELETE"} and trusted:
        return _named(later, ours)
    return "both" if _contradict(ours, theirs) else None


def _named(standing: MemoryItem, ours: MemoryItem) -> Stands:
    return "ours" if standing is ours else "theirs"


def _contradict(one: MemoryItem, other: MemoryItem) -> bool:
    """Whether both give an attribute another value of which a subject has one at a time."""
    if one.slots is None or other.slots is None or one.slots.value == other.slots.value:
        return False
    single = {slot.attribute for item in (one, other) for slot in read(item.memory).slots if slot.single}
    return one.slots.attribute in single
