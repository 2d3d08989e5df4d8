"""Whether a clause whose subject is a noun or a name is about the speaker's world, or about the world at large."""

from __future__ import annotations

import re

from perdure.domain.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.extraction import dropping, grammar, people, subjects, verbs
from perdure.pipeline.extraction.discourse import Discourse
from perdure.pipeline.extraction.wordsets import word_set

_HABIT = Pattern(r"\b(?:no longer|any ?more|these days|nowadays|now|lately)\b", re.I)
_GENERIC = word_set("statements.generic")
CARRIES = Pattern(r"\b(?:i|me|my|we|us|our|mine|user|ours)\b", re.I)
_PRIVATE = word_set("statements.private")
_STANDS = Pattern(
    r"\b(?:is|are|went|goes|was) (?:now )?(?:live|gone|greenlit|cancelled|canceled|postponed|"
    r"delayed|deprecated|decommissioned|"
    r"on (?:\w+ )?leave|off sick|back from|running late)\b"
)
"""News of somebody's own project or surroundings; nobody tells them of the world at large."""


def allowed(full: str, talk: Discourse) -> bool:
    """Whether a clause whose subject is a noun or a name is about the speaker's world, not the world at large."""
    parts = full.split()
    place = grammar.skip_adverbials(parts)
    head = grammar.bare(parts[place])
    if CARRIES.search(full) or head in {"both"}:
        if head in {"nobody", "no", "everybody", "everyone"} and not re.search(
            r"\b(?:my|our|we|us|calls? me)\b", full, re.I
        ):
            return False
        return head not in _GENERIC or (
            re.search(r"\b(?:i|my|me|we|our|calls? me|of us)\b", full, re.I) is not None and head not in {"you"}
        )
    if head in {"everything", "it's"} and talk.own and specific(parts) and not talk.asks:
        return True
    if head in _GENERIC:
        return False
    if _STANDS.search(full) and not talk.asks:
        return True
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
        personal = subjects.is_personal(subject) and not dropping.is_chatter(full)
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
        if talk.asks and not talk.about_self and not talk.own:
            return False
        return talk.own or talk.about_self or people.relation_in(parts) is not None or _of_a_friend(parts, verb, talk)
    personal = subjects.is_personal(subject)
    if talk.own or (specific(parts) and (personal or talk.about_self)) or _HABIT.search(full) is not None:
        return True
    return specific(parts[verb:]) and not talk.asks and grammar.bare(parts[place]) not in _GENERIC


def _common(word: str) -> bool:
    """Whether a word behind "the" is a common noun or an abbreviation, and no name of something well known."""
    return word.islower() or (word.isupper() and len(word) < 6)


def _of_a_friend(parts: list[str], verb: int, talk: Discourse) -> bool:
    """Whether a name that was never introduced is told of as one tells of people and pets one knows."""
    if grammar.bare(parts[0]) in lexicon.words("famous.txt"):
        return False
    if talk.task or verb < 1 or verb > 2 or re.search(r"\b1[0-9]{3}\b", " ".join(parts)):
        return False
    word = grammar.bare(parts[verb])
    base = verbs.thirds().get(word) or verbs.pasts().get(word) or word
    after = grammar.bare(parts[verb + 1]) if verb + 1 < len(parts) else ""
    if word in verbs.AUXILIARIES and (does := _does(parts, verb)) in _PRIVATE:
        return does != ""
    if base == "be":
        rest = [grammar.bare(part) for part in parts[verb + 1 :]]
        return any(
            word in lexicon.words("states.txt") or word in people.relation_nouns() or word.isdigit()
            for word in rest[:5]
        )
    return base in _PRIVATE and after != ""


def _does(parts: list[str], verb: int) -> str:
    """The base form of the verb behind auxiliaries ("is refusing", "won't take", "hasn't slept"), or ""."""
    for part in parts[verb + 1 : verb + 4]:
        word = grammar.bare(part)
        if word in verbs.AUXILIARIES | lexicon.words("adverbs.txt") | {"not", "been"}:
            continue
        return verbs.ings().get(word) or verbs.pasts().get(word) or (word if word in verbs.bases() else "")
    return ""


def specific(predicate: list[str]) -> bool:
    """Whether a predicate holds a number, a name, a code or a time."""
    return any(
        grammar.is_name(part) or grammar.is_time_word(grammar.bare(part)) or any(char.isdigit() for char in part)
        for part in predicate
    )
