"""The line that a statement is of: the one slot that it fills, such as the Hawaii budget, and with which value."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from perdure.domain.pattern import Pattern
from perdure.pipeline.lexicon import pairs
from perdure.pipeline.slots import Reading, Slot, Value, comparable, fits, read

_COLON = Pattern(r"^([^:]{2,60}): (?=\S)")
_INITIAL = Pattern(r"\s*\(updated from (?:initial )?(?P<value>[^()]+)\)\s*\.?\s*$")
_WORD = Pattern(r"[^\W\d_]+")
_AMOUNTS = frozenset({"money", "number", "measure", "percent"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One statement of a line; those with equal keys answer the same question, the newest of them for now."""

    key: Hashable
    text: str
    """The statement without what an earlier merging added to it."""
    shown: str
    """The value as it is written."""
    value: Value | None
    """The value, where it is a typed one."""
    concepts: frozenset[str]
    """What the value says where it is in words."""
    about: frozenset[str]
    """What the line is about."""
    rest: frozenset[str]
    """What the statement says beside line and value."""
    initial: str | None = None
    """The first value of the line, where an earlier merging noted it."""

    def agrees(self, other: Line) -> bool:
        """Whether both give the same value."""
        if self.value is not None and other.value is not None:
            return fits(self.value, other.value)
        return self.concepts == other.concepts and (self.value is None) == (other.value is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A statement that an amount grew or shrank by another ("Added $2,000 to Hawaii budget")."""

    by: Value
    """With its sign."""
    about: frozenset[str]

    def is_of(self, line: Line) -> bool:
        """Whether it may be a step between two values of a line: it speaks of the same, but for its verb."""
        return line.about <= self.about and len(self.about - line.about) <= 1


def line_of(statement: str) -> Line | None:
    """The line of a statement that plainly gives one slot one value; None for one that denies, doubts or plans."""
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
    """The change of an amount that a text tells of, if it tells of one and nothing else."""
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
    """Whether the steps of an amount are all that lies between two of its values, to the cent."""
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
    """A thing and its one typed value: "Budget for Hawaii is $10,000"."""
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
