"""Evidence: what a fact and a memory have in common and apart, as numbers that can be weighed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Set
from functools import cache

from perdure.domain.text.pattern import Pattern
from perdure.pipeline.curation.rules.reconciliation.endings import opposites
from perdure.pipeline.curation.rules.reconciliation.pairing import (
    SLIGHT,
    Pair,
    Verdict,
    concept_set,
    core,
    covers,
    everything,
    exclusive,
    generic,
    numbered_apart,
    parties_agree,
    people,
    same_party,
    slots_conflict,
    slots_hold,
    uncovered,
)
from perdure.pipeline.curation.rules.reconciliation.replacement import DISTINGUISHING, topic_of, topics_agree
from perdure.pipeline.curation.rules.slots import USER, Reading, comparable, fits
from perdure.pipeline.curation.rules.slots.scan import fold
from perdure.pipeline.lexicon import pairs as table
from perdure.pipeline.lexicon import words

# Alignment: how two statements run side by side, word by word: alike at the start, alike but for one stretch.

ALIKE_WORDS = 5
"""Words in common at the start from which more say nothing more."""

_WORD = Pattern(r"[\w'&@.:/-]*\w")
_WEAK = frozenset({"a", "an", "the", "user", "user's", "their", "they", "now", "is", "are", "has", "have", "was"})

Found = dict[str, float]


def alignment(new: str, old: str) -> Found:
    """How far two texts run in the same words (each 0 to 1), and what kind of stretch differs between them."""
    mine, theirs = tuple(_words(new)), tuple(_words(old))
    start = _common(mine, theirs)
    left, right = mine[start:], theirs[start:]
    end = _common(left[::-1], right[::-1])
    inner, outer = left[: len(left) - end], right[: len(right) - end]
    shortest = max(1, min(len(mine), len(theirs)))
    told = [word for word in mine[:start] if word not in _WEAK]
    return {
        "prefix": min(1.0, start / ALIKE_WORDS),
        "prefix_share": start / shortest,
        "prefix_telling": min(2.0, len(told)) / 2,
        "suffix_share": end / shortest,
        "swapped_short": float(start + end >= 2 and 0 < len(inner) <= 3 and 0 < len(outer) <= 3),
        "swapped_numbers": float(_counted(inner) and _counted(outer)),
        "swapped_times": float(_timed(inner) and _timed(outer)),
        "only_added": float(not outer and bool(inner)),
        "only_dropped": float(not inner and bool(outer)),
        "pairs_shared": _shared(set(itertools.pairwise(mine)), set(itertools.pairwise(theirs))),
        "words_shared": _shared(set(mine) - _WEAK, set(theirs) - _WEAK),
        "names_both": float(_named(inner, new) and _named(outer, old)),
    }


def _words(text: str) -> list[str]:
    return [fold(word) for word in _WORD.findall(text)]


def _common(one: tuple[str, ...], two: tuple[str, ...]) -> int:
    count = 0
    for a, b in zip(one, two, strict=False):
        if a != b:
            break
        count += 1
    return count


def _shared(one: Set[object], two: Set[object]) -> float:
    return 2 * len(one & two) / max(1, len(one) + len(two))


def _counted(stretch: tuple[str, ...]) -> bool:
    return any(character.isdigit() for word in stretch for character in word)


def _timed(stretch: tuple[str, ...]) -> bool:
    return any(word.rstrip("s") in _times() for word in stretch)


def _named(stretch: tuple[str, ...], text: str) -> bool:
    names = {fold(name) for name in re.findall(r"(?<!^)\b[A-Z][\w'&-]*", text)}
    return bool(names & set(stretch))


@cache
def _times() -> frozenset[str]:
    return frozenset(fold(word).rstrip("s") for word in words("time_words.txt"))


Evidence = dict[str, float]


def evidence(pair: Pair, verdict: Verdict | None) -> Evidence:
    """The evidence of a pair that has a cosine, with what the rules made of it; numbers run from 0 to about 4."""
    new, old = pair.new, pair.old
    mine, theirs = everything(new), everything(old)
    lacking = uncovered(_telling(mine), theirs)
    missing = uncovered(_telling(theirs), mine)
    found = {
        "cosine": pair.near,
        "cosine_high": max(0.0, pair.near - 0.75),
        "trigrams": _overlap(_trigrams(new.text), _trigrams(old.text)),
        "covered_new": 1 - len(lacking) / max(1, len(_telling(mine))),
        "covered_old": 1 - len(missing) / max(1, len(_telling(theirs))),
        "covered_core": 1 - len(uncovered(core(new), theirs)) / max(1, len(core(new))),
        "lacking": min(4.0, len(lacking)),
        "missing": min(4.0, len(missing)),
        "none_lacking": float(not lacking),
        "none_missing": float(not missing),
        "length_new": len(new.text.split()) / 10,
        "length_old": len(old.text.split()) / 10,
        "exclusive": float(any(exclusive(one, two) for one in lacking for two in missing)),
        "distinguished": float(bool((lacking | missing) & DISTINGUISHING)),
        "opposite": float(_opposite(mine, theirs)),
        "user_swapped": float((USER in new.concepts) != (USER in old.concepts)),
    }
    found.update(_names(pair, lacking, missing))
    found.update(_values(new, old))
    found.update(_moods(new, old))
    found.update(_shape(pair, lacking, missing))
    found.update(_signs(new.text, old.text))
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


def _telling(concepts: frozenset[str]) -> frozenset[str]:
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


def _opposite(mine: frozenset[str], theirs: frozenset[str]) -> bool:
    return any(
        (one <= mine and two <= theirs and not one <= theirs) or (two <= mine and one <= theirs and not two <= theirs)
        for one, two in opposites()
    )


@cache
def _sign_table() -> dict[str, tuple[str, ...]]:
    signs: dict[str, list[str]] = {}
    for phrase, sign in table("reconcile_signs.tsv").items():
        signs.setdefault(sign, []).append(f" {fold(phrase)} ")
    return {sign: tuple(phrases) for sign, phrases in signs.items()}


def told_by_sign(text: str) -> bool:
    """Whether a text holds a phrase that tells of a change or an end."""
    padded = _padded(text)
    return any(phrase in padded for sign in ("change", "end") for phrase in _sign_table().get(sign, ()))


def _signs(new: str, old: str) -> Evidence:
    padded = _padded(new)
    found = {f"sign_{sign}": float(any(p in padded for p in phrases)) for sign, phrases in _sign_table().items()}
    other = _padded(old)
    found["old_sign_end"] = float(any(phrase in other for phrase in _sign_table().get("end", ())))
    return found


def _padded(text: str) -> str:
    return f" {' '.join(''.join(c if c.isalnum() else ' ' for c in fold(text)).split())} "


def _trigrams(text: str) -> frozenset[str]:
    padded = _padded(text)
    return frozenset(padded[at : at + 3] for at in range(len(padded) - 2))


def _overlap(one: frozenset[str], two: frozenset[str]) -> float:
    return len(one & two) / max(1, len(one | two))
