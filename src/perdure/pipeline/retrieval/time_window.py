"""Read the time window that a question asks about, and score how close a moment is to it."""

from __future__ import annotations

import calendar
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from perdure.domain.text.dates import SEASONS, months_on
from perdure.domain.text.pattern import Pattern
from perdure.domain.text.terms import split_words
from perdure.pipeline.lexicon import lines, pairs, words

# Dates as people write them: "7 May 2023", "May 7th", "2023-05-07", "in May", "summer of 2022", "in 2023".

PARTS = {
    "first week of": (1, 7),
    "second week of": (8, 14),
    "third week of": (15, 21),
    "fourth week of": (22, 28),
    "last week of": (-6, 0),
    "first half of": (1, 15),
    "second half of": (16, 0),
    "beginning of": (1, 10),
    "start of": (1, 10),
    "early": (1, 10),
    "middle of": (11, 20),
    "mid": (11, 20),
    "late": (-9, 0),
    "end of": (-9, 0),
}
"""First and last day of the parts of a month; 0 is its last day, -9 the ninth before it."""

_YEAR = r"(?:19|20)\d\d"
_NO_DIGIT = r"(?![\d/]|[.:-]\d)"
_ISO = Pattern(rf"(?<![\d/-])(?P<year>{_YEAR})(?P<mark>[-/])(?P<month>\d\d?)(?P=mark)(?P<day>\d\d?){_NO_DIGIT}")
_NUMERIC = Pattern(
    rf"(?<![\d/.-])(?P<one>\d\d?)(?:/(?P<two>\d\d?)/(?P<year>{_YEAR}|\d\d)|"
    rf"(?P<mark>[.-])(?P<two_>\d\d?)(?P=mark)(?P<year_>{_YEAR})){_NO_DIGIT}"
)
_SEASON = Pattern(
    rf"\b(?:(?P<before>{_YEAR}) )?(?P<season>{'|'.join(SEASONS)})(?:(?: of|,)? (?P<after>{_YEAR}))?\b", re.IGNORECASE
)
_DATE_WORD = Pattern(r"[^\W\d_]+")
_UNTIL = r" ?(?:-|–|to|and|until) ?"
_DAY = r"(?P<one>\d\d?)(?P<suffix>st|nd|rd|th|er|º|\.)?"
_LAST_DAY = r"(?P<two>\d\d?)(?:st|nd|rd|th|\.)?"
_DAY_BEFORE = Pattern(rf"(?<![\w.,:/$€£]){_DAY}(?:{_UNTIL}{_LAST_DAY})? (?:of |de )?$", re.IGNORECASE)
_AFTER_MONTH = Pattern(
    rf"\.?(?:,? (?:the )?{_DAY}(?![\d:])(?:{_UNTIL}{_LAST_DAY}(?![\d:]))?)?"
    rf"(?:,? ?(?:of |del? )?(?P<year>{_YEAR})\b)?",
    re.IGNORECASE,
)
REACH = 24  # characters before a date that may belong to it
_BARE_YEAR = Pattern(rf"(?<![\w.,$€£/-])(?P<year>{_YEAR})\b(?![-/:.,]\d|%)")
_WORD_BEFORE = Pattern(r"([^\W\d_]+)(?: the)?[ -]$")
_MONTH_BEFORE = Pattern(rf"([^\W\d_]+)(?: {_YEAR})? [^\W\d_]+ $")
_WORD_AFTER = Pattern(r"[ -]([^\W\d_]+)")
_PART = Pattern(rf"\b(?P<part>{'|'.join(PARTS)})[ -]$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Written:
    """A date as far as it is written, at a place in a text; `month` 1 to 12, `days` the first and last day."""

    at: int
    end: int
    year: int | None
    month: int | None = None
    days: tuple[int, int] | None = None
    season: bool = False  # `month` begins a season that is meant as a whole


def written_dates(text: str) -> Iterator[Written]:
    """Return the non-overlapping dates in a text with single spaces, in order."""
    found = [*_numeric(text), *_with_month(text), *_seasons(text), *_written_years(text)]
    reached = 0
    for date in sorted(found, key=lambda each: (each.at, -each.end)):
        if date.at >= reached:
            yield date
            reached = date.end


def _numeric(text: str) -> Iterator[Written]:
    for match in _ISO.finditer(text):
        yield from _day(match, int(match["year"]), int(match["month"]), int(match["day"]))
    for match in _NUMERIC.finditer(text):
        year = int(match["year"] or match["year_"])
        one, two = int(match["one"]), int(match["two"] or match["two_"])
        month_first = (two > 12) if match["mark"] else (one <= 12)
        month, day = (one, two) if month_first else (two, one)
        yield from _day(match, year if year >= 100 else 2000 + year, month, day)


def _day(match: re.Match[str], year: int, month: int, day: int) -> Iterator[Written]:
    if 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]:
        yield Written(match.start(), match.end(), year, month, (day, day))


