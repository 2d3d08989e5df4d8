"""Reading a statement: rewriting, scanning, typed values, phrases, subject, predicate, attributes."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from perdure.domain.memory import Slots
from perdure.pipeline.slots.converse import by_relation, turn_round
from perdure.pipeline.slots.frames import fill, named_attribute
from perdure.pipeline.slots.phrases import join_phrases
from perdure.pipeline.slots.predicate import Predicate, read_predicate
from perdure.pipeline.slots.reading import Chunk, Reading, Slot
from perdure.pipeline.slots.rewrite import rewrite
from perdure.pipeline.slots.scan import scan
from perdure.pipeline.slots.subject import Subject, read_subject
from perdure.pipeline.slots.typed import type_values

LIGHT_VERBS = frozenset({"be", "have", "do", "get", "own", "keep", "becom", "allow", "call", "name", ""})
"""Verbs that say little of their own: what they are about is in their phrases."""


def _goes_to(predicate: Predicate) -> bool:
    """Whether a thing "goes to" a value: "the rent goes to 1,020 from May"."""
    first = predicate.chunks[0] if predicate.chunks else None
    return predicate.verb in ("go", "com") and first is not None and first.lead in ("to", "up", "down")


def _moves_to_value(predicate: Predicate) -> bool:
    """Whether it is no place but a value that something moves to: "User's physio moved to once a week"."""
    first = predicate.chunks[0] if predicate.chunks else None
    return predicate.verb == "mov" and first is not None and bool(first.values) and not first.concepts


@lru_cache(maxsize=8192)
def read(text: str) -> Reading:
    """The reading of one statement; of a text without a predicate, its words as the topic."""
    rewritten = rewrite(text)
    tokens = join_phrases(type_values(scan(rewritten.text)))
    subject = read_subject(tokens)
    predicate = read_predicate(tokens, subject.place)
    if (subject.topic and (predicate.verb == "mov" or _goes_to(predicate))) or _moves_to_value(predicate):
        predicate = replace(predicate, mood=replace(predicate.mood, changed=True))
    if rewritten.denied:
        mood = replace(predicate.mood, denied=True, negated=not predicate.mood.negated)
        predicate = replace(predicate, mood=mood)
    if subject.partner:
        chunks = (*predicate.chunks, Chunk("with", subject.partner, frozenset(subject.partner)))
        predicate = replace(predicate, chunks=chunks)
    reading = _assemble(rewritten.text, subject, predicate)
    return replace(reading, turned=turn_round(reading, predicate.said) or by_relation(reading))


def _assemble(text: str, subject: Subject, predicate: Predicate) -> Reading:
    concepts = [*subject.topic, *([] if predicate.verb in LIGHT_VERBS else [predicate.verb])]
    names = set(subject.names)
    values = list(subject.values)
    for chunk in predicate.chunks:
        concepts.extend(chunk.concepts)
        names |= chunk.names
        values.extend(chunk.values)
    if subject.topic and subject.values:
        slots: tuple[Slot, ...] = ()  # a second car is not the car
    elif subject.topic:
        slots = named_attribute(subject.party, subject.topic, predicate.verb, predicate.chunks)
    else:
        slots = fill(subject.party, predicate.verb, predicate.chunks)
    return Reading(
        text=text,
        party=subject.party,
        topic=subject.topic,
        topic_values=subject.values,
        topic_names=subject.names,
        verb=predicate.verb,
        chunks=predicate.chunks,
        mood=predicate.mood,
        slots=slots,
        replaced=predicate.replaced,
        replaced_values=predicate.replaced_values,
        concepts=frozenset(concept for concept in concepts if concept),
        names=frozenset(names),
        values=tuple(values),
    )


def read_slots(text: str) -> Slots | None:
    """Subject, attribute and value of a statement in canonical words, or None where no predicate was read.

    Two statements with equal subject and attribute speak of the same thing; `polarity` is False where it is denied.
    """
    reading = read(text)
    if not reading.topic and not reading.verb and not reading.chunks:
        return None
    party = reading.party
    owner = party.name if party.kind == "named" else " ".join(part for part in (party.relation, party.name) if part)
    subject = owner or ("user" if party.kind == "user" else "")
    if reading.slots:
        attribute = reading.slots[0].attribute
        value = " ".join(reading.slots[0].concepts) or _raw(reading.text, reading.slots[0].start, reading.slots[0].end)
    else:
        attribute = " ".join(reading.topic) or reading.verb
        value = _raw(reading.text, reading.chunks[0].start, reading.chunks[-1].end) if reading.chunks else ""
        if party.kind == "thing":
            subject, attribute = attribute, reading.verb
    if not subject or not attribute:
        return None
    return Slots(subject, attribute, value, not (reading.mood.negated or reading.mood.ended))


def _raw(text: str, start: int, end: int) -> str:
    return text[start:end] if 0 <= start < end else ""
