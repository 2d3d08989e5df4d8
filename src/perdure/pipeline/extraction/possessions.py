"""Noun phrases that say what one has: "2 budgies", "Yamaha upright in the hall", "old Volvo 240 in the barn"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from perdure.domain.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.extraction import grammar
from perdure.pipeline.extraction.wordsets import word_set

_COUNT = r"(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|\d{1,2})"
_FAMILY = (
    r"kids?|children|sons?|daughters?|boys|girls|sisters?|brothers?|siblings|grandkids|grandchildren|grandsons?|"
    r"granddaughters?|stepsons?|stepdaughters?|stepkids|nephews?|nieces?|twins|triplets"
)
_MORE = r"(?: (?:of my own|called|named|and|from|at|under|over|aged|both)\b.*)?$"


@dataclass(frozen=True, slots=True)
class Possession:
    """`thing` as it is had, with its article; `name` is the subject of a clause that goes on about it."""

    thing: str
    name: str = ""


@cache
def _living() -> re.Pattern[str]:
    pets = sorted((re.escape(pet) for pet in lexicon.words("pets.txt")), key=len, reverse=True)
    kinds = rf"{_FAMILY}|(?:{'|'.join(pets)})(?:e?s)?"
    counted = rf"^(?:no (?=kids|children)|{_COUNT} )(?:[\w'-]+ ){{0,4}}?"
    return re.compile(rf"{counted}(?:{kinds})\b(?!'){_MORE}", re.I)


_PLACED = Pattern(
    r"^(?P<thing>(?:(?:old|new|vintage|second-?hand|used|little|big|ancient|battered|rusty|antique) )?[A-ZÀ-Þ][\w'-]+"
    r"(?: [\w'-]+){0,4}?) (?P<where>(?:in|on|under|outside|at) (?:the|my|our) (?:[a-z]+ ){0,2}?(?P<place>[a-z]+))$"
)


def read(text: str) -> Possession | None:
    """What the words say that the speaker has, or None."""
    if _living().match(text):
        return Possession(text)
    placed = _PLACED.match(text)
    if placed is None or placed.group("place") not in word_set("possessions.places"):
        return None
    words = placed.group("thing").split()
    named = next((word for word in words if word[:1].isupper()), "")
    if not grammar.is_name(named) or grammar.is_time_word(grammar.bare(named)):
        return None
    article = "an" if words[0][:1].lower() in "aeiou" else "a"
    return Possession(f"{article} {text}", f"my {placed.group('thing')}")
