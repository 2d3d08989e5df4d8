"""Evidence: a model's fact counts only if its quote, its numbers and its names stand in what was said."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from difflib import SequenceMatcher
from functools import cache, cached_property
from itertools import pairwise
from typing import Final

from perdure.domain.message import Message
from perdure.domain.text.pattern import Pattern
from perdure.domain.text.terms import is_unspaced, split_words, without_accents
from perdure.pipeline.curation.chat import is_chatter
from perdure.pipeline.curation.rules.extraction.cleaning import language_of
from perdure.pipeline.lexicon import pairs, words

# Folding: the same words whatever their case, accents, spaces and punctuation.

_SIGN = Pattern(r"[\W_]+")
_ELISION = Pattern(r"\s*\[?(?:\u2026|\.\.\.)\]?\s*")
_SPEAKER = Pattern(r"\A[^:\n]{1,40}:\s+")


def fold(text: str) -> str:
    """Return the text without case, accents and foreign digits."""
    plain = without_accents(text.casefold())
    if plain.isascii():
        return plain
    return "".join(
        str(unicodedata.decimal(sign)) if sign.isdecimal() and not sign.isascii() else sign for sign in plain
    )


def squeeze(text: str) -> str:
    """Return only the letters and digits of the folded text."""
    return _SIGN.sub("", fold(text))


def holds_quote(content: str, quote: str) -> bool:
    """Whether the words of a quote stand in a text, those on both sides of an ellipsis in this order.

    `content` is squeezed. A quote without a letter or digit stands nowhere.
    """
    start, found = 0, False
    for part in _ELISION.split(quote):
        if piece := squeeze(part):
            place = content.find(piece, start)
            if place < 0:
                return False
            start, found = place + len(piece), True
    return found


# Numbers: as digits or as words, with every usual reading of their points and commas.

_PIECE = Pattern(r"(?P<number>\d+(?:[.,]\d+)*)(?P<scale>(?:k|m|mio|bn|tsd)\b)?|(?P<word>[^\W\d_]+)")
_APART = Pattern(r"(?<!\d)\d{1,3}(?:[ '\u2019\u00a0\u202f]\d{3})+(?!\d)")
_HAN_NUMBER = Pattern(
    "[\u4e00\u4e8c\u4e09\u56db\u4e94\u516d\u4e03\u516b\u4e5d\u5341\u767e\u5343\u4e07\u842c\u4e24\u5169]+"
)
_TWO: Final = {"\u4e24": 2, "\u5169": 2}
_SCALES: Final = {"k": 1_000, "tsd": 1_000, "m": 1_000_000, "mio": 1_000_000, "bn": 1_000_000_000}
_JOINTS: Final = frozenset({"and", "und", "y", "e", "et"})
_COMPOUND: Final = ("tausend", "hundert")
_EXACT: Final = 15
"""Digits that a float holds exactly."""
_LONGEST_RUN: Final = 8
"""Number words that are read as one number."""


@cache
def _number_words() -> dict[str, tuple[float, ...]]:
    """What each number word may mean."""
    table = {**pairs("reconcile_numbers.tsv"), **pairs("evidence_numbers.tsv")}
    return {word: tuple(float(value) for value in values.split()) for word, values in table.items()}


def _values(word: str) -> tuple[float, ...]:
    """The values of a number word; German compounds are taken apart ("dreihundertzwei")."""
    known = _number_words().get(word)
    if known is not None:
        return known
    for scale in _COMPOUND:
        before, found, after = word.partition(scale)
        if found:
            left, right = (_values(before)[:1] if before else (1.0,)), (_values(after)[:1] if after else (0.0,))
            return (left[0] * _number_words()[scale][0] + right[0],) if left and right else ()
    unit, found, ten = word.partition("und")
    if found and unit in _number_words() and ten in _number_words():
        return (_number_words()[unit][0] + _number_words()[ten][0],)
    return ()


def readings(number: str) -> set[str]:
    """Every value of a written number: "1,500" is 1500 and 1.5, whatever a country writes for thousands."""
    parts = re.split("[.,]", number)
    whole, last = "".join(parts[:-1]), parts[-1]
    if len(parts) == 1:
        return {_bare(last)}
    found = {f"{_bare(whole)}.{cents}" if (cents := last.rstrip("0")) else _bare(whole)}
    if all(len(part) == 3 for part in parts[1:]) and len(parts[0]) <= 3:
        found.add(_bare(whole + last))
    return found


def parts_of(number: str) -> set[str]:
    """The numbers inside one that is written as a date, a time or a version ("12.03.2026", "7.30"); else none."""
    parts = re.split("[.,]", number)
    is_apart = len(parts) > 2 and any(len(part) != 3 for part in parts[1:-1])
    return set(map(_bare, parts)) if is_apart or (len(parts) == 2 and len(parts[1]) == 2) else set()


def _bare(digits: str) -> str:
    return digits.lstrip("0") or "0"


def _written(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def numbers_said(text: str) -> set[str]:
    """Every number that a folded text says, in digits or words, each by its readings."""
    said = {_bare(re.sub(r"\D", "", found)) for found in _APART.findall(text)} | _han_numbers(text)
    run: list[float] = []
    run_has_digits = False
    for piece in _PIECE.finditer(text):
        if piece["word"] in _JOINTS and run:
            continue
        values = _piece_values(piece)
        if piece["number"]:
            said |= readings(piece["number"]) | parts_of(piece["number"])
        said.update(map(_written, values))
        goes_on = piece["word"] and (not run_has_digits or (values and values[0] >= 100))
        run_has_digits = bool(piece["number"])
        run = [*(run if goes_on else ()), values[0]][-_LONGEST_RUN:] if values else []
        said.update(_written(value) for value in _totals(run))
    return said


def _han_numbers(text: str) -> set[str]:
    """The numbers that Chinese and Japanese write in characters: "\u4e8c\u5341\u4e94" is 25."""
    said: set[str] = set()
    for run in () if text.isascii() else _HAN_NUMBER.findall(text):
        total = group = unit = 0
        for value in (int(_TWO.get(sign) or unicodedata.numeric(sign)) for sign in run):
            if value < 10:
                unit = value
            elif value < 10_000:
                group, unit = group + max(unit, 1) * value, 0
            else:
                total, group, unit = total + max(group + unit, 1) * value, 0, 0
        said.add(str(total + group + unit))
    return said


def _piece_values(piece: re.Match[str]) -> tuple[float, ...]:
    if piece["word"]:
        return _values(piece["word"])
    scale = _SCALES.get(piece["scale"] or "", 1)
    return tuple(float(value) * scale for value in sorted(readings(piece["number"])) if len(value) <= _EXACT)


def _totals(run: Sequence[float]) -> Iterator[float]:
    """What numbers that follow one another may mean together: "two hundred and five", "twenty twenty-six"."""
    for start in range(max(0, len(run) - 1)):
        total = current = 0.0
        for value in run[start:]:
            if value >= 1_000:
                total, current = total + max(current, 1.0) * value, 0.0
            elif value == 100:
                current = max(current, 1.0) * value
            else:
                current += value
        yield total + current
        century, *rest = run[start:]
        if 11 <= century <= 20 and 1 <= sum(rest) <= 99:
            yield century * 100 + sum(rest)


# Dates: what follows from a date that the prompt gave.

_CLOCK = Pattern(r"(?<![\d:])(\d{1,2}):(\d{2})(?::\d{2})?(?![\d:])")
_CALENDAR = Pattern(r"(?<!\d)((?:19|20)\d{2})-(\d{1,2})(?:-(\d{1,2}))?(?!\d)")
_QUARTERS: Final = frozenset({"0", "15", "30", "45"})
_HALF_DAY: Final = 12
_OLDEST: Final = 120
"""Years that a person may count back."""
_LAST_DAY: Final = 31


@cache
def _months() -> dict[str, str]:
    """The number of each month's name, folded."""
    return {fold(name): value.split()[0] for name, value in pairs("recall_months.tsv").items()}


