"""Phrases: runs of words that stand for one concept ("can't stand", "gave up", "better half") as one token."""

from __future__ import annotations

from dataclasses import replace

from perdure.pipeline.slots.lexis import ARTICLES, phrase_starts, synonyms
from perdure.pipeline.slots.scan import Token


def join_phrases(tokens: list[Token]) -> list[Token]:
    """The tokens with each known phrase as one token, whose stem is its concept ("" if the phrase says nothing)."""
    joined: list[Token] = []
    place = 0
    while place < len(tokens):
        length, concept = _longest(tokens, place)
        token = tokens[place]
        if length == 0:
            joined.append(token)
            place += 1
            continue
        last = tokens[place + length - 1]
        low = " ".join(part.low for part in tokens[place : place + length])
        name = token.name and length == 1
        joined.append(replace(token, low=low, stem=concept, end=last.end, name=name))
        place += length
    return joined


def _longest(tokens: list[Token], place: int) -> tuple[int, str]:
    """Tokens and concept of the longest phrase that begins at a place; articles inside a phrase are passed over."""
    table = synonyms()
    limit = phrase_starts().get(tokens[place].stem, 0) if tokens[place].value is None else 0
    key: list[str] = []
    best = (0, "")
    for at in range(place, len(tokens)):
        token = tokens[at]
        if len(key) >= limit or token.stop or token.value is not None:
            break
        if key and token.low in ARTICLES:
            continue
        key.append(token.stem)
        concept = table.get(tuple(key))
        if concept is not None:
            best = (at - place + 1, concept)
    return best
