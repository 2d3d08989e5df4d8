"""Evidence: what a fact and a memory have in common and apart, as numbers that can be weighed."""

from __future__ import annotations

import re
from functools import cache

from perdure.domain.text.pattern import Pattern
from perdure.pipeline.curation.rules.memo import per_reading, per_text
from perdure.pipeline.curation.rules.reconciliation.alignment import alignment
from perdure.pipeline.curation.rules.reconciliation.endings import DISLIKES, FEELINGS, opposites
from perdure.pipeline.curation.rules.reconciliation.pairing import (
    SLIGHT,
    Pair,
    Verdict,
    alias_table,
    concept_set,
    content,
    core,
    covers,
    differing,
    everything,
    exclusive,
    generic,
    heads,
    numbered_apart,
    parties_agree,
    people,
    same_party,
    slots_conflict,
    slots_hold,
    uncovered,
)
from perdure.pipeline.curation.rules.reconciliation.replacement import DISTINGUISHING, topic_of, topics_agree
from perdure.pipeline.curation.rules.slots import USER, Chunk, Reading, Value, answers, comparable, fits, read
from perdure.pipeline.curation.rules.slots.scan import concept_of, fold, fold_set, is_kind_of
from perdure.pipeline.lexicon import pairs as table
from perdure.pipeline.lexicon import words

Evidence = dict[str, float]


def evidence(pair: Pair, verdict: Verdict | None) -> Evidence:
    """The evidence of a pair that has a cosine, with what the rules made of it; numbers run from 0 to about 4."""
    new, old = pair.new, pair.old
    mine, theirs = everything(new), everything(old)
    lacking = uncovered(_telling(new), theirs)
    missing = uncovered(_telling(old), mine)
    found = {
        "cosine": pair.near,
        "cosine_high": max(0.0, pair.near - 0.75),
        "trigrams": _overlap(_trigrams(new), _trigrams(old)),
        "covered_new": 1 - len(lacking) / max(1, len(_telling(new))),
        "covered_old": 1 - len(missing) / max(1, len(_telling(old))),
        "covered_core": 1 - len(uncovered(core(new), theirs)) / max(1, len(core(new))),
        "lacking": min(4.0, len(lacking)),
        "missing": min(4.0, len(missing)),
        "none_lacking": float(not lacking),
        "none_missing": float(not missing),
        "length_new": len(new.text.split()) / 10,
        "length_old": len(old.text.split()) / 10,
        "exclusive": float(any(exclusive(one, two) for one in lacking for two in missing)),
        "distinguished": float(bool((lacking | missing) & DISTINGUISHING)),
        "opposite": float(_opposite(new, old)),
        "user_swapped": float((USER in new.concepts) != (USER in old.concepts)),
    }
    found.update(_names(pair, lacking, missing))
    found.update(_values(new, old))
    found.update(_moods(new, old))
    found.update(_shape(pair, lacking, missing))
    found.update(_signs(new, old))
    found.update(alignment(new.text, old.text))
    for relation in ("same", "ends", "replaces", "refines"):
        said = verdict is not None and verdict.relation == relation
        found[f"rule_{relation}"] = verdict.confidence if said and verdict is not None else 0.0
    near = found["cosine"]
    found["cosine_ended"] = near * max(found["ended"], found["denied"])
    found["cosine_changed"] = near * found["changed"]
    found["cosine_party"] = near * found["party_agrees"]
    apart = found["verb_apart"]
    found["ended_verb_apart"] = apart * max(found["ended"], found["sign_end"])
    found["object_changed"] = found["verb_other_object"] * max(found["changed"], found["sign_change"])
    found["topic_changed"] = found["topic_other_value"] * max(found["changed"], found["sign_change"])
    found["past_dated"] = found["past"] * found["year_new"]
    found["clash_near"] = near * found["party_clash"]
    found["differ_changed"] = found["values_differ"] * max(found["changed"], found["sign_change"], found["corrected"])
    return found


@per_reading
def _telling(reading: Reading) -> frozenset[str]:
    """What a statement holds that says more than what sort of thing a value is; all of it where nothing does."""
    concepts = everything(reading)
    return frozenset(concept for concept in concepts if not generic(concept)) or concepts