def _with_month(text: str) -> Iterator[Written]:
    names = pairs("recall_months.tsv")
    for word in _DATE_WORD.finditer(text):
        known = names.get(word.group().lower())
        if known is None:
            continue
        month, _, kind = known.partition(" ")
        before = _DAY_BEFORE.search(text[max(0, word.start() - REACH) : word.start()])
        after = _AFTER_MONTH.match(text, word.end())
        assert after is not None, "it may be empty"
        at = word.start() - (len(before.group()) if before else 0)
        year = int(after["year"]) if after["year"] else None
        shown = before if before else after if after["one"] else None
        if not year and not _is_month(word.group(), kind, text[max(0, at - REACH) : at], shown):
            continue
        days = _days(shown) if shown else _part(text[max(0, at - REACH) : at], int(month), year)
        if days is None or 1 <= days[0] <= days[1] <= calendar.monthrange(year or 2000, int(month))[1]:
            yield Written(at, after.end(), year, int(month), days)


def _days(match: re.Match[str]) -> tuple[int, int]:
    return int(match["one"]), max(int(match["one"]), int(match["two"] or 0))


def _part(before: str, month: int, year: int | None) -> tuple[int, int] | None:
    """Return the days meant by "early" or "the second week of" before a month."""
    match = _PART.search(before)
    if match is None:
        return None
    length = calendar.monthrange(year or 2001, month)[1]
    first, last = PARTS[match["part"].lower()]
    return first if first > 0 else length + first, last if last > 0 else length + last


def _is_month(name: str, kind: str, before: str, day: re.Match[str] | None) -> bool:
    """Whether a month's name without a year means the month: not in "May I", "march on", "when did April call"."""
    if kind == "foreign":
        return False
    found = _WORD_BEFORE.search(before)
    lead = found[1].lower() if found else ""
    if day:
        return kind != "name" or bool(day["suffix"]) or lead == "on" or (name[0].isupper() and before != "")
    if kind == "" or pairs("recall_date_leads.tsv").get(lead) == "month":
        return True
    earlier = _MONTH_BEFORE.search(before)
    if earlier is None or pairs("recall_date_leads.tsv").get(lead) != "joins":
        return False
    return name[0].isupper() and earlier[1].lower() in pairs("recall_months.tsv")


def _seasons(text: str) -> Iterator[Written]:
    for match in _SEASON.finditer(text):
        year = match["after"] or match["before"]
        if year:
            yield Written(match.start(), match.end(), int(year), SEASONS[match["season"].lower()], season=True)


def _written_years(text: str) -> Iterator[Written]:
    """Yield bare years after a word that marks them as years, and not before something countable."""
    for match in _BARE_YEAR.finditer(text):
        lead = _WORD_BEFORE.search(text[max(0, match.start() - REACH) : match.start()])
        if lead is None or lead[1].lower() not in pairs("recall_date_leads.tsv"):
            continue
        after = _WORD_AFTER.match(text, match.end())
        if after is None or not _is_counted(after[1]):
            yield Written(match.start(), match.end(), int(match["year"]))


def _is_counted(word: str) -> bool:
    plural = word.islower() and word.endswith("s") and not word.endswith("ss")
    return word.lower() in words("recall_counted.txt") or (plural and word not in words("recall_stopwords.txt"))


Grain = Literal["day", "week", "month", "season", "year", "span"]
LONGEST = 2_000
"""Characters of a question that are read: a longer one is a document, whose dates are not what is asked about."""

_DAYS_AROUND = ((8, 31, 0.3), (1, 0, 0.6), (0, 8, 0.8))
_MONTHS_AROUND = ((1, 0, 0.15), (0, 2, 0.3), (0, 1, 0.5))
AROUND: dict[Grain, tuple[tuple[int, int, float], ...]] = {
    "day": _DAYS_AROUND,
    "week": _DAYS_AROUND,
    "month": _MONTHS_AROUND,
    "season": _MONTHS_AROUND,
    "year": (),
    "span": (),
}
"""Closeness outside a window: so many units before it and after it give so much, the last that fits counts.

Units are months for months and seasons, else days. People tell of a thing on its day or in the week after, seldom
before. Measured on LoCoMo (day, month, year); week and season take the figures of their nearest kin."""

