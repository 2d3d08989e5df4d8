"""The decision over one fact: rules and weighed evidence over the memories near it, the surest finding carried out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from perdure.domain.fact import Decision, Fact, Neighbour, PairJudge
from perdure.domain.memory import NOTES
from perdure.domain.text.pattern import Pattern
from perdure.pipeline.curation.rules.extraction.forget_target import told_of_others
from perdure.pipeline.curation.rules.reconciliation.evidence import Evidence, evidence
from perdure.pipeline.curation.rules.reconciliation.forget import holders, holders_in, requested
from perdure.pipeline.curation.rules.reconciliation.judge import (
    LINKED,
    REPLACES,
    has_happened,
    is_deed_beside,
    is_detail,
    is_witnessed,
    judge_all,
    judge_reading,
    may_be_known,
    may_retire,
    may_take_place,
    outlives,
    replacement,
    tell_apart,
)
from perdure.pipeline.curation.rules.reconciliation.pairing import (
    Finding,
    Pair,
    concept_set,
    content,
    everything,
    folded,
    generic,
    other_value,
    uncovered,
)
from perdure.pipeline.curation.rules.reconciliation.structure import (
    AGREEING,
    change_by_structure,
    ends_job,
    fills_field,
    may_end,
    one_attribute,
    share_matter,
    tells_change,
    texts_same_attribute,
    topics_agree,
)
from perdure.pipeline.curation.rules.slots import USER, Chunk, Reading, Value, comparable, fits, read, read_slots
from perdure.pipeline.curation.rules.slots.scan import concept_of, scan
from perdure.pipeline.curation.rules.slots.typed import type_values
from perdure.pipeline.lexicon import pairs as table
from perdure.pipeline.retrieval.standing_facts import is_standing, verbs_of_answering

# Merging: the text of an update, in which nothing of the memory is lost that the new fact does not contradict.

_SAME = Pattern(r"(?:the )?same\b", re.IGNORECASE)
_FORMER = Pattern(r" \(updated from [^()]*\)")  # what a merged memory says of its own past
_LIST = Pattern(r"(?P<members>(?:[^\W\d_][\w'-]*, )*[^\W\d_][\w'-]*) and (?P<last>[^\W\d_][\w'-]*)")


def merged(pair: Pair, new_text: str) -> str:
    """The new statement with what else the memory said of the same ("... as a data scientist").

    Where the fact only gives another value, the memory's own sentence with that value, if it says more.
    """
    if pair.new.mood.negated or pair.new.mood.ended:
        return new_text
    swapped = _swapped(pair)
    if swapped is not None:
        return swapped
    base = new_text.rstrip(" .")
    for phrase in _left_open(pair.new, pair.old):
        base = f"{base} {phrase}"
    return base if base != new_text.rstrip(" .") else new_text


def without(pair: Pair) -> str | None:
    """The memory without the one member of its list that the fact ends ("takes piano, chess and karate lessons")."""
    if not (pair.new.mood.ended or pair.new.mood.negated):
        return None
    gone = {concept for concept in content(pair.new) if not generic(concept)}
    text = pair.memory.item.memory
    for match in _LIST.finditer(text):
        members = [*match["members"].split(", "), match["last"]]
        kept = [member for member in members if concept_of(member) not in gone]
        if len(kept) == len(members) - 1:
            listed = kept[0] if len(kept) == 1 else f"{', '.join(kept[:-1])} and {kept[-1]}"
            return text[: match.start()] + listed + text[match.end() :]
    return None


def _swapped(pair: Pair) -> str | None:
    """The memory's sentence with the fact's value in the place of its own, where the sentence says more."""
    new, old = pair.new, pair.old
    mine, theirs = everything(new) - _said_to_stand(new), everything(old)
    said_more = {concept for concept in uncovered(theirs, mine) if not generic(concept) and concept != old.verb}
    if not said_more and len(old.values) <= len(new.values):
        return None
    if {concept for concept in uncovered(mine, theirs) if not generic(concept) and concept != new.verb}:
        return None
    text = pair.memory.item.memory
    given = [value for value in new.values if not any(fits(value, each) for each in old.values)]
    former = [token.value for token in type_values(scan(new.text)) if token.value and token.value not in given]
    named = [value for value in old.values if any(fits(each, value) for each in former)]
    meet = [(a, b) for a in given for b in named or old.values if comparable(a, b) and not _in_a_word(text, b)]
    meet = [(one, other) for one, other in meet if one.kind == other.kind] or meet
    if len(meet) != 1 or not _alike(*meet[0]):
        return None
    inserted, removed = _written(pair.new.text, meet[0][0]), _place(text, meet[0][1])
    if inserted is None or removed is None:
        return None
    return text[: removed[0]] + inserted + text[removed[1] :]


def _said_to_stand(reading: Reading) -> frozenset[str]:
    """What a fact says of the things that stay: "same price"."""
    return frozenset(
        concept for chunk in reading.chunks if _SAME.match(reading.text, chunk.start) for concept in chunk.concepts
    )


def _in_a_word(text: str, value: Value) -> bool:
    """Whether a value is part of a compound that names a thing: "a two-bedroom flat"."""
    place = _place(text, value)
    return place is not None and text[place[1] : place[1] + 1] == "-" and text[place[1] + 1 : place[1] + 2].isalpha()


def _alike(new: Value, old: Value) -> bool:
    """Whether one value can stand where the other stood: "85 quid" cannot where "the 100 fly" was."""
    kinds = {new.kind, old.kind}
    return len(kinds) == 1 or kinds <= {"date", "ordinal"} or kinds <= {"date", "weekday"}


def _written(text: str, value: Value) -> str | None:
    place = _place(text, value)
    return None if place is None else text[place[0] : place[1]]


def _place(text: str, value: Value) -> tuple[int, int] | None:
    for token in type_values(scan(text)):
        if token.value == value:
            suffix = re.match(r"[A-Za-z]?(?!\w)", text[token.end :])  # "14B"
            return token.start, token.end + (suffix.end() if suffix else 0)
    return None


def _left_open(new: Reading, old: Reading) -> list[str]:
    """Phrases of the memory that fill what the fact leaves open, with their leading words.

    The role beside a new employer, and a typed value of another type than any in the fact (the time beside a new day).
    """
    attributes = {slot.attribute for slot in new.slots}
    kept: list[str] = []
    for slot in old.slots:
        if {slot.attribute} | (attributes & {"employer", "role"}) != {
            "employer",
            "role",
        } or slot.attribute in attributes:
            continue
        chunk = next((chunk for chunk in old.chunks if chunk.start == slot.start), None)
        if chunk is not None and chunk.lead:
            kept.append(f"{chunk.lead} {_determined(old.text, chunk)}")
    placed = any(
        chunk.names and (chunk.lead in ("at", "in") or (chunk.lead and new.mood.changed)) for chunk in new.main
    )
    if kept or not new.topic or not old.topic or not (new.values or placed):
        return kept
    for chunk in old.main:
        alone = chunk.values and not chunk.concepts and chunk.lead
        if alone and not any(comparable(a, b) or fits(a, b) for a in chunk.values for b in new.values):
            kept.append(f"{chunk.lead} {old.text[chunk.start : chunk.end]}")
    return kept


def _determined(text: str, chunk: Chunk) -> str:
    """The phrase with the article before it."""
    word = text[: chunk.start].rstrip().rsplit(" ", 1)[-1].lower()
    phrase = text[chunk.start : chunk.end]
    return f"{word} {phrase}" if word in ("a", "an", "the", "their") else phrase


# Weighing: how likely a fact is new, known or a change, by evidence that no single rule decides.

_NEWS = ("roles_swapped", "numbered_apart", "names_clash", "values_differ", "strangers")  # then likeness is no sameness


@dataclass(frozen=True, slots=True)
class Weighed:
    """Probabilities that a fact is another matter than a memory, the same, or a change of it; they sum to 1."""

    other: float
    same: float
    change: float
    touching: bool = True  # whether the two share what either is about, or words near in meaning
    news: bool = False
    """Whether the fact holds something that the memory plainly does not: a name, a value, another doer."""


def weigh(finding: Finding) -> Weighed:
    """The probabilities for a pair.

    A network of one hidden layer (tanh) over `evidence`, then softmax; `benchmarks/reconciliation/fit.py` fits it.
    """
    found = evidence(finding.pair, finding.held)
    other, same, change = _network().odds(found)
    news = any(found[name] > 0 for name in _NEWS)
    return Weighed(other, same, change, touching=found["covered_core"] > 0, news=news)


@dataclass(frozen=True, slots=True)
class _Network:
    weighed: Callable[[Evidence], tuple[float, ...]]  # by column of `into`
    into: NDArray[np.float64]
    bias: NDArray[np.float64]
    out: NDArray[np.float64]
    base: NDArray[np.float64]

    def odds(self, found: Evidence) -> list[float]:
        hidden = np.tanh(self.into @ np.array(self.weighed(found)) + self.bias)
        scores: list[float] = (self.out @ hidden + self.base).tolist()
        top = max(scores)
        raised = [math.exp(score - top) for score in scores]
        return [each / sum(raised) for each in raised]


@cache
def _network() -> _Network:
    rows = {name: [float(each) for each in row.split()] for name, row in table("reconcile_weights.tsv").items()}
    out = np.array([rows.pop(f"={outcome}") for outcome in ("other", "same", "change")])
    bias = np.array(rows.pop("=bias"))
    into = np.ascontiguousarray(np.array(list(rows.values())).T)
    return _Network(itemgetter(*rows), into, bias, np.ascontiguousarray(out[:, 1:]), out[:, 0])


COMPARED = 3  # nearest memories beside which a fact is judged: each takes 2.5 ms of processor time
COMPARED_NEAR = 0.3  # cosine from which it is judged: three quarters of what is replaced in unread dialogues is nearer
PASSAGE_FROM = 0.05
"""Learned probability of a replacement from which the passage around a fact is judged too: so are half of the pairs,
and at a precision of .7 nearly as many changes are found as with all of them (79 and 83, docs/adr/0053)."""
WEIGHED_NEAR = 0.25  # cosine from which a memory is weighed at all
CHANGE = 0.45
"""Weighed probability of a change from which a memory is updated, if there is a second witness (`is_witnessed`)."""
CAUTIOUS_CHANGE = 0.75
"""The same where nothing in the fact speaks of a change and something of the memory would be lost, and where the two
share a name and nothing else: a name makes all that is told of somebody look alike."""
VETOED = 0.2
"""Learned probability of a change or refinement under which none is made: of 30 retirements on unread dialogues 15 were
right without the judge, and 15 of 22 with it (docs/adr/0040)."""
DOUBTED, SAME_WORDS = 0.3, 0.9
"""Likelihood of a replacement, all signs together, under which none is made either, and the cosine of two statements
that differ in a value alone, for which that does not hold (docs/adr/0054)."""
SLOT_CHANGE = 0.2
"""The same where both fill an attribute of which a person has one at a time: "moved to Hamar", then "lives in Vik"."""
BESIDE = 0.5  # learned probability of two facts side by side, from which neither is known by the other
LINK = 0.3  # the same from which the fact is linked to the memory (soft link)
SAME_NEAR, CHANGE_NEAR, APART_NEAR = 0.55, 0.3, 0.4
"""Cosines that a memory needs to be taken for the same, or for what changed; the last where the two share no word that
either is about."""
SAME_LENIENCE, LENIENT_NEAR = 1.3, 0.65
"""How much likelier a new matter must be than a known one, where the two texts are this near: nothing is lost by a NONE
that names a near memory, and paraphrases are what the evidence sees least of."""
_TOLD_TO = Pattern(r"\bassistant(?: to (?:(?:always|never|not|please|only) )*(?P<verb>\w+)|: \")", re.IGNORECASE)
_AND = Pattern(r"^(?P<head>.*?\b\w+) (?P<one>[\w'-]+(?: [\w'-]+){0,2}) and (?P<two>[\w'-]+(?: [\w'-]+){0,2})$")


def decide(
    fact: Fact, neighbours: Sequence[Neighbour], judge: Callable[[], PairJudge | None] | None = None
) -> list[Decision]:
    """What is to be done with a fact, given the memories near it in its scope; `judge` finds the learned judge, if any.

    A memory is retired on two witnesses: the evidence weighs for a change, and by structure both tell one attribute of
    one subject, or their words are much alike. One alone makes a soft link. A request to forget deletes what holds its
    matter and adds nothing.
    """
    matter = requested(fact.text, marked=fact.forget)
    if fact.forget or matter is not None:
        matter = matter if matter is not None else fact.text
        found = holders_in(fact.language, matter, neighbours) if fact.language else holders(matter, neighbours)
        return [_forgotten(matter, memory, sure) for memory, sure in found]
    for memory in neighbours:
        if folded(memory.item.memory) == folded(fact.text):
            return [Decision(event="NONE", target=memory.item.id, rule="same.text", confidence=1.0)]
    findings = _judged(fact, judge_all(fact, neighbours), judge)
    together = _held_together(fact, neighbours, findings)
    return [together or _weighed(fact, findings)]


def _forgotten(matter: str, memory: Neighbour, sure: float) -> Decision:
    """The deletion of a memory that holds the matter, with what it tells of somebody else as the text that stays."""
    is_whole = matter.startswith(":") or memory.item.kind == NOTES
    left = "" if is_whole else told_of_others(memory.item.memory, matter)
    return Decision(event="DELETE", text=left, target=memory.item.id, rule="forget", confidence=sure)


def _judged(fact: Fact, findings: Sequence[Finding], judge: Callable[[], PairJudge | None] | None) -> Sequence[Finding]:
    """The findings, those of the nearest memories with the learned judgement, if nothing tells the two apart."""
    open_ones = [each for each in findings if not each.apart and (each.pair.similarity or 0.0) >= COMPARED_NEAR]
    compared = sorted(open_ones, key=lambda each: each.pair.near, reverse=True)[:COMPARED]
    found = judge() if judge is not None and compared else None
    if found is None:
        return findings
    told = {each.pair.id: each for each in _with_judgement(fact, list(enumerate(compared)), found)}
    return [told.get(each.pair.id) or replace(each, passed_over=True) for each in findings]


def _with_judgement(fact: Fact, findings: Sequence[tuple[int, Finding]], judge: PairJudge) -> list[Finding]:
    """The findings with the learned judgement of the fact, and of its passage where the fact alone leaves it open.

    `findings`: how many other memories are nearer, and the finding. A change is often told in the words around a fact
    ("The bank said no. So Leeds it is").
    """
    pairs = [_plainly(fact.text, finding.pair.memory.item.memory) for _, finding in findings]
    relations = judge.relations(pairs)
    left_open = [n for n, each in enumerate(relations) if fact.passage and each.replaces >= PASSAGE_FROM]
    asked = judge.relations([(fact.passage, pairs[n][1]) for n in left_open]) if left_open else []
    passages = dict(zip(left_open, asked, strict=True))
    return [
        replace(finding, relation=relations[n], passage_relation=passages.get(n), nearer=nearer)
        for n, (nearer, finding) in enumerate(findings)
    ]


def renewed(
    fact: Fact, earlier: Sequence[tuple[int, Neighbour]], judge: PairJudge
) -> tuple[tuple[str, ...], str | None]:
    """The earlier statements that a fact or note most likely replaces, and the one that it surely does.

    `earlier`: how many other statements are nearer, and the statement. A note surely replaces nothing, and neither does
    what is only considered, is a bare detail, or leaves something of the other unsaid.
    """
    found = judge_all(fact, [memory for _, memory in earlier])
    nearer = [place for place, _ in earlier]
    findings = _with_judgement(fact, list(zip(nearer, found, strict=True)), judge)
    odds = {finding.pair.id: replacement(finding) for finding in findings}
    links = tuple(id for id, each in odds.items() if each >= LINKED)
    if fact.kind != "facts" or fact.hedged or is_detail(fact.text):
        return links, None
    sure = [
        finding.pair.id
        for finding in findings
        if odds[finding.pair.id] >= REPLACES
        and not (finding.held or _considered(finding.pair.new) or _loses(finding, fact.text))
    ]
    return links, max(sure, key=odds.__getitem__, default=None)


def _plainly(new: str, old: str) -> tuple[str, str]:
    """The two statements, about the user where both begin with one name: that is whom the judge was taught with."""
    first = new.partition(" ")[0].removesuffix("'s")
    if not first[:1].isupper() or first in ("User", "The") or old.partition(" ")[0].removesuffix("'s") != first:
        return new, old
    name = re.compile(rf"(?<!\w){re.escape(first)}(?!\w)")
    return name.sub("User", new), name.sub("User", old)


def _weighed(fact: Fact, findings: Sequence[Finding]) -> Decision:
    """Every near memory weighed: what surely holds the fact is tried first, then the likeliest change or sameness.

    What is only considered stands behind what is so: "thinking of moving" is not what a move ends.
    """
    near = [finding for finding in findings if finding.held or _is_near(finding)]
    weighed = [(finding, weigh(finding)) for finding in near]
    weighed.sort(
        key=lambda each: (
            each[0].held,
            not _considered(each[0].pair.old),
            _of_one_slot(each[0]),
            0.0 if each[0].pair.similarity is not None else _shape(each[0].pair),
            max(each[1].change, each[1].same),
        ),
        reverse=True,
    )
    for finding, odds in weighed:
        decision = _carried_out(fact, finding, odds)
        if decision is not None:
            return decision
    newer = [finding for finding, odds in weighed if _renews(finding, odds) and not _only_adds(fact, finding)]
    links = tuple(finding.pair.id for finding in newer if not _apart(fact, finding))
    return Decision(
        event="ADD",
        text=fact.text,
        rule="add.linked" if links else "add",
        confidence=min((odds.other for _, odds in weighed), default=1.0),
        slots=read_slots(fact.text),
        links=links,
    )


def _is_near(finding: Finding) -> bool:
    """Whether a memory is near enough to be weighed: by its cosine, by one attribute, else by the shape of the two."""
    pair = finding.pair
    if pair.near >= WEIGHED_NEAR or _of_one_slot(finding):
        return True
    return _speaks_alone(pair) and _shape(pair) > 0


def _speaks_alone(pair: Pair) -> bool:
    """Whether the shape of the two decides: no cosine is known, or the fact names the job of a field, or its end."""
    return pair.similarity is None or fills_field(pair.new, pair.old) or ends_job(pair.new, pair.old)


def _shape(pair: Pair) -> float:
    return max(change_by_structure(pair.new, pair.old).values(), default=0.0)


def _of_one_slot(finding: Finding) -> bool:
    """Whether both fill an attribute of which a person has one at a time, with another value."""
    return not finding.apart and other_value(finding.pair.new, finding.pair.old)


def _considered(reading: Reading) -> bool:
    return reading.mood.planned or reading.mood.hedged


def _carried_out(fact: Fact, finding: Finding, odds: Weighed) -> Decision | None:
    pair = finding.pair
    if _apart(fact, finding) or _instruct_apart(fact.text, pair.old.text):
        return None
    cautious = ((_of_one_name(finding) and not odds.touching) or not may_retire(pair)) and not _of_one_slot(finding)
    needed = CAUTIOUS_CHANGE if cautious else SLOT_CHANGE if _of_one_slot(finding) else CHANGE
    likely = _of_one_slot(finding) or pair.near >= (CHANGE_NEAR if odds.touching else APART_NEAR)
    barred = finding.held > 0 or _considered(pair.new) or is_detail(fact.text)
    barred = barred or _only_adds(fact, finding) or outlives(pair)
    change = odds.change
    if _speaks_alone(pair):
        shaped = _shape(pair)
        change, likely = max(shaped, change * tells_change(pair.new)), likely or shaped > 0
        needed = CHANGE if shaped else needed
    judged = replacement(finding)
    sure, weighs = judged >= REPLACES and may_take_place(finding), change >= needed and not _is_vetoed(finding)
    if likely and not barred and (sure or weighs):
        text = without(pair) or merged(pair, fact.text)
        if (sure or is_witnessed(finding)) and not _loses(finding, text):
            return Decision(
                event="UPDATE",
                text=text,
                target=pair.id,
                rule="weighed.change" if weighs else "judged.change",
                confidence=change if weighs else judged,
                slots=read_slots(text),
            )
        return None
    lenience = SAME_LENIENCE if pair.near >= LENIENT_NEAR else 1.0
    beside = finding.relation is not None and finding.relation.beside >= BESIDE
    known = odds.same * lenience > odds.other and odds.same > odds.change and not beside
    alone = pair.near >= SAME_NEAR and not odds.news and may_be_known(pair)
    if (known or pair.similarity is None) and (finding.held or (alone and pair.similarity is not None)):
        rule = "same.words" if finding.held else "weighed.same"
        return Decision(event="NONE", target=pair.id, rule=rule, confidence=finding.held or odds.same)
    return None


def _only_adds(fact: Fact, finding: Finding) -> bool:
    """Whether the fact goes on with what its own message has said before, and does not take it back.

    "Got a cargo bike instead of a car. It's bright yellow": who tells two things in one breath means both.
    """
    mood = finding.pair.new.mood
    if not finding.pair.memory.beside or fact.corrects or mood.ended or mood.negated or mood.denied:
        return False
    return not (mood.changed and _of_one_slot(finding))


def _is_vetoed(finding: Finding) -> bool:
    """Whether the learned judgement is against a change, and the structure of the two is not sure by itself.

    It is where a person has one of a kind at a time ("lives in"), and where a job fills a field of work. A change is
    told of what is nearest: what the judge was not asked about is not changed.
    """
    judged, pair = finding.relation, finding.pair
    if _of_one_slot(finding) or fills_field(pair.new, pair.old) or ends_job(pair.new, pair.old):
        return False
    if finding.passed_over or has_happened(pair) or is_deed_beside(pair):
        return True
    if judged is None:
        return False
    shaped = _shape(pair) > 0 or pair.near >= SAME_WORDS
    return judged.replaces + judged.refines < VETOED or (replacement(finding) < DOUBTED and not shaped)


def _renews(finding: Finding, odds: Weighed) -> bool:
    """Whether the fact most likely is the newer one of a matter: the judgement says so, else structure beside odds."""
    new, old = finding.pair.new, finding.pair.old
    if replacement(finding) >= LINKED and not finding.apart and share_matter(new, old):
        return True
    if odds.change < LINK or outlives(finding.pair) or not texts_same_attribute(new.text, old.text):
        return False
    return _changes(finding) or (not finding.apart and one_attribute(new, old))


def _changes(finding: Finding) -> bool:
    """Whether the fact tells of a change, of nothing that a mark tells apart: one witness."""
    new, old = finding.pair.new, finding.pair.old
    return not finding.apart and tells_change(new) and may_end(new, old)


def _loses(finding: Finding, text: str) -> bool:
    """Whether something else would be lost with a memory's old value: with the day of a class its price, for one."""
    new, old, told = finding.pair.new, finding.pair.old, read(text)
    if new.mood.ended or new.mood.negated or new.mood.denied:
        return False
    if _of_one_slot(finding):  # with a home the name of a wife, but not that of a colleague with a job
        kin = concept_set("reconcile_kin.txt")
        return any(kin & {*chunk.concepts} and chunk.names - told.names - {USER} for chunk in old.chunks)
    if _drops_a_member(old.text, everything(told)) or _drops_others(old, everything(told)):
        return True
    if not new.values:  # "swapped college" does not say what it is now
        return new.mood.changed and bool(old.values) and not new.names - old.names - {USER}
    if _left_over(read(_FORMER.sub("", old.text)).values, told.values):
        return True
    return not new.names - {USER} and bool(old.names - told.names - {USER})


