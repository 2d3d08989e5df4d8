"""When a statement became true or stopped being so: dates, months, years and relative times, against a given moment."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from perdure.domain.text.dates import SEASONS, months_on
from perdure.domain.text.pattern import Pattern
from perdure.pipeline.curation.rules.extraction import grammar
from perdure.pipeline.curation.rules.memo import per_text
from perdure.pipeline.curation.rules.slots import read
from perdure.pipeline.lexicon import word_set

MONTHS = {
    name: number + 1
    for number, name in enumerate(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"])
}
DAYS = {name: number for number, name in enumerate(["mon", "tue", "wed", "thu", "fri", "sat", "sun"])}
NUMBERS = {
    name: number + 1
    for number, name in enumerate(
        ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    )
} | {"a": 1, "an": 1, "couple of": 2, "a couple of": 2, "few": 3, "a few": 3}
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DATE = Pattern(
    rf"(?P<iso>\b(?:19|20)\d\d-\d\d-\d\d\b)|(?:\b(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? )?\b{_MONTH}\b\.?(?: "
    rf"(?:the )?(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?(?!\d))?(?:,? (?P<y1>(?:19|20)\d\d))?|\b(?P<year>(?:19|20)\d\d)\b|"
    rf"\b(?P<word>yesterday|today|tonight|tomorrow|last night|this morning)\b|"
    r"\b(?P<n>\d{1,3}|a couple of|a few|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve) "
    r"(?P<unit>day|week|month|year)s? ago\b|\b(?P<which>last|this|next) (?P<span>week|month|year|weekend|(?:mon|tues?|"
    r"wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?|spring|summer|autumn|fall|winter|"
    + _MONTH.replace("?P<month>", "")
    + r")\b",
    re.I,
)
_UNTIL = Pattern(r"\b(?:until|till|through|up to|ended|ends|expires?|expired|valid to)(?: the| end of)* $", re.I)
_RESCHEDULED = Pattern(
    r"\b(?:moved|put (?:back|off)|pushed|postponed|rescheduled|brought forward|changed|shifted|rebooked|"
    r"delayed)\b[^.]{0,40}\b(?:to|for|until)(?: the| on)? $",
    re.I,
)
_STARTS = Pattern(
    r"\b(?:since|from|as of|effective|starting|beginning|until|till|through|up to|end(?:s|ed)|"
    r"expires?|valid to)(?: the| end of| on)* $",
    re.I,
)
"""Before a date to come: without one of these it is the value of an appointment, and no beginning of what is told."""
_AGO_SPAN = Pattern(
    r"\bfor (?:the (?:last|past) )?(?P<n>\d{1,3}|a|one|two|three|four|five|six|seven|eight|nine|ten|eleven|"
    r"twelve) (?P<unit>day|week|month|year)s?\b(?! (?:from|in))",
    re.I,
)
_PERFECT = Pattern(
    r"\b(?:has|have) (?:\w+ )?(?:been|lived|worked|had|known|studied|played|used|owned)\b|\bsince\b", re.I
)


def validity(text: str, anchor: datetime) -> tuple[datetime | None, datetime | None]:
    """(valid_from, valid_to) that the text tells, each an aware UTC midnight or None, counted from `anchor`."""
    start: datetime | None = None
    end: datetime | None = None
    planned = is_plan(text)
    for match in _DATE.finditer(text[:600]):
        moment = _moment(match, anchor, text)
        if _RESCHEDULED.search(text[: match.start()]):
            continue
        starts = _STARTS.search(text[max(0, match.start() - 20) : match.start()])
        if planned and not starts and moment is not None:
            moment = _next(moment, anchor, match)
        if moment is None or (moment > anchor and not starts and not planned):
            continue
        if _UNTIL.search(text[max(0, match.start() - 24) : match.start()]):
            end = end or moment
        else:
            start = start or moment
    span = _AGO_SPAN.search(text)
    if start is None and span and _PERFECT.search(text):
        start = _back(anchor, _count(span.group("n")), span.group("unit").lower())
    if start and end and end < start:
        return None, end
    return start, end


def is_ahead(text: str, anchor: datetime, start: datetime | None) -> bool:
    """Whether a text tells, at `anchor`, of what is so only later; `start` is when it begins, where a date says so."""
    if start is not None and start > anchor:
        return True
    if is_plan(text) and _COMING.search(text) is not None:
        return True
    return _is_of_person(text) and _WILL.search(text) is not None


_WILL = Pattern(
    r"\b(?:will|'ll|(?:is|are) (?:about|due|set) to|"
    r"(?:is|are) going to (?=(?:be|have|get|move|start|leave|work|live|stop|quit|become|marry|buy|sell)\b))\b"
    r"(?! (?:not|never|only|always|still)\b)",
    re.I,
)
_COMING = Pattern(
    r"\b(?:soon|tomorrow|tonight|next \w+|in (?:an?|one|two|three|four|five|six|a few|a couple of|\d+) "
    r"(?:days?|weeks?|months?|years?)|(?:on|this|by) (?:mon|tues|wednes|thurs|fri|satur|sun)day|"
    r"(?:on |by )?the \d{1,2}(?:st|nd|rd|th))\b",
    re.I,
)
"""A time that is still to come, of which no date is known."""


@per_text(4096)
def is_dated_plan(text: str) -> bool:
    """Whether a text tells what somebody is to do, and by itself that it is still to come: "is moving in January"."""
    dated = any(not match["word"] and (match["which"] or "next").lower() == "next" for match in _DATE.finditer(text))
    return is_plan(text) and (dated or _COMING.search(text) is not None)


@per_text(4096)
def is_plan(text: str) -> bool:
    """Whether the present tense of a text tells what somebody begins, ends or goes to: with a date it is for then.

    What one has or goes to may be a habit ("goes to yoga on Monday"); what one is having or going to is to come.
    """
    parts = text.split()
    verb = grammar.find_verb(parts)
    if verb <= 0 or not _is_of_person(text):
        return False
    word = grammar.bare(parts[verb])
    if word == "will":
        return _WILL.search(text) is not None
    if word in ("is", "are"):
        later = (grammar.bare(part) for part in parts[verb + 1 : verb + 4])
        base = next((grammar.ings()[each] for each in later if each in grammar.ings()), "")
    else:
        return grammar.thirds().get(word, "") in word_set("times.turning")
    return base in word_set("times.turning") | word_set("times.going")


def _is_of_person(text: str) -> bool:
    reading = read(text)
    return reading.party.kind != "thing" and not reading.topic


def _next(moment: datetime, anchor: datetime, match: re.Match[str]) -> datetime | None:
    """The coming one of a day or month that is told without its year; None where the running month is meant."""
    groups = match.groupdict()
    if moment > anchor or not groups["month"] or groups["y1"]:
        return moment
    if moment.month == anchor.month and not (groups["d1"] or groups["d2"]):
        return None
    return moment.replace(year=moment.year + 1) if (anchor - moment).days > LATELY else None


LATELY = 31
"""Days within which a date without a year that is told of a plan is no date of the next year."""


def _moment(match: re.Match[str], anchor: datetime, text: str) -> datetime | None:
    groups = match.groupdict()
    try:
        if groups["iso"]:
            return datetime.fromisoformat(groups["iso"]).replace(tzinfo=UTC)
        if groups["month"]:
            return _calendar(groups, anchor, text, match.start())
        if groups["year"]:
            return _year(groups["year"], text, match)
        if groups["word"]:
            shift = {"yesterday": -1, "last night": -1, "tomorrow": 1}.get(groups["word"].lower(), 0)
            return _midnight(anchor + timedelta(days=shift))
        if groups["n"]:
            return _back(anchor, _count(groups["n"]), groups["unit"].lower())
        if _holds_now(groups) and not _STARTS.search(text[max(0, match.start() - 20) : match.start()]):
            return None
        return _relative(groups["which"].lower(), groups["span"].lower(), anchor)
    except (ValueError, OverflowError):
        return None


def _holds_now(groups: dict[str, str | None]) -> bool:
    """Whether a period is the running one: "is off this year" says nothing of when that began."""
    return (groups["which"] or "").lower() == "this" and (groups["span"] or "").lower() in {"week", "month", "year"}


def _year(year: str, text: str, match: re.Match[str]) -> datetime | None:
    """A year counts where a preposition says that it is one ("since 2019"), not in "2016 Subaru"."""
    before = text[max(0, match.start() - 10) : match.start()]
    if not re.search(
        r"\b(?:in|since|from|until|till|by|of|during|before|after|early|late|mid|to|around|through)[ -]$", before, re.I
    ):
        return None
    return datetime(int(year), 1, 1, tzinfo=UTC)


def _calendar(groups: dict[str, str | None], anchor: datetime, text: str, start: int) -> datetime | None:
    name = (groups["month"] or "").lower()
    day_text = groups["d1"] or groups["d2"]
    before = text[max(0, start - 10) : start].lower()
    if (
        name in {"may", "mar", "march"}
        and not day_text
        and not groups["y1"]
        and not re.search(r"\b(?:in|since|from|until|by|last|next|this|of|during|before|after) $", before)
    ):
        return None
    day = int(day_text) if day_text else 1
    month = MONTHS[name[:3]]
    if groups["y1"]:
        return datetime(int(groups["y1"]), month, day, tzinfo=UTC)
    here = datetime(anchor.year, month, day, tzinfo=UTC)
    if here > anchor and _is_arranged(text, start):
        return here
    past = _told_as_past(text, start)
    if past and here > anchor:
        return datetime(anchor.year - 1, month, day, tzinfo=UTC)
    if not past and (anchor - here).days > 180:
        return datetime(anchor.year + 1, month, day, tzinfo=UTC)
    return here


def _is_arranged(text: str, start: int) -> bool:
    """Whether a date is what somebody asked for or booked: that was before it, and the date may be to come."""
    parts = text[:start].split()
    verb = grammar.find_verb(parts)
    return verb > 0 and grammar.pasts().get(grammar.bare(parts[verb])) in word_set("times.arranging")


def _told_as_past(text: str, start: int) -> bool:
    if re.search(r"\b(?:since|last|was|were|had)\b", text[:start], re.I):
        return True
    parts = text[:start].split()
    verb = grammar.find_verb(parts)
    return verb > 0 and grammar.bare(parts[verb]) in grammar.simple_pasts()


def _relative(which: str, span: str, anchor: datetime) -> datetime | None:
    step = {"last": -1, "this": 0, "next": 1}[which]
    today = _midnight(anchor)
    if span == "week":
        return today + timedelta(days=7 * step - (today.weekday() if step else 0))
    if span == "weekend":
        return today + timedelta(days=5 - today.weekday() + 7 * step)
    if span == "month":
        return months_on(today, step)
    if span == "year":
        return datetime(anchor.year + step, 1, 1, tzinfo=UTC)
    if span[:3] in DAYS and span not in SEASONS and not span.startswith("mar"):
        ahead = (DAYS[span[:3]] - today.weekday()) % 7
        return today + timedelta(days=ahead - 7 if step < 0 else ahead)
    month = SEASONS.get(span) or MONTHS[span[:3]]
    here = datetime(anchor.year, month, 1, tzinfo=UTC)
    if step < 0 and here >= today.replace(day=1):
        return here.replace(year=anchor.year - 1)
    if step > 0 and here <= today:
        return here.replace(year=anchor.year + 1)
    return here


def _count(word: str) -> int:
    return int(word) if word.isdigit() else NUMBERS[word.lower()]


def _back(anchor: datetime, count: int, unit: str) -> datetime:
    today = _midnight(anchor)
    if unit == "month":
        return months_on(today, -count)
    if unit == "year":
        return months_on(today, -12 * count)
    return today - timedelta(days=count * (7 if unit == "week" else 1))


def _midnight(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
