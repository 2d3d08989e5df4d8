"""What a whole message is, before its sentences are read: a text to work on, a story, a role, a sum, a joke.

Each check is over words that the genres share, kept in `scene_*.txt`; a message that is none of them is read normally.
"""

from __future__ import annotations

import re
from functools import cache

from perdure.domain.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.extraction import cleaning, dropping

HEAD = 1500
"""Characters of a message that decide its genre."""

_SELF = Pattern(r"\b(?:i|i'm|i've|me|my|mine|we|our|us|myself)\b", re.I)
_ASKS = Pattern(
    r"\?|^\s*(?:what|who|why|how|which|when|where|is|are|can|could|do|does|did|should|would|will|explain|"
    r"solve|calculate|find|show|"
    r"tell|write|give|help|please|translate|make)\b",
    re.I,
)
_ASKS_LATER = Pattern(r"[.!]\s+(?:how (?:many|much|old|long|far)|what|who|why|which)\b", re.I)
_ASKS_LAST = Pattern(r",\s*(?:why|who|whose|what|where|how|which)(?:'s)? [\w' ]{2,40}$", re.I)
"""A question at the end, without its mark, in a message that tells nothing of the speaker."""
_AUTHOR = Pattern(
    r"\b(?:i am (?:a|an) (?:novelist|writer|author|poet|playwright|screenwriter)|my (?:agent|publisher|"
    r"editor|manuscript|work in progress|"
    r"book (?:deal|launch|tour)|deadline)|draft is due|i write (?:from|every|at|in|for)|is due|agent is|"
    r"publisher is)\b",
    re.I,
)
_SUM = Pattern(
    r"\bhow (?:many|much|far|long|fast|old|tall)\b[^?]{0,80}\b(?:left|remain\w*|altogether|in all|in total|"
    r"total|each|change|does|do|did|will|would|is|are|was|has|have)\b|"
    r"\b(?:calculate|solve|work out|find the (?:value|probability|speed|area|angle|answer|time|distance)|"
    r"what is the (?:probability|speed|area|average|mean|total|answer))\b",
    re.I,
)
_JOKE = Pattern(
    r"\bdoctor,? doctor\b|\bdress for the job you want\b|\bgot married\b.{0,60}\breception was\b|"
    r"\bwhy (?:did|was|do|are|is|couldn't|can't) (?:the|an?) [\w' ]{2,60}\?\s*(?:because|cos|it|he|she|they|too|"
    r"to|so)\b|\bwhispered\b.{0,20}\bbehind you\b|"
    r"\U0001f941|\bba dum tss\b|\bknock,? knock\b|\bwalks? into a bar\b|\bwhy did the \w+ cross\b|\bput my foot down\b|"
    r"\b(?:told|asked) me\b.{3,120}\b(?:i was like|so i (?:had to|told (?:him|her|them)|said)|turns out)\b|"
    r"\bi(?: have| used to)? .{0,60}\bbut (?:then )?i (?:turned myself around|got better|can't put it "
    r"down)\b|"
    r"\b(?:told|asked|said)\b.{3,160}[\U0001f602\U0001f923\U0001f921]|\bi used to (?:be|work) .{3,60}\bbut "
    r"(?:i|then|it)\b.{3,40}[\U0001f602\U0001f923]|\bcan't put it down\b|\blooked surprised\b|\bdad "
    r"jokes?\b|\bwhat do you call (?:a|an)\b|"
    r"\byour (?:mum|mom|mama)\b.{0,40}\bso\b|\bsaid no one ever\b|\bpun intended\b",
    re.I,
)
_WHAT_IF = Pattern(
    r"\b(?:hypothetically|hypothetical|thought experiment|in a parallel universe|if i were|if we were|if i "
    r"had been|if i was a|suppose|supposing|imagine|"
    r"let's say|lets say|let us say|what if|pretend|for the sake of argument|say (?:i|we|someone|somebody|"
    r"you|a|my) (?:\w+ )?(?:had|were|was|moved|lived|won|quit|sold|inherited|got|bought|became|lost|owned|"
    r"earned|found|stole|married|have|own|live|earn|win|want))\b",
    re.I,
)


@cache
def _genre(name: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{line})" for line in lexicon.lines(name)), re.I)


def speaks_of_self(text: str) -> bool:
    """Whether the speaker says I, my or we outside quotations."""
    return _SELF.search(cleaning.without_marks(text)) is not None


def asks(text: str) -> bool:
    """Whether the message holds a question or opens with a request."""
    head = text[:HEAD]
    later = _ASKS_LAST.search(head) or _ASKS_LATER.search(head)
    return _ASKS.search(head) is not None or (later is not None and not speaks_of_self(head))


def is_fiction(text: str) -> bool:
    """Whether the message works at a story, a game or a song, rather than telling about the author's life."""
    head = text[:HEAD]
    return _genre("scene_fiction.txt").search(head) is not None and _AUTHOR.search(head) is None


def is_role(text: str) -> bool:
    """Whether the message sets up a role for the assistant or for both."""
    return _genre("scene_roles.txt").search(text[:400]) is not None


def is_sum(text: str) -> bool:
    """Whether the message is a problem in words: numbers, and a question for a quantity."""
    if (
        len(text) > 700
        or len(re.findall(r"\d+|\b(?:two|three|four|five|six|seven|eight|nine|ten|twelve|half|twice|double)\b", text))
        < 2
    ):
        return False
    found = _SUM.search(text)
    if found is None:
        return False
    before = text[: found.start()]
    return not re.search(
        r"\b(?:i am|my|i need|i take|we are|our|i weigh|i earn|i pay|i have been|i live)\b", before, re.I
    ) and bool(
        re.search(
            r"\b(?:has|have|gives?|buys?|bought|leaves?|travels?|sells?|shares?|rolls?|costs?|runs?|reads?|"
            r"walks?|drives?|eats?|picks?|fills?|pours?|earns?|saves?)\b",
            before,
            re.I,
        )
    )


def is_joke(text: str) -> bool:
    """Whether the message has the shape of a joke."""
    return len(text) < 500 and _JOKE.search(text) is not None


def is_what_if(text: str) -> bool:
    """Whether the message opens with a supposition: what follows spins it out."""
    if re.search(r"\b(?:hypothetically|purely hypothetical|asking for a friend)\b", text[:HEAD], re.I):
        return True
    head = dropping.strip_openers(text.strip())[:160]
    if _wishes(head) and not speaks_of_self(" ".join(re.split(r"[.!?\n]+", text)[1:])):
        return True
    found = _WHAT_IF.search(head)
    return found is not None and found.start() < 40


def _wishes(head: str) -> bool:
    """ "I wish I was a cat": what follows without an "I" spins it out."""
    return (
        re.match(r"(?:i )?(?:so |really |just )?wish i (?:was|were) (?:an?|the)\b|if only (?:i|we)\b", head, re.I)
        is not None
    )


def is_homework(text: str) -> bool:
    """Whether the message brings an exercise, a quiz or a text of somebody else."""
    return _genre("scene_texts.txt").search(text[:HEAD]) is not None
