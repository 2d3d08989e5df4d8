"""The last look at a finished fact: whether a person who was not there could read it as a statement.

The rules before this one decide what to say; this one only refuses. In doubt nothing is
stored: the episode is kept anyway.
"""

from __future__ import annotations

import re

from perdure.domain.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.extraction import grammar, verbs
from perdure.pipeline.extraction.wordsets import word_set

_AGREES_NOT = Pattern(
    r"\bUSER am\b|(?<!and )(?<!or )\bUSER (?:are|i|we|he|she|it|its|they|is (?:is|are|has|does|"
    r"from now on|the assistant)|"
    r"has (?:is|are|has)|do|was is)\b|\b[Tt]he assistant (?:am|ask|think|stop|know|want|said|tell|say|mean)\b|"
    r"\b(?:wants|needs|is|has|likes), |^USER is with the\b|^(?:The|A|An) (?:is|are|was|were|has|"
    r"have|of|to|and|in|on|at)\b|\bha's\b|\b(?:is is|was is|"
    r"is was|are is|the the|a the)\b|"
    r"^USER's (?:is|are|was|its|it|turns|means|we|i|he|she|they|the|a|an|this|that|these|those|"
    r"following|wants?|theirs|them|"
    r"because|when|if|before|after|so|but|and|let|also|just|please|for|at|which)\b|\bUSER's USER\b"
)
_OPENS_BADLY = Pattern(
    r"^(?:wait|sorry|pardon|oops|hang on|hold on|no wait|heyy*|hey|hi|hello|and|or|but|because|which|than|he|she|"
    r"his|her|its|whose|whom|that (?:is|was)|this (?:is|was)|it (?:is|was|has)|these are|"
    r"those are|not (?:since|that|even))\b",
    re.I,
)
_SPEAKER = Pattern(r"\bUSER\b")
_CAPITAL_INSIDE = Pattern(
    r"(?<=[a-z] )(?:The|At|In|On|Of|And|But|For|With|Is|Are|Was|Has|It|Its|My|We|He|She|They) (?=[a-z])"
)
_NAMES_ITSELF = Pattern(r"^(?P<left>.{2,60}?)(?::| is| are| was)(?: called| named)? (?P<right>.{2,60}?)(?: now)?$")


def readable(fact: str, who: str, rule: str) -> bool:
    """Whether the text of a fact (of a rule other than "as given") may be stored."""
    words = fact.split()
    if rule in _FREE:
        return len(words) > 1
    plain = re.sub(rf"(?<!\w){re.escape(who)}(?!\w)", "USER", fact)
    if _AGREES_NOT.search(plain) or _OPENS_BADLY.match(plain):
        return False
    if _CAPITAL_INSIDE.search(fact) or _repeats(fact) or _unfinished(words):
        return False
    return ":" in fact or rule in _VERBLESS or _has_verb(words)


_FREE = frozenset({"as given", "standing", "forget"})
_VERBLESS = frozenset({"procedure", "list", "labelled", "fragment", "possessed", "hardware"})


def _repeats(fact: str) -> bool:
    """ "Sorcha: Sorcha", "Plastic Heron is called Plastic Heron now"."""
    match = _NAMES_ITSELF.match(fact)
    if match is None:
        return False
    left, right = match.group("left").lower(), match.group("right").lower()
    return left == right or left.removeprefix("the ") == right.removeprefix("the ")


def _unfinished(words: list[str]) -> bool:
    last = grammar.bare(words[-1]) if words else ""
    return last in word_set("worth.no_end") or (last in {"is", "are", "was", "has"} and len(words) < 6)


def _has_verb(words: list[str]) -> bool:
    if grammar.find_verb(words) > 0:
        return True
    return any(
        grammar.bare(word) in verbs.AUXILIARIES
        or grammar.bare(word) in verbs.thirds()
        or grammar.bare(word) in verbs.pasts()
        or (grammar.bare(word) in verbs.bases() and grammar.bare(word) not in lexicon.words("nounish.txt"))
        for word in words[1:]
    ) or (len(words) > 2 and words[1].endswith("s") and grammar.bare(words[1]) not in lexicon.words("nounish.txt"))
