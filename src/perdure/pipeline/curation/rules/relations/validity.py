"""Derive when each relation holds from all statements about it.

A statement ends another only where both are of one pair ("Alice is no longer the lead") or of one slot (another lead of
the same project), never because they resemble each other. Both are kept: the one that ended is an edge with an end.
Nothing is written: taking a statement back gives exactly the edges that there would have been without it, and what is
told late about an earlier time takes its place there and is ended by what follows it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from perdure.domain.clock import iso, parse_moment, read_moment
from perdure.domain.graph import Edge, StatedRelation

# What each statement claims of its relation: from when, until when, and what ends it.

Pair = tuple[str, str, str]  # source, relation and target: what two statements share that are of one edge


@dataclass(frozen=True, slots=True, order=True)
class Ending:
    """A memory says of a pair that it had ended by a moment, or will have."""

    told: str
    moment: str
    memory_id: str
    denial: bool
    """Whether it says just this ("no longer"), else it tells of the time before too ("was the lead until Q2")."""


@dataclass(slots=True, kw_only=True)
class Claim:
    """One or more statements that a relation holds for a time; ISO 8601 UTC of fixed width throughout."""

    pair: Pair
    slot: str | None
    start: str | None  # none is unknown, and then there is an end: it reaches back from there
    soft: bool  # whether nobody said when it began, so that it did at the latest when it was told
    end: str | None
    told: str  # when it was last told
    seen: str  # the last moment at which it is known to hold where no end is: its start, or when it was told
    statements: list[StatedRelation] = field(default_factory=list)
    ended_by: str | None = None  # the memory that gave the end
    end_told: str = ""
    reaches_back: bool = False
    """Whether a soft start is none where nothing stood before: it is said to last until its end, since whenever."""

    @property
    def memory_id(self) -> str:
        """The memory that told it first."""
        return min((each.told_at, each.memory_id) for each in self.statements)[1]

    def end_by(self, endings: Sequence[Ending]) -> None:
        """Take the end that statements about the same pair give it."""
        if self.soft and self.end is None and self._was_over(endings):
            return
        if self.end is None:
            self._end_as_told(endings)
        self._end_as_denied(endings)

    def _was_over(self, endings: Sequence[Ending]) -> bool:
        """Told as present, but told since to have been over by then: it is of the time before that."""
        over = [each for each in endings if each.moment <= self.told <= each.told]
        if over:
            last = max(over)
            self.start, self.soft = None, False
            self._end(last)
        return bool(over)

    def _end_as_told(self, endings: Sequence[Ending]) -> None:
        """The last told end counts, unless this was told to hold still, after it and later than it was told."""
        told = [
            each
            for each in endings
            if not each.denial
            and (self.start is None or self.start < each.moment)
            and not (self.told > each.told and self.told >= each.moment)
        ]
        if told:
            self._end(max(told))

    def _end_as_denied(self, endings: Sequence[Ending]) -> None:
        """The first denial since it began counts; against an end that was told it must have been told later."""
        denied = [
            each
            for each in endings
            if each.denial
            and (self.start is None or self.start <= each.moment)
            and (self.end is None or (each.moment < self.end and each.told > self.end_told))
        ]
        if denied:
            self._end(min(denied, key=lambda each: (each.moment, each.told, each.memory_id)))

    def _end(self, ending: Ending) -> None:
        self.end, self.end_told, self.ended_by = ending.moment, ending.told, ending.memory_id


def read_claims(relations: Sequence[StatedRelation]) -> list[Claim]:
    """What the statements claim to hold; a statement without a slot takes that of another about the same pair."""
    slots: dict[Pair, set[str]] = defaultdict(set)
    for each in relations:
        if each.relation.slot is not None:
            slots[_pair(each)].add(each.relation.slot)
    return [_claim(each, min(slots[_pair(each)], default=None)) for each in relations if each.relation.polarity]


def read_endings(relations: Sequence[StatedRelation]) -> dict[Pair, list[Ending]]:
    """What the statements say to have ended, by pair; a pair of which nothing ended has none."""
    endings: dict[Pair, list[Ending]] = defaultdict(list)
    for each in relations:
        relation, told = each.relation, _moment(each.told_at) or each.told_at
        if not relation.polarity:
            moment = _moment(relation.valid_from) or _moment(relation.valid_to) or told
            endings[_pair(each)].append(Ending(told, moment, each.memory_id, True))
        elif end := _moment(relation.valid_to):
            endings[_pair(each)].append(Ending(told, end, each.memory_id, False))
    return endings


def _claim(stated: StatedRelation, slot: str | None) -> Claim:
    relation, told = stated.relation, _moment(stated.told_at) or stated.told_at
    start, end = _moment(relation.valid_from), _moment(relation.valid_to)
    soft = start is None and (end is None or end > told)
    if soft:
        start = told
    if start is not None and end is not None:
        end = max(start, end)  # an end before the start: it held at no time
    return Claim(
        pair=_pair(stated),
        slot=relation.slot or slot,
        start=start,
        soft=soft,
        end=end,
        told=told,
        seen=max(told, start or told),
        statements=[stated],
        reaches_back=soft and end is not None,
        ended_by=None if end is None else stated.memory_id,
        end_told="" if end is None else told,
    )


def _pair(stated: StatedRelation) -> Pair:
    relation = stated.relation
    return (relation.source_key, relation.relation, relation.target_key)


def _moment(text: str | None) -> str | None:
    moment = None if text is None else read_moment(text)
    return None if moment is None else iso(moment)


# Claims of one slot, or of one pair, placed in time so that no two overlap.
#
# What begins later ends what began before. A claim of unknown start ("Alice was the lead until Q2") stands right
# before its end, and reaches back to the last moment at which another is known to have held the slot.


def timeline(claims: Sequence[Claim]) -> list[Claim]:
    """The claims in their order, those of one pair that touch as one, each ended where the next begins.

    The claims given are used up.
    """
    dated = [claim for claim in claims if claim.start is not None]
    for claim in claims:
        if claim.start is None:
            _place_before(claim, dated)
    runs: list[Claim] = []
    for claim in sorted(claims, key=_anchor):
        if runs and runs[-1].pair == claim.pair and _touches(runs[-1], claim):
            _merge(runs[-1], claim)
            continue
        if runs:
            _follow(runs[-1], claim)
        runs.append(claim)
    for place, run in enumerate(runs):
        if run.reaches_back:
            before = runs[place - 1].end if place else None
            run.start = min(before, run.start or before) if before is not None else None
    return runs


def _anchor(claim: Claim) -> tuple[str, bool, str, tuple[str, str, str], str, str, bool]:
    """Where a claim stands in the order: at its start, or where that is unknown just before what starts at its end."""
    known = claim.start is not None
    return (
        (claim.start or claim.end or ""),
        known,
        claim.told,
        claim.pair,
        claim.end or "",
        claim.memory_id,
        claim.soft,
    )


def _place_before(claim: Claim, dated: Sequence[Claim]) -> None:
    """Move the end of a claim of unknown start before all that is known to hold at that time instead."""
    for other in sorted(dated, key=_anchor, reverse=True):
        assert claim.end is not None and other.start is not None
        holds = other.seen >= claim.end if other.end is None else other.end > claim.end
        if other.pair != claim.pair and other.start < claim.end and holds:
            claim.end, claim.ended_by = other.start, other.memory_id


def _touches(run: Claim, claim: Claim) -> bool:
    """Whether a later claim of the same pair is about the same stretch of time."""
    return claim.start is None or run.end is None or claim.start < run.end or claim.start == run.start


def _merge(run: Claim, claim: Claim) -> None:
    """Make a claim part of a run of its pair; of two ends that both were told the one told last counts."""
    run.reaches_back = run.reaches_back or (run.soft and (claim.start is None or claim.reaches_back))
    if claim.start is None:
        later = run.end is not None and claim.end is not None and claim.end > run.end
    else:
        if not claim.soft and claim.start == run.start:
            run.reaches_back = False  # somebody said that it began then
        run.soft = run.soft and claim.soft
        later = run.end is not None and (claim.end is None or (claim.end_told, claim.end) > (run.end_told, run.end))
    if later:
        run.end, run.end_told, run.ended_by = claim.end, claim.end_told, claim.ended_by
    run.seen = max(run.seen, claim.seen)
    run.told = max(run.told, claim.told)
    run.statements += claim.statements


def _follow(run: Claim, claim: Claim) -> None:
    """End what stood before where the next begins, and begin the next no earlier."""
    if claim.start is None:
        assert claim.end is not None
        if run.end is None or run.end > claim.end:
            run.end = _just_after(run.seen) if run.seen < claim.end else claim.end
            run.ended_by = claim.memory_id
        claim.start = run.end
    elif run.end is None or run.end > claim.start:
        run.end, run.ended_by = claim.start, claim.memory_id


def _just_after(moment: str) -> str:
    return iso(datetime.fromisoformat(moment) + timedelta(microseconds=1))


def edges(relations: Sequence[StatedRelation], *, at: str | None = None, include_past: bool = False) -> list[Edge]:
    """The edges that relations amount to, by source, relation, target and time; their order does not matter.

    `at` (ISO 8601; InvalidInputError if not) gives those that hold at that moment, and with `include_past` those that
    held before it too. Without `at`: those that had not ended when the last relation was told, with `include_past` all.
    Relations that were taken back count for nothing. Edges of one slot never overlap.
    """
    standing = list(dict.fromkeys(each for each in relations if each.untold_at is None))
    found = sorted(_all(standing), key=_order)
    if at is not None:
        moment = iso(parse_moment(at, "at"))
        begun = [edge for edge in found if edge.valid_from is None or edge.valid_from <= moment]
        return begun if include_past else [edge for edge in begun if _lasts(edge, moment)]
    if include_past or not found:
        return found
    last = max(each.told_at for each in standing)
    return [edge for edge in found if _lasts(edge, last)]


def _lasts(edge: Edge, moment: str) -> bool:
    return edge.valid_until is None or edge.valid_until > moment


def _order(edge: Edge) -> tuple[str, ...]:
    return (
        edge.source.casefold(),
        edge.relation,
        edge.target.casefold(),
        edge.valid_from or "",
        edge.valid_until or "",
    )


def _all(standing: Sequence[StatedRelation]) -> Iterator[Edge]:
    """Every edge, ended or not."""
    endings = read_endings(standing)
    groups: dict[str | tuple[str, str, str], list[Claim]] = defaultdict(list)
    for claim in read_claims(standing):
        claim.end_by(endings.get(claim.pair, ()))
        groups[claim.slot or claim.pair].append(claim)
    for claims in groups.values():
        for run in timeline(claims):
            yield _edge(run)


def _edge(run: Claim) -> Edge:
    newest_first = sorted({(each.told_at, each.memory_id) for each in run.statements}, key=lambda told: told[1])
    newest_first.sort(key=lambda told: told[0], reverse=True)
    memory_ids = tuple(dict.fromkeys(memory_id for _, memory_id in newest_first))
    return Edge(
        source=_spelling((each.relation.source, each.memory_id) for each in run.statements),
        relation=run.pair[1],
        target=_spelling((each.relation.target, each.memory_id) for each in run.statements),
        valid_from=run.start,
        valid_until=run.end,
        memory_ids=memory_ids,
        closed_by=run.ended_by if run.ended_by not in memory_ids else None,
        told_at=newest_first[0][0],
    )


def _spelling(written: Iterable[tuple[str, str]]) -> str:
    """The name as most memories write it; of equals the first by code points."""
    writers: dict[str, set[str]] = defaultdict(set)
    for name, memory_id in written:
        writers[name].add(memory_id)
    return min(writers, key=lambda name: (-len(writers[name]), name))