def _drops_a_member(text: str, said: frozenset[str]) -> bool:
    """Whether of a list ("takes chemistry and zoology") some members are told of and others are not."""
    for match in _LIST.finditer(text):
        members = [concept_of(member) for member in (*match["members"].split(", "), match["last"])]
        spoken_of = [member in said for member in members]
        if any(spoken_of) and not all(spoken_of):
            return True
    return False


def _drops_others(old: Reading, said: frozenset[str]) -> bool:
    """Whether a memory names several people or things and only some are told of ("Sam is at 3, Ida at 5, Lou at 7")."""
    named = [names for chunk in old.chunks if (names := chunk.names - {USER})]
    lost = sum(not names & said for names in named)
    return 2 <= lost < len(named)


def _left_over(values: Sequence[Value], others: Sequence[Value]) -> list[Value]:
    """The values for which none of the others stands, each of which stands for one."""
    free, left = list(others), list(values)
    for meets in (fits, lambda one, other: one.kind == other.kind, comparable):
        for value in tuple(left):
            other = next((each for each in free if meets(value, each)), None)
            if other is not None:
                free.remove(other)
                left.remove(value)
    return left


def _apart(fact: Fact, finding: Finding) -> bool:
    new, old = finding.pair.new.topic, finding.pair.old.topic
    if topics_agree(new, old) >= AGREEING:
        return False  # two street names share no word, and are one person's address
    return tell_apart(fact.text, finding.pair.old.text, of_one_name=_of_one_name(finding))


