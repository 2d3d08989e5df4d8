"""Diversity: maximal marginal relevance, so that five wordings of one fact do not take all places (002 §3, K33)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from perdure.domain.errors import InvalidInputError
from perdure.domain.memory import Slots
from perdure.pipeline.curation.rules.slots import read_slots

# Repeats: of wordings that say the same, only the best is told (002 §3: five ways to like coffee are one memory).

USER = "user"
"""The subject of what is about the user, as it stands in slots."""


def without_repeats(told: Sequence[tuple[str, Slots | None]]) -> list[int]:
    """The places of the texts that say something which none before them says.

    Two say the same where they are about the user, and attribute and value are the same in canonical form, whatever the
    wording: "User loves coffee" and "User is fond of coffee" do, "User visited Rome in 2021" and "in 2023" do not.
    What is about others is left alone, because a subject's own details are not in its slots ("house number 7").
    With each text come the slots that are known of it; for a None they are read. A text without any repeats nothing.
    """
    said: set[tuple[str, str, bool]] = set()
    kept: list[int] = []
    for place, (text, known) in enumerate(told):
        key = _key(known or _read(text))
        if key is None or key not in said:
            kept.append(place)
        if key is not None:
            said.add(key)
    return kept


def _key(slots: Slots | None) -> tuple[str, str, bool] | None:
    if slots is None or slots.subject != USER or not slots.value.strip():
        return None
    return slots.attribute, " ".join(slots.value.casefold().split()), slots.polarity


@lru_cache(maxsize=4_096)
def _read(text: str) -> Slots | None:
    """The slots of a text that is about the user; without that word it cannot be, and need not be read."""
    return None if text.isascii() and USER not in text.lower() else read_slots(text)


TRADE: Final = 0.7
"""The lambda of 002 §3: what relevance is worth against being unlike what was selected."""
_DECIMALS: Final = 9
"""Similarities are rounded to so many: equal vectors must tie, and a matrix product may differ in its last bits."""

Vector = NDArray[np.floating]


def mmr(
    relevance: Sequence[float], vectors: Sequence[Vector | None] | Vector, limit: int, trade: float = TRADE
) -> list[int]:
    """The places of at most `limit` candidates in the order of their selection, the most relevant first.

    Each next one has the greatest trade * relevance - (1 - trade) * (greatest cosine to one selected before), ties by
    place (Carbonell and Goldstein 1998). With a trade of 1 that is the ranking by relevance. `vectors`: a row of any
    length for each candidate, shape (n, d); a None, a row of zeros or one of another width than the first is like
    nothing (A13). O(n * d * limit). A trade outside [0, 1], a negative limit or a row too few is InvalidInputError.
    """
    count = len(relevance)
    if not 0 <= trade <= 1:
        raise InvalidInputError(f"mmr trade must be in [0, 1], not {trade!r}", field="trade", value=trade)
    if limit < 0:
        raise InvalidInputError(f"mmr limit must not be negative: {limit!r}", field="limit", value=limit)
    if len(vectors) != count:
        raise InvalidInputError(
            f"mmr needs a vector or None for each of {count} candidates, not {len(vectors)}",
            field="vectors",
            value=len(vectors),
        )
    if not count or not limit:
        return []
    units = _units(vectors)
    worth = np.asarray(relevance, dtype=np.float64)
    free = np.ones(count, dtype=bool)
    nearest = np.full(count, -1.0)
    selected = [int(np.argmax(worth))]  # not weighed by the trade, or a trade of 0 would begin with any
    while len(selected) < min(limit, count):
        free[selected[-1]] = False
        nearest = np.maximum(nearest, np.round(units @ units[selected[-1]], _DECIMALS))
        selected.append(int(np.argmax(np.where(free, trade * worth - (1 - trade) * nearest, -np.inf))))
    return selected


def _units(vectors: Sequence[Vector | None] | Vector) -> NDArray[np.float64]:
    """The rows at length 1, and zeros for a candidate without a usable vector: shape (n, d)."""
    width = next((len(vector) for vector in vectors if vector is not None), 0)
    rows = np.zeros((len(vectors), width))
    for place, vector in enumerate(vectors):
        if vector is not None and len(vector) == width:
            rows[place] = vector
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    np.divide(rows, lengths, out=rows, where=lengths > 0)
    return rows
