"""Inject: memories as a block for a prompt, delimited as data, never as instructions (DESIGN §7)."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.domain.memory import MemoryItem
from perdure.pipeline.prompting.injected_marks import DIRECTIVES, FACTS, PROFILE
from perdure.pipeline.prompting.quoting import FRAME_TOKENS, estimate_tokens, framed, one_line

STANDING_SHARE = 0.5
"""Of the budget, what directives and profile may take together before facts: they come with every prompt."""


def quote(text: str) -> str:
    """The text on one line, in quotation marks, unable to close the block, to open another or to hide anything."""
    return '"' + one_line(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


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
    left = max_tokens - FRAME_TOKENS
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
    return framed("\n".join(parts))


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
