"""The judgement: how a fact and each memory near it stand to one another, and what weighing alone may not do."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from perdure.domain.fact import Fact, Neighbour
from perdure.domain.text.pattern import Pattern
from perdure.domain.text.terms import words
from perdure.pipeline.curation.rules.extraction import times
from perdure.pipeline.curation.rules.memo import per_text
from perdure.pipeline.curation.rules.reconciliation.pairing import (
    Finding,
    Pair,
    content,
    covers,
    everything,
    exclusive,
    folded,
    generic,
    held_by,
    names_told,
    other_object,
    other_value,
    same_party,
    slots_conflict,
    uncovered,
)
from perdure.pipeline.curation.rules.reconciliation.structure import (
    different_things,
    ends_job,
    led_apart,
    of_other_kinds,
    one_matter,
    share_matter,
    signs_of,
    subjects_meet,
    tells_change,
    told_by_sign,
    topics_agree,
    two_occasions,
)
from perdure.pipeline.curation.rules.slots import USER, Party, Reading, comparable, fits, read
from perdure.pipeline.curation.rules.slots.scan import concept_of, relations
from perdure.pipeline.lexicon import pairs as table
from perdure.pipeline.lexicon import words as entries

_CLAUSE = Pattern(
    r",? (?:and|but) (?=(?:is|was|has|had|lives?|lived|works?|worked|likes?|owns?|plays?|speaks?|used to)\b)"
)
"""Where a memory of several clauses goes on with the same subject."""


def judge_all(fact: Fact, neighbours: Sequence[Neighbour]) -> list[Finding]:
    """How a fact stands to each memory near it, in the memories' order."""
    return judge_reading(moody(read(fact.text), fact), neighbours)


def moody(reading: Reading, fact: Fact) -> Reading:
    """The reading with what the extraction knows of the fact."""
    mood = reading.mood
    if fact.hedged:
        mood = replace(mood, hedged=True)
    if fact.valid_to is not None:
        mood = replace(mood, past=True)
    if fact.ahead or times.is_dated_plan(fact.text):
        mood = replace(mood, ahead=True)
    return reading if mood is reading.mood else replace(reading, mood=mood)


def judge_reading(new: Reading, neighbours: Sequence[Neighbour]) -> list[Finding]:
    """The same of a reading."""
    readings = [_planned(read(memory.item.memory), memory, new) for memory in neighbours]
    found: list[Finding] = []
    for memory, reading in zip(neighbours, readings, strict=True):
        pair = Pair(_as_thing(new, reading), reading, memory, memory.similarity)
        apart = different_things(pair.new, reading)
        found.append(Finding(pair, 0.0 if apart else _held(pair), apart))
    return found


def _planned(old: Reading, memory: Neighbour, new: Reading) -> Reading:
    """The memory as a plan where it was told for later, beside a fact that tells what is so.

    Who has moved to York is not who "is moving to York in January": that says not where they live now.
    """
    if new.mood.ahead or times.is_plan(new.text) or old.mood.planned or not _was_ahead(old, memory):
        return old
    return replace(old, mood=replace(old.mood, planned=True, ahead=True))


def _was_ahead(old: Reading, memory: Neighbour) -> bool:
    """Whether a memory tells what was still to come when it was told."""
    item = memory.item
    return (item.valid_from or item.told_at) > item.told_at or times.is_dated_plan(old.text)


def _held(pair: Pair) -> float:
    """How surely the memory, or a clause of it, holds the fact; a bare detail holds no whole statement."""
    if is_detail(pair.old.text) and not is_detail(pair.new.text):
        return 0.0
    return held_by(pair) or _held_by_clause(pair)


def _as_thing(new: Reading, old: Reading) -> Reading:
    """The fact, its first word read as a thing where the memory tells that it is one ("Recital has been shifted")."""
    party = new.party
    if party.kind != "named" or new.topic or not old.topic or old.topic[-1] != party.name:
        return new
    concepts = new.concepts | {party.name}
    return replace(new, party=Party("thing"), topic=(party.name,), concepts=concepts, slots=(), turned=None)


def _held_by_clause(pair: Pair) -> float:
    """The fact beside each clause of a compound memory: one of them may hold it."""
    parts = _CLAUSE.split(pair.old.text)
    if len(parts) < 2:
        return 0.0
    subject = "User" if pair.old.party.kind == "user" else pair.old.text.split(" ", 1)[0]
    for place, part in enumerate(parts):
        clause = read(part if place == 0 else f"{subject} {part}")
        clause = replace(clause, party=pair.old.party)
        if sure := held_by(replace(pair, old=clause)):
            return sure
    return 0.0


# Caution: where weighing alone, with no rule behind it, may neither retire a memory nor take a fact for known.