def _names(pair: Pair, lacking: set[str], missing: set[str]) -> Evidence:
    new, old = pair.new, pair.old
    mine = new.names | set(new.party.name.split())
    theirs = old.names | set(old.party.name.split())
    agrees = parties_agree(new, old, pair.aliases) or people(new) == people(old)
    clash = bool(new.party.name and old.party.name) and not same_party(new.party, old.party, pair.aliases)
    parted = _party_clash(pair, agrees)
    return {
        "names_new": min(2.0, len(lacking & mine)),
        "names_old": min(2.0, len(missing & theirs)),
        "names_shared": min(2.0, len(mine & theirs)),
        "names_clash": float(clash),
        "people_apart": min(3.0, len(people(new) ^ people(old))),
        "party_clash": float(parted),
        "strangers": float(parted and not mine & theirs),
        "party_same": float(same_party(new.party, old.party, pair.aliases)),
        "party_agrees": float(agrees),
        "new_of_user": float(new.party.kind == "user"),
        "old_of_user": float(old.party.kind == "user"),
    }


def _party_clash(pair: Pair, agrees: bool) -> bool:
    """Whether the two are plainly about different people."""
    new, old = pair.new, pair.old
    if "thing" in (new.party.kind, old.party.kind) or same_party(new.party, old.party, pair.aliases):
        return False
    return new.party.kind == old.party.kind or not agrees


def _values(new: Reading, old: Reading) -> Evidence:
    meet = [(one, two) for one in new.values for two in old.values if comparable(one, two)]
    differ = bool(meet) and any(all(not fits(a, b) for x, b in meet if x is a) for a, _ in meet)
    fit = bool(new.values) and all(any(fits(one, two) for two in old.values) for one in new.values)
    return {
        "values_fit": float(fit),
        "values_differ": float(differ),
        "values_new": float(bool(new.values) and not fit and not differ),
        "values_old": float(bool(old.values) and not new.values),
        "year_new": float(any(value.kind == "date" and value.date[0] for value in new.values)),
        "year_old": float(any(value.kind == "date" and value.date[0] for value in old.values)),
        "dated_apart": float(differ and all(one.kind == "date" for one, _ in meet)),
    }


def _moods(new: Reading, old: Reading) -> Evidence:
    mine, theirs = new.mood, old.mood
    pending = theirs.planned or theirs.hedged or bool(everything(old) & concept_set("reconcile_pending.txt"))
    done = new.verb in concept_set("reconcile_done.txt")
    return {
        "ended": float(mine.ended),
        "negated": float(mine.negated),
        "changed": float(mine.changed),
        "corrected": float(mine.corrected),
        "denied": float(mine.denied),
        "hedged": float(mine.hedged),
        "planned": float(mine.planned),
        "temporary": float(mine.temporary),
        "past": float(mine.past and not mine.changed and not mine.ended),
        "old_past": float(theirs.past),
        "old_pending": float(theirs.planned or theirs.hedged),
        "done": float(done and pending),
        "polarity": float((mine.negated or mine.ended) != (theirs.negated or theirs.ended)),
        "replaces": float(bool(new.replaced or new.replaced_values)),
    }


def _shape(pair: Pair, lacking: set[str], missing: set[str]) -> Evidence:
    new, old = pair.new, pair.old
    heads_new, heads_old = _heads(new), _heads(old)
    shared = {slot.attribute for slot in new.slots} & {slot.attribute for slot in old.slots}
    differ = new.verb != old.verb
    return {
        "verb_same": float(not differ),
        "verb_apart": float(differ and new.verb not in SLIGHT and old.verb not in SLIGHT),
        "head_shared": float(any(not generic(head) and covers(heads_old, head) for head in heads_new)),
        "topics": topics_agree(topic_of(new)[0], topic_of(old)[0]),
        "both_topics": float(bool(new.topic) and bool(old.topic)),
        "topic_heads_apart": float(bool(new.topic) and bool(old.topic) and not covers([old.topic[-1]], new.topic[-1])),
        "topic_other_value": float(_topic_other_value(new, old, lacking, missing)),
        "verb_other_object": float(_verb_other_object(new, old, lacking, missing)),
        "numbered_apart": float(numbered_apart(new, old)),
        "roles_swapped": float(_roles_swapped(new, old)),
        "modifiers_clash": float(_modifiers_clash(new, old, lacking, missing)),
        "attribute_shared": float(bool(shared)),
        "attribute_apart": float(slots_conflict(new, old)),
        "attribute_held": float(slots_hold(new, old)),
    }


