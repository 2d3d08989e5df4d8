"""Frames: which single-valued attributes of a person a predicate fills ("is based in Graz": home, Graz)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from perdure.pipeline.lexicon import lines, pairs, words
from perdure.pipeline.slots.lexis import concept_of, fold_set, is_kind_of
from perdure.pipeline.slots.reading import Chunk, Party, Slot
from perdure.pipeline.slots.scan import scan

CLASSES = {"occupation": "role", "diet": "diet", "marital": "status", "handedness": "handedness", "faith": "faith"}
"""Kinds of thing that someone "is", each with the attribute that it fills."""
MAX_AGE = 120
_GIVES = frozenset({"be", "", "mov", "call", "becom", "read", "say"})
"""Verbs that give a named attribute its value."""
_THINGS = frozenset({"car", "phone"})
"""Attributes that are things: "the car is in the garage" tells where it is, not which it is."""
_AGE_WORDS = ("year", "old", "age")


@dataclass(frozen=True, slots=True)
class Frame:
    """`verb [words] [lead] *`: the value stands after the words in the first phrase, or in the phrase with the lead."""

    attribute: str
    verb: str
    words: tuple[str, ...]
    lead: str


@cache
def frames() -> dict[str, tuple[Frame, ...]]:
    """The frames of `reconcile_frames.tsv` by their verb's concept, the most specific first."""
    table: dict[str, list[Frame]] = {}
    leads = fold_set("reconcile_leads.txt")
    for line in lines("reconcile_frames.tsv"):
        attribute, _, pattern = line.partition("\t")
        parts = [token.low for token in scan(pattern.replace("*", " "))]
        verb, rest = concept_of(parts[0]), parts[1:]
        lead = rest.pop() if rest and rest[-1] in leads else ""
        frame = Frame(attribute.strip(), verb, tuple(concept_of(word) for word in rest), lead)
        table.setdefault(verb, []).append(frame)
    return {verb: tuple(sorted(found, key=lambda f: (-len(f.words), -bool(f.lead)))) for verb, found in table.items()}


def fill(party: Party, verb: str, chunks: tuple[Chunk, ...]) -> tuple[Slot, ...]:
    """The attributes that a predicate fills, each once; a party that is a thing has none."""
    if party.kind == "thing":
        return ()
    slots: dict[str, Slot] = {}
    for frame in frames().get(verb, ()):
        slot = _match(frame, chunks)
        if slot is not None:
            slots.setdefault(slot.attribute, slot)
    if verb in _marital():
        slots.setdefault("status", Slot("status", (verb,)))
    for slot in _at_company(verb, chunks):
        slots.setdefault(slot.attribute, slot)
    for slot in _by_quantity(party, verb, chunks):
        slots.setdefault(slot.attribute, slot)
    if verb in ("be", "becom", "work", "turn", "promot", ""):
        for slot in _classes(verb, chunks, party):
            slots.setdefault(slot.attribute, slot)
    return tuple(slots.values())


def _match(frame: Frame, chunks: tuple[Chunk, ...]) -> Slot | None:
    if not chunks:
        return None
    first = chunks[0]
    if any(value.kind == "ordinal" for value in first.values):
        return None  # a second job is not the job
    if frame.attribute == "home" and not frame.words and not first.lead and first.concepts:
        return None  # the sofa has moved, not its owner
    if frame.words:
        if first.lead or first.concepts[: len(frame.words)] != frame.words:
            return None
        if not frame.lead:
            rest = first.concepts[len(frame.words) :]
            if not rest and not first.values and len(chunks) > 1:
                return None
            return _slot(frame.attribute, first, rest) if rest or first.values else None
    for chunk in chunks:
        if chunk.lead == frame.lead and (chunk.concepts or chunk.values):
            return _slot(frame.attribute, chunk, chunk.concepts)
        if not frame.lead and chunk.lead:
            return None
    return None


