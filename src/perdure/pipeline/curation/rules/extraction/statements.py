"""One clause to facts: completed, resolved, turned into the third person, and judged worth keeping or not."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import coreference, filters, grammar, subjects
from perdure.pipeline.curation.rules.extraction import grammar as person
from perdure.pipeline.curation.rules.extraction.dialogue.discourse import Discourse, Draft
from perdure.pipeline.lexicon import word_set

# Whether a clause whose subject is a noun or a name is about the speaker's world, or about the world at large.

_HABIT = Pattern(r"\b(?:no longer|any ?more|these days|nowadays|now|lately)\b", re.I)
_GENERIC = word_set("statements.generic")
CARRIES = Pattern(r"\b(?:i|me|my|we|us|our|mine|user|ours)\b", re.I)
_PRIVATE = word_set("statements.private")


def allowed(full: str, talk: Discourse) -> bool:
    """Whether a clause whose subject is a noun or a name is about the speaker's world, not the world at large."""
    parts = full.split()
    place = grammar.skip_adverbials(parts)
    head = grammar.bare(parts[place])
    if CARRIES.search(full) or head in {"both"}:
        return head not in _GENERIC or (
            re.search(r"\b(?:i|my|me|we|our|calls? me|of us)\b", full, re.I) is not None and head not in {"you"}
        )
    if _unsaid(parts[place:]):
        return False
    if head in {"everything", "it's"} and talk.own and specific(parts) and not talk.asks:
        return True
    if head in _GENERIC:
        return False
    if head in {"his", "her", "their"}:
        return bool(talk.person or talk.group)
    verb = grammar.find_verb(parts, place)
    subject = parts[place:verb] if verb > place else parts[place : place + 1]
    if head in talk.names or (subject and grammar.bare(subject[0]) in talk.names):
        return True
    if re.search(r"\b1[0-8]\d\d\b", full) and not subjects.is_personal(subject):
        return False
    if head in {"the", "this", "that", "each", "every", "all", "both", "any"}:
        subject = subject[1:]
        personal = subjects.is_personal(subject) and not filters.is_chatter(full)
        named = re.search(r"\b(?:called|named) (?:now )?[A-Z]", full) is not None
        return (
            talk.own
            or named
            or (specific(parts) and not talk.asks and len(parts) > place + 1 and _common(parts[place + 1]))
            or (personal and specific(parts))
            or (_HABIT.search(full) is not None and specific(parts))
        )
    theirs = parts[place].endswith("'s") and len(subject) > 1 and subjects.is_personal(subject[1:])
    if theirs and grammar.is_name(parts[place]) and specific(parts[verb:]) and not talk.asks:
        return grammar.bare(parts[place]).removesuffix("'s") not in lexicon.words("famous.txt")
    if grammar.is_name(parts[place]):
        return talk.own or talk.about_self or coreference.relation_in(parts) is not None or _of_a_friend(parts, verb)
    personal = subjects.is_personal(subject)
    if talk.own or (specific(parts) and (personal or talk.about_self)) or _HABIT.search(full) is not None:
        return True
    return specific(parts[verb:]) and not talk.asks and grammar.bare(parts[place]) not in _GENERIC


def _unsaid(parts: list[str]) -> bool:
    """Whether the subject is one of something that the clause does not name ("the good ones are expensive")."""
    for part in parts:
        word = grammar.bare(part)
        if word in {"one", "ones"}:
            return part is not parts[0]
        if word in lexicon.words("prepositions.txt") or word in grammar.AUXILIARIES or part.endswith((",", "'s")):
            return False
    return False


def _common(word: str) -> bool:
    """Whether a word behind "the" is a common noun or an abbreviation, and no name of something well known."""
    return word.islower() or (word.isupper() and len(word) < 6)


def _of_a_friend(parts: list[str], verb: int) -> bool:
    """Whether a name that was never introduced is told of as one tells of people and pets one knows."""
    word = grammar.bare(parts[verb])
    base = grammar.thirds().get(word) or grammar.pasts().get(word) or word
    after = grammar.bare(parts[verb + 1]) if verb + 1 < len(parts) else ""
    return base in _PRIVATE and after != ""


def holds_value(parts: list[str]) -> bool:
    """Whether one of the words is a number, a name or a time."""
    return any(
        grammar.is_number(part) or grammar.is_name(part) or grammar.is_time_word(grammar.bare(part)) for part in parts
    )


