"""Entities and relations read out of a text by rules: no model, no key, no network (000 §4.5, 004 X65; T33, T34).

What only asks, supposes, hopes, quotes or denies states nothing, and in doubt nothing is read: a relation that is
missing is found by search all the same, one that is wrong misleads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from perdure.domain.clock import parse_moment
from perdure.domain.graph import DEFAULT_TYPE, Mention, Relation, entity_key
from perdure.domain.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.relate.actions import read_action
from perdure.pipeline.relate.clauses import LONGEST as LONGEST_SENTENCE
from perdure.pipeline.relate.clauses import Clause, clauses, is_quoted, sentences
from perdure.pipeline.relate.grounds import Thing
from perdure.pipeline.relate.names import NAME, is_given_name, names_in, trimmed, type_of
from perdure.pipeline.relate.roles import ANY, kin, read_role
from perdure.pipeline.relate.stated import EVENT, FUTURE, HOLDS, PAST, Tie, relate
from perdure.pipeline.relate.succession import read_succession
from perdure.pipeline.relate.times import Times, take_times
from perdure.pipeline.relate.words import copulas, unsure

USER = "User"
"""What the curator calls the person that it writes facts about."""
LONGEST = 20_000
"""Characters of a text that are read; a memory is a sentence or two."""

_AFFILIATED = Pattern(rf"(?P<name>{NAME}),? (?:at|from|@) (?P<place>{NAME})")
_MEETING = Pattern(
    r"\b(?:met|meet(?:s|ing)?|lunch|dinner|coffee|breakfast|drinks|party|saw|seen|see|conference|talk|event|concert|"
    r"visit(?:s|ed)?|keynote|interview\w*|shopping|stayed|waiting|waited)\b",
    re.IGNORECASE,
)

_TIMELESS = ("kin", "apposition")
"""What stands beside a clause: its times are not the clause's."""

Read = tuple[Tie, str, bool]


def read_relations(
    text: str,
    *,
    told_at: str,
    speaker: str | None = None,
    user_name: str = USER,
    about: str | None = None,
) -> tuple[tuple[Mention, ...], tuple[Relation, ...]]:
    """The entities that a text names and the relations that it states, in their order, each once.

    `told_at` (ISO 8601; InvalidInputError if not) is from when "last month" counts. `speaker` is who says "I";
    `user_name` the entity that "User" stands for; `about` what a role belongs to where the text does not say so, such
    as the project of the memory: there "the lead" is the project's.
    """
    told = parse_moment(told_at, "told_at")
    text = " ".join(text[:LONGEST].replace("\u00a0", " ").split(" "))
    things: dict[str, Thing] = {}
    found: dict[Relation, None] = {}
    grounds = {} if about is None else {ANY: about}
    for clause in clauses(text, told, me=speaker or user_name):
        for read, tells, needs_date in list(_read(clause, grounds)):
            tie = _as_user(read, user_name)
            if tie.slot == "in" and tie.relation != "has_role":
                grounds[tie.relation] = tie.target.name  # "... Bob became the lead": of the same
            times = Times("") if tie.rule in _TIMELESS else clause.times
            if needs_date and not (times.when or times.end):
                continue
            for relation in relate(tie, tells, times, told, gone=clause.gone, shared=len(clause.subjects) > 1):
                found[relation] = None
                _note(things, (tie.source, tie.target))
    for tie, times in _affiliations(text, told):
        for relation in relate(tie, HOLDS, times, told):
            if not any(_same(relation, other) for other in found):
                found[relation] = None
                _note(things, (tie.source, tie.target))
    for name in names_in(text):
        _note(things, [_named(name, user_name)])
    return tuple(Mention(name=each.name, type=each.type) for each in things.values()), tuple(found)


