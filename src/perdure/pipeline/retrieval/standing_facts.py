"""Facts that tell how an assistant is to answer: the standing instructions among what a curator wrote down."""

from __future__ import annotations

import re
from functools import cache

from perdure.pipeline.lexicon import lines

LONGEST_SUBJECT = 40  # characters before the verb: "User", or a name


def is_standing(fact: str) -> bool:
    """Whether a fact tells how its subject wants to be answered: "User wants the assistant to reply in French".

    It is a wish about the assistant, its answers, or how to be called; "User prefers tea" is not.
    """
    return _pattern().match(fact) is not None


@cache
def verbs_of_answering() -> frozenset[str]:
    """Return verbs for ways of answering: "reply in French" changes "answer in German"."""
    return frozenset(entry[1:] for entry in lines("standing_facts.txt") if entry.startswith("="))


@cache
def _pattern() -> re.Pattern[str]:
    entries = lines("standing_facts.txt")
    wishes = "|".join(re.escape(entry[1:]) for entry in entries if entry.startswith("+"))
    matters = "|".join(re.escape(entry) for entry in entries if entry[0] not in "+=")
    return re.compile(
        rf"(?:the )?\w.{{0,{LONGEST_SUBJECT}}}?\b(?:{wishes})\b(?:(?!\bthat\b).)*?\b(?:{matters})\b",
        re.IGNORECASE | re.DOTALL,
    )
