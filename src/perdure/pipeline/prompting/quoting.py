"""Memory text as data in a prompt: how long it is, on one line, and inside of the delimiters that `echo` knows."""

from __future__ import annotations

import math

from perdure.domain.text.pattern import Pattern
from perdure.pipeline.prompting.injected_marks import CLOSING, HEADER, OPENING, fingerprint

TOKENS_PER_WORD = 1.3
"""Spec 001's estimate of a text's length (checklist B11): tokens = ceil(1.3 x words)."""
LONGEST_WORD = 16
CHARACTERS_PER_TOKEN = 3
"""Beyond so many characters a word is an address, a key or a compound, of which every three make a token."""

_WIDE = Pattern("[\u0e00-\u1dff\u2e80-\uffff\U00010000-\U0010ffff]")
"""Characters of scripts without spaces, and pictures: about a token each."""
_UNSEEN = Pattern("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
"""Control characters, overrides of the writing direction, and tag characters: what a model reads and nobody sees."""


def estimate_tokens(text: str) -> int:
    """Roughly how many tokens a model reads in the text; rather too many than too few for what has no spaces."""
    wide = len(_WIDE.findall(text))
    words = (_WIDE.sub(" ", text) if wide else text).split()
    beyond = sum(len(word) - LONGEST_WORD for word in words if len(word) > LONGEST_WORD)
    return math.ceil(TOKENS_PER_WORD * len(words) + beyond / CHARACTERS_PER_TOKEN) + wide


def one_line(text: str) -> str:
    """The text on one line, unable to close a block, to open another or to hide anything."""
    return " ".join(_UNSEEN.sub("", text).split()).replace("<", "‹").replace(">", "›")


def framed(body: str) -> str:
    """The body between the delimiters, with the fingerprint that marks it as perdure's own."""
    return f"{OPENING}>\n{HEADER}\n{body}\n(fingerprint {fingerprint(body)})\n{CLOSING}"


FRAME_TOKENS = estimate_tokens(framed(""))
"""What the delimiters and the lines beside them take."""
