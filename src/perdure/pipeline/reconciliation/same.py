"""Sameness: whether a memory already holds what a new fact says."""

from __future__ import annotations

from perdure.pipeline.reconciliation.pairing import (
    Pair,
    concept_set,
    content,
    everything,
    generic,
    parties_agree,
    same_party,
    uncovered,
    values_fit,
)
from perdure.pipeline.reconciliation.verdict import Verdict
from perdure.pipeline.slots import USER, Chunk, Reading, Slot
from perdure.pipeline.slots.lexis import is_kind_of

STATES = frozenset(
    {"liv", "work", "be", "have", "own", "base", "driv", "smok", "play", "us", "use", "date", "marri", ""}
)
"""Verbs of lasting states: told in the past tense, they say that the state is over."""

SLIGHT = frozenset(
    {
        "",
        "be",
        "have",
        "do",
        "get",
        "own",
        "keep",
        "go",
        "com",
        "come",
        "tak",
        "take",
        "mak",
        "make",
        "giv",
        "us",
        "use",
        "follow",
        "attend",
        "hold",
        "becom",
        "member",
        "membership",
        "sit",
        "put",
        "set",
    }
)
"""Verbs that leave it to their phrases to tell what is done."""


def judge_same(pair: Pair) -> Verdict | None:
    """A verdict that the memory holds the fact, in the same or other words; None otherwise."""
    for new in (pair.new, pair.new.turned):
        for old in (pair.old, pair.old.turned):
            if new is None or old is None:
                continue
            confidence = _holds(new, old, pair)
            if confidence:
                return Verdict("same", pair, "same.words", confidence)
    return None


def _holds(new: Reading, old: Reading, pair: Pair) -> float:
    if not moods_agree(new, old):
        return 0.0
    if not same_party(new.party, old.party, pair.aliases):
        return _same_thing(new, old, pair)
    if slots_hold(new, old):
        return 0.97
    if not values_fit(new.values, old.values) or slots_conflict(new, old):
        return 0.0
    mine, theirs = content(new), content(old)
    if not mine or not _turned_agree(new, old):
        return 0.0
    extra = uncovered(mine, theirs)
    extra = {concept for concept in extra if concept in new.names or not generic(concept)}
    if new.verb in mine and uncovered({new.verb}, theirs) and not verbs_agree(new, old):
        return 0.0
    if not _heads_held(new, old, mine):
        return 0.0
    if extra:
        return 0.0
    shared = any(not uncovered({concept}, theirs) for concept in mine)
    return 0.95 if shared or (new.values and all(generic(concept) for concept in mine)) else 0.0


def _same_thing(new: Reading, old: Reading, pair: Pair) -> float:
    """Two shapes of one statement ("the target for User's novel is ...", "User's novel has a target of ...")."""
    if not (new.topic or old.topic) or not parties_agree(new, old, pair.aliases):
        return 0.0
    if not values_fit(new.values, old.values) or slots_conflict(new, old):
        return 0.0
    mine, theirs = everything(new), everything(old)
    telling = {concept for concept in mine if not generic(concept)}
    if not telling or {c for c in uncovered(mine, theirs) if c in new.names or not generic(c)}:
        return 0.0
    return 0.9 if _heads_held(new, old, mine) else 0.0


def moods_agree(new: Reading, old: Reading) -> bool:
    """Whether both say that it is so, or both that it is not, with no less certainty in the memory."""
    mine, theirs = new.mood, old.mood
    if mine.changed and not theirs.changed and not new.verb and not new.topic:
        return False  # "renamed the band": the change itself is what is told
    if mine.negated != theirs.negated or mine.denied or theirs.denied:
        return False
    if mine.ended != theirs.ended:
        return mine.ended and theirs.past and not mine.negated and new.verb == old.verb != ""
    if old.verb in concept_set("reconcile_wanting.txt") and old.verb not in content(new):
        return False
    if (theirs.hedged and not mine.hedged) or (theirs.planned and not mine.planned):
        return False
    if (mine.hedged and not theirs.hedged) or (mine.planned and not theirs.planned):
        return False
    if mine.temporary and not theirs.temporary:
        return False
    if mine.past and not theirs.past and new.verb in STATES and not mine.changed:
        return bool(new.topic)
    return not (theirs.past and not mine.past and old.verb in STATES)


def slots_hold(new: Reading, old: Reading) -> bool:
    """Whether the attributes that the fact fills are filled alike, and it says nothing beside them."""
    if not new.slots:
        return False
    held = {slot.attribute: slot for slot in old.slots}
    for slot in new.slots:
        other = held.get(slot.attribute)
        if other is None or not slot_fits(slot, other, content(old)):
            return False
    spoken = {concept for slot in new.slots for concept in slot.concepts}
    rest = [concept for chunk in new.chunks for concept in chunk.concepts if concept not in spoken]
    theirs = content(old)
    return all(generic(concept) or not uncovered({concept}, theirs) for concept in rest) and values_fit(
        new.values, old.values
    )


def slot_fits(new: Slot, old: Slot, beside: frozenset[str] = frozenset()) -> bool:
    """Whether one value of an attribute says no more than the other, or than what is said `beside` it.

    "lives in Scotland" says no more than "lives in Dundee, Scotland".
    """
    if not new.concepts and not new.values:
        return False
    extra = uncovered(new.concepts, (*old.concepts, *beside))
    return not {concept for concept in extra if not generic(concept)} and values_fit(new.values, old.values)


def slots_conflict(new: Reading, old: Reading) -> bool:
    """Whether both fill one attribute with values of which neither holds the other."""
    held = {slot.attribute: slot for slot in old.slots}
    return any(
        (other := held.get(slot.attribute)) is not None
        and not slot_fits(slot, other, content(old))
        and not slot_fits(other, slot, content(new))
        for slot in new.slots
    )


def verbs_agree(new: Reading, old: Reading) -> bool:
    """Whether two statements with different verbs may tell of one thing: one of the verbs says little."""
    return new.verb == old.verb or bool({new.verb, old.verb} & SLIGHT) or bool(new.topic or old.topic)


def _turned_agree(new: Reading, old: Reading) -> bool:
    """Whether the user is not doer here and done-to there: "has a key to Bente's house" / "Bente has a key ..."."""
    return (USER in new.concepts) == (USER in old.concepts) or USER not in new.concepts


def _heads_held(new: Reading, old: Reading, mine: frozenset[str]) -> bool:
    """Whether no phrase of the memory is about something else that only borrows a word of the fact's.

    "has a motorbike" is not held by "has a motorbike licence": the licence is the phrase's head.
    """
    if old.topic and not _head_known(old.topic[-1], old.topic, mine, old):
        return False
    return all(_phrase_held(chunk, mine, new) for chunk in old.chunks)


def _head_known(head: str, phrase: tuple[str, ...], mine: frozenset[str], old: Reading) -> bool:
    touched = any(concept in mine for concept in phrase)
    return not touched or head in old.topic_names or generic(head) or akin(head, mine)


def _phrase_held(chunk: Chunk, mine: frozenset[str], new: Reading) -> bool:
    if not chunk.concepts or chunk.head in chunk.names:
        return True
    touched = any(concept in mine and not generic(concept) for concept in chunk.concepts)
    return not touched or generic(chunk.head) or akin(chunk.head, mine)


def akin(head: str, said: frozenset[str]) -> bool:
    """Whether a phrase's head is said, or is a kind of what is said, or the other way round ("techno music")."""
    return head in said or any(is_kind_of(head, one) or is_kind_of(one, head) for one in said)
