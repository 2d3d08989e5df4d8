"""The judgement: every rule over every memory near a fact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perdure.domain.fact import Fact, Neighbour
from perdure.domain.pattern import Pattern
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
        verdict = None if numbered_apart(pair.new, reading) else _known(pair) or _judge(pair)
        found.append(Finding(pair, None if verdict is not None and _overreaches(verdict) else verdict))
    return found


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
