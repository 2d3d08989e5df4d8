"""Another value in words: statements that say of one subject, with one verb, that it is something else."""

from __future__ import annotations

import re
from functools import cache

from perdure.domain.pattern import Pattern
from perdure.pipeline.lexicon import lines
from perdure.pipeline.reconciliation.pairing import (
    Pair,
    concept_set,
    everything,
    exclusive,
    same_party,
    uncovered,
)
from perdure.pipeline.reconciliation.same import verbs_agree
from perdure.pipeline.reconciliation.verdict import Verdict
from perdure.pipeline.slots import Chunk, Reading, comparable, fits
from perdure.pipeline.slots.lexis import concept_of

PLACES = frozenset(
    [
        "in",
        "at",
        "on",
        "to",
        "into",
        "up",
        "along",
        "by",
        "near",
        "through",
        "around",
        "over",
        "under",
        "across",
        "behind",
        "beside",
        "above",
        "below",
    ]
)
_PRESENT = Pattern(r"\b(?:present|current)\b", re.IGNORECASE)
_ARTICLE = Pattern(r"\ban? (?:[\w-]+[ -])?$")


def said_otherwise(pair: Pair, mine: tuple[Chunk, ...], theirs: tuple[Chunk, ...], sure: float) -> Verdict | None:
    """Both give one thing a value in words: other names, another place, another kind of one thing."""
    met = _met(mine, theirs)
    if met is None:
        return None
    one, two = met
    new, old = pair.new, pair.old
    if one.lead != two.lead and "" in (one.lead, two.lead) and (not new.mood.changed or "have" in (new.verb, old.verb)):
        return None
    if "have" in (new.verb, old.verb) and bool(one.values) != bool(two.values):
        return None  # how many it has is not where it is
    if not uncovered(one.concepts, two.concepts) or not uncovered(two.concepts, one.concepts):
        return None
    many = new.topic and new.topic[-1] in concept_set("reconcile_many.txt")
    if new.party.kind != "relative" and many and not new.mood.changed:
        return None
    named = bool(one.names) and bool(two.names)
    if named or exclusive(one.head, two.head):
        return Verdict("replaces", pair, "replace.words", 0.9 * sure)
    if single_valued(new, one) and single_valued(old, two):
        return Verdict("replaces", pair, "replace.single", (0.92 if new.mood.changed else 0.85) * sure)
    if bool(one.names) != bool(two.names) and not new.mood.changed:
        return None
    if new.mood.changed or _PRESENT.search(new.text):
        return Verdict("replaces", pair, "replace.changed", 0.85 * sure)
    if one.lead in PLACES and two.lead in PLACES and new.verb == old.verb == "be" and new.topic:
        return Verdict("replaces", pair, "replace.place", 0.85 * sure)
    if new.verb == old.verb == "be" and new.topic and _one_of_many(new, one) and _one_of_many(old, two):
        return Verdict("replaces", pair, "replace.sort", 0.78 * sure)
    return Verdict("soft", pair, "soft.topic", 0.5 * sure)


def _met(mine: tuple[Chunk, ...], theirs: tuple[Chunk, ...]) -> tuple[Chunk, Chunk] | None:
    """The first phrases of both that answer one question: both the object, or both a place."""
    for one in mine:
        for two in theirs:
            if not one.concepts or not two.concepts or one.aside or two.aside:
                continue
            if one.lead == two.lead or {one.lead, two.lead} <= PLACES | {""}:
                return one, two
        if one.concepts:
            return None
    return None


def _one_of_many(reading: Reading, chunk: Chunk) -> bool:
    """Whether a phrase says which of its kind a thing is: "a recipe app", "a map of the neighbourhood"."""
    return not chunk.lead and _ARTICLE.search(reading.text[: chunk.start]) is not None


@cache
def _singles() -> frozenset[tuple[str, str]]:
    """Verbs with the word that leads their value, of which a subject has one value at a time."""
    table = set()
    for line in lines("reconcile_single.txt"):
        verb, _, lead = line.partition(" ")
        table.add((concept_of(verb), lead))
    return frozenset(table)


def single_valued(reading: Reading, chunk: Chunk) -> bool:
    """Whether a subject has one such value at a time: "bookings go through", "the garden faces"."""
    return (reading.verb, chunk.lead) in _singles()


def does_otherwise(pair: Pair) -> Verdict | None:
    """Someone does elsewhere, or with another, what one does in one place or with one at a time ("trains at")."""
    new, old = pair.new, pair.old
    if new.topic or old.topic or new.verb != old.verb or not same_party(new.party, old.party, pair.aliases):
        return None
    if new.mood.past or old.mood.past or new.mood.hedged or new.mood.planned:
        return None
    clash = any(comparable(a, b) and not fits(a, b) for a in new.values for b in old.values)
    if clash and not new.mood.changed:
        return None  # on Mondays here, on Tuesdays there
    for one in new.main:
        if not one.concepts or not single_valued(new, one) or (new.verb == "be" and not new.mood.changed):
            continue
        two = next((chunk for chunk in old.main if chunk.lead in _alike(one.lead) and chunk.concepts), None)
        if two is None or not uncovered(one.concepts, two.concepts) or not uncovered(two.concepts, one.concepts):
            continue
        if set(one.concepts) & set(two.concepts) - two.names or _elsewhere(new, old, one, two):
            continue
        return Verdict("replaces", pair, "replace.doing", 0.9 if new.mood.changed else 0.8)
    return None


def _alike(lead: str) -> frozenset[str]:
    return frozenset({"in", "at", "on"}) if lead in ("in", "at", "on") else frozenset({lead})


def _elsewhere(new: Reading, old: Reading, one: Chunk, two: Chunk) -> bool:
    """Whether both tell besides where, or for what, it is, and differ in that."""
    for mine in new.main:
        for theirs in old.main:
            if mine is one or theirs is two or mine.lead != theirs.lead or not mine.concepts or not theirs.concepts:
                continue
            if uncovered(mine.concepts, theirs.concepts) and uncovered(theirs.concepts, mine.concepts):
                return True
    return False


def parallel(pair: Pair) -> Verdict | None:
    """The same verb and phrases but for one, with a word of change ("wants answers in English from now on")."""
    new, old = pair.new, pair.old
    if new.topic or old.topic or not verbs_agree(new, old) or not same_party(new.party, old.party, pair.aliases):
        return None
    mine, theirs = list(new.main), list(old.main)
    shared = [chunk for chunk in mine if chunk.concepts and not uncovered(chunk.concepts, everything(old))]
    other = [chunk for chunk in mine if chunk.concepts and chunk not in shared]
    gone = [chunk for chunk in theirs if chunk.concepts and uncovered(chunk.concepts, everything(new))]
    if len(other) != 1 or len(gone) != 1 or not shared or (new.mood.past and not new.mood.changed):
        return None
    one, two = other[0], gone[0]
    if one.lead != two.lead or set(one.concepts) & set(two.concepts):
        return None
    kin = exclusive(one.head, two.head)
    if new.mood.changed and kin:
        return Verdict("replaces", pair, "replace.parallel", 0.85)
    if new.mood.changed and bool(one.names) == bool(two.names) and pair.near >= 0.5:
        return Verdict("replaces", pair, "replace.parallel", 0.75)
    return Verdict("soft", pair, "soft.parallel", 0.4) if kin else None
