"""What a question asks the graph for: names that may be entities, and the time that it asks about (X66)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from perdure.domain.clock import EARLIEST, iso
from perdure.domain.graph import entity_key
from perdure.domain.text.pattern import Pattern
from perdure.domain.text.terms import runs
from perdure.pipeline.curation.rules.relations.clauses import past_words
from perdure.pipeline.curation.rules.relations.names import NAME, names_in, trimmed
from perdure.pipeline.curation.rules.relations.times import Times, take_times
from perdure.pipeline.lexicon import words

MOST_WORDS = 4
"""Words of a name in small letters."""
MOST_NAMES = 60
"""Names of one question; a longer text is no question."""
LONGEST = 2_000
"""Characters of a question that are read."""
_PAST = Pattern(r"\b(?:did|been)\b", re.IGNORECASE)
_FUTURE = Pattern(r"\b(?:will|going to)\b", re.IGNORECASE)
_BEFORE = Pattern(rf"\b(?:before|preced(?:ed|ing)|prior to) ({NAME})")
_AFTER = Pattern(rf"\b(?:after|replaced|succeeded|followed) ({NAME})")
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Question:
    """What a question names, and when it asks about."""

    names: tuple[str, ...]
    """Names with capitals first, then every run of up to four words that may be a name: "fundraising"."""
    window: tuple[str, str] | None
    """First and last moment asked about, both included, ISO 8601; None is now."""
    before: str | None = None
    """Whose predecessor is asked for: "who was the lead before Bob"."""
    after: str | None = None
    """Whose successor is asked for."""


def read_question(text: str, *, now: datetime, known: Iterable[str] = ()) -> Question:
    """What a question names and when it asks about; `known` are names that are looked for in any case.

    A name is given as the question writes it, a known one as it is known; what no entity is called does no harm.
    """
    text = " ".join(text[:LONGEST].split())
    past = _PAST.search(text) or past_words().search(text)
    times = take_times(text.rstrip(" ?.!"), now, -1 if past else 1 if _FUTURE.search(text) else 0)
    padded = f" {' '.join(runs(text))} "
    found = [name for name in known if f" {' '.join(runs(name))} " in padded and any(runs(name))]
    found += names_in(times.rest)
    found += _phrases(times.rest)
    names = {entity_key(name): name for name in reversed(found)}
    return Question(
        tuple(list(dict.fromkeys(names[entity_key(name)] for name in found))[:MOST_NAMES]),
        _window(times, now),
        _beside(_BEFORE, times.rest),
        _beside(_AFTER, times.rest),
    )


def _window(times: Times, now: datetime) -> tuple[str, str] | None:
    if times.within is not None:
        last = max(times.within.start, times.within.end - _TICK)
        return iso(times.within.start), iso(last)
    if times.start is None and times.end is None:
        return None
    start = times.start or EARLIEST
    end = times.end - _TICK if times.end else max(now, start)
    return (iso(start), iso(end)) if start <= end else None


def _phrases(text: str) -> Iterator[str]:
    """Runs of words that may be a name: none begins or ends with a word that carries no topic."""
    plain = [word.removesuffix("'s").removesuffix("’s") for word in re.findall(r"[\w&+.'’-]*\w[+]*", text)]
    empty = words("recall_stopwords.txt")
    for length in range(1, MOST_WORDS + 1):
        for place in range(len(plain) - length + 1):
            run = plain[place : place + length]
            if run[0].lower() not in empty and run[-1].lower() not in empty:
                yield " ".join(run)


def _beside(pattern: Pattern, text: str) -> str | None:
    found = pattern.search(text)
    return (trimmed(found[1]) or None) if found else None