ALIKE = 0.6
"""Cosine from which two statements are so alike that likeness is the second witness of a change where structure is
silent. On unread items (reconcile_held) it takes accuracy from .81 to .83 with 2 collateral as before, and on `talk`
false retirements from .8 to 1.1 per 100 facts; .55 has 1.5, no likeness needed 2.5."""
TOLD_NEAR = 0.65
"""Cosine from which a fact that tells of a change is about what the memory tells, if their subjects meet."""
SAME_ALONE = 0.74  # cosine from which a fact with a word that the memory lacks may be taken for known


_DETAIL = Pattern(r"^(?!To )(?:(?!got |is |was |has |had )[\w'&.-]+(?: |(?=: ))){1,6}: ")


_ALTERNATE = Pattern(r"\bevery (?:other|second) ", re.IGNORECASE)


_AGAIN = Pattern(r"\bagain\b", re.IGNORECASE)


@per_text(4096)
def is_detail(text: str) -> bool:
    """Whether a fact is a bare detail of something named before ("User's trip: 9 days"): it retires nothing."""
    return _DETAIL.match(text) is not None


def may_retire(pair: Pair) -> bool:
    """Whether weighing may find a change: something in the fact says so, or nothing of the memory would be lost."""
    new, old = pair.new, pair.old
    mood = new.mood
    mine, theirs = _telling(everything(new)), _telling(everything(old))
    lacking, missing = uncovered(mine, theirs), uncovered(theirs, mine)
    apart = any(exclusive(one, two) for one in lacking for two in missing)
    if _of_another(pair):
        return False
    if old.mood.past and mood.past and _AGAIN.search(new.text):
        return False  # it happened once more
    if mood.ended or mood.negated != old.mood.negated:
        return mood.denied or bool(_telling(content(new)) - lacking) or not missing
    if mood.changed and missing and not (lacking or new.verb or new.topic or new.values):
        return False  # "renamed the band": to what is told elsewhere
    if mood.changed or mood.corrected or mood.denied or apart:
        return True
    if old.mood.past and mood.past:
        return False  # two things that happened
    if told_by_sign(new):
        return True
    if new.values and missing and not {new.verb, old.verb} <= {"be", "have", ""} and not old.values:
        return False
    unmet = [value for value in old.values if not any(comparable(value, other) for other in new.values)]
    return not (lacking and missing) and not (unmet and (lacking or new.values))


def _of_another(pair: Pair) -> bool:
    """Whether the fact is about someone of whom the memory does not speak, and says nothing of whom it is about."""
    new, old = pair.new, pair.old
    if new.party.kind == "user" and old.party.kind == "relative" and not new.topic and not old.topic:
        owner = set(old.party.name.split()) | {concept_of(old.party.relation)} - {""}
        return not owner & everything(new) and not _tells_relation(old) and USER not in old.concepts
    if new.party.kind not in ("relative", "named") or old.party.kind not in ("user", "relative"):
        return False
    if same_party(new.party, old.party) or USER in new.concepts or "User" in new.text[6:]:
        return False
    named = set(new.party.name.split()) | {concept_of(new.party.relation)} - {""}
    return not named & everything(old) and not set(old.party.name.split()) & everything(new)


def has_happened(pair: Pair) -> bool:
    """Whether the memory tells what somebody once did, and the fact neither takes that back nor tells of its like."""
    new, old = pair.new, pair.old
    if not old.mood.past or old.topic or new.mood.ended or new.mood.negated or new.mood.denied or new.mood.corrected:
        return False
    return new.verb != old.verb or not new.mood.past


def is_deed_beside(pair: Pair) -> bool:
    """Whether the fact tells what somebody did, and not of the thing whose value the memory tells.

    "Handed in the essay on 12 June" does not move "the deadline for the essay is 30 June".
    """
    new, old = pair.new, pair.old
    said = everything(new)
    if new.topic or not old.topic or new.party.kind == "thing" or covers(said, old.topic[-1]):
        return False
    if any(covers(said, concept) for concept in old.topic[:-1]):
        return True
    plain = not (new.mood.ended or new.mood.negated or new.mood.denied or new.mood.changed or new.mood.corrected)
    return plain and new.mood.past and bool(old.values)


def outlives(pair: Pair) -> bool:
    """Whether the memory holds on beside a change that the fact tells: it is for later, or of who somebody is.

    "Split up with Sam" is no word on "boyfriend Sam is allergic to nuts"; "lives with Sam" is about the user.
    """
    return _holds_until_then(pair) or _is_only_name(pair) or _is_of_one_gone(pair)