def specific(predicate: list[str]) -> bool:
    """Whether a predicate holds a number, a name, a code or a time."""
    return any(
        grammar.is_name(part) or grammar.is_time_word(grammar.bare(part)) or any(char.isdigit() for char in part)
        for part in predicate
    )


_CONFIDENCE = {"first": 0.9, "noun": 0.8, "name": 0.8, "pronoun": 0.75}
_REPORTED = Pattern(
    r"^(?P<who>.{2,60}?) (?:says?|said|thinks?|thought|reckons?|told (?:me|us)|tells (?:me|us)|keeps? (?:saying|"
    r"telling me)|insists?|claims?|swears?|believes?|suggests?|suggested|recommends?|recommended|wants me to|asked me|"
    r"always says?)(?: that)? (?P<what>.+)$"
)


@dataclass(slots=True)
class Sentence:
    """What holds between the clauses of one sentence."""

    source: int
    carried: str = ""
    """The last clause's subject, in first-person words."""
    kept: int = 0
    list_head: str = ""
    """Subject and verb that later members of a comma list share ("I use")."""
    last: str = ""
    """The last clause's text, completed."""
    tail: str = ""
    """The last clause's own words."""
    is_animate: bool = False
    """Whether that subject is a person or an animal."""
    is_open: bool = False
    """Whether of the last clause's subject nobody knows whose it is."""


def read(text: str, joint: str, talk: Discourse, sentence: Sentence) -> list[Draft]:
    """The facts of one clause; remembers in `talk` and `sentence` what later clauses refer to."""
    text = grammar.trimmed(filters.strip_openers(text).strip(" ,.:;!\"'"))
    if not text or filters.is_hypothetical(text):
        return []
    if filters.is_chatter(text):
        if grammar.subject_of(text.split()):
            _heed(text, talk)  # "Ola called" tells nothing but whom the next words are about
        return []
    carried = sentence.carried if _may_carry(joint, text) else ""
    carried = "I" if carried.lower() == "my name" else carried
    if joint.strip(", ") in {"who", "which"}:
        carried = last_noun(sentence.tail) or carried
        joint = ","
    elif (shared := _shared(carried, text, sentence, talk)) is None:
        return []
    else:
        carried = shared
    if not carried and joint == "," and _may_be_of_thing(text, sentence, talk):
        return []
    if carried and subjects.reads_as_noun(text) and (joint != "and" or _ENDS_IN_NOUN.search(sentence.tail)):
        return []
    sentence.tail = text
    head = grammar.bare(text.split()[0])
    third = head in grammar.thirds() and head not in lexicon.words("nounish.txt")
    if joint == "," and third and carried.lower() in grammar.FIRST and talk.person:
        carried = talk.person
    if (not carried or carried.lower() in grammar.FIRST) and (stretch := _stretch(text)):
        text = stretch
    begins, talk.has_begun = not talk.has_begun, True
    full, rule = subjects.complete(text, carried)
    if rule == "returns":
        if not carried and not begins:
            return []  # "Zoltan off sick, back mon"
        rule = "place"
    if not full or (rule == "role" and not _names_somebody(sentence.last)):
        return []
    if sentence.is_open and not grammar.subject_of(text.split()):
        return []
    if rule in subjects.SAID:
        if talk.of_being and rule in {"noun", "name"} and is_unowned(text):
            talk.of_another = sentence.is_open = True
            talk.unowned.append(text)
            return []
        sentence.is_open = False
        talk.of_another = rule == "pronoun" or _of_a_person(full.split())
    elif not carried:
        mine = rule == "base" or _first_content(text) in _OF_FIRST or CARRIES.search(text) is not None
        if talk.of_another and not mine:
            return []  # who did it was not said, and the last that was spoken of is somebody else
        talk.of_another = False
    if full.startswith("he ") and not text.lower().startswith("he "):
        subject = talk.person or talk.thing
        if not subject or not talk.own:
            return []
        full, rule = f"{subject}{full[2:]}", "name"
    _heed(full, talk)
    return _statement(full, rule, talk, sentence)


def _heed(clause: str, talk: Discourse) -> None:
    """Remember whether a clause is about somebody else; "it" and "that" go on with what was spoken of."""
    if grammar.bare(clause.split(maxsplit=1)[0]) not in _GOES_ON:
        talk.of_being = coreference.tells_of_another(clause, talk)


_GOES_ON = frozenset({"it", "this", "that", "these", "those", "there"})


