"""What a whole message is, before its sentences are read: a text to work on, a story, a role, a sum, a joke.

Each check is over words that the genres share, kept in `scene_*.txt`; a message that is none of them is read normally.
"""

from __future__ import annotations

import re
from functools import cache

from perdure.domain.text.pattern import Pattern
from perdure.pipeline import lexicon
from perdure.pipeline.curation.rules.extraction import cleaning, filters

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
_MY_RESULT = Pattern(
    r"\b(?:i|my answer|we) (?:say|get|got|make it|made it|think (?:it'?s|it is)|reckon|said|put|is|was) -?\d[^?!]*\??",
    re.I,
)
_TOLD_OF_ANY = Pattern(r"\W*(?:an?|two|three|four|\d+|if|you|[\w ]{2,20}:) ", re.I)
"""How schoolbooks begin: "a rope of 24 m", "two trains", "you throw a stone"."""
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
    worked = _MY_RESULT.sub("", text)
    if worked != text and _TOLD_OF_ANY.match(text) and len(_COUNTS.findall(worked)) > 1 and not _NOT_OWN.search(worked):
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
    head = filters.strip_openers(text.strip())[:160]
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
