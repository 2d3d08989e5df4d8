"""A row as a point of Qdrant: its id, its vectors by name, its payload."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID, uuid5

from perdure.backends.vector_stores._documents import Document
from perdure.backends.vector_stores._names import digest
from perdure.backends.vector_stores._qdrant_filter import (
    MEMORY,
    MOMENTS,
    NUMBERS,
    TOKENS,
    date_of,
    is_native,
    kept_number,
    steps_of,
)
from perdure.backends.vector_stores._words import K1, B
from perdure.backends.vector_stores.base import Vector

RECORD = "record"
DENSE = "dense"
"""The name of the embedder's vector."""
WORDS = "words"
"""The name of the sparse vector of the memory's words, which Qdrant weighs by how rare each is."""

TYPICAL_WORDS = 16
"""Words of a usual memory: BM25 wants the average length, and what is stored cannot follow it."""

_NAMESPACE = UUID("8f4a1c9e-52cb-5d0b-9e37-3f6f0f7f6d11")
_OURS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-46-9a-f][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
"""Ids of rows that are points' ids too: UUIDs as Qdrant writes them, but none of version 5, which `point_id` makes."""


@dataclass(frozen=True, slots=True)
class Words:
    """A sparse vector."""

    places: list[int]
    weights: list[float]


@dataclass(frozen=True, slots=True)
class StoredPoint:
    """A point as it is written."""

    id: str
    dense: Vector | None
    words: Words | None
    payload: dict[str, Any]


def point_id(id: str) -> str:
    """The id of the point of a row."""
    return id if _OURS.fullmatch(id) else str(uuid5(_NAMESPACE, id.encode("utf-8", "surrogatepass").hex()))


def point_of(document: Document) -> StoredPoint:
    """The point of a document."""
    payload: dict[str, Any] = {
        RECORD: document.record,
        **{name: value for name, value in document.scope.items() if is_native(value)},
        TOKENS: document.tokens,
        MEMORY: document.memory,
    }
    if document.numbers:
        payload[NUMBERS] = _nested({path: kept_number(number) for path, number in document.numbers.items()})
    if document.moments:
        payload[MOMENTS] = _nested({path: date_of(moment) for path, moment in document.moments.items()})
    return StoredPoint(point_id(document.id), document.vector, _said(document.stems), payload)


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, value in values.items():
        *outer, last = steps_of(path)
        inner = found
        for step in outer:
            inner = inner.setdefault(step, {})
        inner[last] = value
    return found


def _said(stems: Sequence[str]) -> Words | None:
    """BM25's weight of each stem inside its text, as `_words` has it; the weight of its rarity is the engine's."""
    if not stems:
        return None
    weight = (K1 + 1) / (1 + K1 * (1 - B + B * len(stems) / TYPICAL_WORDS))
    places = asked(stems).places
    return Words(places, [weight] * len(places))


def asked(stems: Iterable[str]) -> Words:
    """The sparse vector of a question."""
    places = list(dict.fromkeys(place_of(stem) for stem in stems))
    return Words(places, [1.0] * len(places))


@lru_cache(maxsize=16384)
def place_of(stem: str) -> int:
    """The dimension of a stem, of 2**32."""
    return int(digest(stem, 4), 16)
