"""What a question or a request takes for granted of the user: "why does my 2016 Subaru shake" has a 2016 Subaru."""

from __future__ import annotations

import re

from perdure.pipeline.extraction import grammar, people, statements, verbs
from perdure.pipeline.extraction.discourse import Discourse, Draft

_OWNED = re.compile(
    r"\b[Mm]y ((?:(?:new|old|first|second|beloved|trusty|current|poor|little|big|\d{4}|\d+[- ]year[- ]old) )*)((?:\d{4} )?[A-Z][\w-]+(?: [A-Z0-9][\w.-]*){0,3})"
)
_AGED = re.compile(
    r"\b(?:my|our) (\d{1,2}|[a-z]+teen|two|three|four|five|six|seven|eight|nine|ten|twelve)[- ]?(?:year|yr|yo|y/o|month|week)s?[- ]?(?:old)? ?((?:[\w-]+ ){0,2}?)"
    r"(son|daughter|kid|child|boy|girl|baby|dog|cat|puppy|kitten|nephew|niece|brother|sister|grandson|granddaughter|twins|toddler|beagle|labrador|husky|car|laptop|house)?\b(?: ([A-Z]\w+))?",
    re.I,
)
_WHO = re.compile(
    r"\bfor (?:a|my|our) ((?:[\w-]+ ){0,5}?[\w-]+?),? who(?: is|'s)? (.{3,60}?)(?=$|,| and (?:i|my)\b)", re.I
)
_AS = re.compile(
    r"\b(?:as|being) (an? (?!if\b|for\b|result\b|gift\b|present\b|bonus\b|side\b|last\b|way\b|start\b|whole\b|rule\b|beginner\b|user\b|test\b|list\b|table\b|poem\b)[^,?]{3,60}?)(?=$|,| (?:i|how|what|should|who|can|do|would)\b)",
    re.I,
)
_GIVEN = re.compile(
    r"\b(?:given that|since|because|considering(?: that)?|as|now that|seeing as|bearing in mind(?: that)?|even though|although|but|and|when) ((?:i|we|my) (?:am|have|'ve|live|work|own|can't|don't|use|drive|only|just|already|got|is|has|am|take|eat|need|was|did|moved|bought|had|wife|husband|son|daughter|partner|kids|boss|dog|cat|landlord|car|mum|mom|dad)\b[^,?]{3,120})",
    re.I,
)


def read(text: str, talk: Discourse, source: int) -> list[Draft]:
    """The facts that the wording of a question or request holds about the user; mostly none."""
    drafts: list[Draft] = []
    who = talk.who
    for match in _AGED.finditer(text):
        noun = (match.group(3) or "").lower() or "child"
        unit = re.search(r"month|week", match.group(0), re.I)
        age = f"{match.group(1)} {unit.group().lower() + 's' if unit else 'years'} old"
        name = match.group(4) or ""
        display = f"{who}'s {match.group(2)}{noun}{' ' + name if name and grammar.is_name(name) else ''}"
        drafts.append(statements.make(f"{display} is {age}", "aged", talk, source))
        talk.meet(display, "n")
    for match in _OWNED.finditer(text):
        thing = f"{match.group(1)}{match.group(2)}"
        if not grammar.is_name(match.group(2).split()[0]) and not match.group(2)[0].isdigit():
            continue
        if match.group(2).split()[0].lower() in people.relation_nouns():
            continue
        drafts.append(statements.make(f"{who} has {_article(thing)} {thing}", "owned", talk, source))
        talk.thing = f"{who}'s {match.group(2)}"
    for match in _WHO.finditer(text):
        drafts.extend(_described(match, talk, source))
    for match in _AS.finditer(text):
        if re.search(r"\b(?:i|me|my|we)\b", text, re.I) and not re.search(
            r"\b(?:act|pretend|think|explain|write|speak|answer)\b", text, re.I
        ):
            drafts.append(
                statements.make(
                    f"{who} is {statements.finish(match.group(1), talk)[0].lower() + statements.finish(match.group(1), talk)[1:]}",
                    "as",
                    talk,
                    source,
                )
            )
    for match in _GIVEN.finditer(text):
        drafts.extend(statements.read(match.group(1), "", talk, statements.Sentence(source)))
    parts = text.split()
    relation = people.relation_in(parts)
    if relation and relation.name:
        naming = people.note_people(text, talk)
        if naming:
            drafts.append(statements.make(f"{naming[0]} is named {naming[1]}", "naming", talk, source))
    elif relation:
        people.note_people(text, talk)
    return drafts


def _article(thing: str) -> str:
    return "an" if thing[:1].lower() in "aeio" else "a"


def _described(match: re.Match[str], talk: Discourse, source: int) -> list[Draft]:
    noun = match.group(1).strip()
    relation = people.relation_in(["my", *noun.split()])
    subject = f"{talk.who}'s {noun}" if relation else f"The {noun}"
    if not relation:
        return []
    talk.meet(subject, "n")
    predicate = match.group(2).strip()
    first = grammar.bare(predicate.split()[0])
    verb = "" if first in verbs.thirds() or first in verbs.pasts() or first in verbs.AUXILIARIES else "is "
    return [statements.make(f"{subject} {verb}{predicate}", "described", talk, source)]
