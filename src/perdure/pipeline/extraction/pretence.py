"""Messages that read like statements and tell nothing of the speaker: play, mockery, texts brought along.

The cue phrases are data, in `scene_play.txt`, `scene_master.txt`, `scene_mockery.txt` and `scene_brought.txt`.
"""

from __future__ import annotations

import re
from functools import cache

from perdure.pipeline import lexicon

HEAD = 600
"""Characters of a message that decide what it is."""
_OUT = re.compile(
    r"\b(?:anyway|anyhow|out of character|ooc|enough of (?:this|that)|end of (?:the )?(?:game|"
    r"story)|(?:stop|end|quit|leave) "
    r"(?:the )?(?:game|story|role-?play)|for real|seriously now|back to (?:work|reality|real life)|in real life|irl|"
    r"by the way|btw|different (?:topic|question)|new topic|unrelated)\b",
    re.I,
)
_SUM_FRAME = re.compile(
    r"\b(?:\d+|two|three|four|five|six|ten|twice|half) (?:times )?as (?:many|much|old|long|fast|far|heavy|tall)\b|"
    r"\btogether (?:they|we) (?:have|weigh|are|earn|cost)\b|\b\d+ (?:more|fewer|less) \w+ than\b|"
    r"\bat \d+ ?(?:km/h|mph|kph)\b|"
    r"\b(?:doing|at|of) \d+ ?(?:km/h|mph|kph|m/s)\b|\bhow (?:many|much)\b[^?]{2,60}\?\s*$|"
    r"\bwhen (?:do|will) they meet\b|"
    r"\bsum of (?:their|the) ages\b|\bin the ratio\b|\ba bag (?:has|contains|holds)\b",
    re.I,
)
_NOT_OWN = re.compile(r"\b(?:i|i'm|i am|my|me|we|our)\b", re.I)


@cache
def _cues(name: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{line})" for line in lexicon.lines(name)), re.I | re.M)


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
    return len(raw) < 240 and _cues("scene_mockery.txt").search(raw) is not None


def brings_text(raw: str) -> bool:
    """Whether a message brings a text along, to be worked on."""
    return _cues("scene_brought.txt").search(raw[:HEAD]) is not None


def is_exercise(text: str) -> bool:
    """Whether a message is a sum in words ("Aisha has 3 times as many stickers as Ben")."""
    return (
        len(text) < HEAD
        and _SUM_FRAME.search(text) is not None
        and len(re.findall(r"\d+", text)) > 1
        and _NOT_OWN.search(text) is None
    )
