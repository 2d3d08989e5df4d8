"""Words without a verb that still tell something: members of a list, and values that belong to what was spoken of."""

from __future__ import annotations

import re

from perdure.domain.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.extraction import (
    dropping,
    grammar,
    people,
    person,
    possessions,
    presupposed,
    statements,
    subjects,
    tails,
    verbs,
)
from perdure.pipeline.extraction.clauses import Clause
from perdure.pipeline.extraction.discourse import Discourse, Draft
from perdure.pipeline.extraction.wordsets import word_set

_LIST_VERBS = word_set("fragments.list_verbs")
_LABELLED = Pattern(r"^(?P<label>[A-Za-z][\w' /-]{1,40}?)(?: ?: | ?= ?)(?P<value>\S.{0,200})$")
LONGEST = 18
"""Words of a fragment; a longer one is no fragment but a sentence that was not understood."""


def read(piece: Clause, talk: Discourse, sentence: statements.Sentence) -> list[Draft]:
    """The fact of a fragment: continued from the list before it, or said of the topic; [] if it tells nothing."""
    text = dropping.strip_openers(piece.text).strip(" ,.:;-!()")
    if not text or dropping.is_chatter(text) or len(text.split()) > LONGEST or dropping.is_hypothetical(text):
        return []
    if re.fullmatch(r"[1-9]\d", text) and piece.joint == "," and re.match(r"I am (?!in\b|at\b|on\b)", sentence.last):
        return [statements.make(f"{talk.who} is {text}", "aged", talk, sentence.source)]
    found = _labelled(text, talk, sentence)
    found = found or _measured(text, talk, sentence)
    if found:
        return found
    if not (talk.asks and not talk.about_self) and not talk.task and (has := possessions.read(text)):
        sentence.last = text
        sentence.carried = sentence.carried or has.name
        fact = statements.finish(f"I have {has.thing}", talk)
        if sentence.kept and sentence.carried.lower() in {"he", "she"} and talk.person:
            fact = f"{talk.person} has {has.thing}"
        return [statements.make(fact, "possessed", talk, sentence.source)]
    if presupposed.hardware(text):
        return [statements.make(f"{talk.who} has {text}", "hardware", talk, sentence.source)]
    if _closing(text) and (talk.topic or talk.thing):
        return _of_topic(text, talk, sentence, piece.joint)
    if _nobody_sure(text, sentence) or grammar.subject_of(text.split()) or not _tells(text):
        return []
    bearers = _bearers(text, talk, sentence)
    if bearers:
        return bearers
    if sentence.list_head and piece.joint.startswith(",") and _may_share(sentence, text):
        fact = statements.finish(f"{sentence.list_head} {text}", talk)
        return [statements.make(fact, "list", talk, sentence.source)]
    if _ADVERBIAL.match(text) and sentence.kept and _append(text, talk, sentence):
        return []
    return _of_topic(text, talk, sentence, piece.joint)


def _bearers(text: str, talk: Discourse, sentence: statements.Sentence) -> list[Draft]:
    """ "I have 2 sons, Otis and Bram": whose names they are."""
    parts = [part for part in text.split() if grammar.bare(part) not in {"and", "&"}]
    last = grammar.bare(sentence.last.split()[-1]) if sentence.last else ""
    kinds = people.relation_nouns()
    plural = last.endswith(("s", "children")) and (last in kinds or last[:-1] in kinds or last[:-2] in kinds)
    if not plural or not parts or not all(grammar.is_name(part) for part in parts):
        return []
    for part in parts:
        talk.call(part.strip(",."), part.strip(",."))
    return [statements.make(f"{talk.who}'s {last} are {text}", "naming", talk, sentence.source)]


_ADVERBIAL = Pattern(
    r"(?:\d+ (?:days?|hours?|times|nights?|shifts?) (?:a|per|each) \w+|usually|sometimes|often|roughly|"
    r"about|around|once|twice|every|each|daily|weekly|monthly|nightly|"
    r"(?:two|three|four|five|\d+) times|since|until|mornings|evenings|weekends|weekdays|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?|usually (?:on|at|in)|mostly (?:on|at|in)) ?\b",
    re.I,
)


