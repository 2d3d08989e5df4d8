"""What stores nothing of its own: questions, commands, hypotheticals, fiction, other people's texts, and chatter."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import cleaning, grammar
from perdure.pipeline.lexicon import word_set

# What kind of statement a fact is: an event (episodic), a way of doing (procedural), or a state (semantic).

Kind = Literal["semantic", "procedural", "episodic"]

_STATE_PASTS = word_set("kinds.state_pasts")
_TIMED = Pattern(r"\b(?:ago|yesterday|last (?:week|month|year|night|spring|summer|autumn|winter)|in (?:19|20)\d\d)\b")
_RULE = Pattern(
    r"^(?:To \w+.*:|When(?:ever)? .*,|Before \w+ing|After \w+ing|How \w+ |The (?:process|procedure|routine|"
    r"steps?)\b|Every \w+ over|First\b)"
)


def memory_type_of(fact: str, procedural: bool, episodic: bool) -> Kind:
    """The kind of a finished fact; the flags say what its rule knew already."""
    if procedural or _RULE.match(fact):
        return "procedural"
    if episodic:
        return "episodic"
    parts = fact.split()
    verb = grammar.find_verb(parts)
    if verb < 0:
        return "semantic"
    word = grammar.bare(parts[verb])
    if word in grammar.simple_pasts() and word not in _STATE_PASTS and word not in grammar.bases():
        return "episodic"
    if word in grammar.ambiguous_pasts() and _TIMED.search(fact):
        return "episodic"
    return "semantic"


# The last look at a finished fact: whether a person who was not there could read it as a statement.
#
# The rules before this one decide what to say; this one only refuses. In doubt nothing is stored: the episode is kept
# anyway.

_AGREES_NOT = Pattern(
    r"\bUSER am\b|(?<!and )(?<!or )\bUSER (?:are|i|we|he|she|it|its|they|is (?:is|are|has|does|from now on|the "
    r"assistant)|has (?:is|are|has)|do|was is)\b|\b[Tt]he assistant (?:am|ask|think|stop|know|want|said|tell|say|"
    r"mean)\b|\b(?:wants|needs|is|has|likes), |^USER is with the\b|^(?:The|A|An) (?:is|are|was|were|has|have|of|to|"
    r"and|in|on|at)\b|\bha's\b|\b(?:is is|was is|is was|are is|the the|a the)\b|^USER's (?:is|are|was|its|it|turns|"
    r"means|we|i|he|she|they|the|a|an|this|that|these|those|following|wants?|theirs|them|because|when|if|before|after|"
    r"so|but|and|let|also|just|please|for|at|which)\b|\bUSER's USER\b"
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
        grammar.bare(word) in grammar.AUXILIARIES
        or grammar.bare(word) in grammar.thirds()
        or grammar.bare(word) in grammar.pasts()
        or (grammar.bare(word) in grammar.bases() and grammar.bare(word) not in lexicon.words("nounish.txt"))
        for word in words[1:]
    ) or (len(words) > 2 and words[1].endswith("s") and grammar.bare(words[1]) not in lexicon.words("nounish.txt"))


LONGEST_CHATTER = 160
"""Characters: what is longer says something, and long text against many patterns would cost time."""

_TAG = Pattern(
    r",?\s*\b(?:right|correct|you know|innit|is (?:that|this|it) (?:normal|ok|okay|bad|weird|right|a problem|enough|"
    r"fine|safe)|thoughts|any (?:ideas?|thoughts|tips|advice|suggestions?)|ok|okay|yeah|no|huh|eh)\s*$",
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
        return after in grammar.AUXILIARIES or not opens
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
    if head in {"my", "our"} or (head in {"he", "she", "they", "it"} and after in grammar.AUXILIARIES):
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
    while parts and parts[0].strip(",") in word_set("filters.before_requests"):
        parts = parts[1:]
    if not parts or grammar.bare(parts[0]) not in lexicon.words("imperatives.txt"):
        return False
    if len(parts) > 1 and grammar.bare(parts[1]) in grammar.AUXILIARIES | {"for", "of"} - {"do"}:
        return False
    if _DATED.match(" ".join(parts)) or re.match(r"(?:think|guess|figure) (?:i|we|my|it is|he|she|they) ", low):
        return False
    if grammar.bare(parts[0]) in grammar.ambiguous_pasts() and _LONG_SINCE.search(low):
        return False
    if grammar.bare(parts[0]) not in lexicon.words("nounish.txt") or (
        len(parts) > 1 and grammar.bare(parts[1]) in {"what", "how", "which", "who", "where", "all", "some"}
    ):
        return True
    return grammar.subject_of(parts) in ("", "first") or grammar.bare(parts[1]) in word_set("filters.requested_of")


_STANDING_RULE = Pattern(
    r"^if (?!(?:an?|the) (?:user|visitor|request|browser|form|button|thread|function|event|player)\b)(?:a|an|any|"
    r"someone|somebody|anyone|anybody|the|there|it|they) .{4,80}? (?:we|i|it goes to|they go to|he goes to|she goes "
    r"to|[a-z]+ (?:decides|handles|signs|approves|steps in|covers)) ?(?:always |first |just |have to |must )?(?:call|"
    r"ring|ask|send|check|close|open|log|tell|use|do|take|put|write|go|stop|switch|refund|charge|wait|do it)?\b"
)
"""A way of doing things ("if a customer wants a refund it goes to Marit"), which supposes nothing."""
_DATED = Pattern(
    r"(?:start|finish|move|open|fly|play|run|test|present|sign|walk|swim) (?:(?:on|at|from|in|back|out|over) )*(?:the "
    r")?(?:\d|mon|tue|wed|thu|fri|sat|sun|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|next|this|tomorrow)"
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
