"""Relations as the rules make them: the tense of a clause, its times and the moment of telling become validity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from perdure.domain.clock import iso
from perdure.domain.graph import DEFAULT_TYPE, Relation, entity_key
from perdure.pipeline.relate.grounds import Thing
from perdure.pipeline.relate.roles import Role, exclusive, slots
from perdure.pipeline.relate.times import Times

HOLDS, PAST, BEGINS, ENDS, EVENT, FUTURE = "present", "past", "begins", "ends", "event", "future"
"""What a clause tells of a relation: that it holds, held, began, ended; that it happened; that it will begin."""

_BOTH_WAYS = frozenset({"married_to", "engaged_to", "works_with", "knows", "friend_of", "sibling_of", "partner_of"})
"""Relations that say the same either way: they lead from the first by the alphabet, so that both are one edge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tie:
    """A relation with both ends, of which times are not yet known."""

    source: Thing
    relation: str
    target: Thing
    slot: str | None
    """in, out, or None."""
    rule: str

    @classmethod
    def by_role(cls, subject: Thing, role: Role, rule: str) -> Tie:
        """Of somebody who has a role."""
        ends = (role.target, subject) if role.turned else (subject, role.target)
        return cls(source=ends[0], relation=role.relation, target=ends[1], slot=role.slot, rule=rule)

    @classmethod
    def by_verb(cls, source: Thing, relation: str, target: Thing, rule: str) -> Tie:
        """Of a verb; who leads somebody has them report to themself."""
        if relation == "manages" and target.type == "person":
            source, relation, target = target, "reports_to", source
        slot, kind, _ = slots().get(relation, ("-", "-", "-"))
        if source.type == DEFAULT_TYPE and kind != "-":
            source = Thing(source.name, kind)
        return cls(source=source, relation=relation, target=target, slot=slot if slot != "-" else None, rule=rule)


def slot_of(relation: str, source: str, target: str, side: str | None = None) -> str | None:
    """What there is one of at a time, as `Relation.slot` is written; None where many may hold at once.

    `side` is out, in or None; left out, it is what the relation has by relations.tsv.
    """
    side = side or slots().get(relation, ("in" if relation in exclusive() else "-", "", ""))[0]
    if side == "out":
        return f"out:{relation}:{entity_key(source)}"
    return f"in:{relation}:{entity_key(target)}" if side == "in" else None


def validity(tells: str, times: Times, told: datetime) -> tuple[str | None, str | None] | None:
    """From when and until when a relation holds that a clause tells of; None where it tells of no known time.

    What was and is not said to have ended, ended at the latest when it was told.
    """
    now = iso(told)
    happened = tells in (BEGINS, ENDS, EVENT, FUTURE)
    start, end = times.texts(event=happened)
    if (start is None and end is None) and (times.start or times.end or times.within):
        return None
    if tells == ENDS:
        return None, end or start or now
    if tells == PAST:
        return start, end or now
    if tells == FUTURE and start is None:
        return None
    return start, end


def relate(
    tie: Tie, tells: str, times: Times, told: datetime, *, gone: bool = False, shared: bool = False
) -> Iterator[Relation]:
    """The relation of a tie; none where both ends are one. `shared`: several have it together."""
    source, target = tie.source.name, tie.target.name
    if tie.relation in _BOTH_WAYS and entity_key(target) < entity_key(source):
        source, target = target, source
    if entity_key(source) == entity_key(target):
        return
    start: str | None
    end: str | None = None
    if gone:
        moment = times.when or times.end
        start = None if moment is None else iso(moment)
    else:
        valid = validity(tells, times, told)
        if valid is None or (valid[0] and valid[1] and valid[1] <= valid[0]):
            return
        start, end = valid
    yield Relation(
        source=source,
        relation=tie.relation,
        target=target,
        valid_from=start,
        valid_to=end,
        polarity=not gone,
        slot=slot_of(tie.relation, source, target, tie.slot)
        if tie.slot and not (shared and tie.slot == "in")
        else None,
        rule=tie.rule,
        confidence=0.9,
    )
