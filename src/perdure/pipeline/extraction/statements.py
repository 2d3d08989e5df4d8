"""One clause to facts: completed, resolved, turned into the third person, and judged worth keeping or not."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perdure.domain.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.extraction import (
    belonging,
    dropping,
    grammar,
    people,
    person,
    pointing,
    reference,
    subjects,
    verbs,
    worth,
)
from perdure.pipeline.extraction.discourse import Discourse, Draft
from perdure.pipeline.extraction.wordsets import word_set

_CONFIDENCE = {"first": 0.9, "noun": 0.8, "name": 0.8, "pronoun": 0.75, "fragment": 0.6}
_REPORTED = Pattern(
    r"^(?P<who>.{2,60}?) (?:says?|said|thinks?|thought|reckons?|told (?:me|us)|tells (?:me|us)|keeps? "
    r"(?:saying|telling me)|insists?|"
    r"claims?|swears?|believes?|suggests?|suggested|recommends?|recommended|wants me to|asked me|always "
    r"says?)(?: that)? (?P<what>.+)$"
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


def read(text: str, joint: str, talk: Discourse, sentence: Sentence) -> list[Draft]:
    """The facts of one clause; remembers in `talk` and `sentence` what later clauses refer to."""
    text = dropping.strip_openers(text).strip(" ,.:;-!\"'")
    text = pointing.read(text, talk) or text
    if text and dropping.is_chatter(text) and re.match(r"(?:my|our) ", text, re.I):
        reference.note_thing(finish(text, talk), talk)
    if not text or dropping.is_chatter(text) or dropping.is_hypothetical(text):
        return []
    carried = sentence.carried if _may_carry(joint, text) else ""
    person = people.relation_in(carried.split()) or grammar.is_name(carried.split()[0]) if carried else None
    if joint == "," and not person and _first_content(text) in word_set("statements.of_people"):
        carried = ""
    last_word = grammar.bare(text.split()[-1])
    if joint.strip(", ") == "which" and _LEFT_OPEN.match(text) and last_word in verbs.bases():
        return []
    if joint.strip(", ") in {"who", "which"}:
        carried = last_noun(sentence.tail) or carried
        joint = ","
    sentence.tail = text
    head = grammar.bare(text.split()[0])
    if joint == "," and head in verbs.thirds() and carried.lower() in grammar.FIRST and " me" in f" {text} ":
        carried = _object_of(sentence.last)
    third = head in verbs.thirds() and head not in lexicon.words("nounish.txt")
    if joint == "," and third and carried.lower() in grammar.FIRST and talk.person:
        carried = talk.person
    if (not carried or carried.lower() in grammar.FIRST) and (stretch := _stretch(text)):
        text = stretch
    called = _CALLED.match(text)
    if called and not talk.person and called.group("name") not in lexicon.words("not_names.txt"):
        thing = talk.thing.removesuffix("'s breed").removesuffix("'s name")
        people.note_subject(called.group("name"), talk)
        sentence.carried = called.group("name")
        owned = thing.startswith(f"{talk.who}'s ") and grammar.bare(thing.split()[-1]) in people.relation_nouns()
        return [make(f"{thing} is called {called.group('name')}", "naming", talk, sentence.source)] if owned else []
    full, rule = subjects.complete(text, carried)
    if not full:
        return []
    if full.startswith("he ") and not text.lower().startswith("he "):
        subject = talk.person or talk.thing
        if not subject or not talk.own:
            return []
        full, rule = f"{subject}{full[2:]}", "name"
    return _statement(full, rule, talk, sentence)


_LEFT_OPEN = Pattern(r"(?:i|we) (?:(?!am\b|are\b|was\b|the\b|an?\b)[\w']+ ){0,3}[a-z]+$", re.I)
"""A clause behind "which" that lacks the object it speaks of ("which I don't accept")."""


def last_noun(text: str) -> str:
    """The name or the noun phrase that ends a text: what "who" and "which" stand for."""
    names: list[str] = re.findall(r"[A-ZÀ-Þ][\w'-]+(?: [A-ZÀ-Þ][\w'-]+)*", text)
    if names and text.rstrip(" .,").endswith(names[-1]) and grammar.is_name(names[-1].split()[0]):
        return names[-1]
    match = re.search(r"\b(?:my|our|the|a|an) (?:[\w'-]+ ){0,3}[\w'-]+$", text.rstrip(" .,"), re.I)
    return re.sub(r"^an? ", "the ", match.group()) if match else ""


def _object_of(clause: str) -> str:
    parts = clause.split()
    verb = grammar.find_verb(parts)
    words = [grammar.bare(part) for part in parts[verb + 1 :]] if verb > 0 else []
    if len(words) > 1 and words[0] in verbs.bases():
        words = words[1:]
    return " ".join(words[:3]) if 0 < len(words) <= 3 else ""


_STRETCH = Pattern(
    r"^(?:about |almost |nearly |over )?(?P<n>\d+|two|three|four|five|six|seven|eight|nine|ten) "
    r"(?P<unit>days?|weeks?|months?|years?|nights?|shifts?|hours?)"
    r"(?: (?P<rest>(?:on|off|without|sober|clean|smoke|into|as|in|of|at|with|straight|married|together|"
    r"vegan|vegetarian|nicotine|alcohol)\b.*))$",
    re.I,
)


_LONG_DAYS = Pattern(
    r"^(?:\d{1,2}|four|five|six|seven|eight|nine|ten|eleven|twelve)[- ]?(?:hour|hr|h)s?[- ](?:days|shifts|nights)\b"
    r"(?=.*\b(?:mon|tue|wed|thu|fri|sat|sun|week|month|rota|on|off)\w*\b)",
    re.I,
)


def _stretch(text: str) -> str:
    """ "4 nights on 3 off", "11 days without a cigarette": a stretch of time that is the speaker's."""
    match = _STRETCH.match(text)
    if _LONG_DAYS.match(text):
        return f"I work {text[:1].lower()}{text[1:]}"
    if match is None:
        return ""
    if match.group("unit").lower().startswith(("night", "shift")) or re.search(r"\boff\b", text):
        return f"I work {text}"
    rest = match.group("rest")
    if re.match(
        r"(?:without|sober|clean|smoke|vegan|vegetarian|nicotine|alcohol|married|together|straight)", rest, re.I
    ):
        return f"I have been {match.group('n')} {match.group('unit')} {rest}"
    if match.group("unit").lower().startswith("hour") and not rest.lower().startswith(("in", "into", "on")):
        return ""
    return f"I have {text}" if not rest.startswith("off") else ""


