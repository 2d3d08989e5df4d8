"""Evidence: what a fact and a memory have in common and apart, as numbers that can be weighed."""

from __future__ import annotations

from perdure.pipeline.curation.rules.memo import per_reading
from perdure.pipeline.curation.rules.reconciliation.alignment import alignment
from perdure.pipeline.curation.rules.reconciliation.pairing import (
    SLIGHT,
    Pair,
    any_exclusive,
    concept_set,
    core,
    covers,
    everything,
    generic,
    numbered_apart,
    parties_agree,
    people,
    same_party,
    slots_conflict,
    slots_hold,
    uncovered,
)
from perdure.pipeline.curation.rules.reconciliation.structure import (
    DISTINGUISHING,
    change_by_structure,
    opposite,
    padded,
    signs_of,
    topic_of,
    topics_agree,
)
from perdure.pipeline.curation.rules.slots import USER, Reading, comparable, fits

Evidence = dict[str, float]


def evidence(pair: Pair, held: float) -> Evidence:
    """The evidence of a pair, with how surely the memory holds the fact; numbers run from 0 to about 4."""
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
        "exclusive": float(any_exclusive(lacking, missing)),
        "distinguished": float(bool((lacking | missing) & DISTINGUISHING)),
        "opposite": float(opposite(new, old)),
        "user_swapped": float((USER in new.concepts) != (USER in old.concepts)),
    }
    found.update(_names(pair, lacking, missing))
    found.update(_values(new, old))
    found.update(_moods(new, old))
    found.update(_shape(pair, lacking, missing))
    found.update(_signs(new, old))
    found.update(alignment(new.text, old.text))
    by_structure = {} if held else change_by_structure(new, old)
    found["rule_same"] = held
    found.update({f"rule_{kind}": by_structure.get(kind, 0.0) for kind in ("ends", "replaces", "refines")})
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
    agrees = parties_agree(new, old) or people(new) == people(old)
    clash = bool(new.party.name and old.party.name) and not same_party(new.party, old.party)
    parted = _party_clash(pair, agrees)
    return {
        "names_new": min(2.0, len(lacking & mine)),
        "names_old": min(2.0, len(missing & theirs)),
        "names_shared": min(2.0, len(mine & theirs)),
        "names_clash": float(clash),
        "people_apart": min(3.0, len(people(new) ^ people(old))),
        "party_clash": float(parted),
        "strangers": float(parted and not mine & theirs),
        "party_same": float(same_party(new.party, old.party)),
        "party_agrees": float(agrees),
        "new_of_user": float(new.party.kind == "user"),
        "old_of_user": float(old.party.kind == "user"),
    }


def _party_clash(pair: Pair, agrees: bool) -> bool:
    """Whether the two are plainly about different people."""
    new, old = pair.new, pair.old
    if "thing" in (new.party.kind, old.party.kind) or same_party(new.party, old.party):
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


def _signs(new: Reading, old: Reading) -> Evidence:
    return {**signs_of(new), "old_sign_end": signs_of(old).get("sign_end", 0.0)}


@per_reading
def _trigrams(reading: Reading) -> frozenset[str]:
    said = padded(reading.text)
    return frozenset(said[at : at + 3] for at in range(len(said) - 2))


def _overlap(one: frozenset[str], two: frozenset[str]) -> float:
    shared = len(one & two)
    return shared / max(1, len(one) + len(two) - shared)
