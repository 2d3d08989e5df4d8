"""Render memories as blocks of data for a prompt, within a budget of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perdure.domain.memory import MemoryItem, oldest_first
from perdure.pipeline.prompting import quoting

STANDING_SHARE = 0.5  # maximum share of the budget for directives and profile, which are in every prompt, before facts


def quote(text: str) -> str:
    """Return the text on one line, in quotation marks, unable to close the block, open another or hide anything."""
    return '"' + quoting.one_line(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def render(items: Sequence[MemoryItem], *, max_tokens: int) -> str:
    """Render memories alone: see `render_context`."""
    return render_context((), (), items, max_tokens=max_tokens)


def render_context(
    directives: Sequence[MemoryItem],
    profile: Sequence[MemoryItem],
    facts: Sequence[MemoryItem],
    *,
    max_tokens: int,
    order: str = "score",
) -> str:
    """Render a block within `max_tokens`: directives and profile oldest first, then the facts, best first.

    With the order "time" the facts are the same ones, oldest first.

    The parts that do not depend on the question come first and in a stable order, so the prefix of a prompt, and its
    cache, stay valid. An item that does not fit is skipped, a later one may fit; of directives and profile the newest
    are fitted first. Empty if nothing fits. The fingerprint in the closing lines marks the text as perdure's own.
    """
    left = max_tokens - quoting.FRAME_TOKENS
    parts: list[str] = []
    standing = int(left * STANDING_SHARE) if facts else left
    for title, items in ((quoting.DIRECTIVES, directives), (quoting.PROFILE, profile)):
        lines = _dated_lines(reversed(_fit(title, list(reversed(items)), standing)))
        if lines:
            parts += [title, *lines]
            cost = sum(map(quoting.estimate_tokens, (title, *lines)))
            standing, left = standing - cost, left - cost
    titled = quoting.FACTS if parts else None
    fitting = _fit(titled, facts, left)
    lines = _dated_lines(oldest_first(fitting) if order == "time" else fitting)
    parts += [titled, *lines] if titled and lines else lines
    if not parts:
        return ""
    return quoting.framed("\n".join(parts))


def _fit(title: str | None, items: Sequence[MemoryItem], left: int) -> list[MemoryItem]:
    """Return the items whose lines fit, with their title."""
    costs = [quoting.estimate_tokens(line) for line in _dated_lines(items)]
    return [items[place] for place in quoting.fit(costs, left - quoting.estimate_tokens(title or ""))]


def _dated_lines(items: Iterable[MemoryItem]) -> list[str]:
    return [f"- {quote(item.memory)} ({(item.valid_from or item.told_at)[:10]})" for item in items]


def system_block(
    hits: Sequence[MemoryItem],
    *,
    directives: Sequence[MemoryItem] = (),
    canonical: Sequence[MemoryItem] = (),
    summary: str | None = None,
    max_tokens: int,
) -> str:
    """Render the form for a system prompt: `## User's Relevant Context`, and `- <content>` for each memory.

    Before it come the user's wishes for how to be answered, the team's facts, and the summary. What does not fit into
    `max_tokens` is left out; the newest directives and the best memories come first; "" if nothing is left.
    """
    parts, left = _standing(directives, canonical, summary, max_tokens, share=STANDING_SHARE if hits else 1.0)
    lines = _fitting([f"- {text}" for hit in hits if (text := quoting.one_line(hit.memory))], left, quoting.CONTEXT)
    if lines:
        parts.append("\n".join([quoting.CONTEXT, "", *lines]))
    return quoting.framed("\n\n".join(parts)) if parts else ""


def user_block(
    hits: Sequence[MemoryItem],
    *,
    directives: Sequence[MemoryItem] = (),
    canonical: Sequence[MemoryItem] = (),
    summary: str | None = None,
    max_tokens: int,
) -> str:
    """Render the form before the user's words: summary, then `[<role>] <content>`, separated by `---`.

    What comes before it, and what is left out, is as in `system_block`.
    """
    parts, left = _standing(directives, canonical, summary, max_tokens, share=STANDING_SHARE if hits else 1.0)
    entries = [f"[{quoting.one_line(hit.role)}] {text}" for hit in hits if (text := quoting.one_line(hit.memory))]
    lines = _fitting(entries, left, quoting.LONG_TERM)
    if lines:
        parts.append(f"{quoting.LONG_TERM}\n{quoting.BREAK.join(lines)}")
    return quoting.framed(quoting.BREAK.join(parts)) if parts else ""


def user_and_team_block(
    hits: Sequence[MemoryItem],
    *,
    directives: Sequence[MemoryItem] = (),
    canonical: Sequence[MemoryItem] = (),
    summary: str | None = None,
    max_tokens: int,
) -> tuple[str, str]:
    """Render `user_block` and a `system_block` with the team's facts, together within `max_tokens`."""
    is_alone = not (hits or directives or summary)
    team = system_block(
        (), canonical=canonical, max_tokens=max_tokens if is_alone else int(max_tokens * STANDING_SHARE)
    )
    left = max_tokens - quoting.estimate_tokens(team)
    return user_block(hits, directives=directives, summary=summary, max_tokens=left), team


def before_words(block: str, words: str) -> str:
    """Return a user message's text with a block before it; unchanged without a block."""
    return f"{ahead(block)}{words}" if block else words


def ahead(block: str) -> str:
    """Return a block as the beginning of a user's message."""
    return f"{block}{quoting.BREAK}{quoting.CURRENT}"


def _standing(
    directives: Sequence[MemoryItem],
    canonical: Sequence[MemoryItem],
    summary: str | None,
    max_tokens: int,
    *,
    share: float,
) -> tuple[list[str], int]:
    """Return the parts for every message, and the remaining tokens."""
    budget = max_tokens - quoting.FRAME_TOKENS
    left = int(budget * share)
    parts: list[str] = []
    newest_first = [f"- {text}" for item in reversed(directives) if (text := quoting.one_line(item.memory))]
    for title, lines in (
        (quoting.DIRECTIVES, list(reversed(_fitting(newest_first, left, quoting.DIRECTIVES)))),
        (quoting.CANONICAL, [f"- {text}" for item in canonical if (text := quoting.one_line(item.memory))]),
        (quoting.SUMMARY, [text] if (text := quoting.one_line(summary or "")) else []),
    ):
        kept = _fitting(lines, left, title)
        if kept:
            parts.append("\n".join([title, *kept]))
            left -= _cost(title, kept)
            budget -= _cost(title, kept)
    return parts, budget


def _fitting(lines: Sequence[str], budget: int, title: str) -> list[str]:
    """Return the lines that fit under their title; after one that does not, a shorter one may."""
    costs = [_cost("", (line,)) for line in lines]
    return [lines[place] for place in quoting.fit(costs, budget - _cost(title, ()))]


def _cost(title: str, lines: Sequence[str]) -> int:
    """Return the tokens of a part, with the break before each of its lines in the user's form."""
    return (quoting.estimate_tokens(title + quoting.BREAK) if title else 0) + sum(
        quoting.estimate_tokens(line + quoting.BREAK) for line in lines
    )
