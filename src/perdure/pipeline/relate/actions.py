"""Relations that verbs tell of: "leads the launch team", "joined Google", "was founded by Ana"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from perdure.pipeline.relate.grounds import Thing, head, read_thing
from perdure.pipeline.relate.names import NAME, is_given_name, trimmed, type_of
from perdure.pipeline.relate.roles import slots
from perdure.pipeline.relate.stated import BEGINS, ENDS, EVENT, FUTURE, HOLDS, PAST, Tie
from perdure.pipeline.relate.words import Verb, adverbs, verbs

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
        rf"(?:(?P<future>will {between}(?:be {gerund}|{base})|{be} going to {base})|"
        rf"(?P<past>(?:was|were) {between}{gerund}|had {between}{participle}|used to {base}|{past})|"
        rf"(?P<present>{present}|{has} been {between}{gerund})|(?P<continuous>{be} {between}{gerund})|"
        rf"(?P<perfect>{has} {between}{participle})|(?P<stopped>(?:has )?(?:stopped|quit|ceased) {gerund})|"
        rf"(?P<base>{base})){after}(?= )|"
        rf"(?P<auxiliary>is|are|was|were|has been|will be) {between}(?P<passive>{participle})(?= by )"
    )
