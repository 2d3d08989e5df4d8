"""Replacement: whether a new fact gives another value to the attribute of which a memory speaks."""

from __future__ import annotations

from perdure.pipeline.reconciliation.answered import judge_answers
from perdure.pipeline.reconciliation.pairing import (
    Pair,
    content,
    covers,
    generic,
    parties_agree,
    same_party,
    uncovered,
)
from perdure.pipeline.reconciliation.said import does_otherwise, parallel, said_otherwise, single_valued
from perdure.pipeline.reconciliation.same import slot_fits
from perdure.pipeline.reconciliation.shifts import differing, timed, typed
from perdure.pipeline.reconciliation.succession import successor, takeover
from perdure.pipeline.reconciliation.verdict import Verdict
from perdure.pipeline.slots import Chunk, Reading, comparable, fits
from perdure.pipeline.slots.lexis import fold_set, is_kind_of

_SETTLED = frozenset({"be", "", "chang", "mov", "be call"})
DISTINGUISHING = frozenset(
    [
        "second",
        "third",
        "other",
        "another",
        "old",
        "work",
        "personal",
        "private",
        "main",
        "spare",
        "extra",
        "next",
        "last",
        "first",
        "back",
        "back-up",
        "backup",
        "home",
        "ex",
        "former",
        "left",
        "right",
        "upper",
        "lower",
        "north",
        "south",
        "east",
        "west",
        "front",
        "rear",
    ]
)


def judge_replaces(pair: Pair) -> Verdict | None:
    """A verdict that the fact replaces the memory's value; None where either may hold beside the other."""
    new, old = pair.new, pair.old
    if not _may_replace(new, old):
        return None
    verdict = _named(pair) or takeover(pair) or successor(pair) or judge_answers(pair)
    if verdict is not None:
        return verdict
    if not _parties_allow(pair):
        unowned = new.party.kind == "thing" and new.mood.changed and not new.topic_names
        return _topics(pair) if unowned else None
    return _slots(pair) or _topics(pair) or does_otherwise(pair) or typed(pair) or parallel(pair)


def _may_replace(new: Reading, old: Reading) -> bool:
    mood = new.mood
    if mood.hedged or mood.planned or mood.ended or mood.denied or mood.temporary or mood.negated:
        return bool(new.replaced or new.replaced_values) and not (mood.hedged or mood.planned)
    return not old.mood.ended and not (old.mood.negated and not new.mood.changed)


def _parties_allow(pair: Pair) -> bool:
    return parties_agree(pair.new, pair.old, pair.aliases)


# ---------------------------------------------------------------- what the fact itself names as given up


def _named(pair: Pair) -> Verdict | None:
    """ "from A to B", "B instead of A", "B, not A": the memory that holds A of the same party."""
    new, old = pair.new, pair.old
    if not same_party(new.party, old.party, pair.aliases) or not (new.replaced or new.replaced_values):
        return None
    theirs = content(old)
    told = any(not uncovered([c for c in phrase if not generic(c)] or phrase, theirs) for phrase in new.replaced)
    valued = any(fits(value, other) for value in new.replaced_values for other in old.values)
    if not told and not valued:
        return None
    mine = {concept for concept in content(new) if not generic(concept)}
    shared = {concept for concept in mine if covers(theirs, concept)}
    slotted = {slot.attribute for slot in new.slots} & {slot.attribute for slot in old.slots}
    if new.topic_names - theirs and old.topic_names - content(new):
        return None
    if valued and not told and mine and not shared:
        return None
    if told and not shared and not slotted and new.topic:
        return None
    return Verdict("replaces", pair, "replace.named", 0.95 if shared or slotted else 0.85)


# ---------------------------------------------------------------- attributes of a person