_CALLED = Pattern(r"^(?:he|she|it) is (?:called|named) (?P<name>[A-Z][\w'-]+)$", re.I)


def _first_content(text: str) -> str:
    """The first word that is no adverb ("still waiting" is "waiting")."""
    words = [grammar.bare(part) for part in text.split()]
    return next((word for word in words if word not in lexicon.words("adverbs.txt")), words[0])


def _may_carry(joint: str, text: str) -> bool:
    """Whether a clause without a subject goes on with the one before."""
    head = _first_content(text)
    if head in verbs.thirds() or joint.strip(", ") in {"and", "but", "then", "or", "so", "yet", "which", "who", "+"}:
        return True
    return joint in (",", ":", ")", "(") and head not in lexicon.words("statement_verbs.txt")


def _participle_next(parts: list[str], verb: int) -> bool:
    """Whether "has" only builds a tense of a thing's verb: "the match has moved, waterlogged pitch" lists nothing."""
    mine = any(grammar.bare(part) in grammar.FIRST for part in parts[:verb])
    return not mine and grammar.bare(" ".join(parts[verb + 1 : verb + 2])) in verbs.pasts()


def _statement(full: str, rule: str, talk: Discourse, sentence: Sentence) -> list[Draft]:
    if rule in {"noun", "name"} and not belonging.allowed(full, talk):
        return []
    naming = people.note_people(full, talk)
    parts = full.split()
    place = grammar.skip_adverbials(parts)
    verb = grammar.find_verb(parts, place)
    if rule == "name" and people.relation_in(parts) is None and verb > place:
        people.note_subject(" ".join(part.strip(grammar.PUNCTUATION) for part in parts[place:verb])[:60], talk)
    sentence.carried = _without_adverbs(parts[place:verb]) if verb > place else sentence.carried
    sentence.list_head = ""
    resolved = reference.resolve(full, talk)
    if resolved is None:
        return []
    particle = verb > place and grammar.bare(" ".join(parts[verb + 1 : verb + 2])) in {"up", "off", "out", "down"}
    perfect = verb > place and grammar.bare(parts[verb]) in {"has", "have"} and _participle_next(parts, verb)
    sentence.list_head = " ".join(parts[: verb + 1]) if verb > place and not particle and not perfect else ""
    sentence.last = full
    drafts = _naming(naming, talk, sentence.source)
    telling = verb > place and grammar.bare(parts[verb]) in verbs.simple_pasts() - {"was", "were", "had"}
    reported = _REPORTED.match(full)
    if reported and not re.match(r"(?:i|we)\b", full, re.I):
        return drafts + _report(resolved, reported, talk, sentence)
    fact = finish(resolved, talk)
    if not worthy(fact, talk):
        return drafts
    if not telling:
        drafts.clear()
    drafts.append(make(fact, rule, talk, sentence.source))
    reference.note_thing(fact, talk)
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
        or first in verbs.bases()
        or belonging.specific(what.split())
        or any(grammar.bare(word) in word_set("statements.healers") for word in reported.group("who").split())
    )
    if not (belonging.CARRIES.search(what) or telling):
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
    turned = _capitalised(person.to_third(clause, talk.who), talk)
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
    turned = " ".join(turned.split()).strip(" ,.:;-!")
    just = re.match(rf"({re.escape(talk.who)}) just (\w+)\b", turned)
    if just and just.group(2) in verbs.simple_pasts():
        turned = f"{just.group(1)} {turned[just.start(2) :]}"
    return turned[:1].upper() + turned[1:]