_DAY_OF = {
    name: place
    for place, name in enumerate(["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"])
}
_UNIT = r"(?P<unit>day|week|month|year)s?"
_COUNT = (
    r"(?P<count>\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|"
    r"(?:a )?few|(?:a )?couple(?: of)?|an?)"
)
_SPAN = "|".join(["week", "month", "year", "weekend", *_DAY_OF, *(name for name in SEASONS)])
_RELATIVE = Pattern(
    rf"\b(?:{_COUNT} {_UNIT} ago|(?P<before>the day before yesterday)|(?P<yesterday>yesterday|last night)|"
    r"(?P<today>today|tonight|this (?:morning|afternoon|evening))|"
    rf"(?:last|past) {_COUNT.replace('count', 'back')} {_UNIT.replace('unit', 'of')}|"
    rf"(?P<which>last|past|this past|this) (?P<span>{_SPAN}))\b",
    re.IGNORECASE,
)
_BESIDE = Pattern(
    rf"\b(?:{_COUNT} |the |last )?(?P<unit>day|week|weekend|month|{'|'.join(_DAY_OF)})s? (?P<side>before|after) $", re.I
)
_SIDE = Pattern(r"\b(?P<side>since|before|prior to|after|until|till|up to|by|starting)(?: the)? $", re.I)
_LAST = Pattern(r"\b(?P<which>last|this|past) $", re.I)
_FROM = Pattern(r"\b(?:between|from)(?: the)? $", re.I)
_TO = Pattern(r"\s*(?:,? ?and|to|until|till|through|-|–)(?: the)?\s*", re.I)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHIFT = {"day": 1, "week": 7, "weekend": 7, "month": 31} | dict.fromkeys(_DAY_OF, 7)
_FINENESS: dict[Grain, int] = {"day": 0, "week": 1, "month": 2, "season": 3, "span": 4, "year": 5}


@dataclass(frozen=True, slots=True)
class Window:
    """A period from `start` until before `end`, aware UTC; an end of None is open.

    With `month` (1 to 12) it is that month, or its `days` (first, last), of any year, and both ends are None.
    """

    start: datetime | None
    end: datetime | None
    grain: Grain
    month: int | None = None
    days: tuple[int, int] | None = None


def parse(question: str, reference: datetime | None) -> Window | None:
    """Return the time that a question names, or None.

    `reference` is the time of asking (without a zone: UTC). Relative times ("last week") need it; a date without a year
    ("in May") is the latest one not after it, and without it that month or day of any year. Of several dates the finest
    counts, then the first. "5/7/2023" is read month first, "5.7.2023" day first, each the other way round if only that
    is a date. A winter is named by its December. Ambiguous words are not read: "May I", "March on", "2000 dollars".
    """
    text = " ".join(unicodedata.normalize("NFC", question[:LONGEST]).split())
    try:
        now = None if reference is None else _utc(reference)
        return _calendar(text, now) or (None if now is None else _relative(text, now))
    except (ValueError, OverflowError):  # the reference stands at the edge of the calendar
        return None


def _calendar(text: str, now: datetime | None) -> Window | None:
    """Return the window of the written dates."""
    dates = list(written_dates(text))
    for first, second in pairwise(dates):
        if _FROM.search(text[: first.at]) and _TO.fullmatch(text[first.end : second.at]):
            window = _between(first, second, now)
            if window is not None:
                return window
    found = [(date, window) for date in dates if (window := _resolved(date, text, now))]
    if not found:
        return None
    date, window = min(found, key=lambda pair: _FINENESS[pair[1].grain])
    return _beside(window, text[: date.at])


def _between(first: Written, second: Written, now: datetime | None) -> Window | None:
    """Return the window from the first date to the end of the second; a year at one of them counts for both."""
    turned = int((first.month or 0) > (second.month or 12))
    if second.year is None and first.year is not None:
        second = replace(second, year=first.year + turned)
    end = _window(second, now)
    if end is None or end.start is None or end.end is None:
        return None
    start = _window(first if first.year else replace(first, year=end.start.year - turned), now)
    if start is None or start.start is None or start.start >= end.end:
        return None
    return Window(start.start, end.end, "span")