def is_unowned(text: str) -> bool:
    """Whether a clause's subject is a mere noun, with no word that says whose it is: "due date moved to the 3rd".

    Relatives are named so by whose they are ("dad is fine"), and a day is nobody's.
    """
    parts = text.split()
    place = grammar.skip_adverbials(parts)
    head = grammar.bare(parts[place])
    subject = parts[place : max(grammar.find_verb(parts, place), place + 1)]
    if subjects.has_owner(head) or grammar.is_title(head):
        return False
    if not coreference.is_known_word(head) and not subjects.is_personal(subject):
        return False  # it may be a name
    said = {grammar.bare(part) for part in subject}
    if any(grammar.is_name(part) for part in subject[1:]) or grammar.is_time_word(head):
        return False
    return not said & (lexicon.pairs("kin.tsv").keys() | grammar.SUBJECTS | {"me", "us"})


def _shared(carried: str, text: str, sentence: Sentence, talk: Discourse) -> str | None:
    """The last clause's subject if it is that of one that has none; "" if the speaker is, None if nobody can tell.

    A thing has with it what agrees with it ("starts in May and runs until June") or describes it. "The skoda's gone,
    bought a kia" tells of the speaker, as only people buy, and of "the boiler broke, flooded the hall" nobody knows.
    """
    head = _first_content(text)
    base = grammar.pasts().get(head) or grammar.ings().get(head) or (head if head in grammar.bases() else "")
    agrees = head in grammar.thirds() or head in grammar.AUXILIARIES or head in lexicon.words("states.txt")
    if not carried or carried.lower() in grammar.FIRST or sentence.is_animate or agrees or not base:
        return carried
    if head in grammar.bases() and head not in grammar.pasts():
        return ""
    if base in word_set("statements.persons_do") and coreference.names_thing(carried, talk):
        return ""
    return None


def _may_be_of_thing(text: str, sentence: Sentence, talk: Discourse) -> bool:
    """Whether nobody can tell if a clause goes on with the thing before it: "the club shut, moved to the church"."""
    thing = sentence.carried
    if not thing or thing.lower() in grammar.FIRST or sentence.is_animate or not coreference.names_thing(thing, talk):
        return False
    return grammar.pasts().get(_first_content(text)) in word_set("statements.things_do")


_ENDS_IN_NOUN = Pattern(r"\b(?:an?|the|my|our|another|some|one|\d+) (?:[\w-]+ )?[\w-]+$", re.I)

_OF_FIRST = frozenset({"am", "are", "have", "haven't", "do", "don't"}) | grammar.MODALS
"""Auxiliaries that no third person has, or that say what the speaker means to do."""


def _names_somebody(last: str) -> bool:
    """Whether the clause before says who somebody is, so that a bare occupation goes on with it."""
    parts = last.split()
    verb = grammar.find_verb(parts)
    return verb > 0 and grammar.bare(parts[verb]) in grammar.BE


def _of_a_person(parts: list[str]) -> bool:
    """Whether a clause's subject is a name, or somebody's relative, friend or colleague."""
    place = grammar.skip_adverbials(parts)
    verb = grammar.find_verb(parts, place)
    named = grammar.is_name(parts[place]) and not parts[place].isupper()
    return named or coreference.relation_in(parts[place : max(verb, place)]) is not None


def last_noun(text: str) -> str:
    """The name or the noun phrase that ends a text: what "who" and "which" stand for."""
    names: list[str] = re.findall(r"[A-ZÀ-Þ][\w'-]+(?: [A-ZÀ-Þ][\w'-]+)*", text)
    if names and text.rstrip(" .,").endswith(names[-1]) and grammar.is_name(names[-1].split()[0]):
        return names[-1]
    match = re.search(r"\b(?:my|our|the|a|an) (?:[\w'-]+ ){0,3}[\w'-]+$", text.rstrip(" .,"), re.I)
    return re.sub(r"^an? ", "the ", match.group()) if match else ""


_STRETCH = Pattern(
    r"^(?:about |almost |nearly |over )?(?P<n>\d+|two|three|four|five|six|seven|eight|nine|ten) (?P<unit>days?|weeks?|"
    r"months?|years?|nights?|shifts?|hours?)(?: (?P<rest>(?:on|off|without|sober|clean|smoke|into|as|in|of|at|with|"
    r"straight|married|together|vegan|vegetarian|nicotine|alcohol)\b.*))$",
    re.I,
)


def _stretch(text: str) -> str:
    """ "4 nights on 3 off", "11 days without a cigarette": a stretch of time that is the speaker's."""
    match = _STRETCH.match(text)
    if match is None:
        return ""
    rest = match.group("rest")
    if re.match(
        r"(?:without|sober|clean|smoke|vegan|vegetarian|nicotine|alcohol|married|together|straight)", rest, re.I
    ):
        return f"I have been {match.group('n')} {match.group('unit')} {rest}"
    return f"I have {text}" if not rest.startswith("off") else ""


