"""Replacement: whether a new fact gives another value to the attribute of which a memory speaks."""

from __future__ import annotations

import re

from perdure.pipeline.reconciliation.pairing import (
    Pair,
    concept_set,
    content,
    covers,
    everything,
    exclusive,
    generic,
    parties_agree,
    same_party,
    uncovered,
)
from perdure.pipeline.reconciliation.same import slot_fits, verbs_agree
from perdure.pipeline.reconciliation.succession import successor, takeover
from perdure.pipeline.reconciliation.verdict import Verdict
from perdure.pipeline.slots import Chunk, Reading, Value, comparable, fits
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
_TYPED_NEAR = 0.45
_PLACES = frozenset(
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


def judge_replaces(pair: Pair) -> Verdict | None:
    """A verdict that the fact replaces the memory's value; None where either may hold beside the other."""
    new, old = pair.new, pair.old
    if not _may_replace(new, old):
        return None
    verdict = _named(pair) or takeover(pair) or successor(pair)
    if verdict is not None:
        return verdict
    if not _parties_allow(pair):
        unowned = new.party.kind == "thing" and new.mood.changed and not new.topic_names
        return _topics(pair) if unowned else None
    return _slots(pair) or _topics(pair) or _typed(pair) or _parallel(pair)


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
        if slot.attribute == "name" and new.party.relation in concept_set_relations() and not new.mood.changed:
            return None  # a second brother has a name of his own
        if slot_fits(slot, other, content(old)):
            continue
        if slot_fits(other, slot, content(new)):
            changed = True
            continue
        if slot.values and not slot.concepts and not any(comparable(a, b) for a in slot.values for b in other.values):
            continue
        changed = True
    if not changed or _only_past(new, old):
        return None
    return Verdict("replaces", pair, "replace.attribute", 0.92)


def concept_set_relations() -> frozenset[str]:
    """Relations of which one may have several."""
    return fold_set("reconcile_many.txt")


def _only_past(new: Reading, old: Reading) -> bool:
    """Whether the fact tells of an earlier time: it may not overwrite the present."""
    ending = any(chunk.lead in ("until", "till") for chunk in new.chunks)
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
        differing = _differing(my_values, their_values)
        if differing:
            return Verdict("replaces", pair, "replace.value", 0.93 * sure + 0.02)
        if their_values or not _vague(theirs):
            return None
        return Verdict("replaces", pair, "replace.vague", 0.8 * sure) if not theirs else None
    return _said_otherwise(pair, mine, theirs, sure)


_PRESENT = re.compile(r"\b(?:present|current)\b", re.IGNORECASE)
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
    if _purposes(new) != _purposes(old):
        return False
    if (new.verb == old.verb and (new.verb in settled or new.values or new.mood.changed or _purposes(new))) or (
        new.mood.changed and new.verb in settled
    ):
        return True
    return (new.verb in settled and old.verb in settled) or (
        (new.verb in settled or old.verb in settled) and _timed(new) and _timed(old)
    )


def _purposes(reading: Reading) -> set[str]:
    """What something is used for ("uses Linear for planning"): another purpose is another attribute."""
    return {concept for chunk in reading.chunks if chunk.lead == "for" for concept in chunk.concepts}


def _timed(reading: Reading) -> bool:
    return any(value.kind in ("clock", "date", "weekday") for value in reading.values)


def _differing(mine: list[Value], theirs: list[Value]) -> bool:
    """Whether some value meets a comparable one that it does not fit, and none fits."""
    meet = [(a, b) for a in mine for b in theirs if comparable(a, b)]
    return bool(meet) and any(all(not fits(a, b) for x, b in meet if x is a) for a, _ in meet)


def _vague(chunks: tuple[Chunk, ...]) -> bool:
    return all(not chunk.values for chunk in chunks)


def _said_otherwise(pair: Pair, mine: tuple[Chunk, ...], theirs: tuple[Chunk, ...], sure: float) -> Verdict | None:
    """Both give the thing a value in words: other names, another place, another kind of one thing."""
    if not mine or not theirs or not mine[0].concepts or not theirs[0].concepts:
        return None
    one, two = mine[0], theirs[0]
    if one.lead != two.lead and {one.lead, two.lead} - _PLACES - {""}:
        return None
    if one.lead != two.lead and "" in (one.lead, two.lead) and not pair.new.mood.changed:
        return None
    if not uncovered(one.concepts, two.concepts) or not uncovered(two.concepts, one.concepts):
        return None
    if pair.new.party.kind != "relative" and pair.new.topic and pair.new.topic[-1] in concept_set("reconcile_many.txt"):
        return None
    named = bool(one.names) and bool(two.names)
    if named or exclusive(one.head, two.head):
        return Verdict("replaces", pair, "replace.words", 0.9 * sure)
    if bool(one.names) != bool(two.names) and not pair.new.mood.changed:
        return None
    if pair.new.mood.changed or _PRESENT.search(pair.new.text):
        return Verdict("replaces", pair, "replace.changed", 0.85 * sure)
    if one.lead in _PLACES and two.lead in _PLACES and pair.new.verb == pair.old.verb == "be" and pair.new.topic:
        return Verdict("replaces", pair, "replace.place", 0.85 * sure)
    return Verdict("soft", pair, "soft.topic", 0.5 * sure)


# ---------------------------------------------------------------- typed values in otherwise equal words


def _typed(pair: Pair) -> Verdict | None:
    """Another value of one type in statements that otherwise speak of the same."""
    new, old = pair.new, pair.old
    if not new.values or not old.values or not _differing(list(new.values), list(old.values)):
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
        if not cue and not (new.topic and old.topic) and (_timed(new) or new.verb == ""):
            return Verdict("soft", pair, "soft.typed", 0.5)  # two meetings, two visits
        return Verdict("replaces", pair, "replace.typed", 0.9 if new.mood.changed else 0.82)
    if cue and (not lacking or not missing) and len(lacking | missing) <= 2 and pair.near >= _TYPED_NEAR:
        return Verdict("replaces", pair, "replace.typed-changed", 0.8)
    if new.mood.changed:
        return Verdict("soft", pair, "soft.typed", 0.4)
    return None


# ---------------------------------------------------------------- statements alike but for one phrase


def _parallel(pair: Pair) -> Verdict | None:
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
