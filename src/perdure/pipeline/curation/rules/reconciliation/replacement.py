"""Replacement: whether a new fact gives another value to the attribute of which a memory speaks."""

from __future__ import annotations

import re
from functools import cache

from perdure.domain.text.pattern import Pattern
from perdure.pipeline.curation.rules.memo import per_reading
from perdure.pipeline.curation.rules.reconciliation.endings import successor, takeover
from perdure.pipeline.curation.rules.reconciliation.pairing import (
    Pair,
    Verdict,
    concept_set,
    content,
    covers,
    differing,
    everything,
    exclusive,
    generic,
    parties_agree,
    same_party,
    slot_fits,
    timed,
    typed,
    uncovered,
    verbs_agree,
)
from perdure.pipeline.curation.rules.slots import Answer, Chunk, Reading, answers, comparable, fits
from perdure.pipeline.curation.rules.slots.scan import concept_of, fold_set, is_kind_of
from perdure.pipeline.lexicon import lines, word_set

# Another value in words: statements that say of one subject, with one verb, that it is something else.

PLACES = word_set("replacement.places")
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


# Another answer: statements of unlike shape that answer one question about one thing, of which one answer holds.

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
            if (_answer_one_question(one, two) and (told or _plain(pair, one))) or (told and _open(one, two)):
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


def _answer_one_question(one: Answer, two: Answer) -> bool:
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


DISTINGUISHING = word_set("replacement.distinguishing")


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
    moved = new.verb in word_set("replacement.settling")
    return (
        ending
        or (new.mood.past and not moved and not new.mood.changed and not old.mood.past)
        or (spell and new.mood.past)
    )


# ---------------------------------------------------------------- attributes of a thing


@per_reading
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
