"""The decision over one fact: rules and weighed evidence over the memories near it, the surest finding carried out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from perdure.domain.fact import Decision, Fact, Neighbour
from perdure.pipeline.reconciliation.caution import may_be_known, may_retire
from perdure.pipeline.reconciliation.forget import holders, requested
from perdure.pipeline.reconciliation.judge import judge_all, judge_reading
from perdure.pipeline.reconciliation.merge import merged, without
from perdure.pipeline.reconciliation.pairing import Pair, WordSimilarity, folded
from perdure.pipeline.reconciliation.verdict import RETIRE, Finding
from perdure.pipeline.reconciliation.weigh import Weighed, weigh
from perdure.pipeline.slots import read, read_slots

CHANGE = 0.52
"""Weighed probability of a change from which a memory is updated."""
RULED_CHANGE = 0.5
"""The same where a rule found the change."""
CERTAIN, CERTAIN_CHANGE = 0.9, 0.1
"""A rule this sure needs only this much: the evidence may still veto it, but hardly."""
TIE = 0.03
"""How much nearer than its rivals a memory must be, where rules find as sure a change of each."""
LINK = 0.3
"""The same from which the fact is linked to the memory (soft link)."""
SAME_NEAR, CHANGE_NEAR, APART_NEAR = 0.55, 0.4, 0.66
"""Cosines that a memory needs to be taken for the same, or for what changed, where no rule says so; the last where the
two share no word that either is about."""
SAME_LENIENCE, LENIENT_NEAR = 1.3, 0.65
"""How much likelier a new matter must be than a known one, where the two texts are this near: nothing is lost by a NONE
that names a near memory, and paraphrases are what the evidence sees least of."""
MAX_WORD_PAIRS = 10
"""Word similarities that one decision may ask for."""

_ORDER = {"same": 3, "ends": 2, "replaces": 1, "refines": 1, "soft": 0}
_AND = re.compile(r"^(?P<head>.*?\b\w+) (?P<one>[\w'-]+(?: [\w'-]+){0,2}) and (?P<two>[\w'-]+(?: [\w'-]+){0,2})$")


def decide(
    fact: Fact, neighbours: Sequence[Neighbour], *, word_similarity: Callable[[str, str], float] | None = None
) -> list[Decision]:
    """What is to be done with a fact, given the memories near it in its scope.

    `word_similarity` gives the cosine of two words, if there is an embedder; it is asked at most ten times. Without
    cosines only the rules speak. A request to forget deletes what holds its matter and adds nothing.
    """
    matter = requested(fact.text)
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
    if word_similarity is None or not any(memory.similarity is not None for memory in neighbours):
        return [_by_rule(fact, findings)]
    return [_by_weight(fact, findings, _budgeted(word_similarity))]


def _budgeted(similar: WordSimilarity) -> WordSimilarity:
    left = [MAX_WORD_PAIRS]

    def ask(one: str, two: str) -> float:
        if one == two:
            return 1.0
        left[0] -= 1
        return similar(one, two) if left[0] >= 0 else 0.0

    return ask


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


def _by_weight(fact: Fact, findings: Sequence[Finding], similar: WordSimilarity) -> Decision:
    """The nearest memory, and the one that a rule found, weighed; the likelier change or sameness is carried out."""
    nearest = max(findings, key=lambda finding: finding.pair.near)
    ruled = _surest(findings)
    weighed = [
        (finding, weigh(finding.pair, similar, finding.verdict if finding.firm else None))
        for finding in ([nearest] if ruled is None or ruled is nearest else [ruled, nearest])
    ]
    for finding, odds in weighed:
        decision = _carried_out(fact, finding, odds, findings)
        if decision is not None:
            return decision
    linked = tuple(finding.pair.id for finding, odds in weighed if odds.change >= LINK)
    return _add(fact, findings, linked, max(odds.other for _, odds in weighed))


def _carried_out(fact: Fact, finding: Finding, odds: Weighed, findings: Sequence[Finding]) -> Decision | None:
    verdict = finding.verdict if finding.firm else None
    near = finding.pair.near
    changing = verdict is not None and verdict.relation != "same"
    certain = verdict is not None and verdict.relation != "same" and verdict.confidence >= CERTAIN
    needed = CERTAIN_CHANGE if certain else RULED_CHANGE if changing else CHANGE
    likely = near >= (CHANGE_NEAR if odds.touching else APART_NEAR) and may_retire(finding.pair)
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