def _instruct_apart(one: str, other: str) -> bool:
    """Whether both tell how to answer, each something else: "keep answers short" is no change of "answer in German"."""
    verbs = _told_to(one), _told_to(other)
    return None not in verbs and verbs[0] != verbs[1] and is_standing(one) and is_standing(other)


def _told_to(text: str) -> str | None:
    """The verb of what an assistant is to do; all of the text where it is quoted, None where it is neither."""
    match = _TOLD_TO.search(text)
    if match is None:
        return None
    verb = match["verb"]
    if verb is None:
        return text
    return "answer" if verb.lower() in verbs_of_answering() else verb.lower()


def _of_one_name(finding: Finding) -> bool:
    new, old = finding.pair.new.party, finding.pair.old.party
    owners = {new.name, new.of} & {old.name, old.of}
    return bool(owners - {"", USER})


def _held_together(fact: Fact, neighbours: Sequence[Neighbour], findings: Sequence[Finding]) -> Decision | None:
    """A fact of two members that two memories hold: "speaks Danish and Polish"."""
    match = _AND.match(read(fact.text).text)
    if match is None or any(finding.held for finding in findings):
        return None
    holding: list[Pair] = []
    for member in ("one", "two"):
        part = judge_reading(read(f"{match['head']} {match[member]}"), neighbours)
        best = max(part, key=lambda finding: (finding.held, finding.pair.near), default=None)
        if best is None or not best.held:
            return None
        holding.append(best.pair)
    return Decision(event="NONE", target=holding[0].id, rule="same.members", confidence=0.9)


__all__ = ["CHANGE", "COMPARED", "COMPARED_NEAR", "LINK", "decide"]
