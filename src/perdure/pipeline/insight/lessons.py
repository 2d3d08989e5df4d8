"""How the user wants to be answered, and what is to be done otherwise next time (001, appendix A; V71)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from perdure.domain.derived import Experience, Insight
from perdure.domain.pattern import Pattern
from perdure.pipeline.lexicon import words as entries
from perdure.pipeline.standing_facts import is_standing

REFLECTIVE = "reflective"

_WISH = Pattern(r"^User\s+(?:prefers|wants|expects|would like|would rather have)\s+(?P<wish>.+)$", re.I | re.S)
_ANSWER = Pattern(r"\b(?:answers?|responses?|repl(?:y|ies)|explanations?|instructions|steps|advice)\b", re.I)
_FAULT = Pattern(
    r"\b(?:incorrect|wrong|incomplete|outdated|unhelpful|misleading|insufficient|too (?:long|short|vague|brief))\b",
    re.I,
)
_NEXT_TIME = Pattern(r"\bnext time\b[\s,:]*(?P<rest>.+)$", re.I | re.S)


def lessons(memories: Sequence[Experience]) -> list[Insight]:
    """Wishes of how to be answered, and lessons, as single memories tell them, oldest first; one insight for each text.

    A memory of type `reflective` is one or the other; any other memory only where it plainly speaks of answers.
    """
    found: dict[str, Insight] = {}
    for memory in memories:
        content = _style(memory.text) or _lesson(memory)
        if content is None:
            continue
        earlier = found.pop(content.casefold(), None)
        found[content.casefold()] = Insight(
            content=content,
            pattern="style" if content.startswith("Response style") else "lesson",
            count=max(len(memory.tellings), 1) + (earlier.count if earlier else 0),
            memory_ids=(*(earlier.memory_ids if earlier else ()), memory.id),
        )
    return sorted(found.values(), key=lambda insight: insight.pattern != "style")


def _style(text: str) -> str | None:
    wish = _WISH.match(text)
    if wish is not None and (_styles().search(wish["wish"]) or is_standing(text)):
        return f"Response style: {wish['wish'].rstrip(' .')}"
    return f"Response style: {text.rstrip(' .')}" if is_standing(text) else None


def _lesson(memory: Experience) -> str | None:
    if memory.type != REFLECTIVE and not (_ANSWER.search(memory.text) and _FAULT.search(memory.text)):
        return None
    rest = _NEXT_TIME.search(memory.text)
    return f"Lesson: {(rest['rest'] if rest else memory.text).rstrip(' .')}"


@cache
def _styles() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, entries('insight_styles.txt'))))})\b", re.I)
