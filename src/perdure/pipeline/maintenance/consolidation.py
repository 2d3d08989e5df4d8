"""Group related memories, and write the one text that replaces several of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from perdure.domain.text.pattern import Pattern
from perdure.domain.text.terms import split_words
from perdure.pipeline.curation.rules.slots import Reading, Slot, Value, comparable, fits, read
from perdure.pipeline.lexicon import lines, pairs

# The line of a statement: the single slot that it fills, such as the Hawaii budget, and the value.

_COLON = Pattern(r"^([^:]{2,60}): (?=\S)")
_INITIAL = Pattern(r"\s*\(updated from (?:initial )?(?P<value>[^()]+)\)\s*\.?\s*$")
_WORD = Pattern(r"[^\W\d_]+")
_AMOUNTS = frozenset({"money", "number", "measure", "percent"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One statement of a line; those with equal keys answer the same question, and the newest is current."""

    key: Hashable
    text: str  # the statement without an earlier merge's additions
    shown: str  # the value as it is written
    value: Value | None  # the value, if it is a typed one
    concepts: frozenset[str]  # the concepts of a value in words
    about: frozenset[str]  # the subject of the line
    rest: frozenset[str]  # the rest of the statement, without subject and value
    initial: str | None = None  # the first value of the line, if an earlier merge noted it

    def agrees(self, other: Line) -> bool:
        """Whether both give the same value."""
        if self.value is not None and other.value is not None:
            return fits(self.value, other.value)
        return self.concepts == other.concepts and (self.value is None) == (other.value is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A statement that an amount grew or shrank by another ("Added $2,000 to Hawaii budget")."""

    by: Value  # with its sign
    about: frozenset[str]

    def is_of(self, line: Line) -> bool:
        """Whether it may be a step between two values of a line: it has the same subject, apart from its verb."""
        return line.about <= self.about and len(self.about - line.about) <= 1


def line_of(statement: str) -> Line | None:
    """Return the line of a statement that plainly gives one slot one value; None if it denies, doubts or plans."""
    noted = _INITIAL.search(statement)
    text = statement[: noted.start()].rstrip() if noted else statement
    reading = read(_COLON.sub(r"\1 is ", text))
    mood = reading.mood
    if mood.negated or mood.ended or mood.hedged or mood.planned or mood.denied or step_of(text) is not None:
        return None
    initial = noted["value"].strip() if noted else None
    if len(reading.slots) == 1 and reading.slots[0].single:
        return _of_slot(reading, reading.slots[0], text, initial)
    return _of_topic(reading, text, initial)


def step_of(text: str) -> Step | None:
    """Return the change of an amount that a text states, if it states one and nothing else."""
    signs = [sign for word in _WORD.findall(text.casefold()) if (sign := pairs("consolidate_amounts.tsv").get(word))]
    if len(signs) != 1:
        return None
    reading = read(text)
    if len(reading.values) != 1 or reading.values[0].kind not in _AMOUNTS or reading.mood.negated:
        return None
    value = reading.values[0]
    signed = Value(value.kind, value.amount if signs[0] == "+" else -value.amount, value.unit)
    return Step(by=signed, about=reading.concepts)


def leads_to(before: Line, steps: list[Step], after: Line) -> bool:
    """Whether the steps explain the whole difference between two values, to the cent."""
    if before.value is None or after.value is None or not comparable(before.value, after.value):
        return False
    if any(step.by.kind != after.value.kind or step.by.unit != after.value.unit for step in steps):
        return False
    return abs(before.value.amount + sum(step.by.amount for step in steps) - after.value.amount) < 0.005


def _party(reading: Reading) -> Hashable:
    party = reading.party
    return party.kind, party.relation, party.name, party.of


def _of_slot(reading: Reading, slot: Slot, text: str, initial: str | None) -> Line | None:
    shown = reading.text[slot.start : slot.end].strip()
    if not shown or shown not in text:
        return None
    about = frozenset(slot.attribute.split()) | frozenset(reading.topic)
    value = slot.values[0] if len(slot.values) == 1 else None
    said = frozenset(slot.concepts)
    return Line(
        key=("slot", _party(reading), slot.attribute, reading.topic),
        text=text,
        shown=shown,
        value=value,
        concepts=said,
        about=about,
        rest=reading.concepts - said - about - {reading.verb},
        initial=initial,
    )


def _of_topic(reading: Reading, text: str, initial: str | None) -> Line | None:
    """Return a thing and its one typed value: "Budget for Hawaii is $10,000"."""
    if not reading.topic or reading.topic_values or reading.verb not in ("be", "") or len(reading.chunks) != 1:
        return None
    chunk = reading.chunks[0]
    shown = reading.text[chunk.start : chunk.end].strip()
    if len(chunk.values) != 1 or chunk.names or chunk.concepts or not shown or shown not in text:
        return None
    value = chunk.values[0]
    about = frozenset(reading.topic)
    unit = value.unit if value.kind == "measure" else ""
    return Line(
        key=("topic", _party(reading), about, value.kind, unit),
        text=text,
        shown=shown,
        value=value,
        concepts=frozenset(),
        about=about,
        rest=reading.concepts - about,
        initial=initial,
    )


# Related memories: of one family, and similar in their words or filling one slot.

ALIKE: Final = 0.60  # word Jaccard from which two texts belong to one group
_Read = tuple[Line | None, Step | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A memory that may be merged with others of its family, and never with others."""

    id: str
    text: str
    family: Hashable  # what the members of one group must share: scope, type, trust
    told_at: str = ""  # ISO 8601; orders the members of a group


def groups(members: Sequence[Member]) -> tuple[tuple[str, ...], ...]:
    """Return the members' ids in groups, each id in exactly one, alone if nothing is similar.

    Two are linked if they are of one family, and their words' Jaccard is at least `ALIKE`, or both fill the same
    single-valued slot, or one states by how much the other's amount changed. A group is everything that links connect
    (single linkage), so the input order does not matter. Oldest first in a group, and groups by their oldest. Time
    grows with the square of the number: meant for 100.
    """
    ordered = sorted(members, key=lambda member: (member.told_at, member.id))
    words = [frozenset(split_words(member.text.casefold(), underscore=True)) for member in ordered]
    read = [(line_of(member.text), step_of(member.text)) for member in ordered]
    parent = list(range(len(ordered)))

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = place = parent[parent[place]]
        return place

    for right, member in enumerate(ordered):
        for left in range(right):
            if ordered[left].family != member.family:
                continue
            if _same_matter(read[left], read[right]) or _jaccard(words[left], words[right]) >= ALIKE:
                parent[max(root(left), root(right))] = min(root(left), root(right))
    found: dict[int, list[str]] = {}
    for place, member in enumerate(ordered):
        found.setdefault(root(place), []).append(member.id)
    return tuple(tuple(ids) for ids in found.values())


def _same_matter(one: _Read, other: _Read) -> bool:
    """Whether both fill one slot, or one states a step between two values of the other's."""
    (line, step), (another, other_step) = one, other
    if line is not None and another is not None:
        return line.key == another.key
    return (step is not None and another is not None and step.is_of(another)) or (
        other_step is not None and line is not None and other_step.is_of(line)
    )


def _jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    either = left | right
    return len(left & right) / len(either) if either else 0.0


# The merged text of several statements, by rules alone: it says nothing that none of them says.


@dataclass(frozen=True, slots=True)
class Condensed:
    """One remaining statement, and the indexes of the statements that it replaces."""

    text: str
    places: tuple[int, ...]


def merge(statements: Sequence[str]) -> str:
    """Return one text for statements, oldest first; "" for none.

    The results of `condense` are joined, a sentence each. "Budget for Hawaii is $10,000", "Added $2,000 to Hawaii
    budget" and "Final Hawaii budget is $12,000" become "Hawaii budget is $12,000 (updated from initial $10,000)".
    """
    return _joined([each.text for each in condense(statements)])


def condense(statements: Sequence[str]) -> list[Condensed]:
    """Return the remaining statements, oldest first; each given one is in exactly one, which says all it said.

    Of different values for one slot the newest stays, with "(updated from initial VALUE)" after it; steps between two
    amounts are dropped if they add up to the difference. A statement contained in another one is dropped. Statements
    about different things stay apart: joined into one memory, a later contradiction of one would cost the others.
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
    """Keep only the newest statement of a line, which notes the first value."""
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
    """Drop statements of how one amount became the next."""
    steps: dict[int, Step] = {}
    for place in range(before + 1, after):
        step = step_of(texts[place])
        if step is not None and step.is_of(lines_at[after]):
            steps[place] = step
    if steps and leads_to(lines_at[before], list(steps.values()), lines_at[after]):
        for place in steps:
            into[place] = after


def _plain(text: str) -> str:
    """Return the statement without a word that only marks it as the newest: "Final Hawaii budget is ..."."""
    for lead in sorted(lines("consolidate_latest.txt"), key=len, reverse=True):
        if text.casefold().startswith(f"{lead} "):
            rest = text[len(lead) + 1 :].lstrip()
            return rest[:1].upper() + rest[1:]
    return text


def _drop_contained(texts: Sequence[str], into: list[int]) -> None:
    """Drop statements that another one contains word for word, in the same mood; of equal ones all but the last."""
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
    """Join statements as sentences of one text; on lines of their own if one has lines."""
    texts = [text for text in texts if text]
    if len(texts) < 2:
        return "".join(texts)
    if any("\n" in text for text in texts):
        return "\n".join(texts)
    return " ".join(text if text[-1] in ".!?…。" else f"{text}." for text in texts)