def _resolved(date: Written, text: str, now: datetime | None) -> Window | None:
    """Return the window of one date, with the "last" or "this" before it."""
    lead = _LAST.search(text[: date.at])
    if lead is None or now is None or date.year is not None:
        return _window(date, now)
    if lead["which"].lower() == "this":
        return _window(replace(date, year=now.year), now)
    return _window(date, now.replace(day=1) - timedelta(days=1))


def _window(date: Written, now: datetime | None) -> Window | None:
    if date.month is None:
        return None if date.year is None else Window(_first(date.year), _first(date.year + 1), "year")
    if date.year is not None:
        return _in_year(date.month, date.days, date.season, date.year)
    if now is None:
        return Window(None, None, _grain(date.days), date.month, date.days)
    for year in range(now.year, max(now.year - 9, 0), -1):  # 29 February may be eight years back
        window = _in_year(date.month, date.days, False, year)
        if window and window.start and window.start <= now:
            return window
    return None


def _in_year(month: int, days: tuple[int, int] | None, season: bool, year: int) -> Window | None:
    """Return a month, a season that begins with it, or days of it, in a year; None if there is no such day."""
    start = _first(year, month)
    if season:
        return Window(start, months_on(start, 3), "season")
    end = months_on(start, 1)
    if days is None:
        return Window(start, end, "month")
    last = start + timedelta(days=days[1])
    return None if last > end else Window(start + timedelta(days=days[0] - 1), last, _grain(days))


def _grain(days: tuple[int, int] | None) -> Grain:
    if days is None:
        return "month"
    return "day" if days[0] == days[1] else "week"


def _beside(window: Window, before: str) -> Window | None:
    """Return the window with the words before a date: "since", "before", "two weeks before"."""
    if window.start is None or window.end is None:
        return None if _SIDE.search(before) else window  # "since March" of no year says nothing
    offset = _BESIDE.search(before)
    if offset:
        # What is asked about was often told only on the day from which it is counted, so that day stays in.
        reach = timedelta(days=_SHIFT[offset["unit"].lower()] * _number(offset["count"] or "a"))
        if offset["side"].lower() == "before":
            return Window(window.start - reach, window.end, "week")
        return Window(window.start, window.end + reach, "week")
    side = _SIDE.search(before)
    match side["side"].lower() if side else "":
        case "since" | "starting":
            return Window(window.start, None, "span")
        case "after":
            return Window(window.end, None, "span")
        case "before" | "prior to":
            return Window(None, window.start, "span")
        case "until" | "till" | "up to" | "by":
            return Window(None, window.end, "span")
        case _:
            return window


def _relative(text: str, now: datetime) -> Window | None:
    """Return the window of the first relative time ("last week", "two days ago"), counted from `now`."""
    found = _RELATIVE.search(text)
    if found is None:
        return None
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if found["count"]:
        return _ago(today, _number(found["count"]), found["unit"].lower())
    if found["back"]:
        count, unit = _number(found["back"]), found["of"].lower()
        if unit in ("month", "year"):
            return Window(months_on(today, -count * (12 if unit == "year" else 1)), _next(today), "span")
        return Window(today - timedelta(days=count * (7 if unit == "week" else 1)), _next(today), "span")
    if found["span"]:
        return _named(today, found["which"].lower() == "this", found["span"].lower())
    shift = 2 if found["before"] else 1 if found["yesterday"] else 0
    return Window(today - timedelta(days=shift), _next(today - timedelta(days=shift)), "day")


def _ago(today: datetime, count: int, unit: str) -> Window:
    """Return that long ago: the day; the seven days around it; the month; the year."""
    if unit == "day":
        day = today - timedelta(days=count)
        return Window(day, _next(day), "day")
    if unit == "week":
        day = today - timedelta(days=7 * count)
        return Window(day - timedelta(days=3), day + timedelta(days=4), "week")
    if unit == "month":
        month = months_on(today.replace(day=1), -count)
        return Window(month, months_on(month, 1), "month")
    return Window(_first(today.year - count), _first(today.year - count + 1), "year")


def _named(today: datetime, this: bool, span: str) -> Window | None:
    """Return this or the last week (from Monday), weekend, month, year, season or weekday."""
    monday = today - timedelta(days=today.weekday())
    back = 0 if this else 1
    if span in ("week", "weekend"):
        start = monday - timedelta(days=7 * back)
        return Window(start + timedelta(days=5 if span == "weekend" else 0), start + timedelta(days=7), "week")
    if span == "month":
        month = months_on(today.replace(day=1), -back)
        return Window(month, months_on(month, 1), "month")
    if span == "year":
        return Window(_first(today.year - back), _first(today.year - back + 1), "year")
    if span in _DAY_OF:
        ahead = _DAY_OF[span] - today.weekday()
        day = today + timedelta(days=ahead if this else (ahead - 7 if ahead >= 0 else ahead))
        return Window(day, _next(day), "day")
    start = _first(today.year, SEASONS[span])
    if not this and months_on(start, 3) > today:
        start = start.replace(year=today.year - 1)
    return Window(start, months_on(start, 3), "season")


