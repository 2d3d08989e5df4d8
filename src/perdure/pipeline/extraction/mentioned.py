"""What a sentence of any kind tells of the user by a mere mention, be it a question, a request or a statement."""

from __future__ import annotations

import re

from perdure.domain.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.extraction import people, statements
from perdure.pipeline.extraction.discourse import Discourse, Draft
from perdure.pipeline.extraction.presupposed import article
from perdure.pipeline.extraction.wordsets import word_set

_ALLERGY = Pattern(
    r"\b(?:my|with(?: my| an?)?) (?:(?:severe|bad|mild|terrible|nasty|bit of an?) )?(?P<what>"
    r"(?!food\b|skin\b|drug\b|seasonal\b|any\b|other\b|this\b|new\b)[a-z]+(?: [a-z]+)?) "
    r"(?P<how>allerg(?:y|ies)|intolerance)\b",
    re.I,
)
_TRADE = Pattern(
    r"\b(?:my|our) (?P<kind>(?:[a-z][\w-]+ ){0,3}(?P<noun>[a-z]+)),? (?:called |named )?"
    r"(?P<name>[A-ZÀ-Þ][\w'&-]+(?: (?:& |and |of )?[A-ZÀ-Þ][\w'-]+){0,3})"
)


_APPOSED_AGE = Pattern(
    r"\b(?P<whose>(?:my|our) (?:[a-z-]+ ){1,3}?(?P<name>[A-ZÀ-Þ][\w'-]+)), (?:aged )?(?P<age>\d{1,2})"
    r"(?=,|$|\?|\.| who\b)"
)


def read(text: str, talk: Discourse, source: int) -> list[Draft]:
    """What a sentence of any kind tells by a mere mention: allergies, named firms, ages behind names, named kin."""
    told = {draft.text for draft in talk.drafts if source in draft.sources}
    drafts = [
        *_conditions(text, talk, source),
        *_trades(text, talk, source),
        *_taught(text, talk, source, bool(told)),
        *_lives(text, talk, source, told),
    ]
    for match in _APPOSED_AGE.finditer(text):
        if people.relation_in(match.group("whose").split()) and not any(
            match.group("age") in fact.split() for fact in told
        ):
            people.note_people(match.group("whose"), talk)
            drafts.append(statements.make(f"{match.group('name')} is {match.group('age')}", "aged", talk, source))
    return [draft for draft in drafts if not any(_within(draft.text, fact) for fact in told)]


def _within(fact: str, told: str) -> bool:
    """Whether all that a fact says is told already."""
    return set(fact.lower().split()) - {"a", "an", "the", "named", "has"} <= set(told.lower().split())


def named_kin(text: str, talk: Discourse, source: int) -> list[Draft]:
    """Who or what has a name, in a sentence that gave nothing else ("my parrot Duchess swears, do I call a priest")."""
    relation = people.relation_in(text.split())
    if relation is None or relation.noun.removesuffix("s") in people.relation_nouns() - {relation.noun}:
        return []  # two dogs have no one name
    naming = people.note_people(text, talk)
    return [statements.make(f"{naming[0]} is named {naming[1]}", "naming", talk, source)] if naming else []


_TAUGHT = Pattern(
    r"\bmy (?P<who>(?:[Yy]ear|[Gg]rade) \d{1,2}s?(?: class| group| pupils| students)?|\d{1,2}(?:st|nd|rd|th)"
    r"[- ]grad(?:e|ers)(?: class)?|(?:[\w-]+ ){0,2}?(?:pupils|students)|"
    r"(?:GCSE|A[- ]level|ESL|EFL|ESOL|IB|AP|[ABC][12]) (?:[a-z]+ )?"
    r"(?:class|group|set))\b"
    r"(?P<size>(?: of|,(?: there are| a class of)?)"
    r" \d{1,3}(?: of them| kids| students| pupils)?)?"
)
"""Those whom a teacher teaches: nobody else has a Year 3 or students."""


def _taught(text: str, talk: Discourse, source: int, told: bool) -> list[Draft]:
    """ "word problems for my Year 3s, there are 28 of them": the user teaches them."""
    return [
        statements.make(
            f"{talk.who} teaches {match.group('who')}{(match.group('size') or '').replace(' there are', '')}",
            "presupposed",
            talk,
            source,
        )
        for match in _TAUGHT.finditer(text)
        if not told or match.group("size") or " " in match.group("who")
    ]


