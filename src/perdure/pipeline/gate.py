"""The read gate of 001 §5: whether a query is worth searching memory for (V11 to V16)."""

from __future__ import annotations

import re
from functools import cache

from perdure.domain.pattern import Pattern
from perdure.pipeline.lexicon import lines

GREETING_LENGTH = 20
"""Characters that a greeting may have; a longer text is never one (V15)."""

_PERSONAL = Pattern(r"\b(?:my|mine|i|me|myself|im|ive)\b", re.IGNORECASE)
_LETTERS = Pattern(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_DECORATION = Pattern(r"[\s!.,;:)(~^*'’\-]*")


def should_search(query: str, *, is_fact: bool = False, requires_tool: bool = False) -> bool:
    """Whether memory is searched for a query: true unless a rule of 001 §5 says otherwise.

    `is_fact`: a classifier took it for a question of general knowledge, which a personal pronoun overrides.
    `requires_tool`: a tool answers it, which nothing overrides.
    """
    if requires_tool or is_greeting(query):
        return False
    return not is_fact or is_personal(query)


def is_personal(query: str) -> bool:
    """Whether a query speaks of its author: my, mine, I, me (V12; "I'm" and its like hold an "I")."""
    return _PERSONAL.search(query) is not None


def is_greeting(query: str) -> bool:
    """Whether a query is a greeting, thanks, goodbye or bare acknowledgement and nothing else (V14, V15)."""
    text = query.strip().lower()
    if not text or len(text) > GREETING_LENGTH or _DECORATION.fullmatch(_LETTERS.sub("", text)) is None:
        return False
    words = _LETTERS.findall(text)
    openers, social = _social()
    opened = any(tuple(words[:length]) in openers for length in (1, 2))
    return opened and all(word in social for word in words)


@cache
def _social() -> tuple[frozenset[tuple[str, ...]], frozenset[str]]:
    """The openers, each as its words, and every word that may stand in a social message."""
    entries = lines("reconcile_social.txt")
    openers = frozenset(tuple(entry[1:].split()) for entry in entries if entry.startswith("+"))
    return openers, frozenset(word for entry in entries for word in entry.removeprefix("+").split())