def _first_content(text: str) -> str:
    """The first word that is no adverb ("still waiting" is "waiting")."""
    words = [grammar.bare(part) for part in text.split()]
    return next((word for word in words if word not in lexicon.words("adverbs.txt")), words[0])


def _may_carry(joint: str, text: str) -> bool:
    """Whether a clause without a subject goes on with the one before."""
    head = _first_content(text)
    if head in grammar.thirds() or joint.strip(", ") in {"and", "but", "then", "or", "so", "yet", "which", "who", "+"}:
        return True
    return joint in (",", ":", ")", "(") and head not in lexicon.words("statement_verbs.txt")


def _participle_next(parts: list[str], verb: int) -> bool:
    """Whether "has" only builds a tense of a thing's verb: "the match has moved, waterlogged pitch" lists nothing."""
    mine = any(grammar.bare(part) in grammar.FIRST for part in parts[:verb])
    return not mine and grammar.bare(" ".join(parts[verb + 1 : verb + 2])) in grammar.pasts()


def _statement(full: str, rule: str, talk: Discourse, sentence: Sentence) -> list[Draft]:
    parts = full.split()
    place = grammar.skip_adverbials(parts)
    verb = grammar.find_verb(parts, place)
    if verb > place:
        sentence.carried = _without_adverbs(parts[place:verb])
        sentence.is_animate = coreference.is_animate(full, talk)
    if rule in {"noun", "name"} and not allowed(full, talk):
        return []
    naming = coreference.note_people(full, talk)
    if rule == "name" and coreference.relation_in(parts) is None and verb > place:
        coreference.note_subject(" ".join(part.strip(grammar.PUNCTUATION) for part in parts[place:verb])[:60], talk)
    sentence.list_head = ""
    resolved = coreference.resolve(full, talk)
    if resolved is None:
        return []
    particle = verb > place and grammar.bare(" ".join(parts[verb + 1 : verb + 2])) in {"up", "off", "out", "down"}
    perfect = verb > place and grammar.bare(parts[verb]) in {"has", "have"} and _participle_next(parts, verb)
    sentence.list_head = " ".join(parts[: verb + 1]) if verb > place and not particle and not perfect else ""
    sentence.last = full
    drafts = _naming(naming, talk, sentence.source)
    telling = verb > place and grammar.bare(parts[verb]) in grammar.simple_pasts() - {"was", "were", "had"}
    reported = _REPORTED.match(full)
    if reported and not re.match(r"(?:i|we)\b", full, re.I):
        return drafts + _report(resolved, reported, talk, sentence)
    fact = finish(resolved, talk)
    if not worthy(fact, talk):
        return drafts
    if not telling:
        drafts.clear()
    drafts.append(make(fact, rule, talk, sentence.source))
    coreference.note_thing(fact, talk)
    return drafts


def _without_adverbs(subject: list[str]) -> str:
    """A subject without the adverbs between it and its verb ("my boss just" is "my boss")."""
    while len(subject) > 1 and grammar.bare(subject[-1]) in lexicon.words("adverbs.txt"):
        subject = subject[:-1]
    return " ".join(subject)


def _naming(naming: tuple[str, str] | None, talk: Discourse, source: int) -> list[Draft]:
    if naming is None:
        return []
    relation, name = naming
    verb = "was" if " late " in relation else "is"
    return [make(f"{relation} {verb} named {name}", "naming", talk, source)]


def _report(resolved: str, reported: re.Match[str], talk: Discourse, sentence: Sentence) -> list[Draft]:
    """ "my doctor says I must rest" is kept as a report; what others say of the world in general is not."""
    what = reported.group("what")
    first = grammar.bare(what.split()[0])
    states = lexicon.words("states.txt")
    telling = (
        any(grammar.bare(word) in states for word in what.split())
        or first in {"no", "to", "not", "never"}
        or first in grammar.bases()
        or specific(what.split())
        or any(grammar.bare(word) in word_set("statements.healers") for word in reported.group("who").split())
    )
    if not (CARRIES.search(what) or telling):
        named = _ROLE_NAME.match(reported.group("who"))
        return (
            [make(finish(f"{named.group(1)} is {named.group(2)}", talk), "naming", talk, sentence.source)]
            if named
            else []
        )
    fact = finish(resolved, talk)
    return [make(fact, "reported", talk, sentence.source)]


