"""Extract entities and relations from a text by rules: no model, no key, no network.

Questions, suppositions, hopes, quotations and denials state nothing, and in doubt nothing is extracted: search still
finds the memory of a missing relation, but a wrong relation misleads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import cache

from perdure.domain.clock import parse_moment
from perdure.domain.graph import DEFAULT_TYPE, Mention, Relation, entity_key
from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.relations.clauses import (
    LONGEST_SENTENCE,
    Clause,
    Verb,
    adverbs,
    clauses,
    copulas,
    is_quoted,
    sentences,
    unsure,
    verbs,
)
from perdure.pipeline.curation.rules.relations.names import (
    NAME,
    Thing,
    head,
    is_given_name,
    names_in,
    read_thing,
    trimmed,
    type_of,
)
from perdure.pipeline.curation.rules.relations.roles import (
    ANY,
    BEGINS,
    ENDS,
    EVENT,
    FUTURE,
    HOLDS,
    PAST,
    Role,
    Tie,
    kin,
    read_role,
    relate,
    slots,
)
from perdure.pipeline.curation.rules.relations.times import Times, take_times

# Relations that change hands: "Bob replaced Alice as lead", "Bob took over fundraising from Alice".

_ROLE = r"as (?P<role>.+)"
_REPLACED = Pattern(
    rf"(?P<verb>replaced|succeeded|has replaced|has succeeded|will replace|will succeed|replaces|succeeds|"
    rf"took over from|takes over from|has taken over from|will take over from) (?P<other>{NAME}) {_ROLE}"
)
_WAS_REPLACED = Pattern(
    rf"(?P<verb>was|has been|is|will be) (?:being )?(?:replaced|succeeded) by (?P<other>{NAME}) {_ROLE}"
)
_TOOK_ROLE = Pattern(rf"(?P<verb>took over|takes over|has taken over|will take over) {_ROLE} from (?P<other>{NAME})")
_TOOK = Pattern(
    rf"(?P<verb>took over|takes over|has taken over|will take over) (?P<thing>.+?)(?: from (?P<other>{NAME}))?"
)
_HANDED = Pattern(
    rf"(?P<verb>handed|hands|has handed|will hand|passed) (?:over )?(?P<thing>.+?) (?:over |on )?to (?P<other>{NAME})"
)


def read_succession(subject: str, predicate: str, *, about: Mapping[str, str]) -> Iterator[tuple[Tie, str, bool]]:
    """Who held it until then, and who holds it from then on; what is told, and whether only with a date."""
    if (found := _REPLACED.fullmatch(predicate) or _TOOK_ROLE.fullmatch(predicate)) is not None:
        role = read_role(found["role"], about=about)
        yield from _change(trimmed(found["other"]), subject, role, found["verb"])
    elif (found := _WAS_REPLACED.fullmatch(predicate)) is not None:
        role = read_role(found["role"], about=about)
        yield from _change(subject, trimmed(found["other"]), role, found["verb"])
    elif (found := _TOOK.fullmatch(predicate)) is not None:
        yield from _change(trimmed(found["other"] or ""), subject, _post(found["thing"], about), found["verb"])
    elif (found := _HANDED.fullmatch(predicate)) is not None:
        yield from _change(subject, trimmed(found["other"]), _post(found["thing"], about), found["verb"])


def _post(words: str, about: Mapping[str, str]) -> Role | None:
    """What is handed over: a post, or something to lead."""
    role = read_role(re.sub(r" (?:role|position|post|job)$", "", words), about=about)
    if role is not None:
        return role
    thing = read_thing(head(words), "ground")
    if thing is None or thing.type not in ("project", "organization", "concept", "product") or thing.name[0].isupper():
        return None  # "took over Acme": a purchase
    return Role("leads", thing, "in")


def _change(before: str, after: str, role: Role | None, verb: str) -> Iterator[tuple[Tie, str, bool]]:
    if role is None or role.target.name in (before, after):
        return
    future = verb.startswith("will")
    if before:
        yield Tie.by_role(Thing(before, "person"), role, "succession"), ENDS, future
    yield Tie.by_role(Thing(after, "person"), role, "succession"), FUTURE if future else BEGINS, future


# Relations that verbs tell of: "leads the launch team", "joined Google", "was founded by Ana".

_PASSIVE = frozenset({"leads", "manages", "chairs", "owns", "founded", "acquired", "mentors"})


def read_action(subject: Thing, predicate: str, *, loose: bool) -> Iterator[tuple[Tie, str, bool]]:
    """What the predicate's verb ties the subject to, what it tells, and whether it must have a date to count.

    `loose`: the verb may stand as after "I" or "they".
    """
    for verb, pattern in _patterns():
        found = pattern.match(predicate)
        if found is None:
            continue
        group = found.lastgroup or ""
        if group == "base" and not loose:
            continue
        rest = predicate[found.end() :].strip()
        if group == "passive":
            yield from _passive(subject, verb, rest, found["auxiliary"])
            return
        tie = _tie(subject, verb, rest)
        if tie is not None:
            tells, needs_date = _tells(verb, group, found)
            if tells:
                yield tie, tells, needs_date
            return


def _tells(verb: Verb, group: str, found: re.Match[str]) -> tuple[str, bool]:
    """What the form of a verb tells, "" for nothing, and whether it counts only with a date."""
    if group == "stopped":
        return (ENDS, False) if verb.tells == "holds" else ("", False)
    future = group == "future"
    if verb.tells == "holds":
        if group == "perfect":
            return HOLDS, True
        return {"past": PAST, "future": FUTURE}.get(group, HOLDS), future
    tells = {"begins": BEGINS, "ends": ENDS, "event": EVENT}[verb.tells]
    is_open = future or group in ("continuous", "present", "base")
    return (FUTURE if future and tells != ENDS else tells), is_open


def _tie(subject: Thing, verb: Verb, rest: str) -> Tie | None:
    relation = verb.relation
    _, _, kind = slots()[relation]
    words = head(rest)
    if not words:
        return None
    after = rest[len(words) :].strip()
    by_hand = "ground" if relation in ("leads", "manages", "chairs", "works_on", "owns") else kind
    thing = read_thing(words, by_hand)
    if thing is None:
        return None
    is_ground = re.fullmatch(NAME, words.removeprefix("the ")) is None
    if verb.forms[0] in ("joins", "leaves", "quits"):
        if is_ground or words.lower().startswith("the "):
            relation = "member_of"
        elif is_given_name(thing.name) or thing.type in ("location", "technology") or after.startswith(("for ", "at ")):
            return None
    if not _fits(subject, relation, thing, is_ground=is_ground):
        return None
    if relation in ("reports_to", "married_to", "knows") and thing.type == "concept":
        thing = Thing(thing.name, "person")
    return Tie.by_verb(subject, relation, thing, f"verb:{verb.forms[1]}")


def _fits(subject: Thing, relation: str, thing: Thing, *, is_ground: bool) -> bool:
    """Whether the two ends are such as the relation has; in doubt not."""
    if relation == "uses":
        return thing.type == "technology"
    if relation in ("leads", "manages", "chairs", "owns"):
        return thing.type != "technology" and (thing.type != "person" or relation == "manages")
    if relation == "knows":
        return is_given_name(thing.name)
    if relation == "works_with":
        return not is_ground and thing.type in ("person", "organization", "concept")
    if relation == "acquired":
        return not is_given_name(subject.name) and "organization" in (subject.type, type_of(thing.name))
    if relation in ("reports_to", "married_to", "mentors", "lives_in", "works_at", "studies_at") and is_ground:
        return False
    if relation in ("reports_to", "married_to", "mentors"):
        return thing.type in ("person", "concept")
    if relation in ("works_at", "studies_at"):
        return thing.type in ("organization", "concept", "product")
    return relation != "lives_in" or thing.type == "location"


def _passive(subject: Thing, verb: Verb, rest: str, auxiliary: str) -> Iterator[tuple[Tie, str, bool]]:
    """ "The launch team is led by Ana": said of the subject, it relates the one named after "by"."""
    found = re.match(rf"by ({NAME})", rest)
    name = trimmed(found[1]) if found else ""
    if verb.relation not in _PASSIVE or not name:
        return
    kind = "person" if is_given_name(name) else type_of(name, "person")
    tells = EVENT if verb.tells == "event" else PAST if auxiliary in ("was", "were") else HOLDS
    if auxiliary == "will be":
        tells = FUTURE
    yield Tie.by_verb(Thing(name, kind), verb.relation, subject, f"verb:{verb.forms[1]}"), tells, tells == FUTURE


@cache
def _patterns() -> tuple[tuple[Verb, re.Pattern[str]], ...]:
    return tuple((verb, _pattern(verb)) for verb in verbs())


def _pattern(verb: Verb) -> re.Pattern[str]:
    """A verb in any tense, with one of the words that follow it; the group that took part is the tense."""
    present, base, past, participle, gerund = map(re.escape, verb.forms)
    between = f"(?:{adverbs().pattern})*"
    after = "|".join(f" {re.escape(word)}" for word in verb.after if word)
    manner = "(?: (?:remotely|full-time|part-time|directly|freelance))?"
    after = f"{manner}(?:{after}){'?' if '' in verb.after else ''}" if after else ""
    has, be = r"(?:has|have|'ve|’ve)", r"(?:is|are|am|'s|’s|'m|’m|'re|’re)"
    return re.compile(
        rf"(?:(?P<future>will {between}(?:be {gerund}|{base})|{be} going to {base})|(?P<past>(?:was|"
        rf"were) {between}{gerund}|had {between}{participle}|used to {base}|{past})|(?P<present>{present}|{has} "
        rf"been {between}{gerund})|(?P<continuous>{be} {between}{gerund})|(?P<perfect>{has} {between}{participle})|"
        rf"(?P<stopped>(?:has )?(?:stopped|quit|ceased) {gerund})|(?P<base>{base})){after}(?= )|(?P<auxiliary>is|are|"
        rf"was|were|has been|will be) {between}(?P<passive>{participle})(?= by )"
    )


USER = "User"  # what the curator calls the person that it writes facts about
LONGEST = 20_000  # characters of a text that are read; a memory is a sentence or two

_AFFILIATED = Pattern(rf"(?P<name>{NAME}),? (?:at|from|@) (?P<place>{NAME})")
_MEETING = Pattern(
    r"\b(?:met|meet(?:s|ing)?|lunch|dinner|coffee|breakfast|drinks|party|saw|seen|see|conference|talk|event|concert|"
    r"visit(?:s|ed)?|keynote|interview\w*|shopping|stayed|waiting|waited)\b",
    re.IGNORECASE,
)

_TIMELESS = ("kin", "apposition")  # what stands beside a clause: its times are not the clause's

Read = tuple[Tie, str, bool]


def read_relations(
    text: str, *, told_at: str, speaker: str | None = None, user_name: str = USER, about: str | None = None
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