def _holds_until_then(pair: Pair) -> bool:
    """Whether a fact is told for later, and the memory tells what holds now: no plan, and nothing with a date.

    "Is moving to York in January" ends no "lives in Hull"; "is flying on the 7th" is news of "is flying on the 5th".
    """
    old = pair.old
    if not pair.new.mood.ahead or old.mood.planned or old.mood.hedged:
        return False
    if times.is_plan(old.text) or _was_ahead(old, pair.memory):
        return False
    led = (chunk for chunk in old.chunks if chunk.lead not in ("since", "from", "for"))
    return not any(value.kind in ("date", "weekday") for chunk in led for value in chunk.values)


def _is_only_name(pair: Pair) -> bool:
    """Whether the memory says how somebody is called, and the fact tells something else of them by that name."""
    new, old = pair.new, pair.old
    if new.mood.ended or new.mood.denied or signs_of(new)["sign_end"] > 0 or _CALLED.match(new.text):
        return False
    called = _CALLED.match(old.text)
    if called is not None:
        return f" {folded(called['name'])} " in f" {folded(new.text)} "
    named = [slot for slot in old.slots if slot.attribute == "name"]
    again = any(slot.attribute == "name" for slot in new.slots)
    return bool(named) and not again and new.party.name == " ".join(named[0].concepts)


_CALLED = Pattern(r"^.{2,60}? is (?:called|named) (?P<name>[\w' -]{2,40})$")


def _is_of_one_gone(pair: Pair) -> bool:
    """Whether somebody is gone, and the memory says what they are, which that does not end."""
    new, old = pair.new, pair.old
    is_gone = new.mood.ended or new.mood.denied or signs_of(new)["sign_end"] > 0
    is_person = old.party.kind in ("relative", "named") or any((concept,) in relations() for concept in old.topic)
    with_user = old.party.kind != "user" and USER in old.concepts
    if not (is_gone and is_person) or with_user or ends_job(new, old):
        return False
    whose = {*old.topic, *old.party.name.split(), concept_of(old.party.relation)} | names_told(old)
    matter = everything(old) - whose
    return bool(matter) and not matter & everything(new)


def may_be_known(pair: Pair) -> bool:
    """Whether weighing may find that the memory holds the fact: it brings no name, no value, and little else."""
    new, old = pair.new, pair.old
    if is_detail(new.text) and not is_detail(old.text):
        return False
    if new.values and old.values and other_object(new, old):
        return False  # the same time makes "starts a course" and "starts a job" look alike
    if new.mood.changed and not new.verb and not new.topic and not old.mood.changed:
        return False
    if old.mood.ahead and not new.mood.ahead:
        return False
    if new.mood.negated != old.mood.negated or (new.mood.ended and not (old.mood.ended or old.mood.past)):
        return False
    if bool(_ALTERNATE.search(new.text)) != bool(_ALTERNATE.search(old.text)):
        return False
    if any(not any(fits(value, other) for other in old.values) for value in new.values):
        return False
    lacking = uncovered(_telling(everything(new)), everything(old))
    if lacking & new.names:
        return False
    owner = set(old.party.name.split()) | {concept_of(old.party.relation)} - {""}
    if new.party.kind == "user" and old.party.kind in ("relative", "named") and not owner & everything(new):
        return _tells_relation(old)
    return lacking <= {new.verb} or pair.near >= SAME_ALONE


def _tells_relation(old: Reading) -> bool:
    """Whether a memory only says who someone is to the user, which a verb may say as well ("rents from Bogumil")."""
    return any(slot.attribute == "name" for slot in old.slots)


def _telling(concepts: frozenset[str]) -> frozenset[str]:
    return frozenset(concept for concept in concepts if not generic(concept))


# Rich statements: two long ones about one person look alike, and neither says what the other does.

RICH = 6
"""Topic stems from which a statement is rich: "Ana moved to Porto in May" has four, an observation of LoCoMo eight."""
RICHER = 9  # the same of what the user tells of themselves: people correct themselves at some length
SHARED = 0.6
"""Share of the poorer one's topic stems that both must have to speak of one matter. Of 184 observations of a LoCoMo
conversation, told one by one, evidence and rules took 86 for known or changed without this, most of them wrongly."""


def tell_apart(one: str, other: str, *, of_one_name: bool) -> bool:
    """Whether both statements are rich, and share too little for one to be the other, or to take its place.

    `of_one_name`: both tell of the same person by name, which makes whatever they tell look alike.
    """
    first, second = _topic(one), _topic(other)
    least = min(len(first), len(second))
    return least >= (RICH if of_one_name else RICHER) and len(first & second) < SHARED * least


@per_text(4096)
def _topic(text: str) -> frozenset[str]:
    return frozenset(words(text)) - _stop()


@cache
def _stop() -> frozenset[str]:
    return frozenset(stem for entry in entries("recall_stopwords.txt") for stem in words(entry))


# Replacement: how likely a fact takes a memory's place, all that is known of the two weighed together.

