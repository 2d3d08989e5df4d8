"""The judgement: every rule over every memory near a fact."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from perdure.domain.fact import Fact, Neighbour
from perdure.domain.text.pattern import Pattern
from perdure.pipeline.curation.rules.memo import per_text
from perdure.pipeline.curation.rules.reconciliation.endings import departed, judge_ends, judge_succession
from perdure.pipeline.curation.rules.reconciliation.evidence import different_things, told_by_sign
from perdure.pipeline.curation.rules.reconciliation.pairing import (
    STATES,
    Finding,
    Pair,
    Verdict,
    akin,
    alias_table,
    content,
    core,
    covers,
    everything,
    exclusive,
    folded,
    generic,
    judge_same,
    numbered_apart,
    same_party,
    slots_conflict,
    uncovered,
    values_fit,
    verbs_agree,
)
from perdure.pipeline.curation.rules.reconciliation.replacement import judge_replaces
from perdure.pipeline.curation.rules.slots import USER, Party, Reading, Value, comparable, fits, read
from perdure.pipeline.curation.rules.slots.scan import concept_of, is_kind_of

# Refinement: whether a new fact says what a memory says, and more.


def judge_refines(pair: Pair) -> Verdict | None:
    """A verdict that the fact is the memory in more detail, or made certain; None otherwise."""
    new, old = pair.new, pair.old
    if not pair.whole or not same_party(new.party, old.party, pair.aliases) or not _tenses_allow(new, old):
        return None
    if slots_conflict(new, old):
        return None
    if _fills_field(pair):
        return Verdict("refines", pair, "refine.field", 0.85)
    if not values_fit(old.values, new.values):
        return None
    mine, theirs = content(new), content(old)
    firmed = (old.mood.planned or old.mood.hedged) and not (new.mood.planned or new.mood.hedged)
    needed = core(old) if firmed else theirs
    lacking = {concept for concept in uncovered(needed, mine) if not generic(concept)}
    if lacking or not theirs or not _heads_kept(new, old, mine, theirs):
        return None
    if all(generic(concept) for concept in theirs) and not old.values and not old.topic:
        return None
    central = core(new)
    if not any(covers(central, concept) for concept in theirs if not generic(concept)) and not firmed:
        return None
    if new.verb not in theirs and not verbs_agree(new, old):
        return None
    more = len([c for c in uncovered(mine, theirs) if not generic(c)]) + len(new.values) - len(old.values)
    if mine != theirs and len(mine) == len(theirs) and not old.mood.past:
        return Verdict("refines", pair, "refine.kind", 0.93)
    if firmed:
        return Verdict("refines", pair, "refine.firm", 0.88)
    return Verdict("refines", pair, "refine.detail", 0.88) if more > 0 else None


def _tenses_allow(new: Reading, old: Reading) -> bool:
    mine, theirs = new.mood, old.mood
    if (
        mine.negated != theirs.negated
        or mine.ended
        or theirs.ended
        or mine.denied
        or mine.temporary != theirs.temporary
    ):
        return False
    if (mine.hedged or mine.planned) and not (theirs.hedged or theirs.planned):
        return False
    pending = theirs.planned or theirs.hedged
    if mine.past and not theirs.past and not pending and new.verb in STATES and not new.topic:
        return False
    return not (theirs.past and not mine.past)


def _heads_kept(new: Reading, old: Reading, mine: frozenset[str], theirs: frozenset[str]) -> bool:
    """Whether each phrase of the fact that takes up the memory's words is about the same thing."""
    head = new.topic[-1] if new.topic else ""
    borrowed = any(concept in theirs for concept in new.topic) and head not in theirs and not generic(head)
    if borrowed and not any(is_kind_of(head, one) for one in theirs):
        return False
    for chunk in new.chunks:
        if not chunk.concepts or chunk.head in chunk.names or generic(chunk.head):
            continue
        touched = any(concept in theirs and not generic(concept) for concept in chunk.concepts)
        if touched and not akin(chunk.head, theirs):
            return False
    return True


def _fills_field(pair: Pair) -> bool:
    """Whether the memory names only the field of work that the fact's role or employer is in."""
    field = next((slot for slot in pair.old.slots if slot.attribute == "field"), None)
    found = [slot for slot in pair.new.slots if slot.attribute in ("role", "employer")]
    if field is None or not found or len(pair.old.slots) > 1 or not field.concepts:
        return False
    words = [concept for slot in found for concept in slot.concepts]
    return any(is_kind_of(word, area) for word in words for area in field.concepts)


# Caution: where weighing alone, with no rule behind it, may neither retire a memory nor take a fact for known.

SAME_ALONE = 0.74
"""Cosine from which a fact with a word that the memory lacks may be taken for known."""

