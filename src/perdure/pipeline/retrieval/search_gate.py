"""Rules about the query alone: whether memory is searched, and which type of memory comes first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from perdure.domain.text.pattern import Pattern
from perdure.domain.text.terms import split_words, without_accents
from perdure.pipeline.lexicon import lines

# --- Whether memory is searched

# Fact questions: whether a question is of general knowledge, which no memory answers, or of somebody's life.

LONGEST = 160  # characters beyond which a text is no plain question: what is told in it may well be known here
_NUMBER = r"\(*-?\d[\d,.]*\)*"
_SUM = Pattern(
    rf"(?:what(?:'s| is)|calculate|compute|how much is)?\s*{_NUMBER}(?:(?:\s*[+*^×÷]\s*|\s[-/x]\s){_NUMBER})+[\s=?]*",
    re.IGNORECASE,
)
"""A sum; dates and telephone numbers have no spaces beside their strokes."""


def is_general(query: str) -> bool:
    """Whether a query asks for general knowledge: a capital, an inventor, a boiling point, a definition, a sum.

    In doubt it does not, because a needless search costs less than a missing memory. A question that refers to somebody
    or something known ("our", "that", "yesterday") never does.
    """
    text = query.strip()
    if not text or len(text) > LONGEST:
        return False
    if _SUM.fullmatch(text):
        return True
    asking, pointing, phrases = _lexicon()
    found = split_words(text.lower().replace("’", "'"), joined_by="'’")
    if not found or found[0] not in asking or not pointing.isdisjoint(found):
        return False
    plain = f" {' '.join(found)} "
    return any(phrase in plain for phrase in phrases)


@cache
def _lexicon() -> tuple[frozenset[str], frozenset[str], tuple[str, ...]]:
    """Return the words that begin such a question, that refer to somebody's life, and that are asked for."""
    entries = lines("fact_questions.txt")
    asking = frozenset(entry[1:].strip() for entry in entries if entry.startswith("?"))
    pointing = frozenset(entry[1:].strip() for entry in entries if entry.startswith("-"))
    return asking, pointing, tuple(f" {entry} " for entry in entries if entry[0] not in "?-")


GREETING_LENGTH = 20  # characters that a greeting may have; a longer text is never one
_PERSONAL = Pattern(r"\b(?:my|mine|i|me|myself|im|ive)\b", re.IGNORECASE)
_LETTERS = Pattern(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_DECORATION = Pattern(r"[\s!.,;:)(~^*'’\-]*")


def should_search(query: str, *, is_fact: bool = False, requires_tool: bool = False) -> bool:
    """Whether memory is searched for a query: true unless a rule of 001 §5 says otherwise.

    `is_fact` is a classifier's verdict "general knowledge", which a personal pronoun overrides. With `requires_tool` a
    tool answers it, which nothing overrides.
    """
    if requires_tool or is_greeting(query):
        return False
    return not is_fact or is_personal(query)


def is_personal(query: str) -> bool:
    """Whether a query speaks of its author: my, mine, I, me (also "I'm" and similar)."""
    return _PERSONAL.search(query) is not None


def is_greeting(query: str) -> bool:
    """Whether a query is only a greeting, thanks, goodbye or acknowledgement."""
    text = query.strip().lower()
    if not text or len(text) > GREETING_LENGTH or _DECORATION.fullmatch(_LETTERS.sub("", text)) is None:
        return False
    words = _LETTERS.findall(text)
    openers, social = _social()
    opened = any(tuple(words[:length]) in openers for length in (1, 2))
    return opened and all(word in social for word in words)


@cache
def _social() -> tuple[frozenset[tuple[str, ...]], frozenset[str]]:
    """Return the openers, each as its words, and every word that a social message may contain."""
    entries = lines("reconcile_social.txt")
    openers = frozenset(tuple(entry[1:].split()) for entry in entries if entry.startswith("+"))
    return openers, frozenset(word for entry in entries for word in entry.removeprefix("+").split())


# --- Which type of memory comes first


PROCEDURAL: Final = "procedural"  # the type of memories that say how something is done


def how_to(query: str) -> bool:
    """Whether a query asks how something is done: how do I, how to, steps to, procedure, recipe for.

    A similar question about a state ("how do I take my coffee", "how do I feel") does not.
    """
    asking, state = _phrases()
    text = _spaced(query)
    for phrase in state:
        text = text.replace(phrase, " ")
    return any(phrase in text for phrase in asking)


def procedural_first(query: str, types: Sequence[str | None]) -> list[int]:
    """Return the places of all memories in search order, from the type of each.

    For a how-to query type `procedural` comes first, otherwise nothing moves.
    """
    places = list(range(len(types)))
    if how_to(query):
        places.sort(key=lambda place: types[place] != PROCEDURAL)
    return places


@cache
def _phrases() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return phrases that ask for a procedure, and those that only look like it, each between spaces."""
    entries = lines("recall_howto.txt")
    asking = (_spaced(entry) for entry in entries if not entry.startswith("-"))
    state = (_spaced(entry) for entry in entries if entry.startswith("-"))
    # Chinese has no spaces: its phrases stand anywhere.
    return tuple(each.strip() if each[1] >= "\u4e00" else each for each in asking), tuple(state)


def _spaced(text: str) -> str:
    """Return the words in lower case between spaces, without accents, which questions often lack."""
    plain = without_accents(text.lower().replace("’", "'"))
    words = split_words(plain, joined_by="'", underscore=True)
    return f" {' '.join(words)} "
