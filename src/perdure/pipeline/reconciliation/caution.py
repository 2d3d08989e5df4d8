"""Caution: where weighing alone, with no rule behind it, may neither retire a memory nor take a fact for known."""

from __future__ import annotations

import re

from perdure.domain.pattern import Pattern
from perdure.pipeline.reconciliation.evidence import told_by_sign
from perdure.pipeline.reconciliation.pairing import (
    Pair,
    content,
    covers,
    everything,
    exclusive,
    generic,
    numbered_apart,
    same_party,
    uncovered,
)
from perdure.pipeline.slots import USER, Reading, Value, comparable, fits
from perdure.pipeline.slots.lexis import concept_of

SAME_ALONE = 0.74
"""Cosine from which a fact with a word that the memory lacks may be taken for known."""

_SHORTEST_CODE = 1000
"""Numbers below it are counts, and none of a code that is written without its dashes."""

_DETAIL = Pattern(r"^(?!To )(?:(?!got |is |was |has |had )[\w'&.-]+ ?){1,6}: ")


_ALTERNATE = Pattern(r"\bevery (?:other|second) ", re.IGNORECASE)


_AGAIN = Pattern(r"\bagain\b", re.IGNORECASE)


def is_detail(text: str) -> bool:
    """Whether a fact is a bare detail of something named before ("User's trip: 9 days"): it retires nothing."""
    return _DETAIL.match(text) is not None


def may_retire(pair: Pair) -> bool:
    """Whether weighing may find a change: something in the fact says so, or nothing of the memory would be lost."""
    new, old = pair.new, pair.old
    if is_detail(pair.new.text):
        return False
    mood = new.mood
    mine, theirs = _telling(everything(new)), _telling(everything(old))
    lacking, missing = uncovered(mine, theirs), uncovered(theirs, mine)
    apart = any(exclusive(one, two) for one in lacking for two in missing)
    if _of_another(pair):
        return False
    if old.mood.past and mood.past and _AGAIN.search(new.text):
        return False  # it happened once more
    if mood.ended or mood.negated != old.mood.negated:
        return mood.denied or bool(_telling(content(new)) - lacking) or not missing
    if mood.changed and missing and not (lacking or new.verb or new.topic or new.values):
        return False  # "renamed the band": to what is told elsewhere
    if mood.changed or mood.corrected or mood.denied or apart:
        return True
    if old.mood.past and mood.past:
        return False  # two things that happened
    if told_by_sign(new.text):
        return True
    if new.values and missing and not {new.verb, old.verb} <= {"be", "have", ""} and not old.values:
        return False
    unmet = [value for value in old.values if not any(comparable(value, other) for other in new.values)]
    return not (lacking and missing) and not (unmet and (lacking or new.values))


def is_apart(pair: Pair) -> bool:
    """Whether no likeness makes the fact a change of the memory, unless a rule says so."""
    new, old = pair.new, pair.old
    if numbered_apart(new, old):
        return True
    if new.party.name and old.party.name and not same_party(new.party, old.party, pair.aliases):
        return True  # Jonas's new job ends nothing of Tomas's
    if new.party.kind == "named" and old.party.kind == "relative" and old.party.of == new.party.name:
        return not new.topic and not {old.party.relation, *old.party.name.split()} & everything(new)
    if new.topic and old.topic and not covers([old.topic[-1]], new.topic[-1]) and _incomparable(new, old):
        return True  # "The booking is for six people" says nothing of the phone number for the booking
    both_denied = new.mood.negated and old.mood.negated and not (new.mood.ended or new.mood.denied)
    if both_denied:  # "doesn't eat fish", "doesn't eat meat": neither ends the other
        mine, theirs = _telling(everything(new)), _telling(everything(old))
        return bool(uncovered(mine, theirs)) and bool(uncovered(theirs, mine)) and not new.mood.changed
    return False


def _incomparable(new: Reading, old: Reading) -> bool:
    """Whether both give values, and none of them is of a kind with one of the other's."""
    given = bool(new.values) and bool(old.values)
    return given and not any(_of_a_kind(one, two) for one in new.values for two in old.values)


def _of_a_kind(one: Value, two: Value) -> bool:
    """Whether one may stand in the other's place; a count of six is no phone number."""
    short = any(value.kind == "number" and value.amount < _SHORTEST_CODE for value in (one, two))
    return comparable(one, two) and not (short and "code" in (one.kind, two.kind))


def _of_another(pair: Pair) -> bool:
    """Whether the fact is about someone of whom the memory does not speak, and says nothing of whom it is about."""
    new, old = pair.new, pair.old
    if new.party.kind == "user" and old.party.kind == "relative" and not new.topic and not old.topic:
        owner = set(old.party.name.split()) | {concept_of(old.party.relation)} - {""}
        return not owner & everything(new) and not _tells_relation(old) and USER not in old.concepts
    if new.party.kind not in ("relative", "named") or old.party.kind not in ("user", "relative"):
        return False
    if same_party(new.party, old.party, pair.aliases) or USER in new.concepts or "User" in new.text[6:]:
        return False
    named = set(new.party.name.split()) | {concept_of(new.party.relation)} - {""}
    return not named & everything(old) and not set(old.party.name.split()) & everything(new)


def may_be_known(pair: Pair) -> bool:
    """Whether weighing may find that the memory holds the fact: it brings no name, no value, and little else."""
    new, old = pair.new, pair.old
    if is_detail(new.text) and not is_detail(old.text):
        return False
    if new.mood.changed and not new.verb and not new.topic and not old.mood.changed:
        return False
    if new.mood.negated != old.mood.negated or (new.mood.ended and not (old.mood.ended or old.mood.past)):
        return False
    if bool(_ALTERNATE.search(new.text)) != bool(_ALTERNATE.search(old.text)):
        return False
    if any(not any(fits(value, other) for other in old.values) for value in new.values):
        return False
    lacking = uncovered(_telling(everything(new)), everything(old))
    if lacking & new.names:
        return False
    owner = set(old.party.name.split()) | {concept_of(old.party.relation)} - {""}
    if new.party.kind == "user" and old.party.kind in ("relative", "named") and not owner & everything(new):
        return _tells_relation(old)
    return lacking <= {new.verb} or pair.near >= SAME_ALONE


def _tells_relation(old: Reading) -> bool:
    """Whether a memory only says who someone is to the user, which a verb may say as well ("rents from Bogumil")."""
    return any(slot.attribute == "name" for slot in old.slots)


def _telling(concepts: frozenset[str]) -> frozenset[str]:
    return frozenset(concept for concept in concepts if not generic(concept))


__all__ = ["is_apart", "is_detail", "may_be_known", "may_retire"]
