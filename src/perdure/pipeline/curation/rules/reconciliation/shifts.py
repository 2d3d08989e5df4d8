"""Shifts: another typed value - an hour, a day, a sum - in statements that otherwise speak of the same."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.pipeline.curation.rules.reconciliation.pairing import (
    Pair,
    Verdict,
    concept_set,
    covers,
    everything,
    generic,
    same_party,
    uncovered,
)
from perdure.pipeline.curation.rules.slots import Reading, Value, comparable, fits

_TYPED_NEAR = 0.45
_CLOSE_DAYS = 21
"""Days by which one event is put off or brought forward; what is further apart may be another one."""
_MONTH = 30.4
_HOURS = 24


def typed(pair: Pair) -> Verdict | None:
    """Another value of one type in statements that otherwise speak of the same."""
    new, old = pair.new, pair.old
    if not new.values or not old.values or not differing(new.values, old.values):
        return None
    if set(new.topic_values) != set(old.topic_values):
        return None
    mine, theirs = everything(new), everything(old)
    lacking = {c for c in uncovered(mine, theirs) if not generic(c) and c != new.verb}
    missing = {c for c in uncovered(theirs, mine) if not generic(c) and c != old.verb}
    if lacking & new.names and missing & old.names:
        return None
    shared = {c for c in mine if covers(theirs, c) and not generic(c)}
    if not shared:
        return None
    cue = new.mood.changed or new.mood.corrected
    alike = new.verb == old.verb or {new.verb, old.verb} <= {"", "be", "have"} or bool(new.topic) != bool(old.topic)
    if not cue and (new.mood.past or not alike):
        return None
    if not lacking and not missing:
        if not cue and not (new.topic and old.topic) and (timed(new) or new.verb == ""):
            return _moved(pair) or Verdict("soft", pair, "soft.typed", 0.5)  # two meetings, two visits
        return Verdict("replaces", pair, "replace.typed", 0.9 if new.mood.changed else 0.82)
    if new.verb == "mov" and same_party(new.party, old.party, pair.aliases) and new.topic == old.topic and _leads(new):
        return Verdict("replaces", pair, "replace.typed-changed", 0.8)
    if cue and (not lacking or not missing) and len(lacking | missing) <= 2 and pair.near >= _TYPED_NEAR:
        return Verdict("replaces", pair, "replace.typed-changed", 0.8)
    if new.mood.changed:
        return Verdict("soft", pair, "soft.typed", 0.4)
    return None


def _leads(reading: Reading) -> bool:
    """Whether a bare value is the first thing that a statement tells ("moved to once a week, for lack of money")."""
    return bool(reading.chunks) and bool(reading.chunks[0].values) and not reading.chunks[0].concepts


def timed(reading: Reading) -> bool:
    """Whether a statement tells an hour or a day."""
    hours = (value for chunk in reading.chunks if chunk.lead == "at" for value in chunk.values)
    return any(value.kind in ("clock", "date", "weekday") for value in reading.values) or any(
        value.kind == "number" and 0 < value.amount <= _HOURS for value in hours
    )


def differing(mine: Iterable[Value], theirs: Iterable[Value]) -> bool:
    """Whether some value meets a comparable one that it does not fit, and none fits."""
    held = list(theirs)
    meet = [(a, b) for a in mine for b in held if comparable(a, b)]
    return bool(meet) and any(all(not fits(a, b) for x, b in meet if x is a) for a, _ in meet)


def _moved(pair: Pair) -> Verdict | None:
    """One event that is told for another day without a word of change: it starts or comes only once, or soon after.

    What somebody else does on Saturdays they do no more on Sundays; the user may do one thing on several days.
    """
    new, old = pair.new, pair.old
    if new.mood.past or old.mood.past or new.verb != old.verb:
        return None
    kinds = {value.kind for value in (*new.values, *old.values)}
    others = new.party.kind != "user" or bool(new.topic)
    if kinds == {"weekday"} and others and new.verb not in ("be", "have", "", "go", "meet"):
        return Verdict("replaces", pair, "replace.moved", 0.82)
    once = new.verb in concept_set("reconcile_once.txt")
    if kinds <= {"date", "ordinal"} and once and _close(new.values, old.values):
        return Verdict("replaces", pair, "replace.moved", 0.85)
    return None


def _close(mine: tuple[Value, ...], theirs: tuple[Value, ...]) -> bool:
    """Whether two days are near in the calendar, as far as they are told."""
    for one in mine:
        for two in theirs:
            if one.kind == two.kind == "date":
                years = [value.date[0] for value in (one, two)]
                months = [value.date[1] for value in (one, two)]
                if None in months or (None not in years and years[0] != years[1]):
                    return False
                return abs(_day_of_year(one) - _day_of_year(two)) <= _CLOSE_DAYS
    return True


def _day_of_year(value: Value) -> float:
    return (value.date[1] or 0) * _MONTH + (value.date[2] or 15)