def _slots(pair: Pair) -> Verdict | None:
    new, old = pair.new, pair.old
    held = {slot.attribute: slot for slot in old.slots}
    changed = False
    for slot in new.slots:
        other = held.get(slot.attribute)
        if other is None:
            continue
        if (
            slot.attribute == "name"
            and new.party.relation.removeprefix("new ") in concept_set_relations()
            and not _succeeds(pair)
        ):
            return None  # a second brother has a name of his own
        if slot_fits(slot, other, content(old)):
            continue
        if slot_fits(other, slot, content(new)):
            changed = True
            continue
        if slot.values and not slot.concepts and not any(comparable(a, b) for a in slot.values for b in other.values):
            continue
        changed = True
    if not changed or _only_past(new, old) or _on_other_days(new, old):
        return None
    return Verdict("replaces", pair, "replace.attribute", 0.92)


def _on_other_days(new: Reading, old: Reading) -> bool:
    """Whether it is one on some days and the other on others: trains here on Mondays, there on Thursdays."""
    days = [[value for value in reading.values if value.kind == "weekday"] for reading in (new, old)]
    return bool(days[0] and days[1]) and not new.mood.changed and differing(days[0], days[1])


def _succeeds(pair: Pair) -> bool:
    """Whether the fact tells of a change of holder: now, until when, or after the former one left."""
    new, old = pair.new, pair.old
    if new.party.relation.removeprefix("new ") in fold_set("reconcile_kin.txt") and new.party.relation[:4] == "new ":
        return False  # a new neighbour moves in beside the others
    names = {name for slot in old.slots if slot.attribute == "name" for name in slot.names}
    standing_in = any(chunk.lead in ("until", "till") for chunk in new.chunks)
    return new.mood.changed or bool(names & pair.departed) or standing_in


def concept_set_relations() -> frozenset[str]:
    """Relations of which one may have several."""
    return fold_set("reconcile_many.txt")


def _only_past(new: Reading, old: Reading) -> bool:
    """Whether the fact tells of an earlier time: it may not overwrite the present."""
    lasting = new.mood.past or {slot.attribute for slot in new.slots} & {"home", "employer", "role"}
    ending = bool(lasting) and any(chunk.lead in ("until", "till") for chunk in new.chunks)
    spell = any(chunk.lead == "from" for chunk in new.chunks) and bool(new.values)
    moved = new.verb in (
        "mov",
        "promot",
        "join",
        "turn",
        "marri",
        "settl",
        "becom",
        "switch",
        "start",
        "tak",
        "take",
        "get",
        "hir",
        "appoint",
        "call",
    )
    return (
        ending
        or (new.mood.past and not moved and not new.mood.changed and not old.mood.past)
        or (spell and new.mood.past)
    )


# ---------------------------------------------------------------- attributes of a thing


def topic_of(reading: Reading) -> tuple[tuple[str, ...], tuple[Chunk, ...]]:
    """The thing that a statement is about and what it says of it; "has a meeting with Anna on Monday" is about one."""
    if reading.topic:
        return reading.topic, reading.chunks
    light = reading.verb in ("be", "have", "", "own", "book")
    if not light or not reading.chunks or reading.chunks[0].lead or reading.verb == "be":
        return (), reading.chunks
    topic = list(reading.chunks[0].concepts)
    rest: list[Chunk] = []
    for chunk in reading.chunks[1:]:
        if chunk.lead in ("with", "for", "of", "about") and not chunk.values:
            topic[:0] = chunk.concepts
        else:
            rest.append(chunk)
    if reading.chunks[0].values:
        rest.insert(0, Chunk("", (), frozenset(), reading.chunks[0].values))
    return tuple(topic), tuple(rest)


def topics_agree(new: tuple[str, ...], old: tuple[str, ...]) -> float:
    """How surely two noun phrases name the same thing: 1 where equal, less where one says more, 0 otherwise."""
    if not new or not old:
        return 0.0
    if new == old or set(new) == set(old):
        return 1.0
    if not (is_kind_of(new[-1], old[-1]) or is_kind_of(old[-1], new[-1])):
        heads_generic = generic(new[-1]) or generic(old[-1])
        mine, theirs = {c for c in new if not generic(c)}, {c for c in old if not generic(c)}
        return 0.85 if heads_generic and mine and mine == theirs else 0.0
    mine, theirs = uncovered(new, old), uncovered(old, new)
    if mine and theirs:
        return 0.0
    extra = mine | theirs
    if extra & DISTINGUISHING:
        return 0.0
    return 0.9 if all(generic(concept) for concept in extra) else 0.8


