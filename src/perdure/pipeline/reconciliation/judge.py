"""The judgement: every rule over every memory near a fact."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from perdure.domain.fact import Fact, Neighbour
from perdure.pipeline.reconciliation.cue import judge_by_cue
from perdure.pipeline.reconciliation.ends import judge_ends
from perdure.pipeline.reconciliation.pairing import Pair, WordSimilarity, alias_table
from perdure.pipeline.reconciliation.refine import judge_refines
from perdure.pipeline.reconciliation.replace import judge_replaces
from perdure.pipeline.reconciliation.same import judge_same
from perdure.pipeline.reconciliation.verdict import Verdict
from perdure.pipeline.slots import Reading, read

RETIRE = 0.7
"""Confidence from which a finding changes a memory; a weaker one only links the two."""

_CLAUSE = re.compile(
    r",? (?:and|but) (?=(?:is|was|has|had|lives?|lived|works?|worked|likes?|owns?|plays?|speaks?|used to)\b)"
)


def judge_all(fact: Fact, neighbours: Sequence[Neighbour], similar: WordSimilarity | None) -> list[Verdict]:
    """What the rules find between a fact and each memory near it, at most one finding a memory."""
    return judge_reading(_moody(read(fact.text), fact), neighbours, similar)


def _moody(reading: Reading, fact: Fact) -> Reading:
    mood = reading.mood
    if fact.hedged:
        mood = replace(mood, hedged=True)
    if fact.valid_to is not None:
        mood = replace(mood, past=True)
    return replace(reading, mood=mood) if mood is not reading.mood else reading


def judge_reading(new: Reading, neighbours: Sequence[Neighbour], similar: WordSimilarity | None) -> list[Verdict]:
    """The same of a reading."""
    readings = [read(memory.item.memory) for memory in neighbours]
    aliases = alias_table([*readings, new])
    found: list[Verdict] = []
    pairs: list[Pair] = []
    for memory, reading in zip(neighbours, readings, strict=True):
        pair = Pair(new, reading, memory, memory.similarity, aliases)
        pairs.append(pair)
        verdict = judge_same(pair, similar) or _judge_clauses(pair, similar) or _judge(pair, similar)
        if verdict is not None:
            found.append(verdict)
    if not any(verdict.confidence >= RETIRE for verdict in found):
        cued = judge_by_cue(pairs)
        found = [*found, cued] if cued is not None else found
    return found


def _judge(pair: Pair, similar: WordSimilarity | None) -> Verdict | None:
    return judge_ends(pair, similar) or judge_refines(pair, similar) or judge_replaces(pair, similar)


def _judge_clauses(pair: Pair, similar: WordSimilarity | None) -> Verdict | None:
    """The fact beside each clause of a compound memory: one of them may hold it."""
    parts = _CLAUSE.split(pair.old.text)
    if len(parts) < 2:
        return None
    subject = "User" if pair.old.party.kind == "user" else pair.old.text[: max(0, pair.old.text.find(" "))]
    for place, part in enumerate(parts):
        clause = read(part if place == 0 else f"{subject} {part}")
        clause = replace(clause, party=pair.old.party)
        verdict = judge_same(replace(pair, old=clause, whole=False), similar)
        if verdict is not None:
            return verdict
    return None
