"""The times in a clause, taken out of it: "Alice was the lead until Q2" is "Alice was the lead", ending with Q1.

"Until Q2" ends at the start of Q2. So all of Q1 is inside, a question about Q1 gets it, and it meets "from Q2"
without a gap or an overlap. A single day is included, as in "until 30 April", and so is what "through Q2" names.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from perdure.domain.clock import iso
from perdure.domain.text.dates import SEASONS, months_on
from perdure.domain.text.pattern import Pattern
from perdure.pipeline.lexicon import pairs

# Times as a team writes them: "Q2", "March 2024", "2026-02-01", "last month", "the end of May", "two years ago".

_MONTHS = {name: int(kind.split()[0]) for name, kind in pairs("recall_months.tsv").items() if "foreign" not in kind}
_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\b\.?"
_YEAR = r"(?P<year>(?:19|20)\d\d)\b(?![-/]\d)"
_OF_YEAR = rf"(?:,? (?:of |in )?{_YEAR})?"
_ORDER = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": 4}
_COUNTS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Period:
    """A stretch of time: UTC, the end exclusive."""

    start: datetime
    end: datetime
    is_day: bool = False  # a single day, of which people say "until" and mean it to be included


@dataclass(frozen=True, slots=True)
class Reference:
    """From where a time is told."""

    told: datetime
    way: int = 0
    """-1 where the text speaks of the past, 1 of the future, 0 where it does not say: it decides on a year left out."""
    until: bool = False  # whether the time is an end ("until Q2")


_Read = Callable[[re.Match[str], Reference], Period | None]


def read_period(text: str, place: int, reference: Reference) -> tuple[Period, int] | None:
    """The period written at a place of a text, the longest there is, and where it ends; None if there is none."""
    edge = _EDGE.match(text, place)
    after = edge.end() if edge else place
    best: tuple[Period, int] | None = None
    for pattern, read in _READERS:
        found = pattern.match(text, after)
        if found is not None and (best is None or found.end() > best[1]):
            period = read(found, reference)
            best = best if period is None else (period, found.end())
    if best is None or edge is None:
        return best
    point = best[0].end if edge["edge"].lower() == "end" else best[0].start
    return Period(point, point), best[1]


def _month_of(year: int, month: int, months: int = 1) -> Period:
    """So many months from the first of one."""
    start = datetime(year, month, 1, tzinfo=UTC)
    return Period(start, months_on(start, months))


def _day(year: int, month: int, day: int) -> Period | None:
    if not 1 <= month <= 12 or not 1 <= day <= calendar.monthrange(year, month)[1]:
        return None
    start = datetime(year, month, day, tzinfo=UTC)
    return Period(start, start + timedelta(days=1), is_day=True)


def _iso(found: re.Match[str], reference: Reference) -> Period | None:
    year, month = int(found["year"]), int(found["number"])
    if found["day"]:
        return _day(year, month, int(found["day"]))
    return _month_of(year, month) if 1 <= month <= 12 else None


def _near(read: Callable[[int], Period | None], reference: Reference) -> Period | None:
    """The period of the year that is told of: the last to have begun, or the next to come."""
    year = reference.told.year
    period = read(year)
    if period is None:
        return None
    if reference.way < 0 and period.start > reference.told:
        return read(year - 1)
    if reference.way > 0 and period.end <= reference.told:
        return read(year + 1)
    return period


def _quarter(found: re.Match[str], reference: Reference) -> Period | None:
    number = int(found["number"]) if found["number"].isdigit() else _ORDER[found["number"].lower()]
    year = found["year"] or found.groupdict().get("before")
    if year:
        return _month_of(int(year), 3 * number - 2, 3)
    # A quarter is one of the year in which it is told. Told in February, "was the lead until Q2" still is: it is the
    # next to come. What was, and was in a quarter further ahead, was a year ago.
    this = _month_of(reference.told.year, 3 * number - 2, 3)
    if reference.until and this.start - reference.told <= timedelta(days=92):
        return this
    return _near(lambda each: _month_of(each, 3 * number - 2, 3), reference)


def _half(found: re.Match[str], reference: Reference) -> Period | None:
    number = int(found["number"]) if found["number"].isdigit() else _ORDER[found["number"].lower()]
    if found["year"]:
        return _month_of(int(found["year"]), 6 * number - 5, 6)
    return _near(lambda year: _month_of(year, 6 * number - 5, 6), reference)


def _month_day(found: re.Match[str], reference: Reference) -> Period | None:
    month, day = _MONTHS[found["month"].lower()], int(found["day"])
    if found["year"]:
        return _day(int(found["year"]), month, day)
    return _near(lambda year: _day(year, month, day), reference)


def _month(found: re.Match[str], reference: Reference) -> Period | None:
    if not found["month"][0].isupper():
        return None  # "may", "march": no month
    month = _MONTHS[found["month"].lower()]
    if found["year"]:
        return _month_of(int(found["year"]), month)
    return _near(lambda year: _month_of(year, month), reference)


def _season(found: re.Match[str], reference: Reference) -> Period | None:
    month = SEASONS[found["season"].lower()]
    if found["year"]:
        return _month_of(int(found["year"]), month, 3)
    return _near(lambda year: _month_of(year, month, 3), reference)


def _year(found: re.Match[str], reference: Reference) -> Period | None:
    return _month_of(int(found["year"]), 1, 12)


def _beside(found: re.Match[str], reference: Reference) -> Period | None:
    step = {"last": -1, "this": 0, "next": 1, "previous": -1, "current": 0}[found["which"].lower()]
    told, unit = reference.told, found["unit"].lower()
    if unit == "week":
        monday = told.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=told.weekday())
        return Period(monday + timedelta(days=7 * step), monday + timedelta(days=7 * step + 7))
    if unit == "year":
        return _month_of(told.year + step, 1, 12)
    length = 3 if unit == "quarter" else 1
    first = told.year * 12 + (told.month - 1) // length * length + step * length
    return _month_of(first // 12, first % 12 + 1, length)


def _ago(found: re.Match[str], reference: Reference) -> Period | None:
    count = _COUNTS.get(found["count"].lower()) or int(found["count"] if found["count"].isdigit() else 0)
    unit = found["unit"].lower()
    told = reference.told
    if unit in ("day", "week"):
        day = told - timedelta(days=min(count, 9999) * (7 if unit == "week" else 1))
        return _day(day.year, day.month, day.day)
    first = told.year * 12 + told.month - 1 - min(count, 1200) * (12 if unit == "year" else 1)
    return _month_of(first // 12, first % 12 + 1) if first // 12 > 1 else None


def _named_day(found: re.Match[str], reference: Reference) -> Period | None:
    word = found["word"].lower()
    if word in ("now", "then"):
        return Period(reference.told, reference.told) if word == "now" else None
    day = reference.told + timedelta(days={"yesterday": -1, "today": 0, "tomorrow": 1}[word])
    return _day(day.year, day.month, day.day)


_EDGE = Pattern(r"(?:the )?(?P<edge>end|start|beginning) of (?:the )?", re.IGNORECASE)
_PATTERNS: tuple[tuple[str, _Read], ...] = (
    (r"(?P<year>(?:19|20)\d\d)-(?P<number>\d\d)(?:-(?P<day>\d\d))?(?![\d-])", _iso),
    (rf"q(?P<number>[1-4])\b(?:[ /-](?:of )?{_YEAR})?", _quarter),
    (r"(?P<before>(?:19|20)\d\d)[ /-]?q(?P<number>[1-4])\b(?P<year>)", _quarter),
    (rf"(?:the )?(?P<number>first|second|third|fourth|last) quarter{_OF_YEAR}", _quarter),
    (rf"h(?P<number>[12])\b(?:[ /-](?:of )?{_YEAR})?", _half),
    (rf"(?:the )?(?P<number>first|second) half(?: of)? {_YEAR}", _half),
    (rf"{_MONTH} (?:the )?(?P<day>\d\d?)(?:st|nd|rd|th)?\b(?:,? {_YEAR})?", _month_day),
    (rf"(?:the )?(?P<day>\d\d?)(?:st|nd|rd|th)?(?: of)? {_MONTH}(?:,? {_YEAR})?", _month_day),
    (rf"(?:early |mid-?|late )?{_MONTH}{_OF_YEAR}", _month),
    (rf"(?:the )?(?P<season>{'|'.join(SEASONS)})\b{_OF_YEAR}", _season),
    (rf"(?:early |mid-?|late )?{_YEAR}", _year),
    (r"(?:the )?(?P<which>last|this|next|previous|current) (?P<unit>week|month|quarter|year)\b", _beside),
    (rf"(?P<count>\d{{1,3}}|{'|'.join(_COUNTS)}) (?P<unit>day|week|month|year)s? ago\b", _ago),
    (r"(?P<word>yesterday|today|tomorrow|now)\b", _named_day),
)
_READERS = tuple((Pattern(pattern, re.IGNORECASE), read) for pattern, read in _PATTERNS)


_LEAD = Pattern(
    r"(?:(?<=^)|(?<=[\s,(]))(?P<lead>(?:ever )?since|starting(?: (?:in|from|on|with))?|beginning (?:in|on|with)|"
    r"effective|as of|as from|from|until|till|'til|up to|up until|through|throughout|during|before|prior to|after|"
    r"between|back in|in|on|at|for)?(?: |(?<=^)|(?<=[\s,(]))(?:the )?",
    re.IGNORECASE,
)
_TO = Pattern(r"\s*(?:-|–|—|(?P<lead>to|until|till|through|and))\s*(?:the )?", re.IGNORECASE)
_BARE = Pattern(
    r"(?:the )?(?:last|this|next|previous|current) (?:week|month|quarter|year)|yesterday|today|tomorrow|\w+ \w+ ago",
    re.IGNORECASE,
)
_ENDS = frozenset({"until", "till", "'til", "up to", "up until", "before", "prior to"})
_OPENING = frozenset({"from", "between", "in", ""})  # what may begin a stretch: "from March to May"
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