_SHORTEST_CODE = 1000
"""Numbers below it are counts, and none of a code that is written without its dashes."""

_DETAIL = Pattern(r"^(?!To )(?:(?!got |is |was |has |had )[\w'&.-]+ ?){1,6}: ")


_ALTERNATE = Pattern(r"\bevery (?:other|second) ", re.IGNORECASE)


_AGAIN = Pattern(r"\bagain\b", re.IGNORECASE)


@per_text(4096)
def is_detail(text: str) -> bool:
    """Whether a fact is a bare detail of something named before ("User's trip: 9 days"): it retires nothing."""
    return _DETAIL.match(text) is not None


def may_retire(pair: Pair) -> bool:
    """Whether weighing may find a change: something in the fact says so, or nothing of the memory would be lost."""
    new, old = pair.new, pair.old
    if is_detail(pair.new.text):
        return False
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


def is_apart(pair: Pair) -> bool:
    """Whether no likeness makes the fact a change of the memory, unless a rule says so."""
    new, old = pair.new, pair.old
    if numbered_apart(new, old):
        return True
    if new.party.name and old.party.name and not same_party(new.party, old.party, pair.aliases):
        return True  # Jonas's new job ends nothing of Tomas's
    if new.party.kind == "named" and old.party.kind == "relative" and old.party.of == new.party.name:
        return not new.topic and not {old.party.relation, *old.party.name.split()} & everything(new)
    if new.topic and old.topic and not covers([old.topic[-1]], new.topic[-1]) and _incomparable(new, old):
        return True  # "The booking is for six people" says nothing of the phone number for the booking
    both_denied = new.mood.negated and old.mood.negated and not (new.mood.ended or new.mood.denied)
    if both_denied:  # "doesn't eat fish", "doesn't eat meat": neither ends the other
        mine, theirs = _telling(everything(new)), _telling(everything(old))
        return bool(uncovered(mine, theirs)) and bool(uncovered(theirs, mine)) and not new.mood.changed
    return False


def _incomparable(new: Reading, old: Reading) -> bool:
    """Whether both give values, and none of them is of a kind with one of the other's."""
    given = bool(new.values) and bool(old.values)
    return given and not any(_of_a_kind(one, two) for one in new.values for two in old.values)


def _of_a_kind(one: Value, two: Value) -> bool:
    """Whether one may stand in the other's place; a count of six is no phone number."""
    short = any(value.kind == "number" and value.amount < _SHORTEST_CODE for value in (one, two))
    return comparable(one, two) and not (short and "code" in (one.kind, two.kind))


def _of_another(pair: Pair) -> bool:
    """Whether the fact is about someone of whom the memory does not speak, and says nothing of whom it is about."""
    new, old = pair.new, pair.old
    if new.party.kind == "user" and old.party.kind == "relative" and not new.topic and not old.topic:
        owner = set(old.party.name.split()) | {concept_of(old.party.relation)} - {""}
        return not owner & everything(new) and not _tells_relation(old) and USER not in old.concepts
    if new.party.kind not in ("relative", "named") or old.party.kind not in ("user", "relative"):
        return False
    if same_party(new.party, old.party, pair.aliases) or USER in new.concepts or "User" in new.text[6:]:
        return False
    named = set(new.party.name.split()) | {concept_of(new.party.relation)} - {""}
    return not named & everything(old) and not set(old.party.name.split()) & everything(new)


def may_be_known(pair: Pair) -> bool:
    """Whether weighing may find that the memory holds the fact: it brings no name, no value, and little else."""
    new, old = pair.new, pair.old
    if is_detail(new.text) and not is_detail(old.text):
        return False
    if new.mood.changed and not new.verb and not new.topic and not old.mood.changed:
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


__all__ = ["is_apart", "is_detail", "may_be_known", "may_retire"]


RETIRE = 0.7
"""Confidence from which a finding changes a memory; a weaker one only links the two."""

_SO = Pattern(
    r",? so (?!that\b|far\b|much\b|many\b|long\b|often\b|as\b|on\b|to\b|called\b)(?=[\w'-]+ )"
    r"|,? and (?=User(?:'s)? |[Tt]he \w|[A-Z][\w'-]+ (?:is|are|has|will|does|[a-z]+s) )"
)
"""Where a fact goes on to what follows from its first clause, or to a second one."""
_CLAUSE = Pattern(
    r",? (?:and|but) (?=(?:is|was|has|had|lives?|lived|works?|worked|likes?|owns?|plays?|speaks?|used to)\b)"
)


def judge_all(fact: Fact, neighbours: Sequence[Neighbour]) -> list[Finding]:
    """What the rules find between a fact and each memory near it, in the memories' order."""
    return judge_reading(_moody(read(fact.text), fact), neighbours)


