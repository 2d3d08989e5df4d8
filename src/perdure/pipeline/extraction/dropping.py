"""What stores nothing of its own: questions, commands, hypotheticals, fiction, other people's texts, and chatter."""

from __future__ import annotations

import re
from functools import cache

from perdure.domain.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.extraction import cleaning, grammar, verbs
from perdure.pipeline.extraction.wordsets import word_set

LONGEST_CHATTER = 160
"""Characters: what is longer says something, and long text against many patterns would cost time."""

_TAG = Pattern(
    r",?\s*\b(?:right|correct|you know|innit|is (?:that|this|it) (?:normal|ok|okay|bad|weird|right|a "
    r"problem|enough|fine|safe)|"
    r"thoughts|any (?:ideas?|thoughts|tips|advice|suggestions?)|ok|okay|yeah|no|huh|eh)\s*$",
    re.I,
)


@cache
def _patterns(name: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{line})" for line in lexicon.lines(name)))


_SARCASM = Pattern(
    r"(?:oh |yeah |ah )?(?:sure|right|great|yeah|brilliant|fantastic),? (?:because|as if|like i|let me|i "
    r"will just|i will)\b",
    re.I,
)


@cache
def _opener() -> re.Pattern[str]:
    phrases = sorted(lexicon.words("openers.txt"), key=len, reverse=True)
    return re.compile(rf"(?:{'|'.join(re.escape(phrase) for phrase in phrases)})(?=[\s,.:!]|$)[\s,.:!-]*", re.I)


def strip_openers(text: str) -> str:
    """The sentence without "hey", "so", "btw", "by the way" and their like before it."""
    start = 0
    while True:
        match = _opener().match(text, start)
        if not match or match.end() >= len(text) or _needed(text, start, match):
            return text[start:]
        start = match.end()


def _needed(text: str, start: int, match: re.Match[str]) -> bool:
    word = match.group().strip(" ,.:!").lower()
    rest = text[match.end() :].split()
    after = grammar.bare(rest[0]) if rest else ""
    if "," in match.group() or ":" in match.group():
        return False
    if word in word_set("dropping.also_verbs"):
        addressed = after in grammar.FIRST | grammar.POSSESSIVES | {"that", "the"}
        return not addressed or word in {"like", "see", "update", "edit"}
    if word in word_set("dropping.also_nouns"):
        opens = after in grammar.SUBJECTS or after in grammar.POSSESSIVES or word == "finally"
        return after in verbs.AUXILIARIES or not opens
    return word in {"you know", "i mean", "i guess"} and after in {"how", "what", "that", "it", ""}


def is_task(message: str) -> bool:
    """Whether the message brings a text to work on, a story, a role to play or a problem to solve."""
    low = strip_openers(message.strip()).lower()
    return _patterns("tasks.txt").match(low[:400]) is not None or is_word_problem(low)


def is_word_problem(low: str) -> bool:
    """ "I have 12 apples and give 5 to Sam, how many left": numbers and a sum to do."""
    if len(low) > 400 or len(re.findall(r"\d+", low)) < 2:
        return False
    return (
        re.search(
            r"how (?:many|much)\b[^?]{0,60}\b(?:left|remain\w*|altogether|in all|in total|total|each get|change)\b", low
        )
        is not None
    )


def is_question(clause: str, marked: bool) -> bool:
    """Whether the clause asks; `marked` where a question mark ends it."""
    low = _ASKS_NEXT.sub("", strip_openers(clause).lower())
    first = low.split(" ", 1)[0] if low else ""
    if first in {"what", "who", "whose", "why", "which", "how"}:
        return re.match(r"(?:how (?:i|we) .*:|which (?:is|was|means) )", low) is None
    if first in {"when", "where"}:
        return (
            re.match(
                r"(?:when|where) (?:is|are|was|were|do|does|did|will|would|should|can|could|to|has|have|am|the best)\b",
                low,
            )
            is not None
        )
    if marked and not _statement_shaped(clause):
        return True
    if re.match(r"does \w+ \w+|did (?:[A-Z][a-z]+|he|she|they|you) \w+", strip_openers(clause)):
        return True
    return _patterns("requests.txt").match(low) is not None and not _statement_shaped(clause)


_ASKS_NEXT = Pattern(
    r"^(?:quick|like|random|silly|dumb|stupid|serious|honest|genuine|real|just|tell me|idk)(?: (?:one|q|question))?,? "
    r"(?=(?:what|who|whose|why|which|how|when|where|is|are|does|do|did|can|could|should|would|will) [a-z]+ )"
)
"""A word or two before a question: "like is he allowed", "quick how do you ..."."""


def _statement_shaped(clause: str) -> bool:
    """Whether it begins as statements do: I, my, a name, or a verb in the past."""
    parts = strip_openers(clause).split()
    if not parts:
        return False
    place = grammar.skip_adverbials(parts)
    head = grammar.bare(parts[place]) if place < len(parts) else ""
    after = grammar.bare(parts[place + 1]) if place + 1 < len(parts) else ""
    if head in grammar.FIRST:
        return after not in {""}
    if head in {"my", "our"} or (head in {"he", "she", "they", "it"} and after in verbs.AUXILIARIES):
        return grammar.find_verb(parts, place) > place
    if grammar.is_name(parts[place]) and place + 1 < len(parts):
        return grammar.find_verb(parts, place) > place
    return False


