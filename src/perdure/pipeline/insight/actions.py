"""What the user does again and again: "User frequently deploys payment-service (12 times)"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from perdure.domain.derived import Experience, Insight
from perdure.domain.pattern import Pattern
from perdure.domain.terms import words
from perdure.pipeline.insight.telling import Telling, told
from perdure.pipeline.lexicon import words as entries
from perdure.pipeline.slots import read

FREQUENT: Final = 3
"""Tellings from which something is done frequently."""

_SUBJECT = Pattern(r"^User\s+", re.IGNORECASE)
_AUXILIARIES = frozenset({"is", "was", "has", "had", "have", "been"})
_ARTICLES = frozenset({"a", "an", "the", "their", "his", "her", "its", "some", "another", "again"})
_AFTER = Pattern(r"\s+(?:using|via|with|by)\s.*$|\s+\d.*$", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Act:
    """What one memory says is done."""

    verb: str
    """As it is read, in one form for all tenses."""
    phrase: str
    """The verb as it is written, with its auxiliary."""
    matter: str
    past: bool

    @property
    def stems(self) -> frozenset[str]:
        """The stems of the verb and of what it is done to."""
        return frozenset(words(self.phrase.split()[-1])) | frozenset(words(self.matter))


def actions(memories: Sequence[Experience], tellings: Sequence[Telling] = ()) -> list[Insight]:
    """What memories, oldest first, say that the user does, where it was told `FREQUENT` times at least; most first."""
    found: dict[tuple[str, tuple[str, ...]], list[tuple[Experience, _Act]]] = {}
    for memory in memories:
        act = _act_of(memory.text)
        if act is not None:
            found.setdefault((act.verb, tuple(words(act.matter))), []).append((memory, act))
    insights: list[Insight] = []
    for each in found.values():
        members = [memory for memory, _ in each]
        stems = [act.stems for _, act in each]
        count = max(told(members, one, tellings) for one in stems)
        if count >= FREQUENT:
            shown = next((act for _, act in reversed(each) if not act.past), each[-1][1])
            insights.append(
                Insight(
                    content=f"User {_often(shown.phrase)} {shown.matter} ({count} times)",
                    pattern="count",
                    count=count,
                    memory_ids=tuple(member.id for member in members),
                )
            )
    return sorted(insights, key=lambda insight: (-insight.count, insight.content))


def _act_of(text: str) -> _Act | None:
    reading = read(text)
    mood = reading.mood
    if mood.negated or mood.ended or mood.hedged or mood.planned or mood.denied or reading.topic:
        return None
    start = _SUBJECT.match(reading.text)
    first = reading.chunks[0] if reading.chunks else None
    if start is None or first is None or reading.party.kind != "user" or first.aside or not first.concepts:
        return None
    before = reading.text[start.end() : first.start].split()
    while before and before[-1].casefold() in _ARTICLES:
        before.pop()
    main = next((word for word in before if word.casefold() not in _AUXILIARIES), "")
    if not main or main.casefold() in entries("insight_states.txt") or len(before) > 3:
        return None
    matter = _AFTER.sub("", reading.text[first.start : first.end]).strip()
    if not words(matter):
        return None
    return _Act(reading.verb, " ".join(before), matter, mood.past)


def _often(phrase: str) -> str:
    """The verb with "frequently", which stands after its auxiliary."""
    first, _, rest = phrase.partition(" ")
    return f"{first} frequently {rest}" if rest and first.casefold() in _AUXILIARIES else f"frequently {phrase}"