def _moody(reading: Reading, fact: Fact) -> Reading:
    """The reading with what the extraction knows of the fact."""
    mood = reading.mood
    if fact.hedged:
        mood = replace(mood, hedged=True)
    if fact.valid_to is not None:
        mood = replace(mood, past=True)
    return reading if mood is reading.mood else replace(reading, mood=mood)


def judge_reading(new: Reading, neighbours: Sequence[Neighbour]) -> list[Finding]:
    """The same of a reading."""
    readings = [read(memory.item.memory) for memory in neighbours]
    aliases = alias_table([*readings, new])
    gone = departed([*readings, new])
    found: list[Finding] = []
    for memory, reading in zip(neighbours, readings, strict=True):
        pair = Pair(_as_thing(new, reading), reading, memory, memory.similarity, aliases, gone)
        apart = different_things(pair.new, reading)
        verdict = _passed_on(pair) if apart else _known(pair) or _judge(pair)
        found.append(Finding(pair, None if verdict is not None and _overreaches(verdict) else verdict, apart))
    return found


def _passed_on(pair: Pair) -> Verdict | None:
    """What can be found between statements about different things: that a post passed from one to another."""
    return None if numbered_apart(pair.new, pair.old) else judge_succession(pair)


def _known(pair: Pair) -> Verdict | None:
    """That the memory, or a clause of it, holds the fact; a fact that goes on to end something holds more."""
    said = _consequence(pair.new)
    if said is not None and said.mood.ended:
        return None
    return judge_same(pair) or _judge_clauses(pair)


def _as_thing(new: Reading, old: Reading) -> Reading:
    """The fact, its first word read as a thing where the memory tells that it is one ("Recital has been shifted")."""
    party = new.party
    if party.kind != "named" or new.topic or not old.topic or old.topic[-1] != party.name:
        return new
    concepts = new.concepts | {party.name}
    return replace(new, party=Party("thing"), topic=(party.name,), concepts=concepts, slots=(), turned=None)


def _judge(pair: Pair) -> Verdict | None:
    found = judge_succession(pair) or judge_ends(pair) or judge_refines(pair) or judge_replaces(pair)
    if found is not None and found.relation != "soft":
        return found
    said = _consequence(pair.new)
    if said is None:
        return found
    last = replace(pair, new=said)
    verdict = judge_succession(last) or (judge_ends(last) if said.mood.ended else None) or judge_replaces(last)
    return found if verdict is None else replace(verdict, pair=pair)


def _consequence(new: Reading) -> Reading | None:
    """The last clause of a fact that has several, where it says something of a subject of its own."""
    clauses = _SO.split(new.text)
    if len(clauses) < 2:
        return None
    last = clauses[-1]
    said = read(f"User {last}" if last.startswith(("no more ", "no longer ")) else last)
    if not (said.verb or said.mood.ended) or not said.chunks or (said.party.kind == "thing" and not said.topic):
        return None
    mood = replace(said.mood, hedged=said.mood.hedged or new.mood.hedged)
    return replace(said, mood=mood)


def _overreaches(verdict: Verdict) -> bool:
    """Whether a bare detail is taken for a change, or a bare detail's words for a whole statement."""
    new, old = verdict.pair.new, verdict.pair.old
    if verdict.relation == "same":
        return is_detail(old.text) and not is_detail(new.text)
    return is_detail(new.text) and verdict.relation != "ends" and verdict.rule not in ("replace.value", "replace.typed")


def _judge_clauses(pair: Pair) -> Verdict | None:
    """The fact beside each clause of a compound memory: one of them may hold it."""
    parts = _CLAUSE.split(pair.old.text)
    if len(parts) < 2:
        return None
    subject = "User" if pair.old.party.kind == "user" else pair.old.text.split(" ", 1)[0]
    for place, part in enumerate(parts):
        clause = read(part if place == 0 else f"{subject} {part}")
        clause = replace(clause, party=pair.old.party)
        verdict = judge_same(replace(pair, old=clause, whole=False))
        if verdict is not None:
            return replace(verdict, pair=pair)
    return None


# Agreement: whether a fact and a memory speak of one attribute of one subject, so that the fact may replace it.


def same_matter(fact: Fact, memory: Neighbour) -> bool:
    """Whether the fact repeats, refines, replaces or ends what the memory says, by a rule sure enough to retire it."""
    if folded(fact.text) == folded(memory.item.memory):
        return True
    return any(finding.firm for finding in judge_all(fact, [memory]))


def says_nothing_new(fact: Fact, memory: Neighbour) -> bool:
    """Whether the memory holds all that the fact says, in the same or other words; in doubt it does not."""
    verdicts = [finding.verdict for finding in judge_all(fact, [memory])]
    return any(verdict is not None and verdict.relation == "same" for verdict in verdicts)