def _topics(pair: Pair) -> Verdict | None:
    new, old = pair.new, pair.old
    my_topic, mine = topic_of(new)
    their_topic, theirs = topic_of(old)
    sure = topics_agree(my_topic, their_topic)
    if not sure and new.mood.changed and new.values:  # what has moved was the first, or the next, of its kind
        sure = topics_agree(_unranked(my_topic), _unranked(their_topic))
    if not sure or not _same_matter(new, old) or (not new.topic and not old.topic and not new.mood.changed):
        return None
    if set(new.topic_values) != set(old.topic_values) and new.topic_values and old.topic_values:
        return None
    my_values = [value for chunk in mine for value in chunk.values]
    their_values = [value for chunk in theirs for value in chunk.values]
    if my_values and {new.verb, old.verb} == {"have", "be"} and new.topic and old.topic and not new.mood.changed:
        return None  # what it has is counted, what it is was told
    if my_values:
        if differing(
            my_values, [value for chunk in theirs if not _counts_else(new, mine, chunk) for value in chunk.values]
        ):
            return Verdict("replaces", pair, "replace.value", 0.93 * sure + 0.02)
        if not theirs:
            return Verdict("replaces", pair, "replace.vague", 0.8 * sure)
        if not mine[0].concepts or mine[0].values or any(comparable(a, b) for a in my_values for b in their_values):
            return None  # another value of the same matter, or a value beside words
    return said_otherwise(pair, mine, theirs, sure)


def _counts_else(new: Reading, mine: tuple[Chunk, ...], other: Chunk) -> bool:
    """Whether a phrase counts something of which the fact gives no number ("3 bedrooms", "2 bathrooms")."""
    loose = new.mood.changed or new.verb != "have"
    told = {concept for concept in other.concepts if concept not in other.names and not (loose and generic(concept))}
    counted = [{c for c in chunk.concepts if not (loose and generic(c))} for chunk in mine if chunk.values]
    return bool(told) and bool(counted) and all(said and not said & told for said in counted)


_RANKS = frozenset({"first", "next", "new"})


def _unranked(topic: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(concept for concept in topic if concept not in _RANKS)


def _same_matter(new: Reading, old: Reading) -> bool:
    """Whether two predicates answer one question: both what it is, or the same verb."""
    if old.mood.past and not new.mood.past and not new.mood.changed:
        return False
    if new.mood.past and not new.mood.changed and not old.mood.past and not new.replaced_values:
        return False
    settled = {"be", "", "mov", "call", "have", "hold", "get", "own", "tak", "take", "go", "com"}
    if "cost" in (new.verb, old.verb) and {new.verb, old.verb} <= {"cost", "be", "mov"}:
        settled.add("cost")
    if _purposes(new) != _purposes(old):
        return False
    if new.verb == old.verb and any(single_valued(new, chunk) for chunk in new.main):
        return True
    if (new.verb == old.verb and (new.verb in settled or new.values or new.mood.changed or _purposes(new))) or (
        new.mood.changed and new.verb in settled
    ):
        return True
    return (new.verb in settled and old.verb in settled) or (
        (new.verb in settled or old.verb in settled) and timed(new) and timed(old)
    )


def _purposes(reading: Reading) -> set[str]:
    """What something is used for ("uses Linear for planning"): another purpose is another attribute."""
    return {concept for chunk in reading.chunks if chunk.lead == "for" for concept in chunk.concepts}


def _vague(chunks: tuple[Chunk, ...]) -> bool:
    return all(not chunk.values for chunk in chunks)