@per_reading
def _heads(reading: Reading) -> frozenset[str]:
    found = {chunk.head for chunk in reading.main} | {reading.verb}
    return frozenset((found | ({reading.topic[-1]} if reading.topic else set())) - {""})


def _topic_other_value(new: Reading, old: Reading, lacking: set[str], missing: set[str]) -> bool:
    """One thing with two values ("the blog runs on Hugo", "the blog runs on WordPress")."""
    one, two = topic_of(new)[0], topic_of(old)[0]
    return topics_agree(one, two) >= 0.8 and bool(lacking - set(one)) and bool(missing - set(two))


def _verb_other_object(new: Reading, old: Reading, lacking: set[str], missing: set[str]) -> bool:
    """One verb with two objects ("likes pears", "likes apples")."""
    if new.topic or old.topic or new.verb != old.verb or not new.main or not old.main:
        return False
    one, two = new.main[0], old.main[0]
    return one.lead == two.lead and bool(lacking & set(one.concepts)) and bool(missing & set(two.concepts))


def _roles_swapped(new: Reading, old: Reading) -> bool:
    """The user does here what is done to them there, by the same verb ("Kim owes User", "User owes Kim")."""
    kinds_met = {new.party.kind, old.party.kind}
    if "user" not in kinds_met or len(kinds_met) != 2 or new.verb != old.verb:
        return False
    mine, theirs = (new, old) if new.party.kind == "user" else (old, new)
    return USER in theirs.concepts and bool(set(theirs.party.name.split()) & mine.concepts)


def _modifiers_clash(new: Reading, old: Reading, lacking: set[str], missing: set[str]) -> bool:
    """Whether one head stands in both with other words before it ("Iceland trip", "Sardinia trip")."""
    mine = [new.topic, *(chunk.concepts for chunk in new.main)]
    theirs = [old.topic, *(chunk.concepts for chunk in old.main)]
    return any(
        one and two and one[-1] == two[-1] and lacking & set(one[:-1]) and missing & set(two[:-1])
        for one in mine
        for two in theirs
    )


def _opposite(new: Reading, old: Reading) -> bool:
    mine, theirs = _states(new), _states(old)
    return bool(mine and theirs) and any(
        (one in mine and two in theirs and one not in theirs) or (two in mine and one in theirs and two not in theirs)
        for one, two in opposites()
    )


@per_reading
def _states(reading: Reading) -> frozenset[frozenset[str]]:
    """The states of the table of opposites in which a statement says that something is."""
    said = everything(reading)
    return frozenset(state for states in opposites() for state in states if state <= said)


@cache
def _sign_table() -> dict[str, tuple[str, ...]]:
    signs: dict[str, list[str]] = {}
    for phrase, sign in table("reconcile_signs.tsv").items():
        signs.setdefault(sign, []).append(f" {fold(phrase)} ")
    return {sign: tuple(phrases) for sign, phrases in signs.items()}


def told_by_sign(reading: Reading) -> bool:
    """Whether a text holds a phrase that tells of a change or an end."""
    found = _signs_of(reading)
    return bool(found.get("sign_change") or found.get("sign_end"))


def _signs(new: Reading, old: Reading) -> Evidence:
    return {**_signs_of(new), "old_sign_end": _signs_of(old).get("sign_end", 0.0)}


@per_reading
def _signs_of(reading: Reading) -> Evidence:
    padded = _padded(reading.text)
    return {f"sign_{sign}": float(any(p in padded for p in phrases)) for sign, phrases in _sign_table().items()}


def _padded(text: str) -> str:
    return f" {' '.join(''.join(c if c.isalnum() else ' ' for c in fold(text)).split())} "


@per_reading
def _trigrams(reading: Reading) -> frozenset[str]:
    padded = _padded(reading.text)
    return frozenset(padded[at : at + 3] for at in range(len(padded) - 2))


