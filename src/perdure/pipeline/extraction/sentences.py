"""Text to sentences, each with its end mark; a very long run without marks is cut at commas and connectives."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perdure.domain.pattern import Pattern

LONGEST = 700
"""Characters; a longer run is cut, so that every later step works on bounded text."""

_END = Pattern(
    r"([.!?]+)(?:[\"')\]]*)(?=\s|$|[\ue000-\uf8ff])|\n+|(?<=\s)-{1,2}(?=\s)|;|[\u3002\uff01\uff1f\uff1b]|\.{2,}|\u2026"
)
_INITIAL = Pattern(r"(?:^|\s)(?:[A-Z]|e\.?g|i\.?e|ca|c)$")
_BULLET = Pattern(r"^\s*(?:[-*+>]|\d{1,2}[.)])\s+")
_CUT = Pattern(r"(?:,|\band\b|\bbut\b|\bso\b|\bbecause\b|\bthen\b)\s+")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence without its end mark; `question` if that was a question mark; `item` if it was a list's line."""

    text: str
    question: bool = False
    item: bool = False
    header: bool = False
    """It ended in a colon, and the lines after it belong under it."""


def split(text: str) -> list[Sentence]:
    """The sentences in order; blank ones are left out."""
    found: list[Sentence] = []
    lines = text.split("\n")
    for line in lines:
        item = _BULLET.match(line) is not None and (len(lines) > 1 or not line.lstrip()[:1].isdigit())
        body = _BULLET.sub("", line, count=1) if item else line
        start = 0
        for mark in _END.finditer(body):
            if mark.group() == "." and _is_initial(body, mark.start(), mark.end()):
                continue
            _take(found, body[start : mark.start()], "?" in mark.group() or "\uff1f" in mark.group(), item)
            start = mark.end()
        rest = body[start:]
        _take(found, rest, False, item)
        if rest.rstrip().endswith(":") and found and len(rest) < 80:
            found[-1] = Sentence(found[-1].text.rstrip(" :"), found[-1].question, item, True)
    return found


def _is_initial(body: str, start: int, end: int) -> bool:
    """ "J. Smith" and "e.g. this": the point ends no sentence."""
    if _INITIAL.search(body[max(0, start - 6) : start]) is None:
        return re.search(r"\b(?:[Nn]o|[Mm]rs?|[Mm]s|[Dd]r|[Ss]t)$", body[max(0, start - 4) : start]) is not None and (
            body[end : end + 2].strip()[:1].isdigit()
        )
    after = body[end : end + 2].strip()
    return not body[start - 1 : start].isupper() or after[:1].isupper()


def _take(found: list[Sentence], text: str, question: bool, item: bool) -> None:
    text = " ".join(text.split()).strip(" \"'.,-")
    if not any(char.isalnum() or char >= "\ue000" for char in text):
        if question and found and not found[-1].question:
            found[-1] = Sentence(found[-1].text, True, found[-1].item)
        return
    while len(text) > LONGEST:
        cut = _cut_place(text)
        found.append(Sentence(text[:cut].strip(" ,"), False, item))
        text = text[cut:].strip(" ,")
    if text:
        found.append(Sentence(text, question, item))


def _cut_place(text: str) -> int:
    places = [match.start() for match in _CUT.finditer(text, LONGEST // 2, LONGEST)]
    if places:
        return places[-1] + 1 if text[places[-1]] == "," else places[-1]
    space = text.rfind(" ", 1, LONGEST)
    return space if space > 0 else LONGEST
