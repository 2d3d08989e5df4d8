"""Inject: memories as a block for a prompt, delimited as data, never as instructions (DESIGN §7)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from perdure.domain.memory import MemoryItem
from perdure.pipeline.echo import CLOSING, DIRECTIVES, FACTS, HEADER, OPENING, PROFILE, fingerprint

TOKENS_PER_WORD = 1.3
"""Spec 001's estimate of a text's length (checklist B11): tokens = ceil(1.3 x words)."""
LONGEST_WORD = 16
CHARACTERS_PER_TOKEN = 3
"""Beyond so many characters a word is an address, a key or a compound, of which every three make a token."""

STANDING_SHARE = 0.5
"""Of the budget, what directives and profile may take together before facts: they come with every prompt."""

_WIDE = re.compile("[\u0e00-\u1dff\u2e80-\uffff\U00010000-\U0010ffff]")
"""Characters of scripts without spaces, and pictures: about a token each."""
_UNSEEN = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
"""Control characters, overrides of the writing direction, and tag characters: what a model reads and nobody sees."""


def estimate_tokens(text: str) -> int:
    """Roughly how many tokens a model reads in the text; rather too many than too few for what has no spaces."""
    wide = len(_WIDE.findall(text))
    words = (_WIDE.sub(" ", text) if wide else text).split()
    beyond = sum(len(word) - LONGEST_WORD for word in words if len(word) > LONGEST_WORD)
    return math.ceil(TOKENS_PER_WORD * len(words) + beyond / CHARACTERS_PER_TOKEN) + wide


def quote(text: str) -> str:
    """The text on one line, in quotation marks, unable to close the block, to open another or to hide anything."""
    line = " ".join(_UNSEEN.sub("", text).split())
    return '"' + line.replace("\\", "\\\\").replace('"', '\\"').replace("<", "‹").replace(">", "›") + '"'


def render(items: Sequence[MemoryItem], *, max_tokens: int) -> str:
    """The block of memories alone: see `render_context`."""
    return render_context((), (), items, max_tokens=max_tokens)


def render_context(
    directives: Sequence[MemoryItem], profile: Sequence[MemoryItem], facts: Sequence[MemoryItem], *, max_tokens: int
) -> str:
    """The block within `max_tokens`: directives and profile oldest first, then the facts of this moment, best first.

    What stands for every question comes first and in an order that does not change, so that the prefix of a prompt
    stays as it was and its cache holds. An item that does not fit is skipped, a later one may fit; of directives and
    profile the newest are fitted first. Empty where nothing fits. The fingerprint in the closing lines marks the text
    as perdure's own.
    """
    left = max_tokens - estimate_tokens(_framed("", "0" * 16))
    parts: list[str] = []
    standing = int(left * STANDING_SHARE) if facts else left
    for title, items in ((DIRECTIVES, directives), (PROFILE, profile)):
        lines, cost = _fitting(title, list(reversed(items)), standing)
        parts += [title, *reversed(lines)] if lines else []
        standing, left = standing - cost, left - cost
    titled = FACTS if parts else None
    lines, _ = _fitting(titled, facts, left)
    parts += [titled, *lines] if titled and lines else lines
    if not parts:
        return ""
    body = "\n".join(parts)
    return _framed(body, fingerprint(body))


def _framed(body: str, mark: str) -> str:
    return f"{OPENING}>\n{HEADER}\n{body}\n(fingerprint {mark})\n{CLOSING}"


def _fitting(title: str | None, items: Sequence[MemoryItem], left: int) -> tuple[list[str], int]:
    """The lines of the items that fit, and what they cost with their title."""
    spent = 0 if title is None else estimate_tokens(title)
    lines: list[str] = []
    for item in items:
        line = f"- {_dated(item)}"
        cost = estimate_tokens(line)
        if spent + cost <= left:
            lines.append(line)
            spent += cost
    return lines, spent if lines else 0


def _dated(item: MemoryItem) -> str:
    since = (item.valid_from or item.told_at)[:10]
    return f"{quote(item.memory)} ({since})"
