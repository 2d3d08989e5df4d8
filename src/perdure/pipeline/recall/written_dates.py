"""Dates as people write them: "7 May 2023", "May 7th", "2023-05-07", "in May", "summer of 2022", "in 2023"."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass

from perdure.domain.pattern import Pattern
from perdure.pipeline.lexicon import pairs, words

SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""The months in which the seasons begin (north of the equator)."""

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
_WORD = Pattern(r"[^\W\d_]+")
_TO = r" ?(?:-|–|to|and|until) ?"
_DAY = r"(?P<one>\d\d?)(?P<suffix>st|nd|rd|th|er|º|\.)?"
_LAST_DAY = r"(?P<two>\d\d?)(?:st|nd|rd|th|\.)?"
_DAY_BEFORE = Pattern(rf"(?<![\w.,:/$€£]){_DAY}(?:{_TO}{_LAST_DAY})? (?:of |de )?$", re.IGNORECASE)
_AFTER_MONTH = Pattern(
    rf"\.?(?:,? (?:the )?{_DAY}(?![\d:])(?:{_TO}{_LAST_DAY}(?![\d:]))?)?(?:,? ?(?:of |del? )?(?P<year>{_YEAR})\b)?",
    re.IGNORECASE,
)
REACH = 24
"""Characters before a date that may belong to it."""
_BARE_YEAR = Pattern(rf"(?<![\w.,$€£/-])(?P<year>{_YEAR})\b(?![-/:.,]\d|%)")
_WORD_BEFORE = Pattern(r"([^\W\d_]+)(?: the)?[ -]$")
_MONTH_BEFORE = Pattern(rf"([^\W\d_]+)(?: {_YEAR})? [^\W\d_]+ $")
_WORD_AFTER = Pattern(r"[ -]([^\W\d_]+)")
_PART = Pattern(rf"\b(?P<part>{'|'.join(PARTS)})[ -]$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Written:
    """A date as far as it is written, at a place of a text; `month` 1 to 12, `days` the first and last day."""

    at: int
    end: int
    year: int | None
    month: int | None = None
    days: tuple[int, int] | None = None
    season: bool = False
    """`month` begins a season that is meant as a whole."""


def written_dates(text: str) -> Iterator[Written]:
    """The dates in a text with single spaces, in order, none within another."""
    found = [*_numeric(text), *_with_month(text), *_seasons(text), *_years(text)]
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
    for word in _WORD.finditer(text):
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
    """The days that "early" or "the second week of" before a month picks out of it."""
    match = _PART.search(before)
    if match is None:
        return None
    length = calendar.monthrange(year or 2001, month)[1]
    first, last = PARTS[match["part"].lower()]
    return first if first > 0 else length + first, last if last > 0 else length + last


def _is_month(name: str, kind: str, before: str, day: re.Match[str] | None) -> bool:
    """Whether a month's name without a year is meant as one: not in "May I", "march on", "when did April call"."""
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


def _years(text: str) -> Iterator[Written]:
    """Years alone, after a word that shows them to be years and before nothing that they could count."""
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