def _slot(attribute: str, chunk: Chunk, concepts: tuple[str, ...]) -> Slot:
    return Slot(attribute, concepts, chunk.values, names=chunk.names, start=chunk.start, end=chunk.end)


@cache
def _attribute_nouns() -> dict[str, str]:
    return {concept_of(noun): attribute for noun, attribute in pairs("reconcile_attributes.tsv").items()}


def named_attribute(party: Party, topic: tuple[str, ...], verb: str, chunks: tuple[Chunk, ...]) -> tuple[Slot, ...]:
    """The attribute that a noun names ("User's salary is 61,000"), where its owner is a person."""
    if len(topic) != 1 or party.kind == "thing" or not chunks or verb not in _GIVES:
        return ()
    attribute = _attribute_nouns().get(topic[0])
    placed = chunks[0].lead and (attribute in _THINGS or chunks[0].lead not in ("on", "at", "in", "to", "by"))
    if attribute is None or placed:
        return ()
    return (_slot(attribute, chunks[0], chunks[0].concepts),)


@cache
def _marital() -> frozenset[str]:
    """Verbs that tell a marital status: marries, is divorced, is engaged."""
    return frozenset(concept_of(verb) for verb in ("marry", "divorce", "engage", "separate", "widow"))


def _at_company(verb: str, chunks: tuple[Chunk, ...]) -> list[Slot]:
    """ "is now at BigTech Inc": being at a company is working there."""
    if verb not in ("be", ""):
        return []
    firms = frozenset(concept_of(word) for word in words("reconcile_firms.txt"))
    return [
        _slot("employer", chunk, chunk.concepts)
        for chunk in chunks
        if chunk.lead in ("at", "with") and chunk.names & firms
    ][:1]


def _by_quantity(party: Party, verb: str, chunks: tuple[Chunk, ...]) -> list[Slot]:
    """A person who is so many kilos, or so many metres tall."""
    if verb not in ("be", "weigh", "measur", "") or not chunks or chunks[0].lead not in ("", "to", "at"):
        return []
    chunk = chunks[0]
    if len(chunk.values) != 1 or chunk.values[0].kind != "measure":
        return []
    attribute = {"mass": "weight", "length": "height"}.get(chunk.values[0].unit)
    tall = concept_of("tall") in chunk.concepts or not chunk.concepts
    return [_slot(attribute, chunk, ())] if attribute and tall else []


def _classes(verb: str, chunks: tuple[Chunk, ...], party: Party) -> list[Slot]:
    """What someone is: an occupation, a diet, a marital status, so many years old."""
    found: list[Slot] = []
    for chunk in chunks:
        if chunk.lead not in ("", "as", "to"):
            continue
        kind = _class_of(chunk)
        if kind:
            found.append(_slot(CLASSES[kind], chunk, chunk.concepts))
        elif verb in ("be", "turn", "becom") and chunk is chunks[0] and _is_age(chunk):
            found.append(_slot("age", chunk, ()))
        if not chunk.lead and not chunk.concepts:
            break
    if party.kind == "relative" and not found and verb == "be" and chunks and _is_name(chunks[0]):
        found.append(_slot("name", chunks[0], chunks[0].concepts))
    return found


def _class_of(chunk: Chunk) -> str:
    for concept in reversed(chunk.concepts):
        if concept in chunk.names:
            continue
        if concept in fold_set("reconcile_kin.txt"):
            break  # somebody's husband is nothing by trade
        for kind in CLASSES:
            if concept != concept_of(kind) and is_kind_of(concept, concept_of(kind)):
                return kind
        break
    return ""


def _is_age(chunk: Chunk) -> bool:
    if len(chunk.values) != 1 or chunk.lead:
        return False
    value = chunk.values[0]
    aged = set(chunk.concepts) <= {concept_of(word) for word in _AGE_WORDS}
    return value.kind == "number" and aged and 0 < value.amount <= MAX_AGE


def _is_name(chunk: Chunk) -> bool:
    return not chunk.lead and bool(chunk.names) and set(chunk.concepts) == set(chunk.names) and not chunk.values
