"""The judgement: every rule over every memory near a fact."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from perdure.domain.fact import Fact, Neighbour
from perdure.pipeline.reconciliation.caution import is_detail
from perdure.pipeline.reconciliation.ends import judge_ends
from perdure.pipeline.reconciliation.pairing import Pair, alias_table, numbered_apart
from perdure.pipeline.reconciliation.refine import judge_refines
from perdure.pipeline.reconciliation.replace import judge_replaces
from perdure.pipeline.reconciliation.same import judge_same
from perdure.pipeline.reconciliation.succession import departed, judge_succession
from perdure.pipeline.reconciliation.verdict import Finding, Verdict
from perdure.pipeline.slots import Party, Reading, read

RETIRE = 0.7
"""Confidence from which a finding changes a memory; a weaker one only links the two."""

_SO = re.compile(r",? so (?=[A-Z])")
_CLAUSE = re.compile(
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
        verdict = (
            None if numbered_apart(pair.new, reading) else judge_same(pair) or _judge_clauses(pair) or _judge(pair)
        )
        found.append(Finding(pair, None if verdict is not None and _overreaches(verdict) else verdict))
    return found


def _as_thing(new: Reading, old: Reading) -> Reading:
    """The fact, its first word read as a thing where the memory tells that it is one ("Recital has been shifted")."""
    party = new.party
    if party.kind != "named" or new.topic or not old.topic or old.topic[-1] != party.name:
        return new
    concepts = new.concepts | {party.name}
    return replace(new, party=Party("thing"), topic=(party.name,), concepts=concepts, slots=(), turned=None)


def _judge(pair: Pair) -> Verdict | None:
    found = judge_succession(pair) or judge_ends(pair) or judge_refines(pair) or judge_replaces(pair)
    consequence = _SO.split(pair.new.text, maxsplit=1)
    if found is not None or len(consequence) < 2:
        return found
    said = replace(pair, new=read(consequence[1]))
    verdict = judge_succession(said) or judge_replaces(said)
    return None if verdict is None else replace(verdict, pair=pair)


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
