"""Refinement: whether a new fact says what a memory says, and more."""

from __future__ import annotations

from perdure.pipeline.reconciliation.pairing import (
    Pair,
    content,
    core,
    covers,
    generic,
    same_party,
    uncovered,
    values_fit,
)
from perdure.pipeline.reconciliation.same import STATES, akin, slots_conflict, verbs_agree
from perdure.pipeline.reconciliation.verdict import Verdict
from perdure.pipeline.slots import Reading
from perdure.pipeline.slots.lexis import is_kind_of


def judge_refines(pair: Pair) -> Verdict | None:
    """A verdict that the fact is the memory in more detail, or made certain; None otherwise."""
    new, old = pair.new, pair.old
    if not pair.whole or not same_party(new.party, old.party, pair.aliases) or not _tenses_allow(new, old):
        return None
    if slots_conflict(new, old):
        return None
    if _fills_field(pair):
        return Verdict("refines", pair, "refine.field", 0.85)
    if not values_fit(old.values, new.values):
        return None
    mine, theirs = content(new), content(old)
    firmed = (old.mood.planned or old.mood.hedged) and not (new.mood.planned or new.mood.hedged)
    needed = core(old) if firmed else theirs
    lacking = {concept for concept in uncovered(needed, mine) if not generic(concept)}
    if lacking or not theirs or not _heads_kept(new, old, mine, theirs):
        return None
    if all(generic(concept) for concept in theirs) and not old.values and not old.topic:
        return None
    central = core(new)
    if not any(covers(central, concept) for concept in theirs if not generic(concept)) and not firmed:
        return None
    if new.verb not in theirs and not verbs_agree(new, old):
        return None
    more = len([c for c in uncovered(mine, theirs) if not generic(c)]) + len(new.values) - len(old.values)
    if mine != theirs and len(mine) == len(theirs) and not old.mood.past:
        return Verdict("refines", pair, "refine.kind", 0.93)
    if firmed:
        return Verdict("refines", pair, "refine.firm", 0.88)
    return Verdict("refines", pair, "refine.detail", 0.88) if more > 0 else None


def _tenses_allow(new: Reading, old: Reading) -> bool:
    mine, theirs = new.mood, old.mood
    if (
        mine.negated != theirs.negated
        or mine.ended
        or theirs.ended
        or mine.denied
        or mine.temporary != theirs.temporary
    ):
        return False
    if (mine.hedged or mine.planned) and not (theirs.hedged or theirs.planned):
        return False
    pending = theirs.planned or theirs.hedged
    if mine.past and not theirs.past and not pending and new.verb in STATES and not new.topic:
        return False
    return not (theirs.past and not mine.past)


def _heads_kept(new: Reading, old: Reading, mine: frozenset[str], theirs: frozenset[str]) -> bool:
    """Whether each phrase of the fact that takes up the memory's words is about the same thing."""
    head = new.topic[-1] if new.topic else ""
    borrowed = any(concept in theirs for concept in new.topic) and head not in theirs and not generic(head)
    if borrowed and not any(is_kind_of(head, one) for one in theirs):
        return False
    for chunk in new.chunks:
        if not chunk.concepts or chunk.head in chunk.names or generic(chunk.head):
            continue
        touched = any(concept in theirs and not generic(concept) for concept in chunk.concepts)
        if touched and not akin(chunk.head, theirs):
            return False
    return True


def _fills_field(pair: Pair) -> bool:
    """Whether the memory names only the field of work that the fact's role or employer is in."""
    field = next((slot for slot in pair.old.slots if slot.attribute == "field"), None)
    found = [slot for slot in pair.new.slots if slot.attribute in ("role", "employer")]
    if field is None or not found or len(pair.old.slots) > 1 or not field.concepts:
        return False
    words = [concept for slot in found for concept in slot.concepts]
    return any(is_kind_of(word, area) for word in words for area in field.concepts)
