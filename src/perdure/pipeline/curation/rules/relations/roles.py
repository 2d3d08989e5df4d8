"""What somebody is said to be: "the lead of fundraising", "Alice's sister", "a senior engineer at Google"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from perdure.domain.clock import iso
from perdure.domain.graph import DEFAULT_TYPE, Relation, entity_key
from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.relations.names import (
    NAME,
    Thing,
    head,
    lines,
    read_held,
    read_thing,
    table,
    trimmed,
    type_of,
)
from perdure.pipeline.curation.rules.relations.times import Times

_DEFINITE = Pattern(r"^(?:the|our|their|its)\s+", re.IGNORECASE)
_INDEFINITE = Pattern(r"^(?:an?|one of (?:the|our))\s+", re.IGNORECASE)
_ADJECTIVE = Pattern(
    r"^(?:new|current|interim|acting|official|overall|sole|first|permanent|former|next|only|main|senior|junior)\s+"
)
_FORMER = Pattern(r"^(?:(?:the|our|a|an|their)\s+)?(?:former|previous|ex)[ -]", re.IGNORECASE)
_OWNED = Pattern(rf"(?P<owner>{NAME})['’]s? (?P<role>[a-zA-Z][\w' -]*)")
_OF = Pattern(r"^(?P<role>[\w' -]+?) (?P<word>of|for|at|in|on|with) (?P<thing>.+)$")
_STATES: tuple[tuple[Pattern, str], ...] = (
    (Pattern(r"in charge of (?P<thing>.+)"), "leads"),
    (Pattern(r"(?:based|located|headquartered) in (?P<thing>.+)"), "based_in"),
    (Pattern(r"(?:happily )?married to (?P<thing>.+)"), "married_to"),
    (Pattern(r"engaged to (?P<thing>.+)"), "engaged_to"),
    (Pattern(r"employed (?:by|at) (?P<thing>.+)"), "works_at"),
    (Pattern(r"born in (?P<thing>.+)"), "born_in"),
    (Pattern(r"(?:on|part of) (?P<thing>the .+)"), "member_of"),
    (Pattern(r"friends with (?P<thing>.+)"), "friend_of"),
)
ANY = "*"  # what every post of a project is of, where a text names none: the project that its memory belongs to
_OF_PROJECTS = frozenset({"leads", "manages", "chairs", "owns", "member_of", "tech_lead_of", "product_owner_of"})
_NO_JOB = frozenset({"customer", "client", "friend", "patient", "guest", "visitor", "member", "user", "fan", "regular"})


@dataclass(frozen=True, slots=True)
class Role:
    """A relation that a role stands for, to what; `turned` where it leads from there to who has the role."""

    relation: str
    target: Thing
    slot: str | None  # in, out, or None
    turned: bool = False
    former: bool = False


@cache
def slots() -> dict[str, tuple[str, str, str]]:
    """Relation to its slot, and the types of what it leads from and to."""
    return {row[0]: (row[1], row[2], row[3]) for row in table("relations.tsv")}


def read_role(words: str, *, about: Mapping[str, str]) -> Role | None:
    """What a role relates somebody to; None where it relates them to nothing that has a name.

    `about` has, by relation or at ANY, what is spoken of where the role does not say of what it is one; without it "the
    lead" is a thing itself.
    """
    former = _FORMER.search(words)
    bare = _FORMER.sub("", words).strip(" ,.") if former else words.strip(" ,.")
    role = _state(bare) or _owned(bare) or _post(bare, about)
    return Role(role.relation, role.target, role.slot, role.turned, bool(former)) if role else None


def kin(role: str, owner: str) -> Role | None:
    """What somebody is to a person; None where the word says nothing of persons."""
    word = role.strip().lower()
    for _ in range(2):
        word = re.sub(
            r"^(?:older|younger|elder|little|big|twin|late|new|old|eldest|oldest|youngest|direct|current) ", "", word
        )
    relation = _people_roles().get(word)
    target = Thing(owner, "person")
    if relation is not None:
        turned, relation = relation.startswith("<"), relation.lstrip("<")
        slot = slots().get(relation, ("-", "", ""))[0]
        return Role(relation, target, slot if slot != "-" else None, turned)
    if word in lexicon.pairs("kin.tsv") or word in lexicon.words("pets.txt"):
        return Role(f"{re.sub('[ -]', '_', word)}_of", target, None)
    return None


@cache
def _people_roles() -> dict[str, str]:
    """What somebody may be to a person, to its relation."""
    return {row[0]: row[1] for row in table("people_roles.tsv")}


@cache
def posts() -> dict[str, str]:
    """Posts to their relations, the longest first."""
    return dict(sorted(((row[0], row[1]) for row in table("posts.tsv")), key=lambda each: -len(each[0])))


@cache
def exclusive() -> frozenset[str]:
    """Relations of posts that one holds at a time."""
    shared = {posts()[post] for post in lines("shared_posts.txt")}
    return frozenset(posts().values()) - shared


def _state(words: str) -> Role | None:
    for pattern, relation in _STATES:
        found = pattern.fullmatch(words)
        if found is None:
            continue
        slot, _, kind = slots()[relation]
        thing = read_thing(head(found["thing"]), "ground" if relation == "leads" else kind)
        return Role(relation, thing, slot if slot != "-" else None) if thing is not None else None
    return None


def _owned(words: str) -> Role | None:
    found = _OWNED.fullmatch(words)
    if found is None:
        return None
    owner = trimmed(found["owner"])
    if not owner:
        return None
    is_company = type_of(owner) == "organization"
    person = None if is_company else kin(found["role"], owner)
    if person is not None:
        return person
    relation = posts().get(_plain(found["role"]))
    return _held(relation, _plain(found["role"]), Thing(owner, type_of(owner, "organization"))) if relation else None


def _post(words: str, about: Mapping[str, str]) -> Role | None:
    """A post, of something that is named after it, before it, or not at all."""
    is_one_of_many = _INDEFINITE.match(words) is not None
    role, thing, word = _head_of(words)
    if thing is not None and word == "of" and role not in posts() and thing.type in ("person", DEFAULT_TYPE):
        relative = kin(role, thing.name)
        if relative is not None and thing.name[0].isupper():
            return relative
    if thing is not None and word in ("at", "for", "with") and _is_job(role):
        relation = posts().get(role, "")
        if not relation.endswith("_of") or relation == "member_of":
            return Role("works_at", thing, "out") if _may_employ(thing) else None
    if role in posts():
        if thing is not None:
            return _held(posts()[role], role, thing)
        if is_one_of_many or word:
            return None
        relation = posts()[role]
        ground = about.get(relation) or (about.get(ANY) if relation in _OF_PROJECTS else None)
        if ground is not None:
            return _held(relation, role, Thing(ground, "project" if relation not in about else DEFAULT_TYPE))
        return Role("has_role", Thing(role, "concept"), "in") if role not in lines("shared_posts.txt") else None
    for post, relation in posts().items():  # "the fundraising lead"
        before = role.removesuffix(f" {post}")
        if before != role and thing is None and not is_one_of_many:
            named = read_thing(before, "ground")
            return None if named is None else _held(relation, post, named)
    return None


def _head_of(words: str) -> tuple[str, Thing | None, str]:
    """The role in words, what it is one of where that is said and has a name, and the word between them."""
    found = _OF.match(_ADJECTIVE.sub("", _DEFINITE.sub("", _INDEFINITE.sub("", words))))
    if found is None:
        return _plain(words), None, ""
    expected = "organization" if found["word"] in ("at", "with") else "ground"
    role, named = _plain(found["role"]), head(found["thing"])
    thing = read_thing(named, expected)
    if thing is None and role in posts() and found["word"] == "of":
        thing = read_held(named)
    return role, thing, found["word"]


def _plain(words: str) -> str:
    bare = _DEFINITE.sub("", _INDEFINITE.sub("", words.strip())).strip()
    for _ in range(2):
        bare = _ADJECTIVE.sub("", bare)
    return bare if bare.lower() not in posts() else bare.lower()


def _held(relation: str, role: str, thing: Thing) -> Role:
    return Role(relation, thing, None if role in lines("shared_posts.txt") else "in")


def _is_job(role: str) -> bool:
    last = role.lower().split()[-1] if role.split() else ""
    if last in _NO_JOB:
        return False
    return role.lower() in posts() or last in posts() or last in lexicon.words("roles.txt")


def _may_employ(thing: Thing) -> bool:
    return thing.type in ("organization", "concept") and entity_key(thing.name) != "home"


# Relations as the rules make them: the tense of a clause, its times and the moment of telling become validity.

HOLDS, PAST, BEGINS, ENDS, EVENT, FUTURE = "present", "past", "begins", "ends", "event", "future"
"""What a clause tells of a relation: that it holds, held, began, ended; that it happened; that it will begin."""

_BOTH_WAYS = frozenset({"married_to", "engaged_to", "works_with", "knows", "friend_of", "sibling_of", "partner_of"})
"""Relations that say the same either way: they lead from the first by the alphabet, so that both are one edge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tie:
    """A relation with both ends, of which times are not yet known."""

    source: Thing
    relation: str
    target: Thing
    slot: str | None  # in, out, or None
    rule: str

    @classmethod
    def by_role(cls, subject: Thing, role: Role, rule: str) -> Tie:
        """Of somebody who has a role."""
        ends = (role.target, subject) if role.turned else (subject, role.target)
        return cls(source=ends[0], relation=role.relation, target=ends[1], slot=role.slot, rule=rule)

    @classmethod
    def by_verb(cls, source: Thing, relation: str, target: Thing, rule: str) -> Tie:
        """Of a verb; who leads somebody has them report to themself."""
        if relation == "manages" and target.type == "person":
            source, relation, target = target, "reports_to", source
        slot, kind, _ = slots().get(relation, ("-", "-", "-"))
        if source.type == DEFAULT_TYPE and kind != "-":
            source = Thing(source.name, kind)
        return cls(source=source, relation=relation, target=target, slot=slot if slot != "-" else None, rule=rule)