_ROLE_NAME = Pattern(r"^((?:the|my|our) [a-z' -]{2,30}) ((?:[A-Z][\w'-]+ ?){1,3})$", re.I)


def finish(clause: str, talk: Discourse) -> str:
    """A clause with its subject in the third person, as a sentence without end mark."""
    turned = person.to_third(clause, talk.who)
    turned = re.sub(rf"\b({re.escape(talk.who)}(?:'s)?) (?:has|have) got (?!to\b)", r"\1 has ", turned)
    turned = re.sub(r"\bhas got (?!to\b|\w+ed\b)", "has ", turned)
    turned = re.sub(
        r",? (?:though|too|lol|haha|btw|actually|anyway|ok|okay|please|thanks|i think|tbh|fyi|as well|you "
        r"know|or so|i guess|right now)$",
        "",
        turned,
    )
    turned = re.sub(
        rf"\b((?:both|none|all|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|"
        rf"\d+)) of {re.escape(talk.who)}\b(?!')",
        r"\1 of them",
        turned,
        flags=re.I,
    )
    turned = grammar.trimmed(" ".join(turned.split()))
    just = re.match(rf"({re.escape(talk.who)}) just (\w+)\b", turned)
    if just and just.group(2) in grammar.simple_pasts():
        turned = f"{just.group(1)} {turned[just.start(2) :]}"
    return turned[:1].upper() + turned[1:]


def make(fact: str, rule: str, talk: Discourse, *sources: int) -> Draft:
    """A draft with the rule's confidence; the telling opens the gate for less explicit statements."""
    talk.own = True
    return Draft(fact, sources, rule, _CONFIDENCE.get(rule, 0.7))


_EMPTY_FACT = Pattern(
    r"(?:is|was|has|does|did|will|would|can|can't|thinks?|says?|said|feels?|needs?|wants?|likes?|loves?|hates?|knows?|"
    r"goes|got|gets|can't wait|cannot wait|made|makes|tries|tried|isn't|wasn't|doesn't|didn't|worked|works|helped|"
    r"helps)(?: (?:it|that|this|so|not|too|also|well|good|great|bad|fine|ok|okay|nice|there|here|them|one|now|again|"
    r"to|all|really|very|yet))*$"
)


def worthy(fact: str, talk: Discourse) -> bool:
    """Whether a finished fact says something: more than a subject with an empty predicate."""
    words = fact.split()
    if len(fact) > 500 or len(words) < 2 or not filters.readable(fact, talk.who, "first"):
        return False
    if words[-1] in {"it", "them", "that", "this", "him", "her"} and len(words) <= 4 and words[0] == talk.who:
        return False
    if len(words) == 2:
        base = grammar.thirds().get(words[1].lower(), "")
        return base not in word_set("statements.empty_verbs") and base != ""
    verb = grammar.find_verb(words)
    if verb < 0:
        verb = 1
    if verb > 2 and words[0].lower() not in {"the", "it", "they", "this", "that"}:
        return True
    if (
        verb > 1
        and words[0].lower() not in {"the", "it", "they", "this", "that"}
        and words[verb] in {"is", "was", "are"}
    ):
        return True
    return _EMPTY_FACT.match(" ".join(words[verb:])) is None


def hedged(fact: str) -> bool:
    """Whether a fact is told as uncertain or only considered."""
    return _HEDGE.search(fact) is not None


_HEDGE = Pattern(
    r"\b(?:(?:thinks?|believes?|assumes?|claims?|hopes?|guess(?:es)?) (?:that )?User\b|tentatively|provisionally|"
    r"might|maybe|perhaps|probably|possibly|may (?!\d)(?:be|have|go|move|get|do|take|switch|start|not)|thinks? "
    r"(?:about|of|it|they|he|she|the|their)|thinking (?:about|of)|considering|not sure|isn't sure|unsure|could be|"
    r"supposedly|apparently|if (?:it|the|they|all|he|she|we|i|user|everything|nothing)|hopes? to|hoping to|toying "
    r"with|tempted to|torn between|leaning towards|not decided|undecided|depends on|would like to|wants to maybe|"
    r"seems?|i think|guesses|supposes)\b",
    re.I,
)


def self_describing(text: str) -> bool:
    """Whether a clause without a subject can only be about the speaker ("im lefty" shortened to "lefty")."""
    return grammar.bare(text.split(maxsplit=1)[0]) in lexicon.words("states.txt") if text.split() else False
