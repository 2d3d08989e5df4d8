"""Memory-type routing: a question of how something is done gets procedures first (001, future work; V74)."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Final

from perdure.domain.text.pattern import Pattern
from perdure.pipeline.lexicon import lines

_WORD = Pattern(r"\w+(?:'\w+)*")

PROCEDURAL: Final = "procedural"
"""The type of memories that say how something is done (001 §3)."""


def how_to(query: str) -> bool:
    """Whether a query asks how something is done: how do I, how to, steps to, procedure, recipe for.

    A question of a state that begins alike ("how do I take my coffee", "how do I feel") is none.
    """
    asking, state = _phrases()
    text = _plain(query)
    for phrase in state:
        text = text.replace(phrase, " ")
    return any(phrase in text for phrase in asking)


def procedural_first(query: str, types: Sequence[str | None]) -> list[int]:
    """The places of all memories in the order in which they are looked through, by the type of each.

    For a how-to query those of type `procedural` come first, each part in the order given; for any other query
    nothing moves.
    """
    places = list(range(len(types)))
    if how_to(query):
        places.sort(key=lambda place: types[place] != PROCEDURAL)
    return places


@cache
def _phrases() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What asks for a procedure, and what only begins like it; between spaces, so that only whole words are met."""
    entries = lines("recall_howto.txt")
    asking = (_plain(entry) for entry in entries if not entry.startswith("-"))
    state = (_plain(entry) for entry in entries if entry.startswith("-"))
    # Chinese has no spaces: its phrases stand anywhere.
    return tuple(each.strip() if each[1] >= "\u4e00" else each for each in asking), tuple(state)


def _plain(text: str) -> str:
    """The words in lower case with a space on each side, without accents, which are often left out in questions."""
    letters = unicodedata.normalize("NFKD", text.lower().replace("’", "'"))
    return f" {' '.join(_WORD.findall(''.join(each for each in letters if not unicodedata.combining(each))))} "
