"""Succession: posts and duties that pass from one to another when someone leaves."""

from __future__ import annotations

from functools import cache

from perdure.pipeline.lexicon import lines
from perdure.pipeline.reconciliation.pairing import (
    Pair,
    concept_set,
    content,
    covers,
    generic,
    same_party,
    uncovered,
    values_fit,
)
from perdure.pipeline.reconciliation.verdict import Verdict
from perdure.pipeline.slots import Reading
from perdure.pipeline.slots.lexis import concept_of, fold_set
from perdure.pipeline.slots.stems import fold

_POST_VERBS = frozenset({"be", "", "call", "nam"})


def judge_succession(pair: Pair) -> Verdict | None:
    """A verdict that who held a post has left it, or that another now does what someone did; None otherwise."""
    return _departed(pair) or _doer(pair)


def takeover(pair: Pair) -> Verdict | None:
    """ "Greta took over the billing module from Rashid": Rashid's memory of it."""
    new, old = pair.new, pair.old
    if new.verb != concept_of("take over") or not new.chunks or old.mood.past:
        return None
    sources = {concept for chunk in new.chunks if chunk.lead == "from" for concept in chunk.concepts}
    matter = [concept for concept in new.chunks[0].concepts if not generic(concept)]
    if not matter or uncovered(matter, content(old)):
        return None
    owner = set(old.party.name.split())
    in_charge = old.verb in (concept_of("lead"), "maintain", "own", "handl")
    if (sources and sources & owner) or (not sources and in_charge):
        return Verdict("replaces", pair, "replace.takeover", 0.9)
    return None


def successor(pair: Pair) -> Verdict | None:
    """Someone else now does what another did ("Torvald keeps the vendor list now")."""
    new, old = pair.new, pair.old
    if not new.mood.changed or {new.party.kind, old.party.kind} != {"named"} or new.topic or old.topic:
        return None
    if same_party(new.party, old.party, pair.aliases) or new.verb != old.verb or old.mood.past:
        return None
    mine, theirs = content(new), content(old)
    if uncovered(mine, theirs) or uncovered(theirs, mine) or new.verb in ("", "be", "have", "lik", "liv"):
        return None
    return Verdict("replaces", pair, "replace.successor", 0.85)


def _departed(pair: Pair) -> Verdict | None:
    """ "Clement has stepped down": what says that the treasurer is Clement."""
    new, old = pair.new, pair.old
    gone = _gone_by(new, "reconcile_departures.txt")
    if not gone or old.verb not in _POST_VERBS or old.mood.past or old.mood.ended or old.mood.negated:
        return None
    if old.party.relation in fold_set("reconcile_kin.txt"):
        return None
    holder = _holder(old)
    held = bool(holder) and gone <= holder | {"mr", "ms", "mrs", "dr"}
    return Verdict("ends", pair, "end.departed", 0.92) if held and not new.topic else None


def _holder(old: Reading) -> frozenset[str]:
    """Who a memory says holds a post of the user's or of a thing: the names in its value."""
    named = [slot.names for slot in old.slots if slot.attribute == "name"]
    if named:
        return named[0]
    if not old.topic or not old.chunks or old.chunks[0].lead:
        return frozenset()
    chunk = old.chunks[0]
    return frozenset() if "'s " in old.text[chunk.start : chunk.end] else chunk.names  # "Ola's brother" is not Ola


def _doer(pair: Pair) -> Verdict | None:
    """ "Tomasz does the mending now", "Nell helps User on Sundays": what says that another did, who has left."""
    new, old = pair.new, pair.old
    persons = ("named", "relative")
    if new.party.kind not in persons or old.party.kind not in persons or new.topic or old.topic:
        return None
    if same_party(new.party, old.party, pair.aliases) or new.verb != old.verb or not new.verb:
        return None
    if old.mood.past or old.mood.ended or new.mood.negated or new.mood.hedged or new.mood.planned:
        return None
    mine, theirs = _matter(new), _matter(old)
    if uncovered(mine, theirs) and uncovered(theirs, mine):
        return None
    shared = {concept for concept in mine if covers(theirs, concept)}
    if not shared and not (new.values and not mine and not theirs and values_fit(new.values, old.values)):
        return None
    left = bool(set(old.party.name.split()) & pair.departed)
    if new.verb in ("be", "have"):
        return Verdict("replaces", pair, "replace.doer", 0.92) if left and shared else None
    serving = new.verb in concept_set("reconcile_serving.txt")
    if not left and not (new.mood.changed and serving):
        return None
    return Verdict("replaces", pair, "replace.doer", 0.92 if left else 0.85)


def _matter(reading: Reading) -> frozenset[str]:
    return frozenset(concept for concept in content(reading) - {reading.verb} if not generic(concept))


def departed(readings: list[Reading]) -> frozenset[str]:
    """The names of those who, by some statement, left or cannot come."""
    found: set[str] = set()
    for reading in readings:
        for table in ("reconcile_departures.txt", "reconcile_absences.txt"):
            found |= _gone_by(reading, table)
    return frozenset(found)


def _gone_by(reading: Reading, table: str) -> frozenset[str]:
    """The name of who a statement says left, by a phrase of a table that stands near its beginning."""
    if reading.party.kind not in ("named", "relative") or not reading.party.name:
        return frozenset()
    words = fold(reading.text).replace("'", "'").split()[:9]
    padded = f" {' '.join(words)} "
    if any(f" {phrase} " in padded for phrase in _phrases(table)):
        return frozenset(reading.party.name.split())
    return frozenset()


@cache
def _phrases(table: str) -> tuple[str, ...]:
    return tuple(lines(table))
