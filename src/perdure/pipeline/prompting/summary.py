"""The rolling summary of a conversation without a model: what lasts of it, in short (002 §4.4; K53, K57)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

MOST_TOKENS: Final = 256
"""Tokens that a summary may take (A21)."""
_TOKENS_PER_WORD: Final = 1.3


def chosen(facts: Sequence[str], budget: int = MOST_TOKENS) -> list[int]:
    """The places of the facts that a summary without a model tells, oldest first: the newest that fit into it."""
    kept: list[int] = []
    left = budget
    for place in range(len(facts) - 1, -1, -1):
        cost = math.ceil(_TOKENS_PER_WORD * len(facts[place].split()))
        if cost > left:
            continue
        left -= cost
        kept.append(place)
    return sorted(kept)


def told(facts: Sequence[str]) -> str:
    """A summary without a model: the facts, a sentence each, those of one subject beside each other."""
    subjects = list(dict.fromkeys(_subject(fact) for fact in facts))
    ordered = sorted(facts, key=lambda fact: subjects.index(_subject(fact)))
    return " ".join(_sentence(fact) for fact in ordered)


def _subject(fact: str) -> str:
    words = fact.split()
    return " ".join(words[:2]) if words and words[0].endswith(("'s", "’s")) else (words[0] if words else "")


def _sentence(text: str) -> str:
    line = _line(text)
    return line if line.endswith((".", "!", "?", "…")) else f"{line}."


def _line(text: str) -> str:
    return " ".join(text.split())