def _overlap(one: frozenset[str], two: frozenset[str]) -> float:
    return len(one & two) / max(1, len(one | two))


# Whether two statements are about different things, or about one attribute of one subject.

_ALSO = Pattern(r"\b(?:also|as well|additionally|in addition)\b", re.IGNORECASE)
"""Words by which a fact says itself that it stands beside others."""
_NO_OTHER = frozenset({"final", "current", "present", "new", "total", "actual", "latest", "updat", "overall", "whole"})
"""Words before a thing's name that tell no other thing."""
_USED_TO = Pattern(r"\bused to\b", re.IGNORECASE)

AGREEING = 0.8
"""How surely two noun phrases must name one thing (`topics_agree`) for what is said of them to be of one attribute."""

_PARTS = frozenset({"morning", "afternoon", "evening", "night", "noon", "midday", "bedtime"})
_WITH = frozenset({"with", "for", "of", "from", "about"})
_WHEN = frozenset({"clock", "weekday", "date", "part"})
_OTHER = frozenset({"other", "another", "second", "third"})
"""Ranks that make another one even of what was told without a rank."""

_PICTURE = Pattern(r"[\u2600-\u27bf\U0001f000-\U0001faff]")


def different_things(new: Reading, old: Reading) -> bool:
    """Whether a mark tells that the two are about different things: no likeness makes the one a change of the other."""
    if any(marks(new, old) for marks in (numbered_apart, _marked_apart, _pictured_apart, _of_another)):
        return True
    mood = new.mood
    if _USED_TO.search(new.text) and _says_less(new, old):
        return True
    if mood.ended or mood.denied or mood.corrected or new.replaced:
        return False
    if _ALSO.search(new.text) or _says_less(new, old):
        return True
    return not mood.changed and (_named_apart(new, old) or _other_occasion(new, old) or _narrower(new, old))


def one_attribute(new: Reading, old: Reading, aliases: dict[str, str]) -> bool:
    """Whether two statements about no different things speak of one attribute of one subject."""
    if not parties_agree(new, old, aliases):
        return False
    if {slot.attribute for slot in new.slots} & {slot.attribute for slot in old.slots}:
        return True
    if {answer.kind for answer in answers(new.text)} & {answer.kind for answer in answers(old.text)}:
        return _topics_meet(new, old)
    mine, theirs = topic_of(new), topic_of(old)
    if topics_agree(mine[0], theirs[0]) >= AGREEING:
        return _verbs_meet(new, old) and (bool(new.topic or old.topic) or _of_one_kind(mine[1], theirs[1]))
    if tells_change(new) and _share_a_head(new, old):
        return True
    if new.topic or old.topic or not same_party(new.party, old.party, aliases):
        return False
    return new.verb == old.verb and new.verb not in SLIGHT and _objects_meet(new, old)


def tells_change(new: Reading) -> bool:
    """Whether a statement itself says that something is other than it was."""
    mood = new.mood
    return mood.changed or mood.corrected or mood.ended or mood.denied or told_by_sign(new)


@per_text(4096)
def texts_same_attribute(newer: str, older: str) -> bool:
    """Whether two texts speak of one attribute of one subject, so that the newer may have replaced the older."""
    new, old = read(newer), read(older)
    return not different_things(new, old) and one_attribute(new, old, alias_table([new, old]))


def may_end(new: Reading, old: Reading) -> bool:
    """Whether a fact that ends something may end this: "stopped playing the cello" ends nothing of the orchestra.

    Something besides the verb stands in both, or two kinds of one thing do; a fact that tells of the new ends nothing.
    """
    mine, theirs = _told_of(new), _told_of(old)
    if not mine or not new.mood.ended or new.mood.changed:
        return True  # "gave up smoking": the verb is all that it is about
    near = any(covers(theirs, one) or covers(mine, other) for one in mine for other in theirs)
    return near or any(exclusive(one, two) for one in mine for two in theirs)


@per_reading
def _told_of(reading: Reading) -> frozenset[str]:
    return frozenset(concept for concept in content(reading) - {reading.verb} if not generic(concept))


# ---------------------------------------------------------------- marks