@cache
def _times() -> frozenset[str]:
    """Words from which a date follows, folded."""
    return frozenset(map(fold, words("time_words.txt") | words("evidence_times.txt"))) | frozenset(_months())


# Names.

_WORD = Pattern(r"(?<![^\W_])[^\W\d_]+(?:['\u2019\-][^\W\d_]+)*(?![^\W_])")
"""A run of letters; one beside a digit ("DE44") is looked up as a number."""
_OPENS = Pattern(r"(?:\A|[.!?:;\n]|[\"\u201c\u201e\u00ab(])[\s\"\u201c\u201e\u00ab(]*\Z")
_POSSESSIVE = Pattern(r"['\u2019]s?\Z")
_SUBJECTS: Final = frozenset({"user", "users", "assistant"})
_SHORTEST: Final = 3
_ALIKE: Final = 0.8
"""Likeness (difflib's ratio) from which a name is taken for a spelling of a word: "lisbn" for "Lisbon"."""
_STEM: Final = 0.6
"""Share of the shorter word that must be common, four letters at least: "Portugal" and "Portuguese"."""


def _names(text: str) -> list[str]:
    """The capitalised words inside the sentences of a text, without possessive endings."""
    found = list(_WORD.finditer(text))
    capitals = [word for word in found if any(letter.isupper() for letter in word[0])]
    inner = [word for word in capitals if not _OPENS.search(text[: word.start()])]
    if 2 * len(inner) > len(found) > _SHORTEST:
        return []  # a title
    names = [_POSSESSIVE.sub("", word[0]) for word in inner]
    return [name for name in names if len(name) > 1 and fold(name) not in _SUBJECTS]