def slot_of(relation: str, source: str, target: str, side: str | None = None) -> str | None:
    """What there is one of at a time, as `Relation.slot` is written; None where many may hold at once.

    `side` is out, in or None; left out, it is what the relation has by relations.tsv.
    """
    side = side or slots().get(relation, ("in" if relation in exclusive() else "-", "", ""))[0]
    if side == "out":
        return f"out:{relation}:{entity_key(source)}"
    return f"in:{relation}:{entity_key(target)}" if side == "in" else None


def validity(tells: str, times: Times, told: datetime) -> tuple[str | None, str | None] | None:
    """From when and until when a relation holds that a clause tells of; None where it tells of no known time.

    What was and is not said to have ended, ended at the latest when it was told.
    """
    now = iso(told)
    happened = tells in (BEGINS, ENDS, EVENT, FUTURE)
    start, end = times.texts(event=happened)
    if (start is None and end is None) and (times.start or times.end or times.within):
        return None
    if tells == ENDS:
        return None, end or start or now
    if tells == PAST:
        return start, end or now
    if tells == FUTURE and start is None:
        return None
    return start, end


def relate(
    tie: Tie, tells: str, times: Times, told: datetime, *, gone: bool = False, shared: bool = False
) -> Iterator[Relation]:
    """The relation of a tie; none where both ends are one. `shared`: several have it together."""
    source, target = tie.source.name, tie.target.name
    if tie.relation in _BOTH_WAYS and entity_key(target) < entity_key(source):
        source, target = target, source
    if entity_key(source) == entity_key(target):
        return
    start: str | None
    end: str | None = None
    if gone:
        moment = times.when or times.end
        start = None if moment is None else iso(moment)
    else:
        valid = validity(tells, times, told)
        if valid is None or (valid[0] and valid[1] and valid[1] <= valid[0]):
            return
        start, end = valid
    yield Relation(
        source=source,
        relation=tie.relation,
        target=target,
        valid_from=start,
        valid_to=end,
        polarity=not gone,
        slot=slot_of(tie.relation, source, target, tie.slot)
        if tie.slot and not (shared and tie.slot == "in")
        else None,
        rule=tie.rule,
        confidence=0.9,
    )