def _pictured_apart(new: Reading, old: Reading) -> bool:
    """Whether emoji stand for different things in them: "User loves 🍕" and "User loves 🍣"."""
    mine, theirs = set(_PICTURE.findall(new.text)), set(_PICTURE.findall(old.text))
    return bool(mine and theirs) and mine != theirs


def _marked_apart(new: Reading, old: Reading) -> bool:
    """ "The second car", "the morning dose", "User's other brother": other marks on what each is about."""
    if new.qualifier and old.qualifier and not (new.qualifier <= old.qualifier or old.qualifier <= new.qualifier):
        return True
    mine, theirs = _marks(new), _marks(old)
    if not _alike(new, old) or mine == theirs:
        return False
    if mine and theirs:
        return not (mine & theirs)
    several = new.party.kind == "relative" and _bare(new.party.relation) in fold_set("reconcile_many.txt")
    return bool((mine | theirs) & _OTHER) or (several and bool(mine))


def _of_another(new: Reading, old: Reading) -> bool:
    """Whether one is about the user and the other says the same of somebody else: a mother's dose, a wife's taste."""
    for mine, theirs in ((new, old), (old, new)):
        kin = theirs.party.kind == "named" or theirs.party.relation in fold_set("reconcile_kin.txt")
        if mine.party.kind == "user" and theirs.party.kind in ("relative", "named") and kin:
            return new.verb == old.verb and bool(new.topic) == bool(old.topic)
    return False


def _says_less(new: Reading, old: Reading) -> bool:
    """Whether a denial, a dislike or an earlier time is of something that the memory does not tell.

    "Not allergic to peanuts" ends no allergy to nuts, "doesn't live in Paris" and "used to live in Paris" no home in
    Utrecht; "not allergic to nuts" ends one to peanuts.
    """
    feels = bool(content(new) & DISLIKES) != bool(content(old) & DISLIKES)
    if not (feels or new.mood.negated != old.mood.negated or _USED_TO.search(new.text)):
        return False
    said = {concept for chunk in new.main for concept in chunk.concepts}
    mine = (said | set(new.topic)) - {new.verb} - FEELINGS
    theirs = content(old)
    return any(
        not generic(one) and one not in theirs and not any(is_kind_of(other, one) for other in theirs) for one in mine
    )


def _narrower(new: Reading, old: Reading) -> bool:
    """Whether a word before a thing's name, or for whom it is, tells another one: the business bank, for the son."""
    more = {one for one in set(new.topic) - set(old.topic) if not generic(one) and one not in _NO_OTHER}
    if new.topic[-1:] == old.topic[-1:] and more:
        return bool(old.topic)
    mine, theirs = ({one for c in each.main if c.lead == "for" for one in c.concepts} for each in (new, old))
    return new.verb == old.verb and bool(mine - theirs) and not new.topic


def _alike(new: Reading, old: Reading) -> bool:
    """Whether both are about a thing or a person of one kind, marks aside."""
    one, two = new.party, old.party
    if one.kind == two.kind == "relative" and not new.topic and not old.topic:
        return _bare(one.relation) == _bare(two.relation)
    mine, theirs = topic_of(new)[0], topic_of(old)[0]
    return bool(mine) and bool(theirs) and (mine[-1] == theirs[-1] or generic(mine[-1]) or generic(theirs[-1]))


def _bare(relation: str) -> str:
    ranks = fold_set("reconcile_ranks.txt")
    return " ".join(word for word in relation.split() if word not in ranks)


@per_reading
def _marks(reading: Reading) -> frozenset[str]:
    """Words that tell one thing from another of its kind: ranks of people, sides, ordinals, times of day."""
    ranks = fold_set("reconcile_ranks.txt") - {"new", "late", "former", "ex", "best", "closest", "great"}
    found = {word for word in reading.party.relation.split() if word in ranks}
    topic = topic_of(reading)[0]
    found |= {concept for concept in topic[:-1] if concept in DISTINGUISHING or concept in _PARTS}
    found |= {f"{value.kind} {value.amount}" for value in reading.topic_values if value.kind == "ordinal"}
    return frozenset(found)


# ---------------------------------------------------------------- names and occasions


