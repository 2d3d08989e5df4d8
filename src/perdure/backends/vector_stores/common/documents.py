"""A row as an engine stores and returns it.

The record is the truth: id and payload as ASCII JSON, which every engine and wire carries unchanged (lone surrogates,
NUL, 1 and 1.0 included). The rest of a document is only for search.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from perdure.backends.vector_stores.base import Hit, Point, Vector
from perdure.backends.vector_stores.common.filter_clauses import BARE, facets, word_token
from perdure.domain.scope import SCOPE_FIELDS
from perdure.domain.text.terms import words


def digest(name: str, size: int) -> str:
    """Return the BLAKE2b digest (RFC 7693) of a name: `size` bytes, 1 to 64, as hexadecimal text.

    It accepts lone surrogates too, which UTF-8 refuses. Stored data is found by it, so it must never change.
    """
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()


_NONE, _ZERO, _PLAIN = 0, 1, 2
"""Whether a row has no vector, one of zeros, or another: some engines can keep neither of the first two."""


@dataclass(frozen=True, slots=True)
class Document:
    """A row to be written."""

    id: str
    vector: Vector | None  # of length 1, or all zeros, or None
    record: str  # id, payload and whether there is a vector, ASCII
    scope: dict[str, str]  # the scope fields that the payload has
    created_at: str  # "" where the payload has none
    memory: str  # the text, for people who look into the engine; lone surrogates are replaced and NUL is left out
    stems: list[str]  # the words of the text as `terms` stems them, each as often as it stands there
    tokens: list[str]  # see `Facets`
    numbers: dict[str, float]
    moments: dict[str, int]


@dataclass(frozen=True, slots=True)
class Row:
    """A row as read."""

    id: str
    payload: dict[str, Any]
    vector: Vector | None = None

    def point(self) -> Point:
        """Return the row for the port."""
        return Point(self.id, self.vector, self.payload)

    def hit(self, score: float) -> Hit:
        """Return the row as a search result."""
        return Hit(self.id, score, self.payload)


def encode(id: str, vector: Vector | None, payload: Mapping[str, Any], *, word_tokens: bool) -> Document:
    """Return the document of a checked row; `word_tokens` for engines without a keyword search of their own."""
    text = payload.get("memory")
    stems = words(text) if isinstance(text, str) else []
    marks = [word_token(stem) for stem in stems] if word_tokens else []
    found = facets(payload, [*marks, BARE] if vector is None else marks)
    created_at = payload.get("created_at")
    return Document(
        id=id,
        vector=vector,
        record=json.dumps([id, payload, _kind(vector)], separators=(",", ":")),
        scope={name: payload[name] for name in SCOPE_FIELDS if isinstance(payload.get(name), str)},
        created_at=created_at if isinstance(created_at, str) else "",
        memory=readable(text) if isinstance(text, str) else "",
        stems=stems,
        tokens=found.tokens,
        numbers=found.numbers,
        moments=found.moments,
    )


def _kind(vector: Vector | None) -> int:
    return _NONE if vector is None else _PLAIN if vector.any() else _ZERO


def decode(record: str, vector: Sequence[float] | Vector | None = None) -> Row:
    """Return the row of a record, with the engine's vector if it is given and not a placeholder."""
    id, payload, kind = json.loads(record)
    if vector is None or kind == _NONE:
        return Row(id, payload)
    numbers = np.array(vector, np.float32)
    return Row(id, payload, numbers if kind == _PLAIN else np.zeros_like(numbers))


def readable(text: str) -> str:
    """Return the text as any engine can store it."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()
