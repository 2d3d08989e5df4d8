"""Another answer: statements of unlike shape that answer one question about one thing, of which one answer holds."""

from __future__ import annotations

from perdure.pipeline.reconciliation.pairing import Pair, concept_set, covers
from perdure.pipeline.reconciliation.shifts import differing
from perdure.pipeline.reconciliation.verdict import Verdict
from perdure.pipeline.slots import Reading
from perdure.pipeline.slots.answers import Answer, answers
from perdure.pipeline.slots.lexis import concept_of, is_kind_of

_SURE = {"provider": 0.8, "player": 0.5, "way": 0.78, "venue": 0.85, "workplace": 0.75, "rate": 0.88, "colour": 0.85}
"""How sure another answer is a change where nothing says so, by the kind of question."""
_LIVING = ("animal", "child", "baby")
_TOLD = 0.92
"""How sure it is where the fact tells of a change, or who did it before has left."""


def judge_answers(pair: Pair) -> Verdict | None:
    """A verdict that the fact answers anew what the memory answers; None where both may hold."""
    new, old = pair.new, pair.old
    for one in answers(new.text):
        for two in answers(old.text):
            told = _tells_change(new) or bool(two.names & pair.departed)
            if one.kind != two.kind or not _differ(one, two):
                continue
            if (_same_matter(one, two) and (told or _plain(pair, one))) or (told and _open(one, two)):
                kind = one.kind.partition(":")[0]
                return Verdict("replaces", pair, f"answer.{kind}", _TOLD if told else _SURE[kind])
    return None


def _plain(pair: Pair, answer: Answer) -> bool:
    """Whether another answer is a change though nothing tells of one.

    It is not where somebody did so once, where it is so on certain days only, or of animals: there may be several.
    """
    new, old = pair.new, pair.old
    if answer.kind == "colour":
        return not _living(answer.matter[-1])
    if new.mood.past or _on_days(new) != _on_days(old):
        return False
    if new.party.relation and new.party.relation in concept_set("reconcile_many.txt") and old.party.relation:
        return False  # one may have several teachers
    return answer.kind == "rate" or not differing(new.values, old.values)


def _on_days(reading: Reading) -> bool:
    return any(value.kind == "weekday" for value in reading.values)


def _living(concept: str) -> bool:
    return any(is_kind_of(concept, concept_of(kind)) for kind in _LIVING)


def _tells_change(new: Reading) -> bool:
    return new.mood.changed or any(chunk.lead in ("since", "until", "till") for chunk in new.chunks)


def _same_matter(one: Answer, two: Answer) -> bool:
    """Whether both are asked of one thing: the same head, and no word in each that the other lacks."""
    if not one.matter or not two.matter:
        return one.matter == two.matter
    mine, theirs = set(one.matter), set(two.matter)
    return one.matter[-1] == two.matter[-1] and (mine <= theirs or theirs <= mine)


def _open(one: Answer, two: Answer) -> bool:
    """Whether one leaves open, or tells by name, of whom it is: "User's dog walker is Jools", "Bea walks Waffle"."""
    if not one.kind.startswith("provider:"):
        return False
    if not one.matter or not two.matter:
        return True
    other = two.matter[-1] if one.named else one.matter[-1]
    return one.named != two.named and _living(other)


def _differ(one: Answer, two: Answer) -> bool:
    """Whether neither answer holds a word of the other: "Dougie" is "User's mate Dougie"."""
    if one.names and two.names:
        return not one.names & two.names
    told = any(covers(two.words, word) for word in one.words)
    return not told and not any(covers(one.words, word) for word in two.words)
