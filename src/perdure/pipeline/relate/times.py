"""The times in a clause, taken out of it: "Alice was the lead until Q2" is "Alice was the lead", ending with Q1.

"Until Q2" ends at the start of Q2. So all of Q1 is inside, a question about Q1 gets it (004), and it meets "from Q2"
without a gap or an overlap. A single day is included, as in "until 30 April", and so is what "through Q2" names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from perdure.domain.clock import iso
from perdure.domain.pattern import Pattern
from perdure.pipeline.relate.dates import Period, Reference, read_period

_LEAD = Pattern(
    r"(?:(?<=^)|(?<=[\s,(]))"
    r"(?P<lead>(?:ever )?since|starting(?: (?:in|from|on|with))?|beginning (?:in|on|with)|effective|as of|as from|from|"
    r"until|till|'til|up to|up until|through|throughout|during|before|prior to|after|between|back in|in|on|at|for)?"
    r"(?: |(?<=^)|(?<=[\s,(]))(?:the )?",
    re.IGNORECASE,
)
_TO = Pattern(r"\s*(?:-|–|—|(?P<lead>to|until|till|through|and))\s*(?:the )?", re.IGNORECASE)
_BARE = Pattern(
    r"(?:the )?(?:last|this|next|previous|current) (?:week|month|quarter|year)|yesterday|today|tomorrow|\w+ \w+ ago",
    re.IGNORECASE,
)
_ENDS = frozenset({"until", "till", "'til", "up to", "up until", "before", "prior to"})
_OPENING = frozenset({"from", "between", "in", ""})
"""What may begin a stretch: "from March to May"."""
_SPANS = frozenset({"throughout", "during", "in", "on", "back in", "at", "for", ""})


@dataclass(slots=True)
class Times:
    """What a clause says of time, and the clause without it."""

    rest: str
    start: datetime | None = None
    end: datetime | None = None
    within: Period | None = None
    """The period in which it was, or happened ("in May"): what it means depends on what is told."""

    @property
    def when(self) -> datetime | None:
        """The moment of something that happened: its stated start, or when the period began in which it was."""
        return self.start or (self.within.start if self.within else None)

    def texts(self, *, event: bool = False) -> tuple[str | None, str | None]:
        """From when and until when something holds, ISO 8601; `event` where "in May" is when it began."""
        start, end = self.start, self.end
        if self.within is not None:
            start = start or self.within.start
            end = end if event or end is not None else self.within.end
        if start is not None and end is not None and end <= start:
            return None, None  # it cannot be: nobody knows what was meant
        return None if start is None else iso(start), None if end is None else iso(end)


def take_times(clause: str, told: datetime, way: int) -> Times:
    """The times of a clause; `way` is -1 where it tells of the past, 1 of the future, 0 of the present."""
    reader = _Reader(clause, told, way)
    pieces: list[str] = []
    place = 0
    for found in _LEAD.finditer(clause):
        if found.start() < place:
            continue
        lead = re.sub(r"^ever ", "", (found["lead"] or "").lower())
        is_bare = _BARE.match(clause, found.end()) or clause[found.end() - 1 : found.end()] == "("
        read = reader.period(found.end(), lead) if lead or is_bare else None
        if read is None:
            continue
        pieces.append(clause[place : found.start()])
        place = reader.note(lead, *read)
    times = reader.times
    times.rest = " ".join("".join([*pieces, clause[place:]]).replace("()", "").split()).strip(" ,;")
    return times


class _Reader:
    """Reads the times of one clause into `times`."""

    def __init__(self, clause: str, told: datetime, way: int) -> None:
        self.times = Times(clause)
        self._clause, self._told, self._way = clause, told, way

    def period(self, place: int, lead: str) -> tuple[Period, int] | None:
        """The period at a place, after a word such as "until", and where it ends."""
        ends = lead in _ENDS
        way = self._way or (1 if ends else -1 if lead == "since" or "ago" in self._clause else 0)
        read = read_period(self._clause, place, Reference(self._told, way, until=ends))
        if read is None:
            return None
        after = self._clause[read[1] : read[1] + 1]
        return None if after.isalnum() or after in ("_", "'", "’") else read

    def note(self, lead: str, period: Period, end: int) -> int:
        """Note what one time says; where the text after it goes on."""
        times = self.times
        onward = _TO.match(self._clause, end)
        second = self.period(onward.end(), "until") if onward and lead in _OPENING else None
        if onward is not None and second is not None:
            is_until = (onward["lead"] or "").lower() in ("until", "till")
            times.start, times.end = period.start, second[0].start if is_until else second[0].end
            return second[1]
        if lead in _ENDS:
            is_included = period.is_day and lead not in ("before", "prior to")
            times.end = period.end if is_included else period.start
        elif lead == "after":
            times.start = period.end
        elif lead == "through":
            times.end = period.end
        elif lead in _SPANS:
            times.within = period
        else:
            times.start = period.start
        return end