def _named_apart(new: Reading, old: Reading) -> bool:
    """ "A meeting with Anna", "the van's number plate": others take part, or another thing is the owner."""
    mine, theirs = _partners(new), _partners(old)
    if mine and theirs and not mine & theirs:
        return True
    one, two = new.topic_names, old.topic_names
    if one and two and not one & two:
        return True
    first, second = frozenset(new.topic), frozenset(old.topic)
    return new.topic[-1:] == old.topic[-1:] and bool(first - second) and bool(second - first)


@per_reading
def _partners(reading: Reading) -> frozenset[str]:
    return frozenset(name for chunk in reading.main if chunk.lead in _WITH for name in chunk.names)


def _other_occasion(new: Reading, old: Reading) -> bool:
    """Another season or part of the day, or another time and another value beside it.

    "In winter by bus", "a dose of 40 mg in the evening", "ten kilometres on Sunday", "with Anna on Tuesday at three".
    """
    mine_when, theirs_when = _circumstances(new), _circumstances(old)
    if mine_when and theirs_when and not mine_when & theirs_when:
        return True
    mine, theirs = _by_kind(new), _by_kind(old)
    apart = {kind for kind in mine.keys() & theirs.keys() if differing(mine[kind], theirs[kind])}
    return bool(apart & _WHEN) and (len(apart) > 1 or _told_of_others(new, old))


def _told_of_others(new: Reading, old: Reading) -> bool:
    """Whether both name somebody or some place, and none that the other names: "to Lake Como", "to Scotland"."""
    mine, theirs = ({name for chunk in each.main for name in chunk.names} for each in (new, old))
    return bool(mine and theirs) and not mine & theirs


@per_reading
def _circumstances(reading: Reading) -> frozenset[str]:
    """The times that phrases of a statement tell in words: in summer, at night, at the weekend."""
    led = (chunk for chunk in reading.main if chunk.lead in ("in", "at", "on", "during"))
    return frozenset(concept for chunk in led if set(chunk.concepts) <= _time_words() for concept in chunk.concepts)


@cache
def _time_words() -> frozenset[str]:
    return frozenset(concept_of(word) for word in words("time_words.txt"))


@per_reading
def _by_kind(reading: Reading) -> dict[str, list[Value]]:
    found: dict[str, list[Value]] = {}
    for value in reading.values:
        found.setdefault(value.kind, []).append(value)
    return found


# ---------------------------------------------------------------- what is said of one subject


def _topics_meet(new: Reading, old: Reading) -> bool:
    if not new.topic or not old.topic:
        return True
    return topics_agree(new.topic, old.topic) >= AGREEING


def _share_a_head(new: Reading, old: Reading) -> bool:
    """Whether something that both are about, a name aside, is the same or a kind of the same."""
    aside = SLIGHT | new.names | old.names | ({new.verb, old.verb} if new.mood.ended and _told_of(new) else frozenset())
    mine, theirs = heads(new) - aside, heads(old) - aside
    return any(not generic(head) and covers(theirs, head) for head in mine)


def _verbs_meet(new: Reading, old: Reading) -> bool:
    return new.verb == old.verb or new.mood.changed or bool({new.verb, old.verb} & SLIGHT)


def _of_one_kind(mine: tuple[Chunk, ...], theirs: tuple[Chunk, ...]) -> bool:
    """Whether both say of a thing that is had something that answers one question: a day, a place, an amount."""
    values = [(one, two) for a in mine for b in theirs for one in a.values for two in b.values]
    if any(comparable(one, two) and not fits(one, two) for one, two in values):
        return True
    leads = {chunk.lead for chunk in mine if chunk.concepts} & {chunk.lead for chunk in theirs if chunk.concepts}
    return bool(leads - {""})


def _objects_meet(new: Reading, old: Reading) -> bool:
    """Whether one verb has one object, of which something else is said, or a bare value for one."""
    for one in new.main[:1]:
        for two in old.main[:1]:
            if one.lead != two.lead:
                continue
            if not one.concepts and not two.concepts:
                return any(comparable(a, b) for a in one.values for b in two.values)
            if one.concepts and two.concepts:
                return covers([two.head], one.head) or is_kind_of(one.head, two.head)
    return False