def _are_alike(name: str, word: str) -> bool:
    """Whether two folded words are one name, inflected or misspelt."""
    shorter, longer = sorted((name, word), key=len)
    if len(shorter) >= _SHORTEST and longer.startswith(shorter) and len(longer) - len(shorter) <= 2:
        return True
    common = next((place for place, (one, other) in enumerate(zip(name, word, strict=False)) if one != other), None)
    common = len(shorter) if common is None else common
    if common > _SHORTEST and common >= _STEM * len(shorter):
        return True
    close = len(shorter) > _SHORTEST and len(longer) - len(shorter) <= 2
    return close and SequenceMatcher(None, name, word).ratio() >= _ALIKE


class Evidence:
    """What was said in a conversation, folded once, in which facts are looked up."""

    def __init__(
        self, messages: Sequence[Message], now: datetime, known: Iterable[str] = (), shown: Sequence[str] = ()
    ) -> None:
        """`known` are texts whose names count as said, as speakers and scopes; of `shown` memories numbers too."""
        self._contents = [message.content for message in messages]
        self._squeezed = [squeeze(content) for content in self._contents]
        self._days = {(message.timestamp or now).astimezone(UTC).date() for message in messages}
        self._known = [*known, *shown, *(message.name for message in messages if message.name)]
        self._shown = shown

    @property
    def count(self) -> int:
        """The number of messages."""
        return len(self._contents)

    def place(self, quote: str, claimed: Collection[int] = ()) -> int | None:
        """Return the message in which a quote stands: a claimed one if it does, else the first, else None."""
        everywhere = range(len(self._squeezed))
        order: list[int] = [*(place for place in claimed if place in everywhere), *everywhere]
        forms: list[str] = [quote, _SPEAKER.sub("", quote)]
        for form in forms:
            for place in order:
                if holds_quote(self._squeezed[place], form):
                    return place
        return None

    def is_telling(self, quote: str, place: int, text: str) -> bool:
        """Whether a quote that stands in a message says more than "I have" or "good morning".

        One of small words or courtesies counts where its message, or the one that it answers, has a word of the text:
        "yes I do" after "Do you have a dog?".
        """
        if _is_unspaced_somewhere(quote):
            return True
        spoken = [] if is_chatter(quote) else topic_words(quote)
        if _have_common(spoken, _words_of(self._contents[place])):
            return True
        around = "\n".join(self._contents[max(0, place - 1) : place + 1])
        return _have_common(topic_words(text), _words_of(around))

    def is_statement(self, text: str) -> bool:
        """Whether a text has more than one word; a single one says something only if somebody said it."""
        found = _words_of(text)
        return len(found) > 1 or any(
            word in self._vocabulary or (len(word) > 1 and (is_unspaced(word) or self._is_name_known(word)))
            for word in found
        )

    def missing(self, text: str) -> list[str]:
        """Return the numbers and names of a fact that nobody said and that follow from nothing said."""
        numbers = [number for number in self._missing_numbers(fold(text)) if not self._is_remembered(number)]
        return [*numbers, *self._missing_names(text)]

    def _is_remembered(self, number: str) -> bool:
        """Whether the memories shown say a number, or all parts of a date or time."""
        parts = [re.sub(r"\D", "", number)] if _APART.fullmatch(number) else re.findall(r"\d+(?:[.,]\d+)*", number)
        return not any(readings(part).isdisjoint(self._remembered) for part in parts)

    @cached_property
    def _remembered(self) -> set[str]:
        return numbers_said("\n".join(map(fold, self._shown)))

    @cached_property
    def _folded(self) -> str:
        return "\n".join(map(fold, self._contents))

    @cached_property
    def _said(self) -> set[str]:
        said = numbers_said(self._folded)
        return said | {_months()[word] for word in self._words if word in _months()}

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(_SIGN.split(self._folded))

    @cached_property
    def _tells_time(self) -> bool:
        """Whether something was said from which a date may follow; always so in scripts without spaces."""
        return not self._words.isdisjoint(_times()) or _is_unspaced_somewhere(self._folded)

    def _missing_numbers(self, text: str) -> list[str]:
        missing = []
        for found in _CALENDAR.finditer(text):
            if not self._follows(*found.groups()):
                missing.append(found[0])
        text = _CALENDAR.sub(" ", text)
        for found in _CLOCK.finditer(text):
            if not self._is_clock(found[1], found[2]):
                missing.append(found[0])
        text = _CLOCK.sub(" ", text)
        apart = (found for found in _APART.findall(text) if found not in self._folded)  # "1 100" of "1 100 100"
        missing += [found for found in apart if _bare(re.sub(r"\D", "", found)) not in self._said]
        pieces = list(_PIECE.finditer(_APART.sub(" ", text)))
        for place, piece in enumerate(pieces):
            if piece["number"] and not self._is_number_said(pieces, place):
                missing.append(piece[0])
        return missing

    def _is_number_said(self, pieces: Sequence[re.Match[str]], place: int) -> bool:
        number, read = pieces[place]["number"], readings(pieces[place]["number"])
        parts = parts_of(number)
        if not read.isdisjoint(self._said) or (parts and parts <= self._said):
            return True
        following = pieces[place + 1]["word"] if place + 1 < len(pieces) else None
        scales = [_SCALES.get(pieces[place]["scale"] or "", 0), *(_values(following) if following else ())]
        values = _piece_values(pieces[place])
        if any(scale >= 100 and _written(value * scale) in self._said for scale in scales for value in values):
            return True
        if any(_written(value) in self._said for value in values if pieces[place]["scale"]):
            return True
        if not number.isdigit() or len(number) > 4:
            return False
        beside = {piece["word"] for piece in pieces[max(0, place - 2) : place + 3]}
        is_day = not beside.isdisjoint(_months()) and 1 <= int(number) <= _LAST_DAY
        return (is_day and self._tells_time) or self._is_counted(int(number))

    def _is_counted(self, number: int) -> bool:
        """Whether a year or an age follows from a number that was said, or the year from the message's day."""
        years = {day.year for day in self._days}
        if number <= _OLDEST:
            return any(str(year - number + off) in self._said for year in years for off in (-1, 0, 1))
        return self._is_year(number)

    def _is_year(self, number: int) -> bool:
        near = (abs(day.year - number) for day in self._days)
        return any(
            (apart <= 1 and self._tells_time)
            or (apart <= _OLDEST and not self._said.isdisjoint(str(max(2, apart + off)) for off in (-1, 0, 1)))
            for apart in near
        )

    def _follows(self, year: str, month: str, day: str | None) -> bool:
        """Whether a date was said, is a message's own, or may follow from a time that was said."""
        if any(self._is_own(own, year, month, day) for own in self._days):
            return True
        if year not in self._said and not self._is_year(int(year)):
            return False
        parts = {_bare(part) for part in (month, day) if part}
        return self._tells_time or parts <= self._said

    @staticmethod
    def _is_own(own: date, year: str, month: str, day: str | None) -> bool:
        return (own.year, own.month) == (int(year), int(month)) and (day is None or own.day == int(day))

    def _is_clock(self, hour: str, minute: str) -> bool:
        hours = {str(int(hour) + shift) for shift in (-_HALF_DAY, -1, 0, 1, _HALF_DAY)}
        minutes = _bare(minute)
        return not hours.isdisjoint(self._said) and (minutes in _QUARTERS or minutes in self._said)

    def _missing_names(self, text: str) -> list[str]:
        """Names that nobody said; in German, which capitalises all nouns, names cannot be told and none is missing."""
        names = _names(text)
        if not names or "de" in (language_of(text), language_of("\n".join(self._contents))):
            return []
        if not any(word.isascii() and word.isalpha() for word in self._words):
            return []  # said in another script
        together = self._expanded(text)
        return [name for name in dict.fromkeys(names) if name not in together and not self._is_name_known(name)]

    def _is_name_known(self, name: str) -> bool:
        if fold(name) in _times():
            return self._tells_time or _months().get(fold(name)) in self._said
        if squeeze(name) in self._run_together and len(squeeze(name)) > _SHORTEST:
            return True
        capitals = "".join(letter for letter in name if letter.isupper()).casefold()
        if len(capitals) > 1 and (capitals in self._vocabulary or capitals in self._initials):
            return True
        return all(
            any(part == word or _are_alike(part, word) for word in self._vocabulary)
            for part in map(fold, re.split(r"['\u2019\-]", name))
            if len(part) > 1
        )

    def _expanded(self, text: str) -> set[str]:
        """The names that spell out letters that were said: "New York City" for "NYC"."""
        found: set[str] = set()
        spelt = [word[0] for word in _WORD.finditer(text)]
        for size in (2, 3, 4):
            for some in zip(*(spelt[place:] for place in range(size)), strict=False):
                if "".join(fold(word)[:1] for word in some) in self._vocabulary:
                    found.update(word for word in some if word[0].isupper())
        return found

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        """Every folded word that was said or is known."""
        known = self._words.union(_SIGN.split(fold("\n".join(self._known))))
        mixed = {part for word in known if not word.isalpha() for part in re.findall(r"[^\W\d_]+", word)}
        return (known | mixed) - {""}  # of "rtx5090" also "rtx"

    @cached_property
    def _run_together(self) -> str:
        return "\n".join([*self._squeezed, *map(squeeze, self._known)])

    @cached_property
    def _initials(self) -> frozenset[str]:
        """The first letters of two, three or four words in a row, for abbreviations of what was said in full."""
        spelt = [word[:1] for word in _SIGN.split(self._folded) if word]
        pairs_of = ["".join(two) for two in pairwise(spelt)]
        return frozenset(
            [*pairs_of, *("".join(spelt[place : place + size]) for size in (3, 4) for place in range(len(spelt)))]
        )


def topic_words(text: str) -> list[str]:
    """Return the folded words of a text that carry a topic."""
    small = words("recall_stopwords.txt") | _SUBJECTS
    whole = [word for word in split_words(fold(text).replace("\u2019", "'"), joined_by="'") if word not in small]
    parts = (part for word in whole for part in word.split("'"))  # "don't" is a small word, "Ana's" is Ana
    return [part for part in parts if part not in small and (len(part) > 1 or part.isdigit())]


def _words_of(text: str) -> list[str]:
    return [word for word in _SIGN.split(fold(text)) if word]


def _have_common(some: Iterable[str], others: Collection[str]) -> bool:
    """Whether a word of the one is a word of the others, perhaps inflected or misspelt."""
    apart = set(others)
    asked = list(some)
    return not apart.isdisjoint(asked) or any(_are_alike(one, other) for one in asked for other in apart)


def _is_unspaced_somewhere(text: str) -> bool:
    """Whether a text has a character of a script without spaces."""
    return not text.isascii() and any(map(is_unspaced, text))
