"""Verbless pieces of a sentence: left with their statement, made a readable one of their own, or refused."""

from __future__ import annotations

import re

from perdure.domain.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.extraction import corrections, grammar, verbs
from perdure.pipeline.extraction.discourse import Discourse
from perdure.pipeline.extraction.wordsets import word_set

LONGEST_TAIL = 8
"""Words of a tail that stays with its statement."""
LONGEST_FACT = 24
"""Words of a statement that still takes a tail."""
_QUANTITY = Pattern(
    r"^(?:no|\d[\d.,]*|two|three|four|five|six|seven|eight|nine|ten|both|several|about \d+|"
    r"roughly \d+) (?P<noun>[a-z][\w'-]+)"
    r"(?: [\w'-]+){0,7}$",
    re.I,
)
_HOURS = Pattern(r"^(?:closed|shut|open)\b", re.I)


def attach(text: str, joint: str, source: int, talk: Discourse) -> bool:
    """Whether the piece after a comma was left with the statement before it ("takes bisoprolol, 2.5 mg")."""
    last = talk.drafts[-1] if talk.drafts else None
    words = text.split()
    if last is None or not joint.startswith(",") or len(words) > LONGEST_TAIL or last.sources[-1:] != (source,):
        return False
    if last.forget or last.procedural or last.rule in _CLOSED or len(last.text.split()) > LONGEST_FACT:
        return False
    if joint.strip(", ") or not _worth_keeping(words) or _comments(words):
        return False
    keep = grammar.is_name(words[0]) or words[0].isupper() or grammar.is_time_word(grammar.bare(words[0]))
    last.text = f"{last.text}, {text if keep else text[:1].lower() + text[1:]}"  # a small letter stays small
    return True


_CLOSED = frozenset({"standing", "fragment", "labelled", "naming", "aged", "owned", "as given", "rescheduled"})


def _comments(words: list[str]) -> bool:
    """Whether a tail remarks on what was said; "no stairs" does not."""
    head = grammar.bare(words[0])
    return head in word_set("tails.comments") and not (head == "no" and len(words) > 1)


def _worth_keeping(words: list[str]) -> bool:
    """Whether a tail holds a value (number, name, time) or narrows what was said ("ever", "at night")."""
    return (
        valued(" ".join(words))
        or (1 < len(words) < 6 and grammar.bare(words[0]) not in lexicon.words("moods.txt"))
        or (words[0].lower() == "no" and len(words) < 5)
        or grammar.bare(words[0]) in lexicon.words("prepositions.txt") - {"like", "as", "than"}
        or (len(words) == 1 and (len(words[0]) > 4 or grammar.bare(words[0]) in {"ever", "only", "too"}))
    )


def valued(text: str) -> bool:
    """Whether a piece holds a typed value: a number, money, a date, a time or a proper name."""
    parts = text.split()
    return corrections.typed(text) is not None or any(
        grammar.is_number(part) or grammar.is_name(part) or grammar.is_time_word(grammar.bare(part)) for part in parts
    )


def of_topic(text: str, said: str, talk: Discourse, *, told: bool) -> str:
    """A statement of a piece and the topic in hand, or ""; `said` is the piece in the third person, `told` whether the
    speaker has said something of his own in this sentence or before."""
    topic = talk.topic or talk.thing
    measured = _QUANTITY.match(text) is not None
    if topic and topic != talk.who and _readable_topic(topic, talk.who) and told:
        if _HOURS.match(text):
            return f"{topic} is {_low(said)}"
        if measured and not _timed(text):
            plural = topic.endswith("s") and not topic.endswith(("ss", "'s", "us"))
            return f"{topic} {'have' if plural else 'has'} {_low(said)}"
        return f"{topic}: {said}" if valued(text) and not _opens_adverb(text) else ""
    return ""


def of_speaker(text: str, said: str, talk: Discourse, *, told: bool) -> str:
    """A statement of a piece and the speaker himself, or ""."""
    if said.startswith(talk.who):
        return ""
    if _QUANTITY.match(text) and talk.about_self and not _timed(text) and talk.who not in said and not talk.asks:
        return f"{talk.who} has {_low(said)}"
    return f"{talk.who}: {said}" if told and _series(text) else ""


def _timed(text: str) -> bool:
    noun = grammar.bare(text.split()[1])
    return (
        grammar.is_time_word(noun)
        or noun in lexicon.words("prepositions.txt")
        or noun
        in {
            "of",
            "more",
            "or",
            "and",
            "to",
            "a",
            "per",
            "each",
            "times",
            "way",
            "doubt",
        }
    )


def _series(text: str) -> bool:
    """ "Curling tuesdays", "2nd year", "Day 40 no vaping": a value with a word that says of what."""
    words = text.split()
    return (
        valued(text)
        and 1 < len(words) <= 6
        and not _opens_adverb(text)
        and any(
            word.isalpha() and word.islower() and len(word) > 3 and not grammar.is_time_word(word)
            for word in map(str, words)
        )
    )


def _opens_adverb(text: str) -> bool:
    head = grammar.bare(text.split(maxsplit=1)[0])
    return head in lexicon.words("adverbs.txt") | lexicon.words("prepositions.txt") | word_set("tails.comments") | {
        "one",
        "only",
        "just",
        "not",
        "this",
        "that",
        "the",
    } or (head in verbs.bases() and head not in lexicon.words("nounish.txt"))


def _readable_topic(topic: str, who: str) -> bool:
    """Whether a person would read the topic as the subject of what follows."""
    words = topic.removeprefix(f"{who}'s ").split()
    if not words or len(words) > 4 or topic == who:
        return False
    low = [grammar.bare(word) for word in words]
    if low[-1] in word_set("tails.no_topic") or low[-1][:1].isdigit() or low[0] in word_set("tails.no_topic"):
        return False
    if any(word in verbs.AUXILIARIES for word in low):
        return False
    return not (low[-1] in verbs.simple_pasts() and low[-1] not in lexicon.words("nounish.txt"))


def _low(said: str) -> str:
    return said[:1].lower() + said[1:]
