"""The assistant's words before they are read as a question: offers, leads, and "you" as the user would say it."""

from __future__ import annotations

import re

from perdure.domain.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.extraction import grammar, verbs

_OFFER = Pattern(
    r"^(?:(?:so|and|ok|okay|great|sure|now|or|also|well),? )*(?:want(?! to (?:be|become))\b|would you like "
    r"(?:me|a|an|some|to (?:hear|see|try|go|continue|start|know|add|make))\b|"
    r"do you want (?:me|a|an|some|to (?:hear|see|try|continue|start|know))\b|do you need (?:help|anything|"
    r"any help|more|a hand)|need (?:help|anything|any|a|more|me)|"
    r"shall (?:i|we)|should (?:i|we)|can (?:i|we)(?! ask)|could i(?! ask)|may i(?! ask)|"
    r"which (?:one )?(?:do|would) you (?:want|like|prefer),? the|what is on your mind|what brings|anything "
    r"else|another|care for|how can i|"
    r"what can i|how (?:may|could) i|"
    r"ready|interested in|how about|what about|fancy|is there anything|are you ready|does that|did that|is "
    r"that (?:ok|okay|clear|better|helpful|what)|"
    r"any other|what else can|would that|how does that|how is that|how's that|feel free|let me know|would "
    r"you prefer (?:me|a|an)\b|"
    r"(?:which|what) (?:tone|style|format|length|version|option|angle|level|voice|mood|genre|one)s? (?:do|would|"
    r"should|shall)\b|"
    r"would you like (?:bullet|examples|more|it|this|them|another|sources|links|details)\b|"
    r"what would you like (?:me|to)|which one would you like|what do you want (?:me|to (?:do|know|ask|"
    r"write|hear|talk)))",
    re.I,
)
_SWAP = Pattern(
    r"\b(are you|were you|you are|you were|you've|you're|you'd|you'll|your|yours|yourself|you|I|my|me|I'm|I've)\b", re.I
)
_TO_USER = {
    "are you": "am I",
    "were you": "was I",
    "you are": "I am",
    "you're": "I am",
    "you were": "I was",
    "you've": "I have",
    "you'd": "I would",
    "you'll": "I will",
    "your": "my",
    "yours": "mine",
    "yourself": "myself",
}
_ASSUME = Pattern(
    r"^(?:(?:so|and|ok|okay|then|now),? )*(?:(?:should|shall|can|may|do) i (?:assume|take it|suppose|conclude|gather)"
    r"(?: then)?(?: that)?|am i right (?:in thinking|to think|to assume)(?: that)?|is it (?:fair|safe|right) to (?:say|"
    r"assume)(?: that)?),? ",
    re.I,
)
_HAS_DOWN = Pattern(
    r"^(?:the assistant )?(?:have |has )?(?:(?P<me>(?:got )?me down (?:as|for) )|(?:put|noted|saved|written|recorded|"
    r"listed|got) (?:down )?(?=[a-z0-9]))",
    re.I,
)


_NOTE_AS = Pattern(
    r"^(?:(?:so|and|ok),? )*(?:shall|should|can|may) i (?:note|put|record|save|keep|set|list|write)(?: down)? "
    r"(?P<what>your [\w' -]{2,30}?) (?:down )?as (?P<value>[^?]{1,40})$",
    re.I,
)


def is_offer(question: str) -> bool:
    """Whether the assistant offers something of its own ("shall I go on"), which asks nothing about the user."""
    return _OFFER.match(question) is not None


def plain(question: str) -> str:
    """The question without "should I assume that" before it."""
    return _NOTE_AS.sub(r"\g<what> is \g<value>", _ASSUME.sub("", question))


def noted(text: str) -> str:
    """The user's own words without "the assistant has noted" before them."""
    return _HAS_DOWN.sub(_down, text)


def _down(match: re.Match[str]) -> str:
    """ "I have you down as a vegan" says "you are a vegan"; "I've put the deadline on the 5th" says where it is."""
    if not match.group().lower().startswith("the assistant"):
        return match.group()
    return "I am " if (match.group("me") or "").endswith("as ") else "I am down for " if match.group("me") else ""


def swap(text: str) -> str:
    """The assistant's words as the user would say them: "you" is "I", "your" is "my"."""
    return _SWAP.sub(_swapped, text)


def _swapped(match: re.Match[str]) -> str:
    word = match.group().lower()
    if word in _TO_USER:
        return _TO_USER[word]
    if word == "you":
        after = match.string[match.end() :].split()
        follower = grammar.bare(after[0]) if after else ""
        return "I" if follower and (verbs.is_form(follower) or follower in lexicon.words("adverbs.txt")) else "me"
    return "the assistant"
