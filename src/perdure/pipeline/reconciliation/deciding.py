"""The decision over one fact: rules and weighed evidence over the memories near it, the surest finding carried out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perdure.domain.fact import Decision, Fact, Neighbour
from perdure.domain.pattern import Pattern
from perdure.pipeline.reconciliation.caution import is_apart, may_be_known, may_retire
from perdure.pipeline.reconciliation.forget import holders, requested
from perdure.pipeline.reconciliation.judge import judge_all, judge_reading
from perdure.pipeline.reconciliation.merge import merged, without
from perdure.pipeline.reconciliation.pairing import Pair, folded
from perdure.pipeline.reconciliation.rich import tell_apart
from perdure.pipeline.reconciliation.verdict import RETIRE, Finding
from perdure.pipeline.reconciliation.weigh import Weighed, weigh
from perdure.pipeline.slots import USER, read, read_slots
from perdure.pipeline.standing_facts import is_standing, verbs_of_answering

WEIGHED_NEAR = 0.25
"""Cosine from which a memory is weighed at all."""
CHANGE = 0.45
"""Weighed probability of a change from which a memory is updated."""
CAUTIOUS_CHANGE = 0.75
"""The same where nothing in the fact speaks of a change and something of the memory would be lost, and where the two
share a name and nothing else: a name makes all that is told of somebody look alike."""
RULED_CHANGE = 0.5
"""The same where a rule found the change."""
LIKELY, CERTAIN, CERTAIN_CHANGE = 0.8, 0.9, 0.1
"""A certain rule needs only this much (the evidence may veto it, but hardly), a likely one all of it."""
TIE = 0.03
"""How much nearer than its rivals a memory must be, where rules find as sure a change of each."""
LINK = 0.3
"""The same from which the fact is linked to the memory (soft link)."""
SAME_NEAR, CHANGE_NEAR, APART_NEAR = 0.55, 0.3, 0.4
"""Cosines that a memory needs to be taken for the same, or for what changed, where no rule says so; the last where the
two share no word that either is about."""
SAME_LENIENCE, LENIENT_NEAR = 1.3, 0.65
"""How much likelier a new matter must be than a known one, where the two texts are this near: nothing is lost by a NONE
that names a near memory, and paraphrases are what the evidence sees least of."""
_ORDER = {"same": 3, "ends": 2, "replaces": 1, "refines": 1, "soft": 0}
_TOLD_TO = Pattern(r"\bassistant(?: to (?:(?:always|never|not|please|only) )*(?P<verb>\w+)|: \")", re.IGNORECASE)
_AND = Pattern(r"^(?P<head>.*?\b\w+) (?P<one>[\w'-]+(?: [\w'-]+){0,2}) and (?P<two>[\w'-]+(?: [\w'-]+){0,2})$")


def decide(fact: Fact, neighbours: Sequence[Neighbour]) -> list[Decision]:
    """What is to be done with a fact, given the memories near it in its scope.

    Without cosines only the rules speak. A request to forget deletes what holds its matter and adds nothing.
    """
    matter = requested(fact.text, marked=fact.forget)
    if fact.forget or matter is not None:
        found = holders(matter if matter is not None else fact.text, neighbours)
        return [
            Decision(event="DELETE", target=memory.item.id, rule="forget", confidence=sure) for memory, sure in found
        ]
    for memory in neighbours:
        if folded(memory.item.memory) == folded(fact.text):
            return [Decision(event="NONE", target=memory.item.id, rule="same.text", confidence=1.0)]
    findings = judge_all(fact, neighbours)
    together = _held_together(fact, neighbours, findings)
    if together is not None:
        return [together]
    if not any(memory.similarity is not None for memory in neighbours):
        return [_by_rule(fact, findings)]
    return [_by_weight(fact, findings)]


def _surest(findings: Sequence[Finding]) -> Finding | None:
    """The firm finding to carry out; none where two changes are as sure and no memory is nearer."""
    firm = [finding for finding in findings if finding.firm]
    if not firm:
        return None
    best = max(firm, key=_rank)
    rivals = [finding for finding in firm if finding is not best and _rank(finding)[:2] >= _tied(best)]
    changing = best.verdict is not None and best.verdict.relation != "same" and best.pair.similarity is not None
    if rivals and changing and best.pair.near - max(rival.pair.near for rival in rivals) < TIE:
        return None
    return best


def _rank(finding: Finding) -> tuple[int, float, float]:
    verdict = finding.verdict
    return (_ORDER[verdict.relation], verdict.confidence, finding.pair.near) if verdict else (0, 0.0, 0.0)


def _tied(best: Finding) -> tuple[int, float]:
    order, confidence, _ = _rank(best)
    return order, confidence - 0.02


def _by_rule(fact: Fact, findings: Sequence[Finding]) -> Decision:
    best = _surest(findings)
    if best is None or best.verdict is None:
        return _add(fact, findings, ())
    if best.verdict.relation == "same":
        return Decision(event="NONE", target=best.pair.id, rule=best.verdict.rule, confidence=best.verdict.confidence)
    return _update(fact, best, best.verdict.rule, best.verdict.confidence, findings)


def _by_weight(fact: Fact, findings: Sequence[Finding]) -> Decision:
    """Every near memory weighed: what a rule found surest is tried first, then the likeliest change or sameness."""
    ruled = _surest(findings)
    near = [finding for finding in findings if finding is ruled or finding.pair.near >= WEIGHED_NEAR]
    weighed = [(finding, weigh(finding.pair, finding.verdict if finding.firm else None)) for finding in near]
    weighed.sort(key=lambda each: (each[0] is ruled, max(each[1].change, each[1].same)), reverse=True)
    for finding, odds in weighed:
        decision = _carried_out(fact, finding, odds, findings)
        if decision is not None:
            return decision
    linked = tuple(finding.pair.id for finding, odds in weighed if odds.change >= LINK and not _apart(fact, finding))
    return _add(fact, findings, linked, min((odds.other for _, odds in weighed), default=1.0))


def _carried_out(fact: Fact, finding: Finding, odds: Weighed, findings: Sequence[Finding]) -> Decision | None:
    verdict = finding.verdict if finding.firm else None
    near = finding.pair.near
    changing = verdict is not None and verdict.relation != "same"
    needed = _needed(verdict.confidence) if changing and verdict is not None else CHANGE
    if not changing and ((_of_one_name(finding) and not odds.touching) or not may_retire(finding.pair)):
        needed = CAUTIOUS_CHANGE
    likely = near >= (CHANGE_NEAR if odds.touching else APART_NEAR) and not is_apart(finding.pair)
    if _apart(fact, finding) or _instruct_apart(fact.text, finding.pair.old.text):
        return None
    if odds.change >= needed and (changing or likely):
        if verdict is None or not changing:
            return _update(fact, finding, "weighed.change", odds.change, findings)
        return _update(fact, finding, verdict.rule, (odds.change + verdict.confidence) / 2, findings)
    lenience = SAME_LENIENCE if near >= LENIENT_NEAR else 1.0
    known = odds.same * lenience > odds.other and odds.same > odds.change
    alone = near >= SAME_NEAR and not odds.news and may_be_known(finding.pair)
    if known and (verdict is not None or alone):
        rule = verdict.rule if verdict is not None and verdict.relation == "same" else "weighed.same"
        return Decision(event="NONE", target=finding.pair.id, rule=rule, confidence=odds.same)
    return None


def _apart(fact: Fact, finding: Finding) -> bool:
    return tell_apart(fact.text, finding.pair.old.text, of_one_name=_of_one_name(finding))


def _instruct_apart(one: str, other: str) -> bool:
    """Whether both tell how to answer, each something else: "keep answers short" is no change of "answer in German"."""
    verbs = _told_to(one), _told_to(other)
    return is_standing(one) and is_standing(other) and None not in verbs and verbs[0] != verbs[1]


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


def _needed(confidence: float) -> float:
    """The probability that a rule of some confidence needs beside it: the surer the rule, the less."""
    share = min(1.0, max(0.0, (confidence - LIKELY) / (CERTAIN - LIKELY)))
    return RULED_CHANGE - share * (RULED_CHANGE - CERTAIN_CHANGE)


def _update(fact: Fact, finding: Finding, rule: str, confidence: float, findings: Sequence[Finding]) -> Decision:
    ends = finding.verdict is not None and finding.verdict.relation == "ends"
    text = without(finding.pair) or (fact.text if ends else merged(finding.pair, fact.text))
    links = tuple(other.pair.id for other in findings if other is not finding and _changes(other))
    return Decision(
        event="UPDATE",
        text=text,
        target=finding.pair.id,
        rule=rule,
        confidence=confidence,
        slots=read_slots(text),
        links=links,
    )


def _changes(finding: Finding) -> bool:
    return finding.verdict is not None and finding.verdict.relation != "same"


def _add(fact: Fact, findings: Sequence[Finding], linked: tuple[str, ...], sure: float = 1.0) -> Decision:
    ruled = tuple(finding.pair.id for finding in findings if _changes(finding))
    links = tuple(dict.fromkeys((*linked, *ruled)))
    return Decision(
        event="ADD",
        text=fact.text,
        rule="add.linked" if links else "add",
        confidence=sure,
        slots=read_slots(fact.text),
        links=links,
    )


def _held_together(fact: Fact, neighbours: Sequence[Neighbour], findings: Sequence[Finding]) -> Decision | None:
    """A fact of two members that two memories hold: "speaks Danish and Polish"."""
    match = _AND.match(read(fact.text).text)
    if match is None or any(finding.verdict and finding.verdict.relation in ("same", "ends") for finding in findings):
        return None
    holding: list[Pair] = []
    for member in ("one", "two"):
        part = judge_reading(read(f"{match['head']} {match[member]}"), neighbours)
        same = [finding for finding in part if finding.verdict is not None and finding.verdict.relation == "same"]
        if not same:
            return None
        holding.append(max(same, key=_rank).pair)
    return Decision(event="NONE", target=holding[0].id, rule="same.members", confidence=0.9)


__all__ = ["CHANGE", "LINK", "RETIRE", "decide"]
