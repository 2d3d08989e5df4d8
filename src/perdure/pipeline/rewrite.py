"""Rewrite: a query that cannot stand alone gets the key words of what was said before it (001 §5, V18 to V21)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perdure.domain.message import Message
from perdure.domain.pattern import Pattern
from perdure.pipeline.lexicon import words

MAX_VAGUE_LENGTH = 20
"""Characters up to which a query is taken as leaning on what came before (V18)."""
EARLIER_MESSAGES = 3
"""How many earlier messages of the user lend their key words (V20)."""

_VAGUE = Pattern(r"^how much\??$|^what about|^and that|^this one", re.IGNORECASE)
_WORD = Pattern(r"[^\W_][\w'’-]*")


def is_self_contained(query: str) -> bool:
    """Whether the query says by itself what it is about (V18, V19)."""
    text = query.strip()
    return len(text) > MAX_VAGUE_LENGTH and not _VAGUE.search(text)


def key_terms(text: str) -> list[str]:
    """The words of a text that carry its topic, in order, each once."""
    stop = words("recall_stopwords.txt")
    seen: dict[str, str] = {}
    for match in _WORD.finditer(text):
        word = match.group().strip("'’-")
        if word and word.casefold() not in stop:
            seen.setdefault(word.casefold(), word)
    return list(seen.values())


def with_history(query: str, history: Sequence[Message]) -> str:
    """The query, and if it is not self-contained the key terms of the last three user messages, newest first."""
    if is_self_contained(query):
        return query
    earlier = [message.content for message in reversed(history) if message.role == "user"][:EARLIER_MESSAGES]
    terms: dict[str, str] = {}
    for text in earlier:
        for term in key_terms(text):
            terms.setdefault(term.casefold(), term)
    return " ".join([query, *terms.values()]) if terms else query
