"""Fact questions: whether a question is of general knowledge, which no memory answers, or of somebody's life (V82)."""

from __future__ import annotations

import re
from functools import cache

from perdure.domain.pattern import Pattern
from perdure.pipeline.lexicon import lines

LONGEST = 160
"""Characters beyond which a text is no plain question: what is told in it may well be known here."""

_WORD = Pattern(r"[^\W_]+(?:['’][^\W_]+)*")
_NUMBER = r"\(*-?\d[\d,.]*\)*"
_SUM = Pattern(
    rf"(?:what(?:'s| is)|calculate|compute|how much is)?\s*{_NUMBER}(?:(?:\s*[+*^×÷]\s*|\s[-/x]\s){_NUMBER})+[\s=?]*",
    re.IGNORECASE,
)
"""A sum; dates and telephone numbers have no spaces beside their strokes."""


def is_general(query: str) -> bool:
    """Whether a query asks for general knowledge: a capital, an inventor, a boiling point, a definition, a sum.

    In doubt it does not: a memory that was looked for in vain costs little, one that was not looked for an answer. A
    question that points at somebody or something known ("our", "that", "yesterday") is none, whatever it asks for.
    """
    text = query.strip()
    if not text or len(text) > LONGEST:
        return False
    if _SUM.fullmatch(text):
        return True
    asking, pointing, phrases = _lexicon()
    found = _WORD.findall(text.lower().replace("’", "'"))
    if not found or found[0] not in asking or not pointing.isdisjoint(found):
        return False
    plain = f" {' '.join(found)} "
    return any(phrase in plain for phrase in phrases)


@cache
def _lexicon() -> tuple[frozenset[str], frozenset[str], tuple[str, ...]]:
    """The words that begin such a question, those that point at somebody's life, and what is asked for."""
    entries = lines("fact_questions.txt")
    asking = frozenset(entry[1:].strip() for entry in entries if entry.startswith("?"))
    pointing = frozenset(entry[1:].strip() for entry in entries if entry.startswith("-"))
    return asking, pointing, tuple(f" {entry} " for entry in entries if entry[0] not in "?-")