def _conditions(text: str, talk: Discourse, source: int) -> list[Draft]:
    """ "What can I eat with my shellfish allergy": allergic to shellfish."""
    drafts = []
    for match in _ALLERGY.finditer(text):
        if not match.group().lower().startswith("my") and not re.search(r"\b(?:my|i)\b", text, re.I):
            continue
        kind = "allergic to" if match.group("how").lower().startswith("allerg") else "intolerant to"
        drafts.append(
            statements.make(f"{talk.who} is {kind} {match.group('what').lower()}", "presupposed", talk, source)
        )
    return drafts


def _trades(text: str, talk: Discourse, source: int) -> list[Draft]:
    """ "a flyer for my dog walking business, Muddy Paws": the kind of firm, and its name."""
    return [
        statements.make(
            f"{talk.who} has {article(match.group('kind'))} {match.group('kind')} named {match.group('name')}",
            "owned",
            talk,
            source,
        )
        for match in _TRADE.finditer(text)
        if match.group("noun") in word_set("mentioned.trades")
    ]


_WITH = Pattern(r"\b(?:with my|my|with) (?P<what>(?:type [12] |chronic |severe |mild |bad )?[a-z]+)\b", re.I)
_TRAIT = Pattern(r"\b(?P<whose>my|our) (?P<trait>[a-z]+) (?P<who>[a-z-]+)(?: (?P<name>[A-ZÀ-Þ][\w'-]+))?")
_COUNTED = Pattern(
    r"\b(?:my|our) (?P<what>(?:(?:\d{1,2}|two|three|four|five|six) )?(?P<noun>twins|triplets|[a-z]+s|children))\b", re.I
)
_KIND = Pattern(
    r"\b(?P<thing>(?:my|our) (?:[a-z-]+ )?[a-z-]+), (?P<kind>an? (?:\d{4} |[a-z]+ ){0,2}[A-ZÀ-Þ][\w'-]+"
    r"(?: [A-Z0-9][\w'-]*){0,2})(?=,|$)"
)


def _lives(text: str, talk: Discourse, source: int, told: set[str]) -> list[Draft]:
    """Conditions, traits, numbers and makes: "with my asthma", "my vegan sister", "my twins", "my oven, a Neff"."""
    heard = {word for fact in told for word in fact.lower().split()}
    mine = re.search(r"\b(?:i|my|we|our|me)\b", text, re.I) is not None
    clauses = [
        f"I have {match.group('what')}"
        for match in _WITH.finditer(text)
        if mine and _condition(match) and match.group("what").split()[-1].lower() not in heard
    ]
    clauses.extend(
        f"{match.group('name') or 'my ' + match.group('who')} is {match.group('trait')}"
        for match in _TRAIT.finditer(text)
        if match.group("trait") in word_set("mentioned.traits") and match.group("who") in people.relation_nouns()
    )
    clauses.extend(
        f"I have {match.group('what')}"
        for match in _COUNTED.finditer(text)
        if _numbered(match) and match.group("noun").lower() not in heard
    )
    clauses.extend(f"{match.group('thing')} is {match.group('kind')}" for match in _KIND.finditer(text))
    return [statements.make(statements.finish(clause, talk), "presupposed", talk, source) for clause in clauses]


def _condition(match: re.Match[str]) -> bool:
    """Whether it names a condition, said of the speaker and not of others ("a child with asthma")."""
    own = match.group().lower().startswith(("my", "with my")) or match.string[
        : match.start()
    ].rstrip().lower().endswith(" i")
    return own and match.group("what").split()[-1].lower() in word_set("mentioned.conditions")


def _numbered(match: re.Match[str]) -> bool:
    """Whether it counts children or animals: "my twins", "our three cats"."""
    noun = match.group("noun").lower()
    if noun in {"twins", "triplets"}:
        return True
    counted = " " in match.group("what")
    return counted and (noun in {"kids", "children", "sons", "daughters"} or noun[:-1] in lexicon.words("pets.txt"))
