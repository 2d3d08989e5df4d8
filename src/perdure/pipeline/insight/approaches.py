"""How the user does what they do: "Preferred approach: docker-compose"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from perdure.domain.derived import Experience, Insight
from perdure.domain.pattern import Pattern
from perdure.domain.terms import words
from perdure.pipeline.insight.telling import Telling, is_topic, told
from perdure.pipeline.lexicon import words as entries

PREFERRED: Final = 2
"""Tellings from which a way of doing something is the preferred one."""

_WAY = Pattern(r"\b(?:using|via|by means of|prefers? to use|prefers? using|always uses?)\s+", re.IGNORECASE)
_WITH = Pattern(r"\bwith\s+", re.IGNORECASE)
_WORD = Pattern(r"[^\W_][\w.+#-]*")
_ARTICLES = frozenset({"a", "an", "the", "their", "his", "her", "its"})
_LONGEST = 2
"""Words that name a way."""


@dataclass(slots=True)
class _Way:
    shown: str = ""
    members: dict[str, Experience] = field(default_factory=dict)
    matters: set[str] = field(default_factory=set)
    """The verbs of what is done this way."""


def approaches(memories: Sequence[Experience], tellings: Sequence[Telling] = ()) -> list[Insight]:
    """The ways in which memories, oldest first, say that something is done, `PREFERRED` times at least; most first.

    Of several ways to do one thing only the one that was told most often is preferred, and none where two are level.
    """
    ways: dict[tuple[str, ...], _Way] = {}
    for memory in memories:
        verb = next((word for word in memory.text.casefold().split() if word in entries("insight_work.txt")), "")
        for shown in _ways(memory.text, works=bool(verb)):
            way = ways.setdefault(tuple(words(shown)), _Way())
            way.shown = shown
            way.members[memory.id] = memory
            way.matters |= set(words(verb))
    counts = {stems: told(list(way.members.values()), frozenset(stems), ()) for stems, way in ways.items()}
    insights: list[Insight] = []
    for stems, way in ways.items():
        rivals = [counts[other] for other, each in ways.items() if other != stems and way.matters & each.matters]
        if counts[stems] >= PREFERRED and all(rival < counts[stems] for rival in rivals):
            count = max(counts[stems], *(told(list(way.members.values()), frozenset({*stems, verb}), tellings)
                                         for verb in way.matters or {""}))  # fmt: skip
            content = f"Preferred approach: {way.shown}"
            insights.append(Insight(content=content, pattern="approach", count=count, memory_ids=tuple(way.members)))
    return sorted(insights, key=lambda insight: (-insight.count, insight.content))


def _ways(text: str, *, works: bool) -> Iterator[str]:
    starts = [found.end() for found in _WAY.finditer(text)]
    if works:  # "with" is a way of working only: whom one plays tennis with is none
        starts += [found.end() for found in _WITH.finditer(text)]
    for start in starts:
        shown = _name(text, start)
        if shown:
            yield shown


def _name(text: str, start: int) -> str:
    """The words from a place that name something, two at most, without an article before them."""
    found: list[str] = []
    end = start
    for word in _WORD.finditer(text, start):
        if not found and word[0].casefold() in _ARTICLES:
            end = word.end()
            continue
        if text[end : word.start()].strip() or not is_topic(word[0]) or word[0].isdigit() or len(found) == _LONGEST:
            break
        found.append(word[0].rstrip(".-"))
        end = word.start() + len(found[-1])
    return " ".join(found)