def _append(text: str, talk: Discourse, sentence: statements.Sentence) -> bool:
    """An adverbial ("twice a day") goes with the statement before it."""
    last = talk.drafts[-1] if talk.drafts else None
    if last is None or last.sources[-1:] != (sentence.source,) or last.forget or last.procedural:
        return False
    if last.rule in {"standing", "fragment", "labelled"}:
        return False
    named = grammar.is_time_word(grammar.bare(text.split(maxsplit=1)[0]))
    last.text = f"{last.text}, {text if named else text[:1].lower() + text[1:]}"
    return True


def is_label(label: str, *, freely: bool = False) -> bool:
    """Whether words before a colon name something of the user's ("goal for this year")."""
    label = re.sub(
        r" (?:so far|for now|at the moment|before (?:we|i) start|right now|currently|update)$", "", label, flags=re.I
    )
    words = label.split()
    if not words or (len(words) == 1 and grammar.bare(words[0]) in lexicon.words("determiners.txt")):
        return False
    head = grammar.bare(words[0])
    if head in lexicon.words("imperatives.txt") - {"note", "name", "plan", "order", "move", "test"} or len(words) > 7:
        return False
    if grammar.bare(words[-1]) in {
        "this",
        "following",
        "sentence",
        "text",
        "example",
        "code",
        "error",
        "output",
        "question",
        "says",
        "said",
    }:
        return False
    if any(grammar.bare(word) in verbs.AUXILIARIES for word in words) or head in lexicon.words("prepositions.txt"):
        return False
    if head in {
        "error",
        "output",
        "example",
        "question",
        "input",
        "answer",
        "text",
        "system",
        "user",
        "assistant",
        "subject",
    }:
        return False
    own = words[1:] if head in {"my", "our", "the"} else words
    plain = freely and len(own) <= 2 and all(word.isalpha() for word in own) and head not in verbs.bases()
    return head in {"my", "our"} or subjects.is_personal(own) or plain


def owned_label(label: str, talk: Discourse) -> str:
    """ "goal for this year" as "User's goal for this year"."""
    words = label.split()
    bare = " ".join(words[1:]) if grammar.bare(words[0]) in {"my", "our", "the"} else label
    first = bare.split()[0]
    bare = person.to_third(bare, talk.who)
    keep = first.isupper() or (grammar.is_name(first) and not people.is_known_word(first.lower()))
    return f"{talk.who}'s {bare if keep else bare[:1].lower() + bare[1:]}"


def labelled(label: str, values: list[str], talk: Discourse, at: int) -> list[Draft]:
    """One fact for each value under a label."""
    owner = owned_label(label, talk)
    talk.thing = talk.topic = owner
    single = len(values) == 1
    return [
        statements.make(
            f"{owner} {'is' if single or (number == 0 and not owner.endswith('s')) else '-'} {value}".replace(
                " - ", ": ", 1
            ),
            "labelled",
            talk,
            at,
        )
        for number, value in enumerate(_said(value, talk) for value in values)
        if value
    ]


def _said(value: str, talk: Discourse) -> str:
    turned = statements.finish(value.strip(" ."), talk)
    return turned[:1].lower() + turned[1:] if value[:1].islower() else turned


def _labelled(text: str, talk: Discourse, sentence: statements.Sentence) -> list[Draft]:
    match = _LABELLED.match(text)
    if match is None or len(match.group("label").split()) > 5:
        return []
    label = match.group("label").strip()
    head = grammar.bare(label.split()[0])
    if head in lexicon.words("imperatives.txt") | lexicon.words("prepositions.txt") or head in {
        "error",
        "output",
        "example",
        "question",
        "input",
        "answer",
        "text",
    }:
        return []
    owner = "" if head in {"my", "our", "the"} else "my "
    fact = statements.finish(f"{owner}{label} is {match.group('value')}", talk)
    return [statements.make(fact, "labelled", talk, sentence.source)]


def _specific(text: str) -> bool:
    return any(
        grammar.is_number(part) or grammar.is_name(part) or grammar.is_time_word(grammar.bare(part))
        for part in text.split()
    )


_MEASURE = Pattern(
    r"^(?P<label>[a-z][a-z' -]{2,30}?) (?P<value>(?:[$€£]?\d[\w.,:/%-]*)(?: ?(?:cm|kg|lbs?|k|am|pm|euros?|"
    r"pounds|quid|dollars|a month|a week|per month|months?|years?|%))?)$",
    re.I,
)


_ADDRESS = Pattern(
    r"^(?P<label>(?:new |current |home |work |postal )*(?:address|postcode|phone number|number)) (?:is |now )?"
    r"(?P<value>(?:flat |unit |apartment )?\d[\w/]* ?[\w' -]{2,50})$",
    re.I,
)


