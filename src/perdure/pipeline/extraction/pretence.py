"""Messages that read like statements and tell nothing of the speaker: play, mockery, texts brought along.

The cue phrases are data: `scene_play.txt`, `scene_master.txt`, `scene_mockery.txt`, `scene_brought.txt`,
`scene_artefacts.txt` and `scene_beings.txt`.
"""

from __future__ import annotations

import re
from functools import cache

from perdure.domain.pattern import Pattern
from perdure.pipeline import lexicon

HEAD = 600
"""Characters of a message that decide what it is."""
_OUT = Pattern(
    r"\b(?:anyway|anyhow|out of character|ooc|enough of (?:this|that)|end of (?:the )?(?:game|"
    r"story)|(?:stop|end|quit|leave) "
    r"(?:the )?(?:game|story|role-?play)|for real|seriously now|back to (?:work|reality|real life)|in real life|irl|"
    r"by the way|btw|different (?:topic|question)|new topic|unrelated)\b",
    re.I,
)
_SUM_FRAME = Pattern(
    r"\b(?:\d+|two|three|four|five|six|ten|twice|half) (?:times )?as (?:many|much|old|long|fast|far|heavy|tall)\b|"
    r"\btogether (?:they|we) (?:have|weigh|are|earn|cost)\b|\b\d+ (?:more|fewer|less) \w+ than\b|"
    r"\bat \d+ ?(?:km/h|mph|kph)\b|"
    r"\b(?:doing|at|of) \d+ ?(?:km/h|mph|kph|m/s)\b|\bhow (?:many|much)\b[^?]{2,60}\?\s*$|"
    r"\bwhen (?:do|will) they meet\b|"
    r"\bsum of (?:their|the) ages\b|\bin the ratio\b|\ba bag (?:has|contains|holds)\b",
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
    r"displacement|mean)|how (?:far|much|many|long)\b.{0,30}\b(?:am i from|are we from|change|left|altogether|"
    r"in total|in all|"
    r"(?:do|does|will) (?:i|we|each|he|she|\w+) (?:each )?(?:get|have left|receive)))\b",
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
    return _named_first().match(text[:HEAD]) is not None and _NOT_OWN.search(text[:HEAD]) is None


def is_history(text: str) -> bool:
    """Whether a message recites what is in the books, and says nothing of the speaker."""
    return len(text) < HEAD and _HISTORY.search(text) is not None and _NOT_OWN.search(text) is None


def opens_play(text: str) -> bool:
    """Whether the user proposes a game, a joke or a story told in turns."""
    return _cues("scene_play.txt").search(text[:HEAD]) is not None


def leads_play(assistant: str) -> bool:
    """Whether the assistant's words are those of a game master, or of one to whom a joke is told."""
    return _cues("scene_master.txt").search(assistant[-HEAD:]) is not None


def leaves_play(text: str) -> bool:
    """Whether the user speaks of himself again."""
    return _OUT.search(text[:HEAD]) is not None


def is_mockery(raw: str) -> bool:
    """Whether a message says the opposite of what it means."""
    return len(raw) < 240 and (
        _cues("scene_mockery.txt").search(raw) is not None or _claims_being().search(raw) is not None
    )


def brings_text(raw: str) -> bool:
    """Whether a message brings a text along, to be worked on."""
    return _cues("scene_brought.txt").search(raw[:HEAD]) is not None


def is_exercise(text: str) -> bool:
    """Whether a message is only something to be done or known: a sum in words, a text named, a page of history."""
    if names_artefact(text) or is_history(text):
        return True
    worked = _MY_RESULT.sub("", text)
    if worked != text and _TOLD_OF_ANY.match(text) and len(_COUNTS.findall(worked)) > 1 and not _NOT_OWN.search(worked):
        return True
    if len(text) >= HEAD or len(_COUNTS.findall(text)) < 2:
        return False
    if _AGE_SUM.search(text) or (_FIRST_SUM.search(text) and _LIVED.search(text) is None):
        return True
    return _SUM_FRAME.search(text) is not None and len(re.findall(r"\d+", text)) > 1 and _NOT_OWN.search(text) is None