def _read(clause: Clause, about: Mapping[str, str]) -> Iterator[Read]:
    for name in clause.subjects:
        subject = Thing(name, _subject_type(clause, name))
        role = kin(clause.role[1], clause.role[0]) if clause.role else None
        if role is not None and not clause.gone:
            yield Tie.by_role(Thing(name, _kin_type(role.relation)), role, "kin"), HOLDS, False
        beside = read_role(clause.apposed, about=about) if clause.apposed else None
        if beside is not None:
            yield (
                Tie.by_role(_person(subject, beside.relation), beside, "apposition"),
                PAST if beside.former else HOLDS,
                False,
            )
        changes = list(read_succession(name, clause.predicate, about=about))
        if changes:
            yield from changes
            continue
        yield from _copula(subject, clause, about) or read_action(
            subject, clause.predicate, loose=clause.plural or clause.gone
        )


def _copula(subject: Thing, clause: Clause, about: Mapping[str, str]) -> list[Read]:
    predicate = f"is {clause.predicate}" if clause.gone and not _is_copula(clause.predicate) else clause.predicate
    for pattern, tense in copulas():
        found = pattern.fullmatch(predicate)
        if found is None:
            continue
        role = read_role(found["role"], about=about)
        if role is None:
            continue
        tells = PAST if tense == HOLDS and (clause.former or role.former) else tense
        tells = EVENT if role.relation == "born_in" else tells
        return [(Tie.by_role(_person(subject, role.relation), role, "role"), tells, tells == FUTURE)]
    return []


def _is_copula(predicate: str) -> bool:
    return any(pattern.fullmatch(predicate) for pattern, _ in copulas())


def _person(subject: Thing, relation: str) -> Thing:
    """Who has a role is a person, if nothing else is known; what is based somewhere need not be."""
    if relation == "based_in" or subject.type != DEFAULT_TYPE:
        return subject
    return Thing(subject.name, _kin_type(relation))


def _subject_type(clause: Clause, name: str) -> str:
    if clause.subject_type != "-":
        return clause.subject_type
    return type_of(name)


def _kin_type(relation: str) -> str:
    return DEFAULT_TYPE if relation.removesuffix("_of") in lexicon.words("pets.txt") else "person"


def _affiliations(text: str, told: datetime) -> Iterator[tuple[Tie, Times]]:
    """ "Alice at Google": where the second is known to be an organization, and nobody met there."""
    for sentence in sentences(text):
        if len(sentence) > LONGEST_SENTENCE or is_quoted(sentence):
            continue
        times = take_times(sentence.rstrip(" .!"), told, 0)
        if unsure().search(times.rest):
            continue
        for found in _AFFILIATED.finditer(times.rest):
            name, place = trimmed(found["name"], opens=found.start() == 0), trimmed(found["place"])
            before = times.rest[: found.start()]
            if not name or not place or name.islower() or type_of(name) not in ("person", DEFAULT_TYPE):
                continue
            if type_of(place) != "organization" or _MEETING.search(before):
                continue
            if is_given_name(name) or not before:
                person = Thing(name, "person")
                yield Tie.by_verb(person, "works_at", Thing(place, "organization"), "at"), Times(times.rest)


def _as_user(tie: Tie, user_name: str) -> Tie:
    """The tie with "User" as the entity that stands for the user."""
    ends = [Thing(user_name, "person") if each.name == USER else each for each in (tie.source, tie.target)]
    return replace(tie, source=ends[0], target=ends[1])


def _named(name: str, user_name: str) -> Thing:
    return Thing(user_name, "person") if name == USER else Thing(name, type_of(name))


def _same(one: Relation, other: Relation) -> bool:
    return (one.source_key, one.relation, one.target_key) == (other.source_key, other.relation, other.target_key)


def _note(things: dict[str, Thing], named: Iterable[Thing]) -> None:
    """Keep each thing once; a type that a relation told counts more than none."""
    for thing in named:
        known = things.get(entity_key(thing.name))
        if known is None or (known.type == DEFAULT_TYPE and thing.type != DEFAULT_TYPE):
            things[entity_key(thing.name)] = Thing(known.name if known else thing.name, thing.type)
