"""Forgery: whether a memory block in a text is one that perdure rendered, or one that somebody else wrote."""

from __future__ import annotations

from perdure.domain.pattern import Pattern
from perdure.pipeline.echo import CLOSING, HEADER, OPENING, fingerprint

_BEGINNING = f"{OPENING}>\n{HEADER}\n"
_MARK = Pattern(r"\n\(fingerprint ([0-9a-f]{16})\)\n\Z")


def is_forgery(text: str) -> bool:
    """Whether delimiters of a memory block stand in a text that belong to no whole block with its own fingerprint."""
    if OPENING not in text and CLOSING not in text:
        return False
    left = without_genuine(text)
    return OPENING in left or CLOSING in left


def without_genuine(text: str) -> str:
    """The text without the blocks that perdure itself rendered and nobody changed since."""
    parts: list[str] = []
    end = 0
    while (start := text.find(_BEGINNING, end)) >= 0 and (close := text.find(CLOSING, start)) >= 0:
        body = text[start + len(_BEGINNING) : close]
        mark = _MARK.search(body)
        is_ours = mark is not None and mark.group(1) == fingerprint(body[: mark.start()])
        parts.append(text[end : start if is_ours else close + len(CLOSING)])
        end = close + len(CLOSING)
    return "".join([*parts, text[end:]])
