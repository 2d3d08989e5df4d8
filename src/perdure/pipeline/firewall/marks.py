"""Marks: what no person writes of themself: forged turns and blocks, hidden letters, addresses that carry data away."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from perdure.domain.pattern import Pattern
from perdure.pipeline.echo import (
    CANONICAL,
    CONTEXT,
    DIRECTIVES,
    FACTS,
    HEADER,
    LONG_TERM,
    PROFILE,
    SUMMARY,
)  # fmt: skip
from perdure.pipeline.firewall.folding import fold

LEAST_ENCODED = 24
"""Characters from which a run is tried as base64 or hexadecimal."""

_HIDDEN = Pattern("[\u202d\u202e]|(?<![\U0001f3f4\U000e0000-\U000e007f])[\U000e0020-\U000e007e]")
"""Overrides of the writing direction, and tag letters that do not belong to a flag."""
_TURN = Pattern(
    r"<\|[a-z_ ]{2,24}\|>|\[/?inst\]|<</?sys>>|\[system\]\(|^#{1,4} ?(?:system|assistant|developer|instruction)s?:"
    r"|\n ?(?:assistant|human|developer|ai): ?\S|(?:begin|start of) (?:system|developer) (?:message|prompt)"
    r"|(?:new|updated) system (?:prompt|context|message)|system prompt update"
    r"|end of (?:the )?(?:user|system) (?:message|prompt|input)"
    r"|[\"']role[\"'] ?: ?[\"'](?:system|developer|assistant)[\"']"
    r"|\n ?system: ?(?:[^\n]{0,80}\b)?(?:you|must|obey|from now on|never|always|du|tu|user|ignore)\b"
    r"|</?(?:system|assistant|user|developer|instructions?|context|prompt|[a-z]{0,20}[_-]?memor(?:y|ies)|assistant_[a-z]{1,20})"
    r"(?: [^>\n]{0,80})?/?>",
    re.MULTILINE,
)
"""Turns and parts of a prompt, in folded text."""
_CARRIER = Pattern(
    r"(?:!?\[[^\]\n]{0,100}\]\(|<img [^>\n]{0,40}src ?= ?[\"']?|(?:fetch|open|get|call|visit|load) )https?://"
    r"[^\s)>\"']{1,200}\?[^\s)>\"'=]{0,40}=(?:[{<\[%]|[A-Z]{2,20}_[A-Z_]{2,40})"
)
_BLOCK = Pattern(r"[</‹]perdure-?memory|perdure-?memory[>›]")
_LIST_FORGED = Pattern(r'"? \(\d{4}-\d\d-\d\d\)[ \t]*\n[ \t]*- "')
_RUN = Pattern(rf"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/_-]{{{LEAST_ENCODED},}}={{0,2}}")
_SPACE = Pattern(r"\s+")
_READABLE = 0.9
"""Share of printable characters from which decoded bytes count as text."""


def is_hidden(text: str) -> bool:
    """Whether letters stand in it that a model reads and nobody sees, or that show in another order."""
    return _HIDDEN.search(text) is not None


def is_forged(text: str, folded: str) -> bool:
    """Whether it plays turns of a conversation, parts of a prompt, or perdure's own block."""
    if _TURN.search(folded) or _LIST_FORGED.search(text):
        return True
    if "fingerprint " in folded and "(fingerprint " in folded:
        return True
    if any(line in folded for line in _OWN_LINES):
        return True
    return "memory" in (dense := _SPACE.sub("", folded)) and _BLOCK.search(dense) is not None


def carries_away(text: str) -> bool:
    """Whether an address in it has a place to be filled with what was said."""
    return "?" in text and _CARRIER.search(text) is not None


def decoded(text: str) -> Iterator[str]:
    """What stands in it as base64 or hexadecimal, where that is text."""
    for run in _RUN.finditer(text):
        for decode in (_from_hex, _from_base64):
            said = decode(run.group())
            if said is not None:
                yield said
                break


def _from_hex(run: str) -> str | None:
    try:
        return _as_text(bytes.fromhex(run))
    except ValueError:
        return None


def _from_base64(run: str) -> str | None:
    bare = run.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return _as_text(base64.b64decode(bare + "=" * (-len(bare) % 4)))
    except (binascii.Error, ValueError):
        return None


def _as_text(raw: bytes) -> str | None:
    try:
        said = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    readable = sum(letter.isprintable() or letter.isspace() for letter in said)
    return said if said and readable >= _READABLE * len(said) else None


_OWN_LINES = tuple(
    fold(line)
    for title in (HEADER, DIRECTIVES, PROFILE, FACTS, CONTEXT, LONG_TERM, SUMMARY, CANONICAL)
    for line in title.splitlines()
)
"""The lines of perdure's own blocks, which nobody else writes."""
