"""What stores nothing of its own: questions, commands, hypotheticals, fiction, other people's texts, and chatter."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from perdure.domain.text.pattern import Pattern
from perdure.domain.text.terms import undrawn
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import cleaning, grammar
from perdure.pipeline.curation.rules.memo import per_text
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
    if _CAPITAL_INSIDE.search(fact) or _repeats(fact) or _unfinished(words) or _HALF_CHINESE.search(fact):
        return False
    if _only_when(plain):
        return False
    return ":" in fact or rule in _VERBLESS or _has_verb(words)


_FREE = frozenset({"as given", "standing", "forget"})
_VERBLESS = frozenset({"procedure", "list", "labelled", "possessed", "hardware"})


_HALF_CHINESE = Pattern(r"[，、。；：]|[\u3400-\u9fff] ?[a-z]")
"""Words without a gloss before English ones: a name in Chinese is followed by nothing."""
_AT_A_TIME = Pattern(r"^USER is (?:on|in) (?P<when>[a-z]+)(?=$|,| (?:no|yes|not|only|and|or|but|\d))", re.I)


def _only_when(fact: str) -> bool:
    """Whether a fact says only on which day or in which month somebody is: "User is on Mondays no"."""
    match = _AT_A_TIME.match(fact)
    days, months = (lexicon.pairs(f"reconcile_{name}.tsv") for name in ("weekdays", "months"))
    return match is not None and (match["when"].lower() in days or match["when"].lower() in months)


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


@per_text(4096)
def strip_openers(text: str) -> str:
    """The sentence without "hey", "so", "btw", "by the way" and their like before it."""
    start = 0
    while True:
        match = _opener().match(text, start) or _stretched(text, start)
        if not match or match.end() >= len(text) or _needed(text, start, match):
            return text[start:]
        start = match.end()


_STRETCHED = Pattern(r"(?=[a-z]{0,20}([a-z])\1\1)[a-z]{3,40}(?=[\s,.:!]|$)[\s,.:!-]*", re.I)


def _stretched(text: str, start: int) -> re.Match[str] | None:
    """An opener with a letter drawn out: "yooo", "heyyyy", "ughhh"."""
    match = _STRETCHED.match(text, start)
    if match is None:
        return None
    word = match.group().strip(" ,.:!-").lower()
    return match if undrawn(word) & lexicon.words("openers.txt") else None


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
    return _patterns("tasks.txt").match(low[:400]) is not None


def is_question(clause: str, marked: bool) -> bool:
    """Whether the clause asks; `marked` where a question mark ends it."""
    low = strip_openers(clause).lower()
    first = low.split(" ", 1)[0] if low else ""
    if first in {"what", "who", "whose", "why", "which", "how"}:
        return re.match(r"(?:how (?:i|we) .*:|which (?:is|was|means) )", low) is None
    if marked and not _statement_shaped(clause):
        return True
    return _patterns("requests.txt").match(low) is not None and not _statement_shaped(clause)


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
    return _patterns("chatter.txt").fullmatch(low) is not None


# What a whole message is, before its sentences are read: a text to work on, a story, a role, a sum, a joke.

# Messages that read like statements and tell nothing of the speaker: play, mockery, texts brought along.
#
# The cue phrases are data: `scene_play.txt`, `scene_master.txt`, `scene_mockery.txt`, `scene_brought.txt`,
# `scene_artefacts.txt` and `scene_beings.txt`.

PLAY_HEAD = 600
"""Characters of a message that decide what it is."""
_OUT = Pattern(
    r"\b(?:anyway|anyhow|out of character|ooc|enough of (?:this|that)|end of (?:the )?(?:game|story)|(?:stop|end|quit|"
    r"leave) (?:the )?(?:game|story|role-?play)|for real|seriously now|back to (?:work|reality|real life)|in real "
    r"life|irl|by the way|btw|different (?:topic|question)|new topic|unrelated)\b",
    re.I,
)
_SUM_FRAME = Pattern(
    r"\b(?:\d+|two|three|four|five|six|ten|twice|half) (?:times )?as (?:many|much|old|long|fast|far|heavy|tall)\b|"
    r"\btogether (?:they|we) (?:have|weigh|are|earn|cost)\b|\b\d+ (?:more|fewer|less) \w+ than\b|\bat \d+ ?(?:km/h|"
    r"mph|kph)\b|\b(?:doing|at|of) \d+ ?(?:km/h|mph|kph|m/s)\b|\bhow (?:many|much)\b[^?]{2,60}\?\s*$|\bwhen (?:do|"
    r"will) they meet\b|\bsum of (?:their|the) ages\b|\bin the ratio\b|\ba bag (?:has|contains|holds)\b",
    re.I,
)
_COUNTS = Pattern(r"\d+|\b(?:two|three|four|five|six|seven|eight|nine|ten|twice|thrice|double|half)\b", re.I)
_AGE_SUM = Pattern(
    r"\b(?:\d+ times|twice|half|double|three times) (?:as old as|(?:my|his|her|their) age)\b.*\bhow old\b", re.I
)
_FIRST_SUM = Pattern(
    r"(?:^|[.!:] )(?:so |if |say )?(?:i|you|we|\w+ and i) (?:drive|walk|run|cycle|roll|toss|flip|draw|take|pick|buy|"
    r"throw|deal|share|have|mix|drop|swim|climb|travel|fly|row|spin|pour|cut|fold)\b[^?]*\b(?:(?:what(?:'s| is| are)|"
    r"find|calculate|work out)\b.{0,40}\b(?:average speed|probability|chances?|odds|ratio|distance|area|volume|"
    r"displacement|mean)|how (?:far|much|many|long)\b.{0,30}\b(?:am i from|are we from|change|left|altogether|in "
    r"total|in all|(?:do|does|will) (?:i|we|each|he|she|\w+) (?:each )?(?:get|have left|receive)))\b",
    re.I,
)
"""A word problem told in the first person: what is done with numbers, and a question that only schoolbooks ask."""
_LIVED = Pattern(
    r"\b(?:every|each (?:day|week|month)|a (?:day|week|month|year)|usually|to work|my (?!average|change|speed|total|"
    r"answer|share))\b",
    re.I,
)
_HISTORY = Pattern(
    r"\b(?:born|died|reigned|crowned|signed|fought|discovered|painted|composed|married|ruled|invented|beheaded|"
    r"assassinated|abdicated)\b[^.!]{0,80}\b1[0-8]\d\d\b|\b1[0-8]\d\d\b[^.!]{0,80}\b(?:born|died|reigned|crowned|"
    r"signed|fought|discovered|painted|composed|ruled|invented|beheaded|assassinated|abdicated)\b",
    re.I,
)
_NOT_OWN = Pattern(r"\b(?:i|i'm|i am|my|me|we|our)\b", re.I)


@cache
def _cues(name: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{line})" for line in lexicon.lines(name)), re.I | re.M)


@cache
def _claims_being() -> re.Pattern[str]:
    """ "I'm a 900 year old swamp witch": nothing but describing words between the article and the being."""
    beings = "|".join(lexicon.lines("scene_beings.txt"))
    return re.compile(
        rf"\b(?:i'?m|i am) (?:actually |really |literally |technically |secretly |just |basically |only )*(?:an?|the) "
        rf"(?:(?!(?:of|for|with|to|in|at|on|my|our|the|a|and|but|who|that|about|from|by)\b)[\w-]+ ){{0,5}}?(?:{beings})"
        rf"(?=\s*(?:$|[.,!?;:)]|(?:so|and|from|of|named|called|who|that|in)\b|[^\w\s'-]))",
        re.I,
    )


@cache
def _named_first() -> re.Pattern[str]:
    things = "|".join(f"(?:{line})" for line in lexicon.lines("scene_artefacts.txt"))
    return re.compile(
        r"\W*(?:(?:ok|so|now|hey|hi|please|pls|quick|need|want|one|another|an?|some|the|two|three|four|five|\d+|short|"
        r"long|funny|silly|simple|sad|rhyming|rude|cheesy|catchy|fictional|fake|sentence|line|word|[\w]+-word|pitch|"
        rf"little|new|formal|angry|polite|sample|example),? )*(?:{things})",
        re.I,
    )


def names_artefact(text: str) -> bool:
    """Whether a message only names what is to be made ("tagline for a bakery in Ghent") and speaks of nobody's life."""
    return _named_first().match(text[:PLAY_HEAD]) is not None and _NOT_OWN.search(text[:PLAY_HEAD]) is None