def _measured(text: str, talk: Discourse, sentence: statements.Sentence) -> list[Draft]:
    """ "shoe size 38", "budget 4k": a personal noun with its number."""
    place = _ADDRESS.match(text)
    if place:
        fact = f"{talk.who}'s {place.group('label').lower()} is {place.group('value')}"
        return [statements.make(fact, "measure", talk, sentence.source)]
    match = _MEASURE.match(text)
    if (
        match is None
        or re.match(
            r"(?:no|not|chapter|unit|page|question|part|step|level|season|episode)\b", match.group("label"), re.I
        )
        or not subjects.is_personal(match.group("label").split())
    ):
        return []
    label = re.sub(r"^(?:my|our|the) ", "", match.group("label"))
    return [statements.make(f"{talk.who}'s {label} is {match.group('value')}", "measure", talk, sentence.source)]


def _closing(text: str) -> bool:
    """ "sundays shut", "closed mondays": hours of the place spoken of."""
    low = text.lower()
    return (
        re.fullmatch(
            r"(?:(?:on )?\w+days?(?: and \w+days?)? (?:shut|closed|open|off|free)|(?:shut|closed|open|off) "
            r"(?:on )?\w+days?)\b.{0,30}",
            low,
        )
        is not None
    )


def _nobody_sure(text: str, sentence: statements.Sentence) -> bool:
    """ "gp not sure, sending me for a scan": the fragment says little, but who it is goes on as the subject."""
    parts = text.split()
    if len(parts) > 1 and grammar.bare(parts[1]) == "not" and subjects.is_personal(parts[:1]):
        sentence.carried = f"my {grammar.bare(parts[0])}"
        return True
    return False


def _tells(text: str) -> bool:
    """Whether a fragment holds a number, a name, a time, a negation, or two content words."""
    parts = text.split()
    if any(
        grammar.is_number(part) or grammar.is_name(part) or grammar.is_time_word(grammar.bare(part)) for part in parts
    ):
        return True
    content = [
        part for part in map(grammar.bare, parts) if len(part) > 1 and part not in lexicon.words("prepositions.txt")
    ]
    return len(content) >= 1 and grammar.bare(parts[0]) not in lexicon.words("moods.txt")


def _may_share(sentence: statements.Sentence, text: str) -> bool:
    first = grammar.bare(text.split(maxsplit=1)[0])
    if (first in verbs.bases() or first in verbs.thirds()) and first not in lexicon.words("nounish.txt"):
        return False
    verb = grammar.bare(sentence.list_head.split()[-1])
    head = grammar.bare(text.split(maxsplit=1)[0])
    return (
        verb in _LIST_VERBS
        and head
        not in lexicon.words("prepositions.txt")
        | lexicon.words("adverbs.txt")
        | {"no", "not", "now", "closed", "open", "all"}
        and not grammar.is_number(text.split(maxsplit=1)[0])
    )


def _of_topic(text: str, talk: Discourse, sentence: statements.Sentence, joint: str) -> list[Draft]:
    if talk.task or (talk.asks and not talk.about_self and not talk.own):
        return []
    if grammar.bare(text.split(maxsplit=1)[0]) in {"for", "with", "about", "of", "as"} and not _specific(text):
        return []
    head = grammar.bare(text.split(maxsplit=1)[0])
    if (head in verbs.bases() or head in verbs.thirds()) and head not in lexicon.words("nounish.txt"):
        return []
    if head in {"not", "tastes", "looks", "sounds", "means"}:
        return []
    said = statements.finish(text, talk)
    told = talk.own or bool(sentence.kept) or not talk.asks
    fact = tails.of_topic(text, said, talk, told=told)
    as_typed = said[:1].lower() + said[1:] if text[:1].islower() else said
    if not fact and tails.attach(as_typed, joint, sentence.source, talk):
        return []
    fact = fact or tails.of_speaker(text, said, talk, told=told)
    if not fact:
        return []
    if not (talk.own or sentence.kept):
        if (talk.about_self or not talk.asks) and (_specific(text) or re.match(r"no \w+", text, re.I)):
            talk.waiting.append(Draft(fact, (sentence.source,), "fragment", 0.5))
        return []
    return [statements.make(fact, "fragment", talk, sentence.source)]
