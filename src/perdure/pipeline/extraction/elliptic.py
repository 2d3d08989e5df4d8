"""Openings of chat style that leave out subject, verb or article: "insulin pump since 2011", "dialysis nurse"."""

from __future__ import annotations

import re

from perdure.domain.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.extraction import grammar, people, verbs
from perdure.pipeline.extraction.wordsets import word_set

_ARTICLE_AN = "aeiou"
YEAR_OF = Pattern(
    r"^(?:first|second|third|fourth|fifth|final|last|1st|2nd|3rd|4th|5th|6th) (?:year|yr|term|"
    r"semester) (?!of (?:the|a)\b|in a row|"
    r"running)[a-z][\w' -]*(?: (?:in|at|of) (?:my |the )?[\w' -]+)$"
)
"""How far somebody's studies are: "third year of my phd in Ljubljana", "2nd year architecture in Brno"."""
_SINCE = Pattern(
    r"^(?P<thing>(?:an? )?(?:[\w'-]+ ){0,3}[\w'-]+) since (?P<when>(?:i was|birth|childhood|school|\d{4}|the \w+|last|"
    r"january|february|march|april|may|june|july|august|september|october|november|december|age) ?.{0,40})$",
    re.I,
)
DATED = Pattern(
    r"(?:start|finish|move|open|fly|play|leave|arrive|graduate|retire|run|present|sign) (?:(?:on|at|from|in|"
    r"back|out|over) )*"
    r"(?:the )?(?:\d|mon|tue|wed|thu|fri|sat|sun|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|next|this|tomorrow)",
    re.I,
)
"""A verb and a date: what the speaker does then ("start 4th nov")."""
NO_PLACE = Pattern(
    r"\bplease$|^(?:by|until|before|after|from) (?:the )?(?:end|start|middle|beginning) of\b|^in (?:plain|"
    r"simple|past|present|"
    r"short|bold|english|french|german|spanish|italian|latin|dutch)\b",
    re.I,
)
"""Openings with a preposition that tell of a time or of how to answer, and not where somebody is."""


def article(noun: str) -> str:
    """The indefinite article of a noun phrase."""
    return "an" if noun[:1].lower() in _ARTICLE_AN else "a"


def lower_first(word: str) -> str:
    """A word that is capitalised only because it opens, in small letters."""
    return word.lower() if word[:1].isupper() and word[1:].islower() else word


def is_bare_role(parts: list[str]) -> bool:
    """Whether two or three words end in an occupation and are nothing else ("Dialysis nurse", not "My nurse")."""
    words = [grammar.bare(part) for part in parts]
    plain = 1 < len(words) < 4 and all(word.replace("-", "").isalpha() for word in words)
    if not plain or words[-1] not in lexicon.words("roles.txt") or words[0] in lexicon.words("determiners.txt"):
        return False
    known = (
        grammar.POSSESSIVES | lexicon.words("imperatives.txt") | lexicon.words("prepositions.txt") | verbs.AUXILIARIES
    )
    capitals = sum(part[:1].isupper() for part in parts)
    return words[0] not in known | {"no", "new", "not", "dear", "for", "hi"} and capitals < 2


def unlisted_verb(head: str, after: str) -> str:
    """ "past" or "ing" for a word at the head that no list has, but that ends and goes on as such a form does."""
    goes_on = after in lexicon.words("prepositions.txt") | lexicon.words("determiners.txt") | grammar.POSSESSIVES
    if not goes_on or people.is_known_word(head) or not head.isalpha() or len(head) < 6:
        return ""
    if head.endswith("ed") and not head.endswith(("eed", "red")):
        return "past"
    takes = after in lexicon.words("determiners.txt") | grammar.POSSESSIVES
    return "ing" if takes and head.endswith("ing") and head not in word_set("cleaning.noun_ing") else ""


def had_since(text: str) -> str:
    """ "insulin pump since I was 11": what one has had since then, or ""."""
    match = _SINCE.match(text)
    words = match.group("thing").split() if match else []
    if match is None or not words or any(grammar.is_time_word(grammar.bare(word)) for word in words):
        return ""
    last = grammar.bare(words[-1])
    known = people.is_known_word(last) and not verbs.is_form(grammar.bare(words[0]))
    if not known or grammar.bare(words[0]) in lexicon.words("adverbs.txt") | lexicon.words("prepositions.txt"):
        return ""
    if last in lexicon.words("states.txt") | lexicon.words("moods.txt") | lexicon.words("adverbs.txt"):
        return ""
    thing = match.group("thing")
    counted = words[0].lower() in {"a", "an"} or last.endswith("s")
    return f"I have had {thing if counted else f'{article(thing)} {thing}'} since {match.group('when')}"
