"""Typed values over tokens: "1,200 euros a month", "ten-kilometre", "half past six", "14th of March 1988"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from perdure.pipeline.curation.rules.slots.scan import Token, Value
from perdure.pipeline.lexicon import pairs, word_set

Found = tuple[Value, int] | None  # a value and the number of tokens that it takes, or None where nothing is read
Step = Callable[[list[Token], int], Found]

_FIRST_YEAR, _LAST_YEAR = 1900, 2099
_YEAR_LEADS = word_set("typed.year_leads")
_DATE_LEADS = _YEAR_LEADS | frozenset(["on", "every", "each", "next", "last", "this", "early", "late"])
_VAGUE_DAYS = frozenset({"sat", "sun", "mon", "wed"})
_THOUSANDS = {"k": 1e3, "thousand": 1e3, "grand": 1e3, "million": 1e6, "hundred": 1e2}
_POINTS = {"noon": 720.0, "midday": 720.0, "midnight": 0.0}
_METRES = frozenset({"m", "metre", "meter"})
_SPANS = {"day": 365.0, "week": 52.0, "fortnight": 26.0, "month": 12.0, "year": 1.0}
_PARTS = {"morning": 4.0, "mornings": 4.0, "afternoon": 11.0, "afternoons": 11.0, "evening": 16.0, "evenings": 16.0}
_FRACTIONS = {"half": 30, "quarter": 15}


def type_values(tokens: list[Token]) -> list[Token]:
    """The tokens with every typed value joined into one token that carries it."""
    for step in (
        _number_word,
        _frequency,
        _day_part,
        _clock_words,
        _date,
        _weekday,
        _magnitude,
        _money,
        _height,
        _measure,
    ):
        tokens = _merge(tokens, step)
    return tokens


def _merge(tokens: list[Token], step: Step) -> list[Token]:
    merged: list[Token] = []
    place = 0
    while place < len(tokens):
        found = step(tokens, place)
        if found is None:
            merged.append(tokens[place])
            place += 1
            continue
        value, length = found
        first, last = tokens[place], tokens[place + length - 1]
        low = " ".join(token.low for token in tokens[place : place + length])
        merged.append(replace(first, end=last.end, low=low, stem="", value=value, name=False))
        place += length
    return merged


def _low(tokens: list[Token], place: int) -> str:
    return tokens[place].low if 0 <= place < len(tokens) else ""


def _amount(tokens: list[Token], place: int) -> float | None:
    """The plain number at a place."""
    value = tokens[place].value if 0 <= place < len(tokens) else None
    return value.amount if value is not None and value.kind == "number" else None


def _number_word(tokens: list[Token], place: int) -> Found:
    numbers, ordinals = _table("reconcile_numbers.tsv"), _table("reconcile_ordinals.tsv")
    low = _low(tokens, place)
    if low in ordinals and _low(tokens, place + 1) not in ("hand", "time", "name"):
        return Value("ordinal", ordinals[low]), 1
    if low not in numbers or (low == "one" and _low(tokens, place + 1) in ("of", "another")):
        return None
    if low == "one" and place + 1 < len(tokens) and tokens[place + 1].name:
        return None  # "one Percival Tripp"
    if low == "one" and _low(tokens, place - 1) in ("this", "that", "the", "another", "no", "which", "new", "old"):
        return None
    amount, nxt = numbers[low], _low(tokens, place + 1)
    if amount >= 20 and amount % 10 == 0 and 0 < numbers.get(nxt, 0) < 10:
        return Value("number", amount + numbers[nxt]), 2
    return Value("number", amount), 1


def _frequency(tokens: list[Token], place: int) -> Found:
    """ "once a week", "2x a month", "three times per year"."""
    low, at = _low(tokens, place), place + 1
    times: float | None = {"once": 1.0, "twice": 2.0}.get(low)
    if times is None and _low(tokens, at) in ("times", "x"):
        times, at = _amount(tokens, place), at + 1
    span = _SPANS.get(_low(tokens, at + 1))
    if times is None or span is None or _low(tokens, at) not in ("a", "per", "each", "every"):
        return None
    return Value("frequency", times * span), at + 2 - place


def _day_part(tokens: list[Token], place: int) -> Found:
    """ "in the mornings", "in the evening": when in the day, not which one."""
    start = _PARTS.get(_low(tokens, place))
    if start is None or _low(tokens, place - 1) != "the" or _low(tokens, place - 2) != "in":
        return None
    return Value("part", start), 1


def _clock_words(tokens: list[Token], place: int) -> Found:
    low = _low(tokens, place)
    if low in _POINTS:
        return Value("clock", _POINTS[low]), 1
    minutes = _FRACTIONS.get(low)
    length = 1
    if minutes is None and (amount := _amount(tokens, place)) is not None:
        minutes = int(amount)
        length = 2 if _low(tokens, place + 1) == "minutes" else 1
    side = _low(tokens, place + length)
    hour = _amount(tokens, place + length + 1)
    if low == "half" and (spoken := _amount(tokens, place + 1)) is not None and 1 <= spoken <= 12:
        return Value("clock", (spoken * 60 + 30) % 1440, "?"), 2
    if minutes is None or side not in ("past", "to") or hour is None or not 1 <= hour <= 12 or minutes >= 60:
        return None
    if side == "to" and low not in _FRACTIONS:
        return None  # "from 5 to 6" is a range
    total = hour * 60 + (minutes if side == "past" else -minutes)
    return Value("clock", total % 1440, "?"), length + 2


def _date(tokens: list[Token], place: int) -> Found:
    """D Month Y, Month D Y, Month Y, Month, or a year alone where its place says that it is one."""
    months = _table("reconcile_months.tsv")
    day = _day(tokens, place)
    if day is not None:
        at = place + 1 + (_low(tokens, place + 1) == "of")
        month = months.get(_low(tokens, at))
        if month is not None:
            year, length = _year_at(tokens, at + 1)
            return Value("date", date=(year, int(month), day)), at + 1 + length - place
    month = months.get(_low(tokens, place))
    if month is not None:
        return _from_month(tokens, place, int(month))
    if _low(tokens, place - 1) in _YEAR_LEADS or place in (0, len(tokens) - 1):
        year, length = _year_at(tokens, place)
        if year is not None and _low(tokens, place + 1) not in _units():
            return Value("date", date=(year, None, None)), length
    return None


def _from_month(tokens: list[Token], place: int, month: int) -> Found:
    at = place + 1 + (_low(tokens, place + 1) == "the")
    day = _day(tokens, at)
    if day is not None:
        comma = at + 1 < len(tokens) and tokens[at + 1].stop
        year, length = _year_at(tokens, at + 1 + comma)
        return Value("date", date=(year, month, day)), at + 1 + (comma + length if length else 0) - place
    year, length = _year_at(tokens, place + 1)
    if year is not None:
        return Value("date", date=(year, month, None)), 1 + length
    ambiguous = tokens[place].low in ("may", "march", "mar", "jan", "jun") or not tokens[place].name
    named = tokens[place].name and _low(tokens, place - 1) in _DATE_LEADS
    lowered = not tokens[place].name and _low(tokens, place - 1) in _DATE_LEADS - {"to", "and", "for", "of"}
    if ambiguous and not (named or lowered):
        return None
    return Value("date", date=(None, month, None)), 1


def _day(tokens: list[Token], place: int) -> int | None:
    value = tokens[place].value if 0 <= place < len(tokens) else None
    if value is None or value.kind not in ("number", "ordinal") or not 1 <= value.amount <= 31:
        return None
    return int(value.amount)


def _year_at(tokens: list[Token], place: int) -> tuple[int | None, int]:
    value = tokens[place].value if 0 <= place < len(tokens) else None
    written = _low(tokens, place)
    if value is None or value.kind != "number" or len(written) != 4 or not written.isdigit():
        return None, 0
    year = int(value.amount)
    return (year, 1) if _FIRST_YEAR <= year <= _LAST_YEAR else (None, 0)


def _weekday(tokens: list[Token], place: int) -> Found:
    number = _table("reconcile_weekdays.tsv").get(_low(tokens, place))
    if number is None or (_low(tokens, place) in _VAGUE_DAYS and not tokens[place].name):
        return None
    return Value("weekday", number), 1


def _magnitude(tokens: list[Token], place: int) -> Found:
    """ "3 grand", "2 hundred", "5 million"."""
    amount, low = _amount(tokens, place), _low(tokens, place + 1)
    if amount is None or low not in _THOUSANDS:
        return None
    unit = "" if low != "grand" else "?"
    return Value("money" if unit else "number", amount * _THOUSANDS[low]), 2


def _money(tokens: list[Token], place: int) -> Found:
    currencies = pairs("reconcile_currencies.tsv")
    low = _low(tokens, place)
    if low in currencies and len(low) <= 3 and (amount := _amount(tokens, place + 1)) is not None:
        more = _THOUSANDS.get(_low(tokens, place + 2), 1.0)
        return Value("money", amount * more, currencies[low]), 2 + (more > 1)
    value = tokens[place].value
    after = _low(tokens, place + 1)
    if after in ("%", "percent") and (share := _amount(tokens, place)) is not None:
        return Value("percent", share), 2
    if value is not None and value.kind in ("number", "money") and not value.unit and after in currencies:
        if after == "real" or len(after) == 1:
            return None  # "2 real friends"; a sign belongs to the number after it
        return Value("money", value.amount, currencies[after]), 2
    return None


def _height(tokens: list[Token], place: int) -> Found:
    """ "6 ft 2", "5 feet 11 inches" and "1 metre 70"."""
    metres, centimetres = _amount(tokens, place), _amount(tokens, place + 2)
    if metres in (1, 2) and centimetres is not None and centimetres < 100 and _low(tokens, place + 1) in _METRES:
        return Value("measure", round(metres + centimetres / 100, 4), "length"), 3
    feet, inches = _amount(tokens, place), _amount(tokens, place + 2)
    if feet is None or inches is None or _low(tokens, place + 1) not in ("ft", "foot", "feet") or inches >= 12:
        return None
    tail = _low(tokens, place + 3) in ("in", "inch", "inches")
    return Value("measure", round((feet * 12 + inches) * 0.0254, 4), "length"), 3 + tail


def _measure(tokens: list[Token], place: int) -> Found:
    if _low(tokens, place) == "half" and _low(tokens, place + 1) in ("a", "an") and _low(tokens, place + 2) in _units():
        dimension, size = _units()[_low(tokens, place + 2)]
        return Value("measure", round(size / 2, 6), dimension), 3
    amount, unit = _amount(tokens, place), _units().get(_low(tokens, place + 1))
    if amount is None or unit is None:
        return None
    dimension, size = unit
    if dimension == "duration" and _low(tokens, place + 2) in ("old", "olds", "of"):
        return None  # an age; "years of experience" stays a count of years
    return Value("measure", round(amount * size, 6), dimension), 2


@cache
def _table(name: str) -> dict[str, float]:

    return {word: float(number) for word, number in pairs(name).items()}


@cache
def _units() -> dict[str, tuple[str, float]]:
    table: dict[str, tuple[str, float]] = {}
    for word, entry in pairs("reconcile_units.tsv").items():
        dimension, _, size = entry.partition(" ")
        table[word] = (dimension, float(size))
    return table
