"""A datum that a request to forget names ("Fay's phone number"), and by what a memory of it is known: a typed value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from perdure.domain.pattern import Pattern
from perdure.pipeline.lexicon import pairs
from perdure.pipeline.slots import Reading
from perdure.pipeline.slots.stems import fold

_DIGITS = Pattern(r"\d(?:[ .-]?\d){2,}|\b(?=[\w-]*\d)(?=[\w-]*[a-z])[\w-]{5,}\b", re.IGNORECASE)
_PLACE = Pattern(
    r"\b\d{1,3}(?:\.\d{1,3}){3}\b|\b(?:https?://|www\.)\S+|\b[a-z]{1,2}\d[a-z\d]? ?\d[a-z]{2}\b|"
    r"\b(?:at|address is|lives? (?:at|on|in)) .*\d|\b\d+[a-z]? [\w' ]+\b"
    r"(?:st|street|road|rd|lane|avenue|ave|row|close)\b",
    re.IGNORECASE,
)
_AGE = Pattern(
    r"\b(?:is|turns?|turned|turning|aged?|be) (?:now |already )?\d{1,3}(?:$|[,.;]| years?\b| this| in| on| next| and)|"
    r"\bhas \d{1,3} years\b|\b\d{1,3}[- ]years?[- ]old\b|\bage is \d",
    re.IGNORECASE,
)
_MONEY = Pattern(
    r"[$€£]\s?\d|\b\d[\d,.]*k?\s?(?:euros?|dollars?|pounds?|quid|bucks|grand|k|usd|eur|gbp|"
    r"a (?:month|year|week|hour))\b|"
    r"\b(?:ow(?:es?|ed|ing)|earns?|earned|earning|pa(?:ys?|id)|makes?|made) .*\d",
    re.IGNORECASE,
)
_WAGE = Pattern(r"\b(?:earn\w*|salary|wages?|paid|makes?|income|takes? home|brings? home|is on) .*\d", re.IGNORECASE)
_OWED = Pattern(r"\b(?:ow(?:es?|ed|ing)|debts?|loans?|borrow\w*|behind with)\b", re.IGNORECASE)
_MAIL = Pattern(r"\S+@\S+\.\w+")
_BORN = Pattern(r"\bborn\b|\bbirth\w*", re.IGNORECASE)
_LONG = Pattern(r"\b\d(?:[.,]\d+)? ?(?:m|cm|ft|foot|feet|metres?|meters?)\b|\btall\b", re.IGNORECASE)
_WEIGHS = Pattern(r"\bweigh\w* .*\d|\d ?(?:kg|kilos?|lbs?|pounds|stone|st)\b", re.IGNORECASE)

_KINDS: dict[str, Pattern] = {
    "digits": _DIGITS,
    "place": _PLACE,
    "age": _AGE,
    "money": _MONEY,
    "wage": _WAGE,
    "debt": _OWED,
    "mail": _MAIL,
    "date": _BORN,
    "length": _LONG,
    "weight": _WEIGHS,
}
_BARE = frozenset({"age", "weight", "length", "date", "mail", "wage", "debt"})
"""Kinds by whose value alone a memory of the same party is known: "User is 79" tells an age."""


@dataclass(frozen=True, slots=True)
class Datum:
    """What a request names by its kind: the noun, the kind of its value, the words that say whose or which it is."""

    noun: str
    kind: str
    rest: str

    def told_in(self, text: str) -> bool:
        """Whether a text holds a value of the kind."""
        return _KINDS[self.kind].search(text) is not None

    @property
    def bare(self) -> bool:
        """Whether only a memory with a value of the kind can tell the datum, whatever other words it holds."""
        return self.kind in _BARE

    def known_by_value(self, matter: Reading, memory: Reading) -> bool:
        """Whether a memory of the same party tells the datum by its value alone."""
        return self.kind in _BARE and of_same(matter, memory) and not memory.topic and self.told_in(memory.text)


def of_same(matter: Reading, memory: Reading) -> bool:
    """Whether a memory is about the very party of the matter."""
    one, two = matter.party, memory.party
    return (one.kind, one.relation, one.name) == (two.kind, two.relation, two.name)


@cache
def _table() -> dict[str, str]:
    return {noun: kind for noun, kind in pairs("forget_data.tsv").items() if kind in _KINDS}


def datum(matter: str) -> Datum | None:
    """The datum that the words of a request name, or None if they name none of a known kind of value."""
    low = fold(re.sub(r"\bdate of birth\b", "birthdate", matter.strip(), flags=re.IGNORECASE)).lower()
    head, _, owner = low.partition(" of ") if " of " in low else low.partition(" for ")
    words = head.split()
    for length in (2, 1):
        noun = " ".join(words[-length:])
        if len(words) >= length and noun in _table():
            rest = " ".join([*words[:-length], *owner.split()])
            return Datum(noun, _table()[noun], rest)
    return None