def is_history(text: str) -> bool:
    """Whether a message recites what is in the books, and says nothing of the speaker."""
    return len(text) < PLAY_HEAD and _HISTORY.search(text) is not None and _NOT_OWN.search(text) is None


def opens_play(text: str) -> bool:
    """Whether the user proposes a game, a joke or a story told in turns."""
    return _cues("scene_play.txt").search(text[:PLAY_HEAD]) is not None


def leads_play(assistant: str) -> bool:
    """Whether the assistant's words are those of a game master, or of one to whom a joke is told."""
    return _cues("scene_master.txt").search(assistant[-PLAY_HEAD:]) is not None


def leaves_play(text: str) -> bool:
    """Whether the user speaks of himself again."""
    return _OUT.search(text[:PLAY_HEAD]) is not None


def is_mockery(raw: str) -> bool:
    """Whether a message says the opposite of what it means."""
    return len(raw) < 240 and (
        _cues("scene_mockery.txt").search(raw) is not None or _claims_being().search(raw) is not None
    )


def brings_text(raw: str) -> bool:
    """Whether a message brings a text along, to be worked on."""
    return _cues("scene_brought.txt").search(raw[:PLAY_HEAD]) is not None


def is_exercise(text: str) -> bool:
    """Whether a message is only something to be done or known: a sum in words, a text named, a page of history."""
    if names_artefact(text) or is_history(text):
        return True
    if len(text) >= PLAY_HEAD or len(_COUNTS.findall(text)) < 2:
        return False
    if _AGE_SUM.search(text) or (_FIRST_SUM.search(text) and _LIVED.search(text) is None):
        return True
    return _SUM_FRAME.search(text) is not None and len(re.findall(r"\d+", text)) > 1 and _NOT_OWN.search(text) is None