def without_tag(clause: str) -> str:
    """The statement before ", right" or ", is that normal"."""
    return _TAG.sub("", clause)


def is_request(clause: str) -> bool:
    """Whether the clause asks the assistant to do something."""
    low = strip_openers(clause).lower()
    if _patterns("requests.txt").match(low):
        return True
    parts = low.split()
    while parts and parts[0].strip(",") in {
        "please",
        "just",
        "now",
        "then",
        "kindly",
        "also",
        "maybe",
        "ok",
        "quickly",
        "simply",
        "merely",
        "pls",
    }:
        parts = parts[1:]
    if not parts or grammar.bare(parts[0]) not in lexicon.words("imperatives.txt"):
        return False
    if len(parts) > 1 and grammar.bare(parts[1]) in verbs.AUXILIARIES | {"for", "of"} - {"do"}:
        return False
    if _DATED.match(" ".join(parts)) or re.match(r"(?:think|guess|figure) (?:i|we|my|it is|he|she|they) ", low):
        return False
    if grammar.bare(parts[0]) in verbs.ambiguous_pasts() and _LONG_SINCE.search(low):
        return False
    if grammar.bare(parts[0]) not in lexicon.words("nounish.txt") or (
        len(parts) > 1 and grammar.bare(parts[1]) in {"what", "how", "which", "who", "where", "all", "some"}
    ):
        return True
    return grammar.subject_of(parts) in ("", "first") or grammar.bare(parts[1]) in {
        "me",
        "us",
        "a",
        "an",
        "the",
        "my",
        "this",
    }


_STANDING_RULE = Pattern(
    r"^if (?!(?:an?|the) (?:user|visitor|request|browser|form|button|thread|function|event|player)\b)"
    r"(?:a|an|any|someone|somebody|anyone|anybody|the|there|it|they) .{4,80}? (?:we|i|it goes to|they go to|"
    r"he goes "
    r"to|she goes to|[a-z]+ (?:decides|handles|signs|approves|steps in|covers)) ?(?:always |first |just |"
    r"have to |must )?"
    r"(?:call|ring|ask|send|check|close|open|log|tell|use|do|take|put|write|go|stop|switch|refund|charge|wait|do it)?\b"
)
"""A way of doing things ("if a customer wants a refund it goes to Marit"), which supposes nothing."""
_DATED = Pattern(
    r"(?:start|finish|move|open|fly|play|run|test|present|sign|walk|swim) (?:(?:on|at|from|in|back|out|"
    r"over) )*(?:the )?"
    r"(?:\d|mon|tue|wed|thu|fri|sat|sun|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|next|this|tomorrow)"
)
"""A verb and a date: what the speaker does then ("start 4th nov"), and no order."""
_LONG_SINCE = Pattern(
    r"\b(?:yesterday|this morning|last (?:night|week|month|year|\w+day)|\w+ ago|in (?:19|20)\d\d|"
    r"at last|finally)\b|^put (?:in for|my|our) "
)
"""With one of these "put", "cut" and "set" are told of the past, and no order."""


def is_hypothetical(clause: str) -> bool:
    """Whether the clause supposes instead of telling."""
    low = strip_openers(clause).lower()
    if _patterns("hypotheticals.txt").match(low) is None and _SARCASM.match(clause) is None:
        return False
    if _STANDING_RULE.match(low) and not re.search(r"\b(?:would|could|might|wish)\b", low):
        return False
    habit = re.match(r"if (?:i|we) .*\b(?:i|we) (?:get|have to|need to|always|can't|usually|never|end up|start)\b", low)
    return habit is None or " would " in low or " should " in low


def is_chatter(clause: str) -> bool:
    """Whether the clause, as a whole, says nothing worth keeping."""
    low = cleaning.marks_as(clause.lstrip(" ,.:;!?-\"'()"), "x").lower().strip(" ,.:;!?-\"'()")
    if not low:
        return True
    if len(low) > LONGEST_CHATTER:
        return False
    if _OCCASION.match(low) or _NOW_IT_IS.match(low):
        return False
    return _patterns("chatter.txt").fullmatch(low) is not None


_NOW_IT_IS = Pattern(
    r"(?:and |but )?now it is (?!(?:too|so|not|very|much|better|worse|good|great|perfect|fine|ok|okay|broken|even|just|"
    r"over|gone|done|clear|fixed|my turn|your turn|time|all|what|how|why|[a-z]+ing)\b)\w+"
)
"""What has come in the place of something: "now it's 34", "now it's lentils"."""
_OCCASION = Pattern(
    r"(?:it|this|that) is for (?:a|an|my|our|the) (?:[\w']+ ){0,3}(?:christening|wedding|birthday|party|funeral|"
    r"anniversary|"
    r"baptism|graduation|reunion|leaving do|baby shower|communion|bar mitzvah|bat mitzvah|retirement|engagement|wake)\b"
)
"""What something is for, where that tells of the speaker's life."""
