"""What each statement claims of its relation: from when, until when, and what ends it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from perdure.domain.clock import iso, read_moment
from perdure.domain.graph import StatedRelation

Pair = tuple[str, str, str]
"""Source, relation and target: what two statements share that are of one edge."""


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
    start: str | None
    """None is unknown, and then there is an end: it reaches back from there."""
    soft: bool
    """Whether nobody said when it began, so that it did at the latest when it was told."""
    end: str | None
    told: str
    """When it was last told."""
    seen: str
    """The last moment at which it is known to hold where no end is: its start, or when it was told."""
    statements: list[StatedRelation] = field(default_factory=list)
    ended_by: str | None = None
    """The memory that gave the end."""
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