def _capitalised(text: str, talk: Discourse) -> str:
    """Names that were introduced in small letters, written as names."""
    if not talk.names:
        return text
    return re.sub(
        r"\b[a-z]{3,}\b",
        lambda m: (
            m.group().capitalize() if m.group() in talk.names and not people.is_known_word(m.group()) else m.group()
        ),
        text,
    )


def make(fact: str, rule: str, talk: Discourse, *sources: int) -> Draft:
    """A draft with the rule's confidence; the telling opens the gate for less explicit statements."""
    talk.own = True
    return Draft(fact, sources, rule, _CONFIDENCE.get(rule, 0.7))


_EMPTY_FACT = Pattern(
    r"(?:is|was|has|does|did|will|would|can|can't|thinks?|says?|said|feels?|needs?|wants?|likes?|loves?|"
    r"hates?|knows?|goes|got|gets|can't wait|cannot wait|"
    r"made|makes|tries|tried|isn't|wasn't|doesn't|didn't|worked|works|helped|helps)"
    r"(?: (?:it|that|this|so|not|too|also|well|good|great|bad|fine|ok|okay|nice|there|here|them|one|now|"
    r"again|to|all|really|very|yet))*$"
)


def worthy(fact: str, talk: Discourse) -> bool:
    """Whether a finished fact says something: more than a subject with an empty predicate."""
    words = fact.split()
    if len(fact) > 500 or len(words) < 2 or not worth.readable(fact, talk.who, "first"):
        return False
    if words[-1] in {"it", "them", "that", "this", "him", "her"} and len(words) <= 4 and words[0] == talk.who:
        return False
    if words[0] == f"{talk.who}'s" and (words[1] in verbs.AUXILIARIES or _past_only(words)):
        return False
    if len(words) == 2:
        base = verbs.thirds().get(words[1].lower(), "")
        if words[1].lower() in word_set("statements.parting") and words[0] != talk.who:
            return True
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


def _past_only(words: list[str]) -> bool:
    """Whether the second word is a past tense and no noun of the subject ("User's shed delivery has moved")."""
    noun = words[1] in lexicon.words("nounish.txt") and grammar.find_verb(words) > 1
    return words[1] in verbs.simple_pasts() and not noun


def hedged(fact: str) -> bool:
    """Whether a fact is told as uncertain or only considered."""
    return _HEDGE.search(fact) is not None


_HEDGE = Pattern(
    r"\b(?:tentatively|provisionally|"
    r"might|maybe|perhaps|probably|possibly|may (?!\d)(?:be|have|go|move|get|do|take|switch|start|"
    r"not)|thinks? (?:about|of|it|they|he|she|the|their)|thinking (?:about|of)|"
    r"considering|not sure|isn't sure|unsure|could be|supposedly|apparently|if (?:it|the|they|all|he|she|"
    r"we|i|user|everything|nothing)|"
    r"hopes? to|hoping to|toying with|tempted to|torn between|leaning towards|not decided|undecided|"
    r"depends on|would like to|wants to maybe|seems?|i think|guesses|supposes)\b",
    re.I,
)


def self_describing(text: str) -> bool:
    """Whether a clause without a subject can only be about the speaker ("im lefty" shortened to "lefty")."""
    return grammar.bare(text.split(maxsplit=1)[0]) in lexicon.words("states.txt") if text.split() else False
