"""What goes wrong again and again: "Common issue: port conflicts"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Final

from perdure.domain.derived import Experience, Insight
from perdure.domain.pattern import Pattern
from perdure.domain.terms import words
from perdure.pipeline.insight.telling import Telling, is_topic, told
from perdure.pipeline.lexicon import words as entries

COMMON: Final = 2
"""Tellings from which a trouble is a common one."""

_WORD = Pattern(r"[^\W_][\w-]*")
_HISSING = ("s", "x", "ch", "sh", "z")


def troubles(memories: Sequence[Experience], tellings: Sequence[Telling] = ()) -> list[Insight]:
    """The troubles that memories, oldest first, name `COMMON` times at least; most told first."""
    found: dict[tuple[str, ...], list[tuple[Experience, str]]] = {}
    for memory in memories:
        for phrase in dict.fromkeys(_phrases(memory.text)):
            found.setdefault(tuple(words(phrase)), []).append((memory, phrase))
    insights: list[Insight] = []
    for stems, each in found.items():
        members = list({memory.id: memory for memory, _ in each}.values())
        count = told(members, frozenset(stems), tellings)
        if count >= COMMON:
            ids = tuple(member.id for member in members)
            content = f"Common issue: {_plural(each[-1][1])}"
            insights.append(Insight(content=content, pattern="issue", count=count, memory_ids=ids))
    return sorted(insights, key=lambda insight: (-insight.count, insight.content))


def _phrases(text: str) -> Iterator[str]:
    """Each noun of trouble in the text with the word before it, which says what the trouble is with."""
    tokens = [(found[0], found.start(), found.end()) for found in _WORD.finditer(text)]
    for (before, _, end), (noun, start, _) in pairwise(tokens):
        if words(noun)[-1:] and words(noun)[-1] in _nouns() and text[end:start].isspace():
            low = before.casefold()
            if is_topic(before) and low not in entries("insight_no_trouble.txt") and not low.isdigit():
                yield f"{before if not before.istitle() else low} {noun.casefold()}"


@cache
def _nouns() -> frozenset[str]:
    return frozenset(stem for noun in entries("insight_troubles.txt") for stem in words(noun))


def _plural(phrase: str) -> str:
    """The phrase with its noun in the plural: "port conflicts", "server crashes"."""
    if words(phrase)[-1] != phrase.rsplit(" ", 1)[-1] and phrase.endswith("s"):
        return phrase
    return f"{phrase}es" if phrase.endswith(_HISSING) else f"{phrase}s"
