"""Typed slots: what a statement says, as subject, attribute and value in canonical form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from perdure.domain.memory import Slots
from perdure.domain.text.pattern import Pattern
from perdure.pipeline.curation.rules.memo import per_text
from perdure.pipeline.curation.rules.slots.scan import (
    ARTICLES,
    USER,
    Chunk,
    Mood,
    Party,
    Reading,
    Slot,
    Token,
    Value,
    comparable,
    concept_of,
    fits,
    fold_set,
    is_kind_of,
    phrase_starts,
    rewrite,
    scan,
    stem,
    synonyms,
)
from perdure.pipeline.curation.rules.slots.subject import Predicate, Subject, read_predicate, read_subject
from perdure.pipeline.curation.rules.slots.typed import type_values
from perdure.pipeline.lexicon import lines, pairs, word_set, words

__all__ = [
    "USER",
    "Answer",
    "Chunk",
    "Mood",
    "Party",
    "Reading",
    "Slot",
    "Value",
    "answers",
    "comparable",
    "fits",
    "read",
    "read_slots",
]

# Phrases: runs of words that stand for one concept ("can't stand", "gave up", "better half") as one token.


def join_phrases(tokens: list[Token]) -> list[Token]:
    """The tokens with each known phrase as one token, whose stem is its concept ("" if the phrase says nothing)."""
    joined: list[Token] = []
    place = 0
    while place < len(tokens):
        length, concept = _longest(tokens, place)
        token = tokens[place]
        if length == 0:
            joined.append(token)
            place += 1
            continue
        last = tokens[place + length - 1]
        low = " ".join(part.low for part in tokens[place : place + length])
        name = token.name and length == 1
        joined.append(replace(token, low=low, stem=concept, end=last.end, name=name))
        place += length
    return joined


def _longest(tokens: list[Token], place: int) -> tuple[int, str]:
    """Tokens and concept of the longest phrase that begins at a place; articles inside a phrase are passed over."""
    table = synonyms()
    limit = phrase_starts().get(tokens[place].stem, 0) if tokens[place].value is None else 0
    key: list[str] = []
    best = (0, "")
    for at in range(place, len(tokens)):
        token = tokens[at]
        if len(key) >= limit or token.stop or token.value is not None:
            break
        if key and token.low in ARTICLES:
            continue
        key.append(token.stem)
        concept = table.get(tuple(key))
        if concept is not None:
            best = (at - place + 1, concept)
    return best


# Converse verbs: "Marek sold User the tent" and "User bought the tent from Marek" read alike.


@cache
def _converses() -> dict[str, str]:
    """Stem of each verb of the giving side to the verb of the taking side."""
    table: dict[str, str] = {}
    for line in lines("reconcile_converses.tsv"):
        giving, _, taking = line.partition("\t")
        table[stem(giving)] = concept_of(taking)
    return table


def turn_round(reading: Reading, giving: str) -> Reading | None:
    """The reading from the taking side, where the verb it was said with has one and says who takes; else None."""
    taking = _converses().get(giving)
    if taking is None or reading.topic:
        return None
    for place, chunk in enumerate(reading.chunks):
        taker = _taker(chunk, first=place == 0)
        if taker is None:
            continue
        giver = _as_concepts(reading.party)
        if not giver:
            return None
        rest = [*reading.chunks[:place], *reading.chunks[place + 1 :]]
        kept = tuple(concept for concept in chunk.concepts if concept not in taker[1]) if not chunk.lead else ()
        if kept:
            rest.insert(0, replace(chunk, concepts=kept, names=chunk.names - taker[1]))
        source = Chunk("from", giver, frozenset(giver) - {USER})
        concepts = (reading.concepts - {reading.verb} - taker[1]) | {taking} | set(giver)
        return replace(
            reading,
            party=taker[0],
            verb=taking,
            chunks=(*rest, source),
            concepts=concepts,
            names=(reading.names | source.names) - taker[1],
            slots=(),
            mood=replace(reading.mood, ended=False),
        )
    return None


def _taker(chunk: Chunk, *, first: bool) -> tuple[Party, frozenset[str]] | None:
    """Who a phrase names as the taking side: after "to", or as the first of two objects."""
    if chunk.lead not in ("to", "") or (not chunk.lead and not first) or not chunk.concepts:
        return None
    if chunk.concepts[0] == USER:
        return Party("user"), frozenset({USER})
    names = [concept for concept in chunk.concepts if concept in chunk.names]
    if chunk.lead == "to" and names and len(names) == len(chunk.concepts):
        return Party("named", name=" ".join(names)), frozenset(names)
    if not chunk.lead and names and chunk.concepts[0] in chunk.names and len(chunk.concepts) > 1:
        return Party("named", name=chunk.concepts[0]), frozenset({chunk.concepts[0]})
    return None


def _as_concepts(party: Party) -> tuple[str, ...]:
    if party.kind == "user":
        return (USER,)
    return tuple(party.name.split()) or ((party.relation,) if party.relation else ())


# Frames: which single-valued attributes of a person a predicate fills ("is based in Graz": home, Graz).

CLASSES = {"occupation": "role", "diet": "diet", "marital": "status", "handedness": "handedness", "faith": "faith"}
"""Kinds of thing that someone "is", each with the attribute that it fills."""
MAX_AGE = 120
_GIVES = frozenset({"be", "", "mov", "call", "becom", "read", "say"})  # verbs that give a named attribute its value
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
    if frame.attribute == "partner" and any(_class_of(chunk) == "occupation" and not chunk.names for chunk in chunks):
        return None  # who sees a doctor is not together with one
    if frame.attribute == "home" and not frame.words and not first.lead and first.concepts:
        return None  # the sofa has moved, not its owner
    if not frame.lead and not frame.words and not _is_body(frame, first):
        return None
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
            if frame.attribute == "home" and chunk.lead == "on" and not _is_ground(chunk):
                continue  # coffee and savings are lived on, and nobody's home
            return _slot(frame.attribute, chunk, chunk.concepts)
        if not frame.lead and chunk.lead:
            return None
    return None


def _is_body(frame: Frame, chunk: Chunk) -> bool:
    """Whether what somebody attends is a school, and what they join may employ them.

    "Is going to keep the cat" and "is going to a conference" name no school, "joined a gym" no employer.
    """
    if frame.attribute == "school":
        return not _schools().isdisjoint(chunk.concepts)
    if frame.attribute == "employer":
        return bool(chunk.names) or not _firms().isdisjoint(chunk.concepts)
    return True


@cache
def _schools() -> frozenset[str]:
    return frozenset(concept_of(word) for word in word_set("slots.schools"))


@cache
def _firms() -> frozenset[str]:
    return frozenset(concept_of(word) for word in words("reconcile_firms.txt"))


def _is_ground(chunk: Chunk) -> bool:
    """Whether what somebody lives on is a place: a name ("Texel"), or a kind of ground ("a farm")."""
    return bool(chunk.names) or not _grounds().isdisjoint(chunk.concepts[-1:])


@cache
def _grounds() -> frozenset[str]:
    return frozenset(concept_of(word) for word in word_set("slots.grounds"))


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
    return [
        _slot("employer", chunk, chunk.concepts)
        for chunk in chunks
        if chunk.lead in ("at", "with") and chunk.names & _firms()
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


@per_text(4096)
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
    doers = {concept_of(name) for name in _BY.findall(text)}
    doer_last = not doers.isdisjoint(subject.party.name.split())
    return replace(reading, turned=turn_round(reading, predicate.said), doer_last=doer_last)


_BY = Pattern(r"\bby ([^\W\d_][\w'-]*)")
_FROM_A_PLACE = Pattern(r"\bfrom (?:the |an? |User's |their )?[A-ZÀ-Þ]")


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
        if predicate.replaced and not _FROM_A_PLACE.search(text):  # "moved from redis to NATS" tells no home
            slots = tuple(slot for slot in slots if slot.attribute != "home")
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
        qualifier=subject.qualifier,
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


# Answers: the questions that a statement answers, in one of several shapes ("the clay comes from Leiria": whence).