HEAD = 1500
"""Characters of a message that decide its genre."""

_SELF = Pattern(r"\b(?:i|i'm|i've|me|my|mine|we|our|us|myself)\b", re.I)
_ASKS = Pattern(
    r"\?|^\s*(?:what|who|why|how|which|when|where|is|are|can|could|do|does|did|should|would|will|explain|solve|"
    r"calculate|find|show|tell|write|give|help|please|translate|make)\b",
    re.I,
)
_ASKS_LATER = Pattern(r"[.!]\s+(?:how (?:many|much|old|long|far)|what|who|why|which)\b", re.I)
_ASKS_LAST = Pattern(r",\s*(?:why|who|whose|what|where|how|which)(?:'s)? [\w' ]{2,40}$", re.I)
"""A question at the end, without its mark, in a message that tells nothing of the speaker."""
_AUTHOR = Pattern(
    r"\b(?:i am (?:a|an) (?:novelist|writer|author|poet|playwright|screenwriter)|my (?:agent|publisher|editor|"
    r"manuscript|work in progress|book (?:deal|launch|tour)|deadline)|draft is due|i write (?:from|every|at|in|for)|"
    r"is due|agent is|publisher is)\b",
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
    r"\bdoctor,? doctor\b|\bdress for the job you want\b|\bgot married\b.{0,60}\breception was\b|\bwhy (?:did|was|do|"
    r"are|is|couldn't|can't) (?:the|an?) [\w' ]{2,60}\?\s*(?:because|cos|it|he|she|they|too|to|so)\b|"
    r"\bwhispered\b.{0,20}\bbehind you\b|\U0001f941|\bba dum tss\b|\bknock,? knock\b|\bwalks? into a bar\b|\bwhy did "
    r"the \w+ cross\b|\bput my foot down\b|\b(?:told|asked) me\b.{3,120}\b(?:i was like|so i (?:had to|told (?:him|"
    r"her|them)|said)|turns out)\b|\bi(?: have| used to)? .{0,60}\bbut (?:then )?i (?:turned myself around|got better|"
    r"can't put it down)\b|\b(?:told|asked|said)\b.{3,160}[\U0001f602\U0001f923\U0001f921]|\bi used to (?:be|work) "
    r".{3,60}\bbut (?:i|then|it)\b.{3,40}[\U0001f602\U0001f923]|\bcan't put it down\b|\blooked surprised\b|\bdad "
    r"jokes?\b|\bwhat do you call (?:a|an)\b|\byour (?:mum|mom|mama)\b.{0,40}\bso\b|\bsaid no one ever\b|\bpun "
    r"intended\b",
    re.I,
)
_WHAT_IF = Pattern(
    r"\b(?:hypothetically|hypothetical|thought experiment|in a parallel universe|if i were|if we were|if i had been|"
    r"if i was a|suppose|supposing|imagine|let's say|lets say|let us say|what if|pretend|for the sake of argument|say "
    r"(?:i|we|someone|somebody|you|a|my) (?:\w+ )?(?:had|were|was|moved|lived|won|quit|sold|inherited|got|bought|"
    r"became|lost|owned|earned|found|stole|married|have|own|live|earn|win|want))\b",
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
    head = strip_openers(text.strip())[:160]
    found = _WHAT_IF.search(head)
    return found is not None and found.start() < 40


def is_homework(text: str) -> bool:
    """Whether the message brings an exercise, a quiz or a text of somebody else."""
    return _genre("scene_texts.txt").search(text[:HEAD]) is not None
