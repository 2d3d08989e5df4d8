"""What a question or a request takes for granted of the user: "why does my 2016 Subaru shake" has a 2016 Subaru."""

from __future__ import annotations

import re

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import coreference, filters, grammar, sentences, statements
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, Draft
from perdure.pipeline.lexicon import word_set

_OWNED = Pattern(
    r"\b[Mm]y ((?:(?:new|old|first|second|beloved|trusty|current|poor|little|big|\d{4}|\d+[- ]year[- ]old) "
    r")*)((?:\d{4} )?[A-Z][\w-]+(?: [A-Z0-9][\w.-]*){0,3})"
)
_AGED = Pattern(
    r"\b(?:my|our) (\d{1,2}|[a-z]+teen|two|three|four|five|six|seven|eight|nine|ten|twelve)[- ]?(?:year|yr|"
    r"yo|y/o|month|week)s?[- ]?(?:old)? ?((?:[\w-]+ ){0,2}?)"
    r"(son|daughter|kid|child|boy|girl|baby|dog|cat|puppy|kitten|nephew|niece|brother|sister|grandson|"
    r"granddaughter|twins|toddler|beagle|labrador|husky|car|laptop|house)?\b(?: ([A-Z]\w+))?",
    re.I,
)
_GIVEN = Pattern(
    r"\b(?:given that|since|because|considering(?: that)?|as|now that|seeing as|bearing in mind(?: that)?|"
    r"even though|although|but|and|when) ((?:i|we|my) (?:am|have|'ve|live|work|own|can't|don't|use|drive|"
    r"only|just|already|got|is|has|am|take|eat|need|was|did|moved|bought|had|wife|husband|son|daughter|"
    r"partner|kids|boss|dog|cat|landlord|car|mum|mom|dad)\b[^,?]{3,120})",
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
        if match.group(2).split()[0].lower() in coreference.relation_nouns():
            continue
        drafts.append(statements.make(f"{who} has {article(thing)} {thing}", "owned", talk, source))
        talk.thing = f"{who}'s {match.group(2)}"
    for match in _GIVEN.finditer(text):
        drafts.extend(statements.read(match.group(1), "", talk, statements.Sentence(source)))
    if coreference.relation_in(text.split()):
        naming = coreference.note_people(text, talk)
        if naming:
            drafts.append(statements.make(f"{naming[0]} is named {naming[1]}", "naming", talk, source))
    return drafts


def article(thing: str) -> str:
    """The indefinite article before a thing, by its first letter."""
    return "an" if thing[:1].lower() in "aeio" else "a"


# What a message tells before it asks for something to be done with a text that follows.

LONGEST_OPENING = 400  # characters in which it is looked for

_BROUGHT = Pattern(r"\b(?:this|below|following)\b|\bhow (?:to|do (?:i|you)) say\b", re.I)


def read_before_task(text: str, at: int, talk: Discourse) -> list[Draft]:
    """What the speaker tells of himself before he asks for something to be done with a text that follows."""
    own: list[str] = []
    for sentence in _SENTENCES.split(text[:LONGEST_OPENING])[:4]:
        said = sentence.strip(" .!?")
        if filters.is_request(said) or filters.is_task(said) or _BROUGHT.search(said):
            break
        if not _of_speaker(said) or filters.is_chatter(said) or filters.is_hypothetical(said):
            return []
        own.append(said)
    else:
        return []
    drafts: list[Draft] = []
    for said in own:
        for piece in sentences.split_clauses(said):
            drafts.extend(statements.read(piece.text, piece.joint, talk, statements.Sentence(at)))
    return drafts


_SENTENCES = Pattern(r"(?<=[.!?])\s+|\n+")


def _of_speaker(clause: str) -> bool:
    parts = clause.split()
    if len(parts) < 3:
        return False
    first = grammar.bare(parts[0])
    if first in {"i", "we"}:
        said = [grammar.bare(part) for part in parts[1:]]
        lasting = any(word in word_set("requested.lasting") for word in said[:3])
        return said[0] not in word_set("requested.wanting") and (lasting or statements.specific(parts[1:]))
    verb = grammar.find_verb(parts)
    if first not in {"my", "our"} or not 1 < verb < 6 or not statements.specific(parts[verb:]):
        return False
    return not any(grammar.bare(part) in lexicon.words("formats.txt") for part in parts[1:verb])
