"""The one text that several statements come to, by rules alone: nothing is said that none of them says (V69)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from perdure.pipeline.consolidation.line import Line, Step, leads_to, line_of, step_of
from perdure.pipeline.lexicon import lines
from perdure.pipeline.slots import read


@dataclass(frozen=True, slots=True)
class Condensed:
    """One statement that is left, and the places, in the list given, of those that it stands for."""

    text: str
    places: tuple[int, ...]


def merge(statements: Sequence[str]) -> str:
    """One text for statements that are given oldest first; "" for none.

    What `condense` leaves is joined, a sentence each. "Budget for Hawaii is $10,000", "Added $2,000 to Hawaii budget"
    and "Final Hawaii budget is $12,000" come to "Hawaii budget is $12,000 (updated from initial $10,000)".
    """
    return _joined([each.text for each in condense(statements)])


def condense(statements: Sequence[str]) -> list[Condensed]:
    """What is left of statements that are given oldest first; each of them is in exactly one, which says all it said.

    Of those that give one slot different values the newest stays, with "(updated from initial VALUE)" after it; steps
    between two amounts go where they add up to the difference. A statement that another one contains goes. Statements
    of different matters stay apart: joined into one memory, a later contradiction of one would cost the others.
    """
    texts = [each.strip() for each in statements]
    into = list(range(len(texts)))
    told: dict[object, list[int]] = {}
    found: dict[int, Line] = {}
    for place, text in enumerate(texts):
        line = line_of(text) if text else None
        if line is not None:
            found[place] = line
            told.setdefault(line.key, []).append(place)
    for places in told.values():
        if len(places) > 1:
            _settle(texts, into, places, found)
    _drop_contained(texts, into)
    for place in range(len(texts)):
        while into[place] != into[into[place]]:
            into[place] = into[into[place]]
    left = [place for place in range(len(texts)) if into[place] == place]
    return [Condensed(texts[end], tuple(place for place in range(len(texts)) if into[place] == end)) for end in left]


def _settle(texts: list[str], into: list[int], places: Sequence[int], lines_at: dict[int, Line]) -> None:
    """Leave of one line its newest statement, which notes the first value."""
    last = places[-1]
    newest, first = lines_at[last], lines_at[places[0]]
    for before, after in pairwise(places):
        _drop_steps(texts, into, before, after, lines_at)
    for place in places[:-1]:
        if lines_at[place].rest <= newest.rest:
            into[place] = last
    values = [(first.initial, True)] if first.initial else []
    values += [(lines_at[place].shown, place == places[0]) for place in places if not lines_at[place].agrees(newest)]
    other = next(((value, is_first) for value, is_first in values if _folded(value) != _folded(newest.shown)), None)
    texts[last] = _plain(newest.text)
    if other is not None:
        value, is_first = other
        texts[last] = f"{texts[last].rstrip(' .')} (updated from {'initial ' if is_first else ''}{value})"


def _drop_steps(texts: list[str], into: list[int], before: int, after: int, lines_at: dict[int, Line]) -> None:
    """Drop what tells only how one amount became the next."""
    steps: dict[int, Step] = {}
    for place in range(before + 1, after):
        step = step_of(texts[place])
        if step is not None and step.is_of(lines_at[after]):
            steps[place] = step
    if steps and leads_to(lines_at[before], list(steps.values()), lines_at[after]):
        for place in steps:
            into[place] = after


def _plain(text: str) -> str:
    """The statement without a word that only says that it is the newest: "Final Hawaii budget is ..."."""
    for lead in sorted(lines("consolidate_latest.txt"), key=len, reverse=True):
        if text.casefold().startswith(f"{lead} "):
            rest = text[len(lead) + 1 :].lstrip()
            return rest[:1].upper() + rest[1:]
    return text


def _drop_contained(texts: Sequence[str], into: list[int]) -> None:
    """Drop what another one holds word for word, said in the same mood; of equal ones all but the last."""
    folded = [_folded(text) for text in texts]
    left = [place for place in range(len(texts)) if into[place] == place]
    for place in left:
        for other in left:
            if (
                other != place
                and _holds(folded[other], folded[place], place < other)
                and _mood(texts[other]) == _mood(texts[place])
            ):
                into[place] = other
                break


def _holds(longer: str, shorter: str, comes_later: bool) -> bool:
    if longer == shorter:
        return comes_later
    return re.search(rf"(?<!\w){re.escape(shorter)}(?!\w)", longer) is not None


def _mood(text: str) -> tuple[bool, ...]:
    mood = read(text).mood
    return mood.negated, mood.ended, mood.hedged, mood.planned, mood.denied


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(" .!")


def _joined(texts: Sequence[str]) -> str:
    """The statements as sentences of one text; on lines of their own where one has lines."""
    texts = [text for text in texts if text]
    if len(texts) < 2:
        return "".join(texts)
    if any("\n" in text for text in texts):
        return "\n".join(texts)
    return " ".join(text if text[-1] in ".!?…。" else f"{text}." for text in texts)
