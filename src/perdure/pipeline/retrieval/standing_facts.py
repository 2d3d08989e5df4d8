"""Which facts tell how an assistant is to answer, and which requests look like that but are about a single matter."""

from __future__ import annotations

import re
from functools import cache

from perdure.pipeline.lexicon import lines, pairs, words

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


# A matter that is to be kept from others.

_OTHERS = (
    r"(?:any ?(?:one|body)|no ?(?:one|body)|every ?(?:one|body)|a (?:living )?soul|people|others|him|her|them|"
    r"(?:my|our|his|her|their) [\w'-]+|the (?:others|family|rest|police|press|<person>)|"
    r"(?!(?:me|us|you|it|this|that|a|an|the|my|if|when|what|how|which|whether)\b)[\w'-]+(?<!s))"
)
"""Whom something is kept from: anybody but who speaks and who is spoken to; a plural is what is told ("jokes")."""
_DONT_TELL = (
    r"(?:don't|dont|do not|never|you (?:can't|cannot|mustn't|must not|won't)) (?:you )?(?:ever |dare |go )?(?:"
    rf"tell(?:ing)? {_OTHERS}(?=$|[,.!?]| (?:about|that|i|we|he|she|they|it|ok|okay|please|pls|lol|haha|tho|though|"
    r"yet|else)\b)|"
    r"(?:say|mention|repeat|breathe|share|spread|post|leak)(?:ing)?"
    r"(?: (?P<what>(?:about )?(?:it|this|that|these|any of (?:it|this|that)|anything|something|a word)))?"
    rf"(?: (?:to|with|in front of|around|near) {_OTHERS}|(?(what)(?=$|[,.!?]| (?:ok|please|pls|lol|haha|yet)\b)|(?!))))"
)
_KEEP_IT = (
    r"(?:(?:(?:can|could|will|would|let's|lets) (?:you |we )?(?:please )?)?(?:keep|leave)|"
    r"(?:it|this|that)(?:'s|s| is| stays?)?(?: strictly)?)"
    r"(?: (?:it|this|that|all (?:of )?this|them))?(?: (?:strictly|just|all))? "
    r"(?:between (?:us|you and me|ourselves|you and i)|to yourself|quiet|(?:a |our |my )?(?:little )?secret|private|"
    r"confidential|off the record|under your hat|on the (?:quiet|down ?low))"
    r"(?=$|[,.!?:]| (?:ok|okay|please|pls|for|from|until|till|and|but|though|lol|haha)\b)"
)


@cache
def _secret() -> re.Pattern[str]:
    person = "|".join(map(re.escape, sorted({*pairs("kin.tsv"), *words("roles.txt")}, key=len, reverse=True)))
    return re.compile(
        r"^(?:(?:and|but|so|ok|oh|just|also|please|pls|plz|haha|lol|sh+|ps+t|btw|though),? )*"
        rf"(?:{_DONT_TELL.replace('<person>', person)}|{_KEEP_IT}|"
        r"(?:not a word|mum's the word|your lips are sealed|our (?:little )?secret)\b)",
        re.IGNORECASE,
    )


def keeps_secret(sentence: str) -> bool:
    """Whether a sentence asks to keep its matter from others: "don't tell anyone", "keep it between us".

    That is about this one matter, and no word on how to answer. "Never share my address with anyone" says of what, and
    is one that lasts.
    """
    return _secret().match(sentence.strip(" .,!")) is not None
