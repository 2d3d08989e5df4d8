"""Sentences that open by naming what they correct: "A correction about Lorna: she flies in on the 5th"."""

from __future__ import annotations

import re

from perdure.domain.pattern import Pattern
from perdure.pipeline.extraction import grammar, people
from perdure.pipeline.extraction.discourse import Discourse, kin_gender

_TOPIC = r"(?P<topic>(?!you\b)[^:,.;!?-]{2,50}?)"
_ON = r"(?:on|about|re|regarding|concerning|as to|as regards|with|for|to|in)"
_SELF = (
    r"(?:i|we)(?: (?:must|have to|need to|should|ought to|had better|would like to|want to|may|might))?(?: also| just)?"
)
_OPENERS: tuple[Pattern, ...] = tuple(
    Pattern(rf"^(?:(?:and|oh|also|actually|sorry|no|ps|p\.s\.?|by the way)[, ]+)*{form}(?P<rest>.*)$", re.I)
    for form in (
        rf"(?:(?:an?|one|my|another|small|quick|slight|minor|little|further|important) )*(?:corrections?|amendments?|"
        rf"errat(?:um|a)|clarification|rectification)(?: {_ON} {_TOPIC})? ?(?::|,| -+|;) ?",
        rf"(?:(?:an?|one|another|small|quick|slight|minor) )*(?:updates?|changes?|news|fix|word) (?:on|about|re|"
        rf"regarding|concerning) {_TOPIC} ?(?::| -+|;) ?",
        rf"{_SELF} correct (?:myself|ourselves|what (?:i|we) said|that|an error|a mistake) {_ON} {_TOPIC}"
        r"(?: ?(?::|,| -+|;) ?|$)",
        rf"{_SELF} (?:had|got|have got|had got|have) (?:it|that|this|things) (?:all |quite |completely )?wrong "
        rf"{_ON} {_TOPIC}(?: ?(?::|,| -+|;) ?|$)",
        rf"{_SELF} (?:was|were) (?:\w+ )?(?:wrong|mistaken|mixed up|confused) {_ON} {_TOPIC}(?: ?(?::|,| -+|;) ?|$)",
        rf"{_SELF} (?:made|have made) (?:a|an) (?:\w+ )?(?:mistake|slip|error|blunder) {_ON} {_TOPIC}"
        r"(?: ?(?::|,| -+|;) ?|$)",
        rf"{_SELF} (?:misspoke|mistyped|misremembered|misread|muddled|misled you) {_ON} {_TOPIC}(?: ?(?::|,| -+|"
        rf";) ?|$)",
        rf"{_SELF} (?:got|had|have got|told you|gave you) {_TOPIC} (?:all )?(?:wrong|mixed up)(?: ?(?::|,| -+|;) ?|$)",
        rf"{_SELF} (?:had|got|have got) (?:it|that|this|things) (?:all |quite |completely )?wrong(?: ?(?::|,| -+|;) ?)",
    )
)
_SORRY = Pattern(
    r"[,;.]? (?:i (?:mis\w+|got (?:it|that) wrong|mixed \w+ up|was wrong|told you wrong)|my (?:mistake|bad|"
    r"error)|sorry|"
    r"apologies|typo|not what i said)[.!]*$",
    re.I,
)
_THEY = Pattern(r"^(?P<head>it|this|that|they|these|those|he|she) (?=\w)", re.I)


def read(sentence: str, talk: Discourse) -> str | None:
    """The sentence without its opener and with what it names for "it" or "she"; None if it has no such opener.

    "" where it says no more than what is to be corrected; what follows then speaks of that.
    """
    if len(sentence) > 400:
        return None
    for pattern in _OPENERS:
        match = pattern.match(sentence)
        if match is None:
            continue
        talk.own = True  # who corrects has told of his own before
        topic = (match.groupdict().get("topic") or "").strip()
        _meet(topic, talk)
        rest = _SORRY.sub("", match.group("rest").strip(" ,")).strip(" ,.")
        return _named(topic, rest, talk) if rest else ""
    return None


def _meet(topic: str, talk: Discourse) -> None:
    """What is corrected is what is spoken of from here."""
    if not topic:
        return
    head = grammar.bare(topic.rsplit(maxsplit=1)[-1])
    known = talk.names.get(head)
    if known or (grammar.is_name(topic.split(maxsplit=1)[0]) and not people.is_known_word(head)):
        talk.meet(known or topic, talk.gender if known == talk.person else "n")
        return
    display = re.sub(r"^(?:my|our)\b", f"{talk.who}'s", topic)
    if kin_gender(head):
        talk.meet(display, kin_gender(head))
        return
    talk.thing = talk.topic = display
    if _plural(topic):
        talk.group = display


def _named(topic: str, rest: str, talk: Discourse) -> str:
    """What is left, with the topic for the pronoun that stands for it, or with "is" before a mere value."""
    if not topic:
        return rest
    known = talk.names.get(topic.lower(), topic)
    pointed = _THEY.match(rest)
    if pointed:
        return f"{known} {rest[pointed.end() :]}"
    parts = rest.split()
    if grammar.subject_of(parts) or grammar.find_verb(parts) >= 0:
        return rest
    return f"{known} {'are' if _plural(topic) else 'is'} {rest}"


def _plural(topic: str) -> bool:
    head = grammar.bare(topic.rsplit(maxsplit=1)[-1])
    return head.endswith("s") and not head.endswith(("ss", "us", "is"))
