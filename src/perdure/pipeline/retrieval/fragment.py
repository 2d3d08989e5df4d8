"""Split a long text into fragments that a search can find by themselves."""

from __future__ import annotations

from perdure.domain.text.readable import invalid

SIZE = 1_000  # characters in a piece
LOOSE = 0.1
"""The share at the end of a fragment in which white space is searched to cut after, so that words stay whole."""


def split_into_chunks(text: str, size: int = SIZE) -> list[str]:
    """Split a text into pieces of at most `size` characters, none for ""; InvalidInputError for a size below 1.

    Joined they are the text. A piece ends after the last white space in its last tenth, if there is any.
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise invalid("size", "a whole number of at least 1", size)
    pieces: list[str] = []
    start = 0
    while start < len(text):
        end = min(start + size, len(text))
        if end < len(text) and not text[end].isspace():
            earliest = end - int(size * LOOSE)
            end = next((place for place in range(end, earliest, -1) if text[place - 1].isspace()), end)
        pieces.append(text[start:end])
        start = end
    return pieces