REPLACES = 0.6
"""Weighed probability from which a memory is retired: in cross-validation .7 are right from .55 on and .75 from .64 on,
by keywords, whatever the fact tells (docs/adr/0053)."""
LINKED = 0.15
"""The same from which the newer one is linked to the older: it comes first where both answer, and hides nothing."""


def signs(finding: Finding) -> dict[str, float]:
    """What tells of a replacement, for a finding with a learned judgement: its log odds, likeness, rank and words.

    `reconcile_replaces.tsv` has the weights; `benchmarks/reconciliation/replaces.py` fits them.
    """
    judged, pair = finding.relation, finding.pair
    assert judged is not None, "only what the judge was asked about is weighed"
    return {
        "replaces": _log_odds(judged.replaces),
        "passage": _log_odds((finding.passage_relation or judged).replaces),
        "refines": _log_odds(judged.refines),
        "beside": _log_odds(judged.beside),
        "same": _log_odds(judged.same),
        "near": pair.near,
        "nearer": float(finding.nearer),
        "tells": float(tells_change(pair.new)),
        "matter": float(share_matter(pair.new, pair.old)),
        "apart": float(finding.apart or led_apart(pair.new, pair.old) or of_other_kinds(pair.new, pair.old)),
    }


def replacement(finding: Finding) -> float:
    """The probability that the fact replaces the memory; 0 without a judgement, and for what its own message says."""
    if finding.relation is None or finding.pair.memory.beside or outlives(finding.pair):
        return 0.0
    weights = _replacing()
    score = weights["="] + sum(weights[name] * value for name, value in signs(finding).items())
    return 1 / (1 + math.exp(-score))


def may_take_place(finding: Finding) -> bool:
    """Whether a fact may replace a fact by likelihood: it tells of a change, of something that both speak of.

    Two amounts of money look like one that changed, whatever is paid ("User's salary is 2500 euros now", "User pays 900
    euros of rent"). Without the word of a change two to three of 100 memories more are wrongly retired (docs/adr/0053).
    """
    new, old = finding.pair.new, finding.pair.old
    if not tells_change(new) or led_apart(new, old) or of_other_kinds(new, old) or is_deed_beside(finding.pair):
        return False
    named = (names_told(new) & names_told(old)) - {USER} if old.party.kind == "user" else ()
    return bool(named) or share_matter(new, old, any_word=True) or is_witnessed(finding)


@cache
def _replacing() -> dict[str, float]:
    return {name: float(weight) for name, weight in table("reconcile_replaces.tsv").items()}


def _log_odds(probability: float) -> float:
    kept = min(max(probability, 1e-3), 1 - 1e-3)
    return math.log(kept / (1 - kept))


# Agreement: whether a fact and a memory speak of one attribute of one subject, so that the fact may replace it.


def same_matter(fact: Fact, memory: Neighbour) -> bool:
    """Whether the fact repeats the memory, or by its structure gives another value to the attribute that it tells."""
    if folded(fact.text) == folded(memory.item.memory):
        return True
    (finding,) = judge_all(fact, [memory])
    return finding.held > 0 or (of_one_attribute(finding) and may_retire(finding.pair))


def says_nothing_new(fact: Fact, memory: Neighbour) -> bool:
    """Whether the memory holds all that the fact says, in the same or other words; in doubt it does not."""
    return any(finding.held > 0 for finding in judge_all(fact, [memory]))


def of_one_attribute(finding: Finding) -> bool:
    """Whether by structure both tell one attribute of one subject, and of one occasion.

    A told change of what is said in nearly the same words is one as well: "got over the fear of flying".
    """
    pair = finding.pair
    if not _of_one_occasion(finding):
        return False
    near = pair.near >= TOLD_NEAR and share_matter(pair.new, pair.old, any_word=True)
    told = near and tells_change(pair.new) and subjects_meet(pair.new, pair.old)
    return told or one_matter(pair.new, pair.old)


def is_witnessed(finding: Finding) -> bool:
    """Whether a change that is weighed has a second witness: one attribute by structure, or statements much alike."""
    new, old = finding.pair.new, finding.pair.old
    if led_apart(new, old) or of_other_kinds(new, old):
        return False
    topics = not (new.topic and old.topic) or topics_agree(new.topic, old.topic) > 0
    alike = finding.pair.near >= ALIKE and topics and share_matter(new, old, any_word=True)
    return of_one_attribute(finding) or (alike and _of_one_occasion(finding))


def _of_one_occasion(finding: Finding) -> bool:
    """Whether nothing tells that the two are of other things, occasions or names: a second dog has one of its own."""
    new, old = finding.pair.new, finding.pair.old
    apart = finding.apart or two_occasions(new, old)
    return not apart and (other_value(new, old) or not slots_conflict(new, old))
