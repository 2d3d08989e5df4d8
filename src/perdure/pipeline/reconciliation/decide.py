"""The decision over one fact: every rule looks at every memory near it, and the surest finding is carried out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from perdure.domain.fact import Decision, Fact, Neighbour
from perdure.pipeline.reconciliation.forget import holders, requested
from perdure.pipeline.reconciliation.judge import RETIRE, judge_all, judge_reading
from perdure.pipeline.reconciliation.merge import merged
from perdure.pipeline.reconciliation.pairing import WordSimilarity, folded
from perdure.pipeline.reconciliation.verdict import Verdict
from perdure.pipeline.slots import read, read_slots

MAX_WORD_PAIRS = 10
"""Word similarities that one decision may ask for."""


def decide(
    fact: Fact, neighbours: Sequence[Neighbour], *, word_similarity: Callable[[str, str], float] | None = None
) -> list[Decision]:
    """What is to be done with a fact, given the memories near it in its scope.

    `word_similarity` gives the cosine of two words, if there is an embedder; it is asked at most ten times.
    Only findings of at least `RETIRE` update or delete; weaker ones become links of an ADD. A request to forget
    deletes what holds its matter and adds nothing.
    """
    matter = requested(fact.text)
    if fact.forget or matter is not None:
        found = holders(matter if matter is not None else fact.text, neighbours, word_similarity)
        return [
            Decision(event="DELETE", target=memory.item.id, rule="forget", confidence=sure) for memory, sure in found
        ]
    for memory in neighbours:
        if folded(memory.item.memory) == folded(fact.text):
            return [Decision(event="NONE", target=memory.item.id, rule="same.text", confidence=1.0)]
    similar = _budgeted(word_similarity)
    verdicts = judge_all(fact, neighbours, similar)
    return [_held_together(fact, neighbours, similar, verdicts) or _carry_out(fact, verdicts) or _add(fact, verdicts)]


def _budgeted(similar: WordSimilarity | None) -> WordSimilarity | None:
    if similar is None:
        return None
    left = [MAX_WORD_PAIRS]

    def ask(one: str, two: str) -> float:
        if one == two:
            return 1.0
        left[0] -= 1
        return similar(one, two) if left[0] >= 0 else 0.0

    return ask


_ORDER = {"same": 4, "ends": 3, "replaces": 2, "refines": 2, "soft": 0}


def _carry_out(fact: Fact, verdicts: Sequence[Verdict]) -> Decision | None:
    firm = [verdict for verdict in verdicts if verdict.confidence >= RETIRE and verdict.relation != "soft"]
    if not firm:
        return None
    best = max(firm, key=lambda verdict: (_ORDER[verdict.relation], verdict.confidence, verdict.pair.near))
    rivals = [
        verdict
        for verdict in firm
        if verdict is not best and verdict.relation == best.relation and verdict.confidence > best.confidence - 0.02
    ]
    if rivals and best.relation != "same" and best.pair.similarity is not None:
        closest = max(verdict.pair.near for verdict in rivals)
        if best.pair.near - closest < 0.03:
            return None
    target = best.pair.id
    if best.relation == "same":
        return Decision(event="NONE", target=target, rule=best.rule, confidence=best.confidence)
    text = fact.text if best.relation == "ends" else merged(best.pair, fact.text, best.pair.memory.item.memory)
    links = tuple(verdict.pair.id for verdict in verdicts if verdict is not best and verdict.relation != "same")
    return Decision(
        event="UPDATE",
        text=text,
        target=target,
        rule=best.rule,
        confidence=best.confidence,
        slots=read_slots(text),
        links=links,
    )


_AND = re.compile(r"^(?P<head>.*?\b\w+) (?P<one>[\w'-]+(?: [\w'-]+){0,2}) and (?P<two>[\w'-]+(?: [\w'-]+){0,2})$")


def _held_together(
    fact: Fact, neighbours: Sequence[Neighbour], similar: WordSimilarity | None, verdicts: Sequence[Verdict]
) -> Decision | None:
    """A fact of two members that two memories hold: "speaks Danish and Polish"."""
    match = _AND.match(read(fact.text).text)
    if match is None or any(verdict.relation in ("same", "ends") for verdict in verdicts):
        return None
    holding: list[Verdict] = []
    for member in ("one", "two"):
        part = read(f"{match['head']} {match[member]}")
        same = [verdict for verdict in judge_reading(part, neighbours, similar) if verdict.relation == "same"]
        if not same:
            return None
        holding.append(max(same, key=lambda verdict: verdict.confidence))
    return Decision(event="NONE", target=holding[0].pair.id, rule="same.members", confidence=0.9)


def _add(fact: Fact, verdicts: Sequence[Verdict]) -> Decision:
    links = tuple(verdict.pair.id for verdict in verdicts if verdict.relation != "same")
    rule = next((verdict.rule for verdict in verdicts), "add")
    sure = 1.0 if not verdicts else 1.0 - max(verdict.confidence for verdict in verdicts) / 2
    return Decision(event="ADD", text=fact.text, rule=rule, confidence=sure, slots=read_slots(fact.text), links=links)