def closeness(window: Window, days: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the closeness of each time to a window: 1 inside, less outside by AROUND, else 0.

    `days` are times in days since 1970 (UTC), of any shape, which the result has too; NaN is unknown and gives 0. A
    window of any year is compared with its nearest year. Source: recall study, LoCoMo, see AROUND.
    """
    values = np.asarray(days, np.float64)
    if window.month is None:
        return _closeness(window, values)
    result = np.zeros(values.shape, np.float32)
    for year in _years(values):
        concrete = _in_year(window.month, window.days, window.grain == "season", year)
        if concrete is not None:
            np.maximum(result, _closeness(concrete, values), out=result)
    return result


def _closeness(window: Window, days: NDArray[np.float64]) -> NDArray[np.float32]:
    result = np.zeros(days.shape, np.float32)
    for before, after, value in (*AROUND[window.grain], (0, 0, 1.0)):
        low = -np.inf if window.start is None else _moved(window.start, -before, window.grain)
        high = np.inf if window.end is None else _moved(window.end, after, window.grain)
        result[(days >= low) & (days < high)] = value
    return result


def _moved(edge: datetime, units: int, grain: Grain) -> float:
    """Return an edge's day number after so many months (month, season) or days."""
    if grain in ("month", "season"):
        try:
            return _day_number(months_on(edge, units))
        except ValueError:  # beyond the calendar
            return np.inf if units > 0 else -np.inf
    return _day_number(edge) + units


def _years(days: NDArray[np.float64]) -> Iterator[int]:
    """Return the years of the times, with the one before and after each, inside the calendar."""
    inside = days[(days > -719_000) & (days < 2_900_000)]  # years 2 to 9909
    if not inside.size:
        return
    years = np.floor(inside / 365.2425).astype(np.int64) + 1970  # one too few or too many is made good below
    low = int(years.min())
    held = {low + int(place) for place in np.flatnonzero(np.bincount(years.ravel() - low))}
    yield from sorted(held | {year - 1 for year in held} | {year + 1 for year in held})


def temporal_words(text: str) -> int:
    """Return the number of time expressions: dates, weekdays, "yesterday", "last week", "ago", "recently"."""
    spaced = " ".join(unicodedata.normalize("NFC", text).split())
    return sum(1 for _ in written_dates(spaced)) + _phrases_in(spaced, "recall_time_phrases.txt")


def asks_when(question: str) -> bool:
    """Whether a question asks for a time: "when did", "what year", "how long ago", "wann", but not "when I ask"."""
    return _phrases_in(unicodedata.normalize("NFC", question[:LONGEST]), "recall_when.txt") > 0


def _phrases_in(text: str, name: str) -> int:
    """Count the phrases of a lexicon file in a text, word by word."""
    table = _phrases(name)
    found = split_words(text.lower(), joined_by="'’")
    return sum(
        any(tuple(found[at : at + len(phrase)]) == phrase for phrase in table[word])
        for at, word in enumerate(found)
        if word in table
    )


@cache
def _phrases(name: str) -> dict[str, list[tuple[str, ...]]]:
    """Return the phrases of a lexicon file as words, by their first word."""
    table: dict[str, list[tuple[str, ...]]] = {}
    for line in lines(name):
        phrase = tuple(line.split())
        table.setdefault(phrase[0], []).append(phrase)
    return table


def _number(word: str) -> int:
    """Return the number of "a few", "two" or "12"; "a" is one, a couple two, a few three."""
    last = word.lower().removesuffix(" of").split()[-1]
    if last.isdecimal():
        return int(last)
    return {"a": 1, "an": 1, "couple": 2, "few": 3}.get(last) or int(pairs("reconcile_numbers.tsv")[last])


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _first(year: int, month: int = 1) -> datetime:
    return datetime(year, month, 1, tzinfo=UTC)


def _next(day: datetime) -> datetime:
    return day + timedelta(days=1)


def _day_number(moment: datetime) -> float:
    """Return days since 1970."""
    return (moment - _EPOCH) / timedelta(days=1)
