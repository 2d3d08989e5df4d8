"""Sanitising: what a model or a user sent, made fit to be kept (checklist B3, B5)."""

from __future__ import annotations

import re

from perdure.domain.pattern import Pattern

LONGEST = 16_384
"""UTF-8 bytes that are kept of one message."""
CUT = " […]"
"""Stands at the end of a message that is not whole."""

_THOUGHT = Pattern(r"<(think|thinking)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_BEFORE = Pattern(r"\A.*?</(?:think|thinking)>", re.DOTALL | re.IGNORECASE)
_OPENING = Pattern(r"<(?:think|thinking)>", re.IGNORECASE)
_UNFIT = Pattern(r"[\x00\ud800-\udfff]")


def said_aloud(answer: str) -> str:
    """An answer without its thinking: `<think>` parts, one that was never closed, and one whose beginning is missing.

    Many servers begin an answer inside of the thought, because their template has opened it.
    """
    without = _THOUGHT.sub("", answer)
    if _OPENING.search(without) is None:
        without = _BEFORE.sub("", without)
    return without.strip()


def sanitised(text: str, *, whole: bool = True) -> str | None:
    """The text as it is kept: trimmed, of at most `LONGEST` bytes, cut between characters; None for nothing.

    Text that no database could hold is nothing. What is cut, or is not `whole`, ends with a mark.
    """
    trimmed = text.strip()
    if not trimmed or _UNFIT.search(trimmed):
        return None
    encoded = trimmed.encode()
    if len(encoded) > LONGEST:
        room = LONGEST - len(CUT.encode())
        return encoded[:room].decode(errors="ignore").rstrip() + CUT
    return trimmed if whole else trimmed + CUT
